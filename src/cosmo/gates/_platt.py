"""From scores on any scale to probabilities of "seen", by one logistic regression."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

__all__ = ["ScoreScale", "calibration_error"]


class ScoreScale:
    """A rising line through the log-odds ("Platt scaling"); the order of samples stays.

    Examples
    --------
    >>> score = np.array([5.0, 5.1, 4.9, 5.3])
    >>> scale = ScoreScale().fit(score, np.array([False, True, False, True]))
    >>> bool((np.diff(scale(np.sort(score))) > 0).all())
    True
    """

    def fit(self, score: NDArray[np.float64], is_seen: NDArray[np.bool_]) -> Self:
        """Learn from held-out samples; where larger scores are no more often seen, the slope is tiny."""
        if is_seen.all() or not is_seen.any():
            raise ValueError("the gate needs held-out samples of both seen and unseen classes")
        self.middle, self.spread = float(score.mean()), float(score.std()) or 1.0
        regression = LogisticRegression(C=1e3, max_iter=1000).fit(self._standard(score), is_seen)
        self.slope = max(float(regression.coef_[0, 0]), 1e-3)
        self.bias = float(regression.intercept_[0])
        return self

    def __call__(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return probabilities."""
        proba: NDArray[np.float64] = expit(self.slope * self._standard(score)[:, 0] + self.bias)
        return proba

    def _standard(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        return ((score - self.middle) / self.spread)[:, None]


def calibration_error(is_seen: NDArray[np.bool_], proba: NDArray[np.float64], bins: int = 10) -> float:
    """Return the expected calibration error of probabilities of "seen", in 0..1.

    Samples are put into bins of equal width by their probability; it is the mean over samples of the
    distance between the mean probability of the bin and its share of samples that are seen.

    Examples
    --------
    >>> calibration_error(np.array([True, False, True, True]), np.array([0.75, 0.75, 0.75, 0.75]))
    0.0
    """
    place = np.minimum((proba * bins).astype(np.intp), bins - 1)
    difference = np.bincount(place, weights=proba - is_seen)
    return float(np.abs(difference).sum() / len(proba))
