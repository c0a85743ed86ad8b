"""Scaling of rows, shared by experts that compare directions."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["unit_rows"]

Float = TypeVar("Float", np.float32, np.float64)


def unit_rows(values: NDArray[Float]) -> NDArray[Float]:
    """Return the rows scaled to unit length; rows of zeros stay.

    Examples
    --------
    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    length = np.linalg.norm(values, axis=1, keepdims=True)
    return (values / np.where(length > 0, length, 1)).astype(values.dtype, copy=False)
