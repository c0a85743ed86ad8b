"""The exact seen-unseen curve.

For a fixed gate softness every sample changes from "seen" to "unseen" at exactly one threshold, its
*flip* (`smoothing.tie_log_odds`). Sorting the flips gives `Acc_tr` and `Acc_ts` at every threshold: a
staircase with at most one corner per sample. Its best harmonic mean and its area are exact and cost one
sort.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from cosmo._core.validation import as_class_index, as_number, check_shares
from cosmo.metrics.accuracy import GZSLScores, Interval, harmonic_mean


class CurvePoint(NamedTuple):
    """A threshold and its accuracies."""

    threshold: float
    acc_ts: float
    acc_tr: float
    acc_h: float


@dataclass(frozen=True, eq=False)
class SeenUnseenCurve:
    """All operating points of a rule "sample i is unseen iff threshold > flips[i]".

    Arrays of double precision are not copied; do not change them afterwards.

    Parameters
    ----------
    flips : array of shape (n_samples,)
        Threshold at which each sample changes side; may be infinite.
    seen_gain, unseen_gain : array of shape (n_samples,)
        Contribution of the sample to `Acc_tr` if it counts as seen, and to `Acc_ts` if unseen:
        `1 / (rows of its class · number of classes)` if its expert is right, else 0.

    Examples
    --------
    >>> curve = SeenUnseenCurve([0.1, 0.4, 0.6, 0.9], [0, 0.5, 0, 0.5], [0.5, 0, 0.5, 0])
    >>> curve.best()
    CurvePoint(threshold=0.25, acc_ts=0.5, acc_tr=1.0, acc_h=0.6666666666666666)
    >>> curve.area
    0.75
    """

    flips: NDArray[np.float64]
    seen_gain: NDArray[np.float64]
    unseen_gain: NDArray[np.float64]

    def __post_init__(self) -> None:
        for name in ("flips", "seen_gain", "unseen_gain"):
            given = getattr(self, name)
            values = np.asarray(given)
            if values.dtype.kind not in "fiub":
                raise ValueError(f"{name} must be a dense array of numbers, got dtype {values.dtype}")
            values = np.asarray(values, np.float64)
            if values.ndim != 1 or values.shape != np.shape(self.flips):
                raise ValueError(f"{name} must be one number per sample, got shape {values.shape}")
            if np.isnan(values).any() or np.ma.is_masked(given):
                raise ValueError(f"{name} has NaN or masked values; drop such samples")
            if name != "flips" and np.isinf(values).any():
                raise ValueError(f"{name} has infinite values; a sample adds at most 1 to an accuracy")
            object.__setattr__(self, name, values)

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        return np.argsort(self.flips)

    @cached_property
    def _sorted_flips(self) -> NDArray[np.float64]:
        return self.flips[self._order]

    @cached_property
    def _group_ends(self) -> NDArray[np.intp]:
        """How many sorted samples have flipped at each point of the curve (ties flip together)."""
        flips = self._sorted_flips
        first, last = np.searchsorted(flips, -np.inf, "right"), np.searchsorted(flips, np.inf, "left")
        inner = flips[first:last]
        ends = np.zeros(len(flips) + 1, dtype=bool)
        ends[first] = ends[last] = True
        np.greater(inner[1:], inner[:-1], out=ends[first + 1 : last])
        return np.flatnonzero(ends)

    def _in_order(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a zero, for no sample, and then the values in sorted order."""
        found = np.zeros(len(values) + 1)
        np.take(values, self._order, out=found[1:], mode="clip")
        return found

    def _accumulate(
        self, seen: NDArray[np.float64], unseen: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return (Acc_ts, Acc_tr) at the points of the curve, from gains `_in_order`, which get lost."""
        total = seen[1:].sum()  # not the last of the running sums, which rounds differently
        for gains in (seen, unseen):
            np.cumsum(gains, out=gains)
        if len(self._group_ends) < len(seen):
            seen, unseen = seen[self._group_ends], unseen[self._group_ends]
        np.subtract(total, seen, out=seen)
        return unseen, np.maximum(seen, 0)

    @cached_property
    def _points(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self._accumulate(self._in_order(self.seen_gain), self._in_order(self.unseen_gain))

    @property
    def acc_ts(self) -> NDArray[np.float64]:
        """`Acc_ts` at every point, from the smallest threshold to the largest."""
        return self._points[0]

    @property
    def acc_tr(self) -> NDArray[np.float64]:
        """`Acc_tr` at every point, from the smallest threshold to the largest."""
        return self._points[1]

    @cached_property
    def acc_h(self) -> NDArray[np.float64]:
        """`Acc_H` at every point."""
        return harmonic_mean(self.acc_ts, self.acc_tr)

    @cached_property
    def corners(self) -> NDArray[np.float64]:
        """Finite flips between neighbouring points, ascending and distinct; one fewer than points."""
        return self._sorted_flips[self._group_ends[1:] - 1]

    @cached_property
    def thresholds(self) -> NDArray[np.float64]:
        """A threshold for every point: midway between the corners around it."""
        corners = self.corners
        if len(corners) == 0:
            return np.zeros(1)
        beyond = 0.5 * (corners[-1] - corners[0]) + 1e-3 * (1 + abs(corners[[0, -1]]).max())
        below, above = corners[:-1], corners[1:]
        inner = below + (above - below) / 2
        # Neighbouring floats have no midpoint: the upper one still lies above the lower flip.
        inner = np.where(inner > below, inner, above)
        return np.concatenate([[corners[0] - beyond], inner, [corners[-1] + beyond]])

    def at(self, threshold: float) -> GZSLScores:
        """Return the accuracies at a threshold."""
        threshold = as_number(threshold, name="threshold")
        return GZSLScores(*(float(values[0]) for values in self.sample([threshold])))

    def sample(
        self, thresholds: ArrayLike
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return `Acc_ts`, `Acc_tr` and `Acc_H` at many thresholds."""
        k = np.searchsorted(self.corners, thresholds)
        return self.acc_ts[k], self.acc_tr[k], self.acc_h[k]

    def blurred(self, spread: float, n: int = 9) -> SeenUnseenCurve:
        """Return the curve of mean accuracies if all flips move together by a normal error of this spread."""
        if not spread:
            return self
        moves = spread * norm.ppf((np.arange(n) + 0.5) / n)
        gains = (np.tile(gain, n) / n for gain in (self.seen_gain, self.unseen_gain))
        return SeenUnseenCurve((self.flips + moves[:, None]).ravel(), *gains)

    def best(self, *, min_seen: float = 0.0, min_unseen: float = 0.0) -> CurvePoint:
        """Return the point of largest `Acc_H` among those that keep the given floors.

        Parameters
        ----------
        min_seen, min_unseen : float in 0..1
            Smallest acceptable `Acc_tr` and `Acc_ts`.
        """
        k = self.best_index(min_seen=min_seen, min_unseen=min_unseen)
        return CurvePoint(*(float(v[k]) for v in (self.thresholds, self.acc_ts, self.acc_tr, self.acc_h)))

    def best_index(self, *, min_seen: float = 0.0, min_unseen: float = 0.0) -> int:
        """Return the index of the best point, see `best`."""
        for name, floor in (("min_seen", min_seen), ("min_unseen", min_unseen)):
            if not 0 <= as_number(floor, name=name) <= 1:
                raise ValueError(f"{name} is an accuracy between 0 and 1, got {floor}")
        # Rounded, so that equally good points stay equal however the samples are ordered.
        heights = self.acc_h.round(12)
        if min_seen or min_unseen:
            allowed = (self.acc_tr >= min_seen - 1e-12) & (self.acc_ts >= min_unseen - 1e-12)
            if not allowed.any():
                raise ValueError(
                    f"no point of the curve has Acc_tr >= {min_seen:.3g} and Acc_ts >= {min_unseen:.3g}; "
                    f"the largest are Acc_tr {self.acc_tr.max():.3f} and Acc_ts {self.acc_ts.max():.3f}"
                )
            heights[~allowed] = -1.0
        return int(heights.argmax())

    @property
    def area(self) -> float:
        """AUSUC: the exact area under `Acc_ts` as a function of `Acc_tr`."""
        return _area(self.acc_ts, self.acc_tr)

    def area_interval(
        self, groups: ArrayLike, *, level: float = 0.95, n_resamples: int = 200, seed: int = 0
    ) -> Interval:
        """Return a bootstrap interval of the area, resampling rows within each class.

        One row fewer is drawn than a class has, else the spread would be that of n/(n - 1) times as many
        rows. A class with a single row adds nothing to the width.

        Parameters
        ----------
        groups : array of int, shape (n_samples,)
            Class of each sample.
        """
        check_shares(level=level)
        codes, _ = as_class_index(np.asarray(groups)).factorize()
        if len(codes) != len(self.flips) or (codes < 0).any():
            raise ValueError(f"groups must name the class of each of the {len(self.flips)} samples")
        generator = np.random.default_rng(seed)
        by_class = np.argsort(codes, kind="stable")
        _, start, size = np.unique(codes[by_class], return_index=True, return_counts=True)
        fewer = np.maximum(size - 1, 1)
        weight = np.empty(len(self.flips))
        weight[by_class] = np.repeat(size / fewer, size)
        seen, unseen = (weight * gain for gain in (self.seen_gain, self.unseen_gain))
        seen, unseen = self._in_order(seen), self._in_order(unseen)
        start, size = np.repeat(start, fewer), np.repeat(size, fewer)
        areas = np.empty(n_resamples)
        for i in range(n_resamples):
            drawn = by_class[start + (generator.random(len(size)) * size).astype(np.intp)]
            count = self._in_order(np.bincount(drawn, minlength=len(weight)).astype(np.float64))
            areas[i] = _area(*self._accumulate(count * seen, count * unseen))
        tail = (1 - level) / 2
        return Interval(*map(float, np.quantile(areas, [tail, 1 - tail])))


def _area(acc_ts: NDArray[np.float64], acc_tr: NDArray[np.float64]) -> float:
    """Sum strips of width `Acc_tr` over the rises of `Acc_ts`.

    Only tied samples move both ways at once, so the trapezoids are exact. The first strip is there if
    some samples are always taken for unseen.
    """
    width = (acc_tr[1:] + acc_tr[:-1]) / 2
    return float((np.diff(acc_ts) * width).sum() + acc_ts[0] * acc_tr[0])
