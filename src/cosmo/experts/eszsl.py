"""ESZSL: a bilinear map between features and descriptions in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve, eigh, svd

from cosmo._core.validation import check_features
from cosmo.experts._linear import class_sums, unit_rows
from cosmo.experts.base import POSITIVE, Array, Codes, UnseenExpert


@dataclass(eq=False, repr=False)
class ESZSL(UnseenExpert):
    """Score `F(x, y) = xᵀ V a_y`, with V from a doubly regularised least-squares fit.

    `V = (XᵀX + γI)⁻¹ Xᵀ Y A (AᵀA + λI)⁻¹`, with Y one-hot and A the descriptions of the seen classes.

    Parameters
    ----------
    gamma : float or None, default=None
        Regularises the feature side. None chooses on held-out classes.
    lam : float or None, default=None
        Regularises the description side. None chooses on held-out classes.
    centre : bool, default=True
        Subtract the mean of the seen classes from every description, and scale each to unit length. False
        uses descriptions unchanged.
    temperature : float or None, default=None
        Temperature of the soft-max over scores. None fits it on held-out rows.

    References
    ----------
    Romera-Paredes & Torr, "An embarrassingly simple approach to zero-shot learning", ICML 2015.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> ESZSL(gamma=0.01, lam=0.01, temperature=0.1).fit(X[:50], y[:50], table).predict_proba(X, table).shape
    (100, 20)
    """

    closed_form: ClassVar[bool] = True
    reference: ClassVar[str] = "Romera-Paredes & Torr, ICML 2015"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "gamma": tuple(10.0 ** (e / 2) for e in range(-4, 13)),
        "lam": tuple(10.0 ** (e / 2) for e in range(-6, 7)),
    }
    ranges: ClassVar[dict[str, str]] = {"gamma": POSITIVE, "lam": POSITIVE}

    gamma: float | None = None
    lam: float | None = None
    _: KW_ONLY
    centre: bool = True
    temperature: float | None = None

    def _fit(self, X: Array, codes: Codes, attributes: Array, **decided: Any) -> None:
        self._learn_mean(attributes)
        self.weights_ = _solve(X, codes, self._standardised(attributes), decided["gamma"], decided["lam"])

    def _candidates(self, X: Array, codes: Codes, table: pd.DataFrame) -> Iterator[Self]:
        mean_only = self._with(table.columns)._learn_mean(table.to_numpy())
        path = _Path(X, codes, mean_only._standardised(table.to_numpy()))
        for gamma in self._values("gamma"):
            left = path.left(gamma)
            for lam in self._values("lam"):
                candidate = self._with(table.columns, gamma=gamma, lam=lam)
                candidate.mean_ = mean_only.mean_
                candidate.weights_ = path.solve(left, lam)
                yield candidate

    def scores(self, X: ArrayLike, descriptions: pd.DataFrame) -> Array:
        """Return `X V Aᵀ`, shape (n_samples, n_classes)."""
        rows = check_features(X, name="X", columns=len(self.weights_))
        return rows @ self.class_weights(self.attributes(descriptions))

    def class_weights(self, attributes: Array) -> Array:
        """Return `V Aᵀ`, shape (n_features, n_classes)."""
        return self.weights_ @ self._standardised(attributes).T

    def _learn_mean(self, attributes: Array) -> Self:
        self.mean_ = attributes.mean(axis=0) if self.centre else None
        return self

    def _standardised(self, attributes: Array) -> Array:
        if self.mean_ is None:
            return attributes
        return unit_rows(attributes - self.mean_)


def _solve(X: Array, codes: Codes, A: Array, gamma: float, lam: float) -> Array:
    """Return V for one pair of regularisers."""
    sums, A64 = class_sums(X, codes, len(A)).astype(np.float64).T, A.astype(np.float64)
    few = len(A) < A.shape[1]  # fewer classes than attributes
    # `A (AᵀA + λI)⁻¹` is `(AAᵀ + λI)⁻¹ A`: the smaller system is solved.
    right = _divided(A64 @ A64.T, lam, A64) if few else _divided(A64.T @ A64, lam, A64.T).T
    gram = (X.T @ X).astype(np.float64)
    V = _divided(gram, gamma, sums) @ right if few else _divided(gram, gamma, sums @ right)
    return V.astype(np.float32)


def _divided(gram: NDArray[np.float64], ridge: float, B: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `(gram + ridge I)⁻¹ B`; the symmetric `gram` is overwritten."""
    np.einsum("dd->d", gram)[...] += ridge
    # The transpose is the same matrix, in the order of LAPACK.
    factor = cho_factor(gram.T, lower=True, overwrite_a=True, check_finite=False)
    return cho_solve(factor, B, check_finite=False)


class _Path:
    """V for any regularisers, from one eigendecomposition of `XᵀX` and one of `AᵀA`."""

    def __init__(self, X: Array, codes: Codes, A: Array) -> None:
        _, spread, directions = svd(A.astype(np.float64), full_matrices=False, check_finite=False)
        self.attribute_values, self.attribute_vectors = spread**2, directions.T
        # The transpose of a Gram matrix is the same, and in the order of LAPACK.
        gram = (X.T @ X).astype(np.float64).T
        driver = "evd" if len(gram) > 1 else None  # SciPy 1.13 allocates too little for one feature
        values, vectors = eigh(gram, overwrite_a=True, check_finite=False, driver=driver)
        # Rounding may leave eigenvalues of a Gram matrix slightly below zero.
        self.feature_values, self.feature_vectors = np.maximum(values, 0), vectors
        sums = class_sums(X, codes, len(A)).astype(np.float64)
        self.core = (sums @ vectors).T @ (A @ self.attribute_vectors)

    def left(self, gamma: float) -> NDArray[np.float64]:
        """Return the factor that all V of one γ share."""
        return self.feature_vectors @ (self.core / (self.feature_values + gamma)[:, None])

    def solve(self, left: NDArray[np.float64], lam: float) -> Array:
        """Return V."""
        V: NDArray[np.float64] = (left / (self.attribute_values + lam)) @ self.attribute_vectors.T
        return V.astype(np.float32)
