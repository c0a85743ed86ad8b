"""From scores to probabilities: soft-max, temperature, the fit of the temperature, and the largest of them.

Every expert that outputs plain scores becomes probabilistic here and nowhere else: a soft-max over all
classes with one temperature, fitted by likelihood on held-out rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from cosmo._core.validation import as_number

__all__ = ["fit_temperature", "soften", "soften_parts", "temper", "top_k"]

_FLOOR = 1e-12  # the paper's code adds this to a probability before taking its logarithm
_BLOCK = 1 << 17  # probabilities worked on at a time, so that they stay in the cache
_LEAST, _MOST = 1e-20, 1e30  # sums of exponentials among which none that matters was lost
_SHORT = 4096  # columns of which `einsum` makes one sum, whatever the number of rows
# Columns, and values in all, up to which rows are sorted sooner than the largest are picked.
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


def soften_parts(scores: NDArray[Any], shift: NDArray[Any], *parts: tuple[slice, int]) -> list[NDArray[Any]]:
    """Return the soft-max of some columns of `scores + shift`, and of others, in one go.

    Parameters
    ----------
    scores : array of shape (n_samples, n_columns)
    shift : array of shape (n_columns,)
    parts : pairs of a slice and an int
        The columns of a soft-max, and how many of them count in the sum but are left out of the result.

    Examples
    --------
    >>> scores = np.log(np.array([[1.0, 3.0, 2.0, 4.0, 4.0]]))
    >>> soften_parts(scores, np.zeros(5), (slice(0, 2), 0), (slice(2, 5), 1))
    [array([[0.25, 0.75]]), array([[0.4, 0.4]])]
    """
    n_rows, n_columns = scores.shape
    widths = [len(range(n_columns)[columns]) - first for columns, first in parts]
    out = [np.empty((n_rows, width), scores.dtype) for width in widths]
    with np.errstate(all="ignore"):
        for rows in _blocks(scores):
            part = scores[rows] + shift
            np.exp(part, out=part)
            for (columns, first), found in zip(parts, out, strict=True):
                powers = part[:, columns]
                total = _sums(powers)
                np.divide(powers[:, first:], total, out=found[rows])
                if _some_lost(total):
                    lost = _lost(total)
                    again = scores[rows][lost, columns] + shift[columns]
                    found[rows][lost] = soften(again, 1.0)[:, first:]
    return out


def temper(proba: NDArray[Any], temperature: float) -> NDArray[Any]:
    """Return probabilities flattened by a temperature: `softmax(log(p) / T)`; T = 1 changes nothing.

    Examples
    --------
    >>> temper(np.array([[0.2, 0.8]]), 2.0).round(3)
    array([[0.333, 0.667]])
    """
    _check(temperature)
    if temperature == 1:
        return proba
    powered, mass = _powers(proba, temperature)
    powered /= mass
    return powered


def top_k(proba: NDArray[Any], k: int, temperature: float = 1.0) -> NDArray[Any]:
    """Return the `k` largest values of each row, largest first, with zeros where there are fewer.

    With a temperature these are of `temper(proba, temperature)`, which is never made as a whole.

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
    """Return the `k` largest of each row (or all), largest first; values, which are not negative, get lost.

    `values` are contiguous.
    """
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
    found = np.empty((n_rows, k), dtype=values.dtype)  # of many classes, a few maxima are found faster
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
    if temperature == 3 and powered.dtype == np.float32:
        powered = _cube_root(powered)
    else:
        np.log(powered, out=powered)  # logarithm and exponential: the form that processors do fastest
        powered *= 1 / temperature
        if temperature < 1:  # else nothing can vanish
            logarithms, powered = powered, np.empty_like(powered)
            return powered, _exponentials(logarithms, out=powered)
        np.exp(powered, out=powered)
    return powered, _sums(powered)


def _cube_root(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the cube roots of positive numbers, in half the time of a logarithm and an exponential.

    A third of the bits, read as a whole number, is a third of the logarithm: a first guess within 3 %. A step
    of Newton's squares the error, one of Halley's cubes it.
    """
    bits = values.view(np.uint32) // np.uint32(3)
    bits += np.uint32(0x2A514067)
    root = bits.view(np.float32)
    step = root * root
    np.divide(values, step, out=step)
    step += root
    step += root
    np.multiply(step, np.float32(1 / 3), out=root)
    cube = root * root
    cube *= root
    below = cube + values
    np.add(below, values, out=step)
    below += cube
    step /= below
    root *= step
    return root


def _exponentials(values: NDArray[Any], *, out: NDArray[Any]) -> NDArray[Any]:
    """Put `exp(values)`, up to a factor in each row, in `out`, which is elsewhere, and return its sums."""
    with np.errstate(over="ignore", under="ignore"):
        np.exp(values, out=out)
    total = _sums(out)
    if _some_lost(total):  # there, they are relative to the largest
        lost = _lost(total)
        part = values[lost]
        part -= part.max(axis=-1, keepdims=True)
        out[lost] = np.exp(part, out=part)
        total[lost] = _sums(part)
    return total


def _some_lost(total: NDArray[Any]) -> bool:
    """Return whether an exponential that matters has left the range of numbers, or is NaN: nearly never."""
    return total.size > 0 and not bool(total.min() > _LEAST and total.max() < _MOST)


def _lost(total: NDArray[Any]) -> NDArray[np.bool_]:
    """Return in which rows."""
    lost: NDArray[np.bool_] = ~((total > _LEAST) & (total < _MOST))[..., 0]
    return lost


def _sums(values: NDArray[Any]) -> NDArray[Any]:
    """Return the sum of each row; where rows are short, it takes `sum` three times as long."""
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
