"""Confidence bounds for per-class accuracy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm


def plausible_accuracies(
    right: NDArray[np.intp], rows: NDArray[np.intp], size: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Draw mean accuracies from Jeffreys' posterior, given right rows and rows of each class.

    The proportion has the effective sample size of the class mean: the number of rows for which it has the
    same variance. Classes without rows count as 0.

    Examples
    --------
    >>> drawn = plausible_accuracies(np.array([3, 5]), np.array([5, 5]), 1000, np.random.default_rng(0))
    >>> np.quantile(drawn, [0.025, 0.975]).round(1)
    array([0.5, 1. ])
    """
    n_classes = len(rows)
    right, rows = right[rows > 0], rows[rows > 0]
    if not len(rows):
        return np.zeros(size)
    share, single = right / rows, rows == 1
    mean = share.mean()
    spread = share * (1 - share) / np.maximum(rows - 1, 1)
    if single.any():  # One row has no variance of its own; such classes are pooled.
        spread[single] = share[single].mean() * (1 - share[single].mean())
    variance = spread.sum() / len(rows) ** 2
    effective = mean * (1 - mean) / variance if variance > 0 else _effective_size(rows)
    draws: NDArray[np.float64] = generator.beta(effective * mean + 0.5, effective * (1 - mean) + 0.5, size)
    return draws * (len(rows) / n_classes)


def _effective_size(rows: ArrayLike) -> float:
    """Return the effective sample size of a mean over classes with these numbers of rows."""
    counts = np.asarray(rows, dtype=np.float64)
    counts = counts[counts > 0]
    return float(len(counts) ** 2 / (1 / counts).sum())


def accuracy_bound(accuracy: float, rows: ArrayLike, confidence: float = 0.95) -> float:
    """Return the lower Wilson bound of a mean accuracy over other rows of the same classes.

    `rows` has the number of rows of each class. Differences between classes are ignored. This makes the bound
    slightly conservative, but a function of the accuracy alone, which `accuracy_to_reach` inverts.

    Examples
    --------
    >>> round(accuracy_bound(0.8, [10] * 20), 3)
    0.75
    """
    n, z = _effective_size(rows), norm.ppf(confidence)
    half = z * np.sqrt(accuracy * (1 - accuracy) / n + (z / (2 * n)) ** 2)
    return float((accuracy + z**2 / (2 * n) - half) / (1 + z**2 / n))


def accuracy_to_reach(floor: float, rows: ArrayLike, confidence: float = 0.95) -> float:
    """Return the smallest accuracy whose `accuracy_bound` is at least `floor`; it may exceed 1.

    Accuracies are monotonic along a seen-unseen curve, so choosing the last threshold that reaches this
    accuracy keeps the confidence of a single threshold.

    Examples
    --------
    >>> reach = accuracy_to_reach(0.75, [10] * 20)
    >>> round(reach, 3), round(accuracy_bound(reach, [10] * 20), 9)
    (0.8, 0.75)
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    return float(floor + norm.ppf(confidence) * np.sqrt(floor * (1 - floor) / _effective_size(rows)))
