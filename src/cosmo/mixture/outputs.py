"""Outputs of both experts for a set of samples, and their summary.

Curves and decisions need only each expert's best class and its probability; most gates need a few more of
the largest probabilities. These are computed once, and subsets of the samples reuse them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo._core.validation import check_features, check_probabilities, check_scores
from cosmo.mixture.smoothing import Smoothing, top_k


class _Labelled:
    """Properties that follow from the true classes."""

    target: Any
    n_seen: Any
    n_unseen: Any

    @property
    def labels(self) -> NDArray[np.intp]:
        """`target`; raises ValueError where the true classes were not given."""
        if self.target is None:
            raise ValueError("these outputs have no true classes; give `target`")
        return self.target

    @property
    def is_seen(self) -> NDArray[np.bool_]:
        """Whether each sample's true class is seen."""
        return self.labels < self.n_seen

    @cached_property
    def gain(self) -> NDArray[np.float64]:
        """Contribution of a correct prediction to its accuracy: 1 / (rows of class · classes)."""
        rows = np.bincount(self.labels, minlength=self.n_seen + self.n_unseen)
        classes = np.where(self.is_seen, self.n_seen, self.n_unseen)
        return 1 / (rows[self.labels] * classes.astype(np.float64))


@dataclass(frozen=True, eq=False)
class ExpertOutputs(_Labelled):
    """Predictions of the seen and the unseen expert for the same samples.

    Parameters
    ----------
    seen_classes, unseen_classes : Index
        Class of each column.
    seen : array of shape (n_samples, n_seen)
        `p(y|S)` of the seen expert; rows sum to one.
    unseen : array of shape (n_samples, n_unseen)
        `p(y,U)` of the unseen expert: its joint prediction over all classes, cut to the unseen ones.
    stacking_seen, stacking_unseen : array of shape (n_samples,), optional
        The unseen expert's best score among the seen and among the unseen classes, for calibrated
        stacking; with `stacking_choice`, its best seen class.
    novelty : array of shape (n_samples,), optional
        The unseen expert's own probability that a sample is of no seen class.
    evidence : array of shape (n_samples, n_numbers), optional
        Inputs of a gate that are computed from the features by its observer.
    target : array of int, shape (n_samples,), optional
        True class as a column of `[seen | unseen]`.

    Examples
    --------
    >>> out = ExpertOutputs.from_joint(
    ...     np.array([[0.9, 0.1]]), np.array([[0.3, 0.5, 0.2]]), pd.Index(["a", "b"]), pd.Index(["z"]))
    >>> out.unseen, out.stacking_margin
    (array([[0.2]]), array([0.3]))
    """

    seen_classes: pd.Index
    unseen_classes: pd.Index
    seen: NDArray[Any]
    unseen: NDArray[Any]
    stacking_seen: NDArray[Any] | None = None
    stacking_unseen: NDArray[Any] | None = None
    stacking_choice: NDArray[np.intp] | None = None
    novelty: NDArray[np.float64] | None = None
    evidence: NDArray[np.float64] | None = None
    target: NDArray[np.intp] | None = None

    def __post_init__(self) -> None:
        sides = ("seen", self.seen_classes), ("unseen", self.unseen_classes)
        for side, classes in sides:
            if len(classes) == 0:
                raise ValueError(f"there is no {side} class")
        both = self.seen_classes.intersection(self.unseen_classes)
        if len(both):
            raise ValueError(f"a class is both seen and unseen: {both[0]!r}")
        for side, classes in sides:
            proba = _rows(getattr(self, side), f"the {side} expert's", joint=side == "unseen")
            if proba.shape[1] != len(classes):
                raise ValueError(f"{proba.shape[1]} columns for {len(classes)} {side} classes")
            object.__setattr__(self, side, proba)
        n = len(self.seen)
        if len(self.unseen) != n:
            raise ValueError(
                f"the seen expert has {n} rows, the unseen expert {len(self.unseen)}; give one per sample"
            )
        if self.novelty is not None:
            novelty = check_scores(self.novelty, n, name="novelty")
            if not ((novelty >= 0) & (novelty <= 1)).all():
                raise ValueError("novelty must be a number from 0 to 1 for every sample")
            object.__setattr__(self, "novelty", novelty)
        if self.evidence is not None:
            check_features(self.evidence, name="evidence")
            if len(self.evidence) != n:
                raise ValueError(f"evidence must have a row for each of the {n} samples")
        if self.target is not None:
            target, n_classes = np.asarray(self.target), len(self.classes)
            if target.shape != (n,) or not np.isin(target, np.arange(n_classes)).all():
                raise ValueError(f"target must be a column number from 0 to {n_classes - 1} for every sample")

    @classmethod
    def from_joint(
        cls,
        seen: NDArray[Any],
        joint: NDArray[Any],
        seen_classes: pd.Index,
        unseen_classes: pd.Index,
        *,
        target: NDArray[np.intp] | None = None,
    ) -> ExpertOutputs:
        """Build from the unseen expert's prediction over all classes, columns `[seen | unseen]`."""
        n_seen, n_classes = len(seen_classes), len(seen_classes) + len(unseen_classes)
        joint = _rows(joint, "the unseen expert's", joint=True)
        if joint.shape[1] != n_classes:
            raise ValueError(
                f"{joint.shape[1]} columns of joint probabilities for {n_classes} classes; give one each"
            )
        parts = stacking(joint, n_seen)
        return cls(seen_classes, unseen_classes, seen, joint[:, n_seen:], **parts, target=target)

    @classmethod
    def _from_validated(cls, **parts: Any) -> ExpertOutputs:
        """Construct without validation."""
        outputs = object.__new__(cls)
        vars(outputs).update(_UNKNOWN | parts)
        return outputs

    def __len__(self) -> int:
        return len(self.seen)

    def __getitem__(self, rows: Any) -> ExpertOutputs:
        """Return the outputs of some of the samples."""
        known = {}
        for name, value in vars(self).items():
            if name == "_tops":
                value = {key: top[rows] for key, top in value.items()}
            elif isinstance(value, tuple):
                value = tuple(part[rows] for part in value)
            elif name == "gain":  # It depends on the other samples.
                continue
            elif isinstance(value, np.ndarray):
                value = value[rows]
            known[name] = value
        return ExpertOutputs._from_validated(**known)

    @property
    def n_seen(self) -> int:
        """Number of seen classes."""
        return len(self.seen_classes)

    @property
    def n_unseen(self) -> int:
        """Number of unseen classes."""
        return len(self.unseen_classes)

    @property
    def classes(self) -> pd.Index:
        """All classes, seen ones first."""
        return self.seen_classes.append(self.unseen_classes)

    @cached_property
    def seen_choice(self) -> NDArray[np.intp]:
        """Column of the seen expert's best class."""
        return self.seen.argmax(axis=1) if self.n_seen else np.zeros(len(self), dtype=np.intp)

    @cached_property
    def unseen_choice(self) -> NDArray[np.intp]:
        """Column (among the unseen classes) of the unseen expert's best class."""
        return self.unseen.argmax(axis=1) if self.n_unseen else np.zeros(len(self), dtype=np.intp)

    def best(self, smoothing: Smoothing) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return both experts' largest probabilities: joint for "adaptive", else conditional."""
        return self._best if smoothing == "adaptive" else self._best_shares

    @cached_property
    def _best(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        seen, unseen = _take(self.seen, self.seen_choice), _take(self.unseen, self.unseen_choice)
        return seen.astype(np.float64), unseen.astype(np.float64)

    @cached_property
    def _best_shares(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return _share(self._best[0], self.seen), _share(self._best[1], self.unseen)

    def top_seen(self, k: int, temperature: float = 1.0) -> NDArray[Any]:
        """Return the seen expert's `k` largest probabilities at a temperature, largest first."""
        return self._top("seen", k, temperature)

    def top_unseen(self, k: int) -> NDArray[Any]:
        """Return the unseen expert's `k` largest probabilities, largest first."""
        return self._top("unseen", k, 1.0)

    def _top(self, side: str, k: int, temperature: float) -> NDArray[Any]:
        if (side, k, temperature) not in self._tops:
            self._tops[side, k, temperature] = top_k(getattr(self, side), k, temperature)
        return self._tops[side, k, temperature]

    @cached_property
    def _tops(self) -> dict[tuple[str, int, float], NDArray[Any]]:
        return {}

    @property
    def stacking_margin(self) -> NDArray[np.float64]:
        """Best seen minus best unseen score of the unseen expert alone."""
        if self.stacking_seen is None or self.stacking_unseen is None:
            raise ValueError("these outputs lack the unseen expert's scores on seen classes")
        return self.stacking_seen.astype(np.float64) - self.stacking_unseen


_UNKNOWN = dict.fromkeys(field.name for field in fields(ExpertOutputs))


@dataclass(frozen=True, eq=False)
class OutputsSummary(_Labelled):
    """The few numbers per labelled sample that curves and operating points need.

    Model files and pages hold it in place of both experts' probabilities of all classes: the true class as a
    column of `[seen | unseen]`, the column of each expert's best class, its probability as the smoothing in
    use compares them, and the gate's score.
    """

    n_seen: int
    n_unseen: int
    target: NDArray[Any]
    seen_choice: NDArray[Any]
    unseen_choice: NDArray[Any]
    best_seen: NDArray[Any]
    best_unseen: NDArray[Any]
    gate_score: NDArray[np.float64]

    def __post_init__(self) -> None:
        shape = np.shape(self.target)
        for name in ("seen_choice", "unseen_choice", "best_seen", "best_unseen", "gate_score"):
            if np.shape(getattr(self, name)) != shape or len(shape) != 1:
                raise ValueError(f"{name} must have one number per sample")
        ends = {
            "target": self.n_seen + self.n_unseen,
            "seen_choice": self.n_seen,
            "unseen_choice": self.n_unseen,
        }
        for name, end in ends.items():
            values = np.asarray(getattr(self, name))
            if values.dtype.kind not in "iu" or (values.size and not 0 <= values.min() <= values.max() < end):
                raise ValueError(f"{name} must be columns from 0 to {end - 1}")

    def __len__(self) -> int:
        return len(self.target)

    def best(self, smoothing: Smoothing) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return both experts' largest probabilities; `smoothing` is that of the summary."""
        return self.best_seen.astype(np.float64), self.best_unseen.astype(np.float64)


def stacking(scores: NDArray[Any], n_seen: int) -> dict[str, Any]:
    """Return the fields of `ExpertOutputs` for calibrated stacking, from scores of `[seen | unseen]`."""
    choice = scores[:, :n_seen].argmax(axis=1)
    return {
        "stacking_seen": _take(scores, choice),
        "stacking_unseen": scores[:, n_seen:].max(axis=1, initial=-np.inf),
        "stacking_choice": choice,
    }


def _rows(proba: NDArray[Any], whose: str, *, joint: bool = False) -> NDArray[Any]:
    """Return checked probabilities; those of a sample, which are used together, lie side by side."""
    values = check_probabilities(proba, name=f"{whose} probabilities", joint=joint)
    return values if values.strides[1] == values.itemsize else np.ascontiguousarray(values)


def _take(values: NDArray[Any], columns: NDArray[np.intp]) -> NDArray[Any]:
    return values[np.arange(len(values)), columns]


def _share(best: NDArray[np.float64], proba: NDArray[Any]) -> NDArray[np.float64]:
    mass = np.einsum("ij->i", proba)  # Faster than `sum` of short rows.
    return np.divide(best, mass, out=np.full(len(best), 1 / proba.shape[1]), where=mass > 0)
