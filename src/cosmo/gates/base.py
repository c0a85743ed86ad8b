"""Contract of a gate: from the outputs of both experts to one number per sample, and Platt scaling."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression

from cosmo.experts.base import Observer
from cosmo.mixture.outputs import ExpertOutputs, OutputsSummary


class Gate(BaseEstimator, ABC):  # type: ignore[misc]
    """Base class of gates, which separate samples of seen classes from those of unseen ones.

    A gate reads outputs of the experts, never class identities. It must be applicable to other classes, and
    another number of them, than it was fitted on.
    """

    # Whether scores are log-odds of "seen" at equal prior, so that a threshold is that of the unseen share.
    log_odds: ClassVar[bool] = False

    def observer(self) -> Observer | None:
        """Return a new observer that computes `ExpertOutputs.evidence`, if the gate needs one."""
        return None

    def tuned(self, train: ExpertOutputs, val: ExpertOutputs) -> Self:
        """Return an unfitted copy whose open parameters (those that are None) are chosen.

        Parameters
        ----------
        train, val : ExpertOutputs
            Labelled outputs on Gating-Train and Gating-Val.
        """
        return clone(self)

    @abstractmethod
    def fit(self, *outputs: ExpertOutputs) -> Self:
        """Learn from labelled outputs on held-out samples, of one or several hold-outs of classes."""

    @abstractmethod
    def score(self, outputs: ExpertOutputs) -> NDArray[np.float64]:
        """Return one number per sample, larger for samples of seen classes: in 0..1, or log-odds."""


def require_evidence(outputs: ExpertOutputs, gate: Gate) -> NDArray[np.float64]:
    """Return the evidence of the gate's observer; raise `ValueError` if there is none."""
    if outputs.evidence is None:
        raise ValueError(
            f"{type(gate).__name__} reads the samples themselves, but these outputs have no evidence; "
            "compute them by an ExpertPair, or a Cosmo, that has this gate"
        )
    return outputs.evidence


def seen_mask(outputs: Sequence[ExpertOutputs | OutputsSummary]) -> NDArray[np.bool_]:
    """Return which of all the samples are of seen classes; there must be both kinds."""
    is_seen = np.concatenate([one.is_seen for one in outputs])
    if is_seen.all() or not is_seen.any():
        raise ValueError("the gate needs held-out samples of both seen and unseen classes")
    return is_seen


def fit_regression(
    inputs: NDArray[np.float64], is_seen: NDArray[np.bool_], C: float
) -> tuple[NDArray[np.float64], float]:
    """Return weights and bias of the logistic regression "is this sample of a seen class?"."""
    regression = LogisticRegression(C=C, max_iter=2000).fit(inputs, is_seen)
    return regression.coef_[0], float(regression.intercept_[0])


class ScoreScale:
    """An increasing linear function to the log-odds (Platt, 1999), which keeps the order of samples."""

    def fit(self, score: NDArray[np.float64], is_seen: NDArray[np.bool_]) -> Self:
        """Fit a logistic regression on held-out samples; its slope is at least 0.001."""
        self.middle, self.spread = float(score.mean()), float(score.std()) or 1.0
        slopes, self.bias = fit_regression(self._standard(score), is_seen, 1e3)
        self.slope = max(float(slopes[0]), 1e-3)
        return self

    def __call__(self, score: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return probabilities."""
        return expit(self.slope * self._standard(score)[:, 0] + self.bias)

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
