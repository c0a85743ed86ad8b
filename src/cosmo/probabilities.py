"""From scores to probabilities: soft-max, temperature, and the fit of the temperature.

Every expert that outputs plain scores becomes probabilistic here and nowhere else: a soft-max over all
classes with one temperature, fitted by likelihood on held-out rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

__all__ = ["fit_temperature", "soften", "temper"]

_FLOOR = 1e-12  # the paper's code adds this to a probability before taking its logarithm


def soften(scores: NDArray[Any], temperature: float) -> NDArray[Any]:
    """Return `softmax(scores / temperature)` over the last axis, in the dtype of `scores`.

    Examples
    --------
    >>> soften(np.array([[0.0, np.log(3.0)]]), 1.0).round(2)
    array([[0.25, 0.75]])
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    if scores.dtype.kind != "f":
        scores = scores.astype(np.float64)
    proba: NDArray[Any] = softmax(scores / scores.dtype.type(temperature), axis=-1)
    return proba


def temper(proba: NDArray[Any], temperature: float) -> NDArray[Any]:
    """Return probabilities flattened by a temperature: `softmax(log(p) / T)`; T = 1 changes nothing.

    Examples
    --------
    >>> temper(np.array([[0.2, 0.8]]), 2.0).round(3)
    array([[0.333, 0.667]])
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    if temperature == 1:
        return proba
    powered = np.log(proba + _FLOOR)
    powered *= 1 / temperature
    powered -= powered.max(axis=-1, keepdims=True)
    np.exp(powered, out=powered)  # the power p^(1/T), in the form that processors do fastest
    powered /= powered.sum(axis=-1, keepdims=True)
    return powered


def fit_temperature(scores: NDArray[Any], target: NDArray[np.intp]) -> float:
    """Return the temperature with the largest likelihood of the true classes.

    Parameters
    ----------
    scores : array of shape (n_samples, n_classes)
    target : array of int, shape (n_samples,)
        Column of the true class.

    Examples
    --------
    >>> scores = np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [2.0, 0.0]])
    >>> round(fit_temperature(scores, np.array([0, 1, 0, 1])), 2)  # right 3 times of 4
    1.82
    """
    scores = np.asarray(scores, dtype=np.float64)
    rows = np.arange(len(target))
    scale = float(scores.std()) or 1.0

    def loss(log_temperature: float) -> float:
        return -float(log_softmax(scores / np.exp(log_temperature), axis=1)[rows, target].mean())

    # Bounds relative to the spread of the scores, so that any unit of score can be fitted.
    centre = float(np.log(scale))
    found = minimize_scalar(loss, bounds=(centre - 12, centre + 6), method="bounded", options={"xatol": 1e-3})
    return float(np.exp(found.x))
