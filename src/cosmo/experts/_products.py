"""Products of matrices without rounding in their sums: the same in any batch, on any number of threads.

What a product of matrices adds up is rounded in an order that depends on the shape of the matrices, the
library and its threads. Here, all numbers are first made whole ones, so few bits long that double precision
holds every sum of their products: then the order does not matter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["ExactProduct"]

# Lengths of a row and of a column in whole numbers. No sum of products exceeds the product of the lengths
# (Cauchy and Schwarz), which has to stay below 2^53, with something left for rounding to whole numbers.
_ROW_BITS, _COLUMN = 26, 1.2e8
# Numbers of rows, and of their product, in double precision at a time, so that they stay in the cache; but
# with fewer rows than this, preparing the weights would take longer than the product.
_CELLS, _SUMS, _LEAST = 2**19, 2**18, 96
_ONE, _LARGEST = np.float32(1), np.finfo(np.float32).max


class ExactProduct:
    """`X @ weights` in single precision, bit for bit the same for a row in whatever rows it comes.

    As close to the true product as one of BLAS in single precision, in about twice its time.

    Parameters
    ----------
    weights : array of float, shape (n_features, n_columns)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> weights, X = (rng.normal(size=shape).astype(np.float32) for shape in ((300, 20), (1000, 300)))
    >>> product = ExactProduct(weights)
    >>> bool(np.allclose(product(X), X @ weights, atol=1e-4))
    True
    >>> np.array_equal(product(X)[7:8], product(X[7:8]))
    True
    """

    def __init__(self, weights: NDArray[np.floating]) -> None:
        double = weights.astype(np.float64)
        length = np.sqrt(np.einsum("dc,dc->c", double, double))
        self._unit = np.where(length > 0, length, 1) / _COLUMN
        double /= self._unit
        self._weights = np.rint(double, out=double)

    def __call__(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the product with rows `X`, an array of shape (n_samples, n_features)."""
        n_features, n_columns = self._weights.shape
        out = np.empty((len(X), n_columns), dtype=np.float32)
        step = max(_LEAST, min(_CELLS // n_features, _SUMS // n_columns))
        for first in range(0, len(X), step):
            rows = slice(first, first + step)
            self._multiply(np.ascontiguousarray(X[rows]), out[rows])
        return out

    def _multiply(self, X: NDArray[np.float32], out: NDArray[np.float32]) -> None:
        squared = np.minimum(np.einsum("nd,nd->n", X, X), _LARGEST)  # `einsum` does not tell of overflow
        # By a power of two, which rounds nothing.
        power = _ROW_BITS - (np.frexp(squared)[1] + 1) // 2
        whole = X * np.ldexp(_ONE, power)[:, None]
        np.rint(whole, out=whole)
        sums = whole.astype(np.float64) @ self._weights
        sums *= np.ldexp(1.0, -power)[:, None]
        np.multiply(sums, self._unit, out=out, casting="same_kind")
