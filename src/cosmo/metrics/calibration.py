"""Calibration curves and expected calibration error.

Probabilities are put into bins of equally many samples. In each bin the mean probability is compared with
the observed frequency; the expected calibration error (ECE) is the mean absolute difference, weighted by
samples. Even perfect probabilities have a positive ECE on `n` samples in `b` bins, about
`sqrt(2 b / (pi n)) * mean sqrt(p (1 - p))`: `Calibration.chance`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class Calibration:
    """A calibration curve, lowest probabilities first: mean probability and observed frequency of each bin.

    `chance` is the expected error of perfectly calibrated probabilities on as many samples and bins.
    """

    probability: NDArray[np.float64]
    frequency: NDArray[np.float64]
    samples: NDArray[np.intp]
    chance: float

    @property
    def error(self) -> float:
        """Expected calibration error, in 0..1."""
        return float(np.average(np.abs(self.probability - self.frequency), weights=self.samples))

    @property
    def excess(self) -> float:
        """Mean probability minus observed frequency; positive means overconfident."""
        return float(np.average(self.probability - self.frequency, weights=self.samples))

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for JSON."""
        return {
            "error": self.error,
            "chance": self.chance,
            "excess": self.excess,
            "bins": [
                {"probability": float(p), "share": float(f), "samples": int(n)}
                for p, f, n in zip(self.probability, self.frequency, self.samples, strict=True)
            ],
        }


def calibration(proba: ArrayLike, outcome: ArrayLike, *, bins: int = 15) -> Calibration:
    """Return the calibration curve of probabilities of an event, given whether it happened.

    There are at most `bins` bins, of equal mass; equal probabilities share a bin.

    Examples
    --------
    >>> curve = calibration([0.1, 0.1, 0.9, 0.9], [False, False, True, False], bins=2)
    >>> curve.frequency, round(curve.error, 3)
    (array([0. , 0.5]), 0.25)
    """
    values, true = np.asarray(proba, dtype=np.float64), np.asarray(outcome, dtype=bool)
    if values.ndim != 1 or values.shape != true.shape or not len(values):
        raise ValueError(
            f"proba and outcome must have one entry per sample, got {values.shape} and {true.shape}"
        )
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("proba must lie between 0 and 1")
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}")
    order = np.argsort(values, kind="stable")
    values, true = values[order], true[order]
    # A bin ends after the last of equal probabilities, so that their order does not matter.
    ends = np.searchsorted(values, values[(np.arange(1, bins + 1) * len(values)) // bins - 1], "right")
    ends = np.unique(ends)
    starts = np.concatenate([[0], ends[:-1]])
    samples = ends - starts
    spread = np.add.reduceat(values * (1 - values), starts)
    return Calibration(
        np.add.reduceat(values, starts) / samples,
        np.add.reduceat(true.astype(np.float64), starts) / samples,
        samples,
        float(np.sqrt(2 / np.pi * spread).sum() / len(values)),
    )
