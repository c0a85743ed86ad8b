"""Soft-max with a temperature, the fit of the temperature, and the top-k probabilities.

Scores of every expert become probabilities here: a soft-max over all classes with one temperature, fitted
by maximum likelihood on held-out rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from cosmo._core.validation import as_number

__all__ = ["fit_temperature", "soften", "top_k"]

_FLOOR = 1e-12  # the paper's code adds this to a probability before taking its logarithm
_BLOCK = 1 << 17  # numbers per block, so that a block stays in the processor's cache
_LEAST, _MOST = 1e-20, 1e30  # range of row sums of exponentials without overflow or underflow
_SHORT = 4096  # `einsum` sums shorter rows faster than `sum`
# Up to this many columns, or values in all, sorting rows is faster than selecting the largest.
_NARROW, _FEW = 128, 4096


def soften(scores: NDArray[Any], temperature: float) -> NDArray[Any]:
    """Return `softmax(scores / temperature)` over the last axis, in the dtype of `scores`.

    Examples
    --------
    >>> soften(np.array([[0.0, np.log(3.0)]]), 1.0).round(2)
    array([[0.25, 0.75]])
    """
    _check(temperature)
    if scores.dtype.kind != "f":
        scores = scores.astype(np.float64)
    out = np.empty(scores.shape, scores.dtype)
    for rows in _blocks(scores):
        part = out[rows]
        scaled = scores[rows] if temperature == 1 else scores[rows] / scores.dtype.type(temperature)
        total = _exponentials(scaled, out=part)
        part /= total
    return out


def top_k(proba: NDArray[Any], k: int, temperature: float = 1.0) -> NDArray[Any]:
    """Return the `k` largest values of each row, largest first, with zeros where there are fewer.

    With a temperature these are of `softmax(log(proba) / temperature)`.

    Examples
    --------
    >>> top_k(np.array([[0.1, 0.6, 0.3]]), 2), top_k(np.array([[0.4]]), 2)
    (array([[0.6, 0.3]]), array([[0.4, 0. ]]))
    """
    _check(temperature)
    found = np.zeros((len(proba), k), dtype=proba.dtype)
    out = found[:, : proba.shape[1]]
    for rows in _blocks(proba):
        if temperature == 1:
            out[rows] = _largest(np.array(proba[rows], order="C"), k)
        else:
            powers, mass = _powers(proba[rows], temperature)
            np.divide(_largest(powers, k), mass, out=out[rows])
    return found


def _largest(values: NDArray[Any], k: int) -> NDArray[Any]:
    """Return the `k` largest of each row, largest first; overwrite `values` (contiguous, not negative)."""
    n_rows, n_classes = values.shape
    if k == 1:
        largest: NDArray[Any] = values.max(axis=1, keepdims=True)
        return largest
    if n_classes <= _NARROW or values.size <= _FEW:
        values.sort(axis=1)
        return values[:, : -k - 1 : -1]
    if k >= n_classes / 20:
        least = max(0, n_classes - k)
        values.partition(least, axis=1)
        return np.sort(values[:, least:], axis=1)[:, ::-1]
    found = np.empty((n_rows, k), dtype=values.dtype)
    flat, starts = values.reshape(-1), np.arange(0, values.size, n_classes)
    for column in range(k):
        places = values.argmax(axis=1) + starts
        found[:, column] = flat[places]
        flat[places] = -1
    return found


def _blocks(values: NDArray[Any]) -> Iterator[slice]:
    step = max(1, _BLOCK // max(1, values[:1].size))
    for first in range(0, len(values), step):
        yield slice(first, first + step)


def _check(temperature: float) -> None:
    if not as_number(temperature, name="temperature") > 0:
        raise ValueError(f"temperature must be positive, got {temperature}")


def _powers(proba: NDArray[Any], temperature: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return `p^(1/T)` up to a factor in each row, and their sums."""
    powered = np.add(proba, _FLOOR, order="C")
    if temperature == 3:  # The paper's temperature, in half the time.
        np.cbrt(powered, out=powered)
        return powered, _sums(powered)
    np.log(powered, out=powered)
    powered *= 1 / temperature
    if temperature < 1:  # Otherwise nothing can underflow.
        logarithms, powered = powered, np.empty_like(powered)
        return powered, _exponentials(logarithms, out=powered)
    np.exp(powered, out=powered)
    return powered, _sums(powered)


def _exponentials(values: NDArray[Any], *, out: NDArray[Any]) -> NDArray[Any]:
    """Write `exp(values)`, up to a factor in each row, to `out` and return its row sums."""
    with np.errstate(over="ignore", under="ignore"):
        np.exp(values, out=out)
    total = _sums(out)
    if total.size and not (total.min() > _LEAST and total.max() < _MOST):
        # Overflow, underflow or NaN: subtract the largest value in these rows.
        rows = ~((total > _LEAST) & (total < _MOST))[..., 0]
        part = values[rows]
        part -= part.max(axis=-1, keepdims=True)
        out[rows] = np.exp(part, out=part)
        total[rows] = _sums(part)
    return total


def _sums(values: NDArray[Any]) -> NDArray[Any]:
    """Return the sum of each row."""
    if values.shape[-1] > _SHORT:
        total: NDArray[Any] = values.sum(axis=-1, keepdims=True)
        return total
    return np.einsum("...i->...", values)[..., None]


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
