"""What a count promises: how far an accuracy may be from that of other rows of the same classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

__all__ = ["accuracy_bound", "accuracy_to_reach", "plausible_accuracies"]


def plausible_accuracies(
    right: NDArray[np.intp], rows: NDArray[np.intp], size: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Draw means over classes that may have led to these counts: Jeffreys' posterior of a share.

    Its number of rows is what the mean over classes is worth: the number for which a share would have the
    same variance. Classes without rows count as missed.

    Parameters
    ----------
    right, rows : array of int, shape (n_classes,)
        How many rows of each class were right, and how many there are.
    size : int
        How many means to draw.

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
    if single.any():  # one row has no spread of its own, so such classes are taken together
        spread[single] = share[single].mean() * (1 - share[single].mean())
    variance = spread.sum() / len(rows) ** 2
    worth = mean * (1 - mean) / variance if variance > 0 else _worth(rows)
    draws: NDArray[np.float64] = generator.beta(worth * mean + 0.5, worth * (1 - mean) + 0.5, size)
    return draws * (len(rows) / n_classes)


def _worth(rows: ArrayLike) -> float:
    """Return how many rows of a single class tell as much as these rows of several."""
    counts = np.asarray(rows, dtype=np.float64)
    counts = counts[counts > 0]
    return float(len(counts) ** 2 / (1 / counts).sum())


def accuracy_bound(accuracy: float, rows: ArrayLike, confidence: float = 0.95) -> float:
    """Return what an accuracy over other rows of the same classes is at least, by Wilson's score.

    That classes differ is left out, which makes the bound a little lower than it need be, but the same
    function of the accuracy everywhere on a curve: see `accuracy_to_reach`.

    Parameters
    ----------
    accuracy : float in 0..1
        Mean over classes.
    rows : array of int, shape (n_classes,)
        How many rows of each class it was measured on.
    confidence : float
        How often the bound is to hold.

    Examples
    --------
    >>> round(accuracy_bound(0.8, [10] * 20), 3)
    0.75
    """
    n, z = _worth(rows), norm.ppf(confidence)
    half = z * np.sqrt(accuracy * (1 - accuracy) / n + (z / (2 * n)) ** 2)
    return float((accuracy + z**2 / (2 * n) - half) / (1 + z**2 / n))


def accuracy_to_reach(floor: float, rows: ArrayLike, confidence: float = 0.95) -> float:
    """Return the accuracy from which on `accuracy_bound` is at least `floor`; may be above 1.

    Accuracies fall along a seen-unseen curve, so the last threshold that reaches this one is beyond the last
    one that truly keeps the floor no more often than the bound fails at a single threshold: choosing costs
    nothing.

    Examples
    --------
    >>> reach = accuracy_to_reach(0.75, [10] * 20)
    >>> round(reach, 3), round(accuracy_bound(reach, [10] * 20), 9)
    (0.8, 0.75)
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is a share between 0 and 1, got {confidence}")
    return float(floor + norm.ppf(confidence) * np.sqrt(floor * (1 - floor) / _worth(rows)))
