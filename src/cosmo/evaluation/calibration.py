"""How far probabilities can be taken at their word.

A bin holds samples of about equal probability; calibrated, the share of them that came true equals their
mean probability. The expected calibration error is the mean distance of the two over samples. Bins hold
equally many samples, so that each difference is known about equally well. The error of `n` samples in `b`
bins is never expected to be 0: perfect probabilities have about `sqrt(2 b / (pi n)) * mean sqrt(p (1 - p))`,
which `Calibration.chance` says, and differences below it mean nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosmo.classifier.combinations import GatedMixture
from cosmo.classifier.explain import normalised
from cosmo.mixture.outputs import ExpertOutputs

__all__ = ["Calibration", "answer_calibration", "calibration", "gate_calibration"]


@dataclass(frozen=True, eq=False)
class Calibration:
    """The bins of probabilities, least first.

    Parameters
    ----------
    probability, share : array of shape (n_bins,)
        Mean probability of each bin, and the share of its samples for which it came true.
    rows : array of int, shape (n_bins,)
    chance : float
        The error that is expected of perfect probabilities, for so many samples and bins.
    """

    probability: NDArray[np.float64]
    share: NDArray[np.float64]
    rows: NDArray[np.intp]
    chance: float

    @property
    def error(self) -> float:
        """Expected calibration error, in 0..1."""
        return float(np.average(np.abs(self.probability - self.share), weights=self.rows))

    @property
    def excess(self) -> float:
        """How much more is promised than comes true, on average; negative for too little."""
        return float(np.average(self.probability - self.share, weights=self.rows))

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for JSON."""
        return {
            "error": self.error,
            "chance": self.chance,
            "excess": self.excess,
            "bins": [
                {"probability": float(p), "share": float(s), "samples": int(n)}
                for p, s, n in zip(self.probability, self.share, self.rows, strict=True)
            ],
        }


def calibration(proba: ArrayLike, came_true: ArrayLike, *, bins: int = 15) -> Calibration:
    """Put probabilities into bins of equally many samples; equal ones share a bin.

    Parameters
    ----------
    proba : array of shape (n_samples,)
    came_true : array of bool, shape (n_samples,)
    bins : int
        At most so many.

    Examples
    --------
    >>> found = calibration([0.1, 0.1, 0.9, 0.9], [False, False, True, False], bins=2)
    >>> found.share, round(found.error, 3)
    (array([0. , 0.5]), 0.25)
    """
    values, true = np.asarray(proba, dtype=np.float64), np.asarray(came_true, dtype=bool)
    if values.ndim != 1 or values.shape != true.shape or not len(values):
        raise ValueError(f"one probability and one outcome per sample, got {values.shape} and {true.shape}")
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("probabilities are numbers from 0 to 1")
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    order = np.argsort(values, kind="stable")
    values, true = values[order], true[order]
    # A bin ends where its last probability does, so that equal ones are not torn apart by their order.
    ends = np.searchsorted(values, values[(np.arange(1, bins + 1) * len(values)) // bins - 1], "right")
    ends = np.unique(ends)
    starts = np.concatenate([[0], ends[:-1]])
    rows = ends - starts
    spread = np.add.reduceat(values * (1 - values), starts)
    return Calibration(
        np.add.reduceat(values, starts) / rows,
        np.add.reduceat(true.astype(np.float64), starts) / rows,
        rows,
        float(np.sqrt(2 / np.pi * spread).sum() / len(values)),
    )


def answer_calibration(mixture: GatedMixture, outputs: ExpertOutputs, *, bins: int = 15) -> Calibration:
    """Return the calibration of `p(y)` of the answer: of each sample's largest probability.

    Parameters
    ----------
    mixture : GatedMixture
        Fitted.
    outputs : ExpertOutputs
        Labelled, of samples that nothing was fitted on.
    """
    proba = normalised(mixture.scores(outputs))
    return calibration(_within_one(proba.max(axis=1)), proba.argmax(axis=1) == outputs.labels, bins=bins)


def gate_calibration(mixture: GatedMixture, outputs: ExpertOutputs, *, bins: int = 15) -> Calibration:
    """Return the calibration of the gate's belief `p(U)` at the operating point.

    Examples
    --------
    >>> import pandas as pd
    >>> from cosmo.classifier.combinations import OperatingPoint
    >>> from cosmo.gates import MaxSoftmaxGate
    >>> mixture = GatedMixture(smoothing="adaptive")
    >>> mixture.gate_, mixture.operating_point_ = MaxSoftmaxGate(), OperatingPoint(0.9, 0.1)
    >>> said = ExpertOutputs(pd.Index(["a", "b"]), pd.Index(["z"]), np.array([[0.6, 0.4], [0.9, 0.1]]),
    ...                      np.array([[0.7], [0.1]]), target=np.array([2, 0]))
    >>> gate_calibration(mixture, said, bins=2).probability.round(2), answer_calibration(mixture, said).share
    (array([0.5 , 0.95]), array([1., 1.]))
    """
    return calibration(_within_one(mixture.belief(outputs)), ~outputs.is_seen, bins=bins)


def _within_one(proba: NDArray[Any]) -> NDArray[np.float64]:
    """Return probabilities without what rounding put beyond 1."""
    return np.minimum(proba.astype(np.float64), 1)
