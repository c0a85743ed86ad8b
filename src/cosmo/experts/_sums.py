"""Sums of the rows of each class, which more than one expert begins with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

__all__ = ["class_sums"]


def class_sums(X: NDArray[np.float32], codes: NDArray[np.intp], n_classes: int) -> NDArray[np.float32]:
    """Return `YᵀX`, shape (n_classes, n_features): the sum of each class's rows.

    Examples
    --------
    >>> class_sums(np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float32), np.array([1, 0, 1]), 3)
    array([[3., 4.],
           [6., 8.],
           [0., 0.]], dtype=float32)
    """
    ones = np.ones(len(codes), dtype=np.float32)
    one_hot = csr_array((ones, (codes, np.arange(len(codes)))), shape=(n_classes, len(codes)))
    sums: NDArray[np.float32] = one_hot @ X
    return sums
