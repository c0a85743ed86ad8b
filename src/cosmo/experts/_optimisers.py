"""Optimisers for losses whose gradients are written by hand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Adam"]


class Adam:
    """Adam (Kingma & Ba, 2015) on one array, in place.

    Parameters
    ----------
    weights : array
        Changed by every `update`.
    step : float

    Examples
    --------
    >>> weights = np.array([1.0, -1.0], dtype=np.float32)
    >>> Adam(weights, 0.1).update(np.array([3.0, -5.0], dtype=np.float32))
    >>> weights
    array([ 0.9, -0.9], dtype=float32)
    """

    def __init__(self, weights: NDArray[np.float32], step: float) -> None:
        self.weights, self.step = weights, step
        self.mean, self.square = np.zeros_like(weights), np.zeros_like(weights)
        self.time = 0

    def update(self, gradient: NDArray[np.float32]) -> None:
        """Take one step down the gradient."""
        self.time += 1
        self.mean += np.float32(0.1) * (gradient - self.mean)
        gradient = np.square(gradient)
        gradient -= self.square
        self.square += np.float32(0.001) * gradient
        size = np.sqrt(self.square, out=gradient)
        size += np.float32(1e-8 * np.sqrt(1 - 0.999**self.time))
        np.divide(self.mean, size, out=size)
        rate = self.step * np.sqrt(1 - 0.999**self.time) / (1 - 0.9**self.time)
        size *= np.float32(rate)
        self.weights -= size
