"""Calibrated gate: log-odds of "seen" from confidences that do not depend on the number of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from cosmo._core.validation import as_number
from cosmo.gates.base import Gate, require_evidence, seen_mask
from cosmo.mixture.outputs import ExpertOutputs, OutputsSummary

_LEAST_SPREAD = 1e-6  # of an input, relative to its size; less is rounding
_STEEPEST = 1.0  # logarithm of the largest factor of the log-odds


class CalibratedGate(Gate):
    """Logistic regression on the confidences of `cosmo.mixture.confidences`.

    Samples are weighted so that every class of a domain counts the same, and both domains do. The score is
    therefore the log-odds of "seen" if half of all samples are seen; another share of unseen samples adds a
    constant, which is the threshold of the mixture.

    Parameters
    ----------
    C : float, default=10.0
        Inverse regularisation of the weights, relative to the number of classes.

    Attributes
    ----------
    mean_, spread_ : arrays of shape (4,)
        Standardise the inputs.
    weights_ : array of shape (4,)
        Of the standardised inputs, for the log-odds of "unseen".
    bias_ : float
    bias_error_ : float
        Standard deviation of the bias between hold-out rounds; 0 if there is only one.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> inputs, target = rng.normal(size=(200, 4)), np.repeat([0, 2], 100)
    >>> inputs[100:, 1] += 2
    >>> proba = {"seen": np.full((200, 2), 0.5), "unseen": np.ones((200, 1))}
    >>> out = ExpertOutputs(pd.Index(["a", "b"]), pd.Index(["z"]), **proba, evidence=inputs, target=target)
    >>> score = CalibratedGate().fit(out).score(out)
    >>> bool(score[:100].mean() > 0 > score[100:].mean())
    True
    """

    log_odds: ClassVar[bool] = True

    def __init__(self, C: float = 10.0) -> None:
        self.C = C

    def fit(self, *outputs: ExpertOutputs) -> Self:
        """Fit the regression "is this sample of an unseen class?" on held-out samples of all rounds."""
        if not as_number(self.C, name="C") > 0:
            raise ValueError(f"C must be positive, got {self.C}")
        inputs = np.concatenate([require_evidence(one, self) for one in outputs])
        is_seen = seen_mask(outputs)
        classes = {label for one in outputs for label in one.classes}
        weights = domain_weights(outputs) * len(classes)
        self.mean_ = np.average(inputs, axis=0, weights=weights)
        spread = np.sqrt(np.average((inputs - self.mean_) ** 2, axis=0, weights=weights))
        varies = spread > _LEAST_SPREAD * np.maximum(1, np.abs(self.mean_))
        self.spread_ = np.where(varies, spread, 1.0)
        rows = (inputs - self.mean_) / self.spread_

        def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            w = flat[:-1]
            value, slope = _log_loss(rows @ w + flat[-1], is_seen, weights)
            return float(value + w @ w / (2 * self.C)), np.append(slope @ rows + w / self.C, slope.sum())

        found = minimize(loss, np.zeros(rows.shape[1] + 1), jac=True, method="L-BFGS-B").x
        self.weights_, self.bias_, self.bias_error_ = found[:-1], float(found[-1]), 0.0
        return self

    def score(self, outputs: ExpertOutputs) -> NDArray[np.float64]:
        """Return the log-odds of "seen" for each sample, if half of all samples are seen."""
        inputs, n = require_evidence(outputs, self), len(self.weights_)
        score = self.score_of(inputs[:, :n])
        # Classes that were learned after the training shift the log-odds.
        return score if inputs.shape[1] == n else score - inputs[:, n]

    def score_of(self, inputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log-odds of "seen" for confidences, shape (n_samples, 4)."""
        slopes = self.weights_ / self.spread_
        return self.mean_ @ slopes - self.bias_ - inputs @ slopes

    def bias_on(self, outputs: Sequence[ExpertOutputs]) -> float:
        """Return the constant which, added to the log-odds of "unseen", fits other outputs best."""
        return float(self._correction(outputs, 0.0)[1])

    def correction_on(self, outputs: Sequence[ExpertOutputs]) -> NDArray[np.float64]:
        """Return a constant and the logarithm of a factor for log-odds of "unseen", best on other outputs.

        The constant is added first; the result has the logarithm first.
        """
        return self._correction(outputs, _STEEPEST)

    def _correction(self, outputs: Sequence[ExpertOutputs], steepest: float) -> NDArray[np.float64]:
        value = np.concatenate([-self.score(one) for one in outputs])
        is_seen, weights = seen_mask(outputs), domain_weights(outputs)

        def loss(x: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            log_odds = np.exp(x[0]) * (value + x[1])
            total, slope = _log_loss(log_odds, is_seen, weights)
            return total, np.array([slope @ log_odds, slope.sum() * np.exp(x[0])])

        bounds = [(-steepest, steepest), (-8, 8)]
        return minimize(loss, np.zeros(2), jac=True, bounds=bounds).x


def _log_loss(
    log_odds: NDArray[np.float64], is_seen: NDArray[np.bool_], weights: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Return the weighted log-loss of log-odds of "unseen", and its derivatives by them."""
    value = weights @ np.logaddexp(0, np.where(is_seen, log_odds, -log_odds))
    return float(value), weights * (expit(log_odds) - ~is_seen)


def domain_weights(outputs: Sequence[ExpertOutputs | OutputsSummary]) -> NDArray[np.float64]:
    """Return a weight for each sample: equal ones for the classes of a domain, one in total for each."""
    weights, is_seen = np.concatenate([one.gain for one in outputs]), seen_mask(outputs)
    for domain in (is_seen, ~is_seen):
        weights[domain] /= weights[domain].sum()
    return weights
