"""Gaussian classes with one covariance, of `GaussianExpert` and `Discriminant`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from cosmo.experts._linear import class_sums
from cosmo.experts.base import Array, Codes, check_shares

Matrix = NDArray[np.float64]


class Classes(NamedTuple):
    """Means of classes and the covariance of samples around them."""

    mean: Matrix  # of the class means
    centred: Matrix  # class means less their mean
    covariance: Matrix
    variance: float  # mean of its diagonal

    @classmethod
    def learn(cls, X: Array, codes: Codes) -> Classes:
        """Compute means and covariance of the rows of each class."""
        sizes = np.bincount(codes)
        means = class_sums(X, codes, len(sizes)).astype(np.float64) / sizes[:, None]
        # Centred first, so that single precision is enough.
        rows = X - means.astype(np.float32)[codes]
        covariance = (rows.T @ rows).astype(np.float64) / len(X)
        mean = means.mean(axis=0)
        return cls(mean, means - mean, covariance, float(np.trace(covariance) / len(covariance)) or 1.0)

    def solve(self, shrinkage: float, right: Matrix) -> Matrix:
        """Return `C⁻¹ right`, with C the covariance shrunk towards a multiple of the identity."""
        check_shares(shrinkage=shrinkage)
        shrunk = (1 - shrinkage) * self.covariance
        np.einsum("dd->d", shrunk)[...] += max(shrinkage, 1e-9) * self.variance
        # The transpose is the same matrix, in the order of LAPACK.
        factor = cho_factor(shrunk.T, lower=True, overwrite_a=True, check_finite=False)
        solution: Matrix = cho_solve(factor, right, check_finite=False)
        return solution
