"""Platt scaling: from confidences on any scale to probabilities of "seen"."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from cosmo.gates.base import Gate, seen_mask
from cosmo.mixture.outputs import ExpertOutputs


class ScoreScale:
    """An increasing linear function to the log-odds (Platt, 1999), which keeps the order of samples."""

    def fit(self, score: NDArray[np.float64], is_seen: NDArray[np.bool_]) -> Self:
        """Fit a logistic regression on held-out samples; its slope is at least 0.001."""
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


class ScaledGate(Gate):
    """Base class of gates whose score is a confidence, scaled to probabilities on held-out samples."""

    @abstractmethod
    def _confidence(self, outputs: ExpertOutputs) -> NDArray[np.float64]:
        """Return the confidence that each sample is of a seen class, on any scale."""

    def fit(self, *outputs: ExpertOutputs) -> Self:
        """Fit the scale of the confidences on held-out samples."""
        confidence = np.concatenate([self._confidence(one) for one in outputs])
        self.scale_ = ScoreScale().fit(confidence, seen_mask(outputs))
        return self

    def score(self, outputs: ExpertOutputs) -> NDArray[np.float64]:
        """Return the probability of "seen" for each sample."""
        return self.scale_(self._confidence(outputs))
