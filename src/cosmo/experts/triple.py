"""TRIPLE: one matrix for regression in both directions and for compatibility, in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.linalg import eigh, svd

from cosmo._core.validation import check_features
from cosmo.experts._linear import class_sums, unit_rows
from cosmo.experts.base import Array, Codes, UnseenExpert, check_not_negative, check_positive

__all__ = ["TRIPLE"]


@dataclass(eq=False, repr=False)
class TRIPLE(UnseenExpert):
    """Score `F(x, y) = xᵀ P a_y`, with P that also maps features to descriptions and back.

    With X the N samples, A the descriptions of the seen classes, Y one-hot and `A_Y = Y A`, P minimises
    ::

        |X P - A_Y|² / N  +  α |A_Y Pᵀ - X|² / N  +  β |X P Aᵀ - Y|² / N  +  ρ |P|²

    that is, features predict the description, the description predicts features, and a sample is aligned
    with its own class and orthogonal to the others. The objective is quadratic in P and solved exactly: in
    the eigenvectors of XᵀX on one side, and on the other in those that diagonalise `I + β AᵀA` and
    `α A_YᵀA_Y / N + ρ I` together, the normal equations are diagonal.

    The publication's equations and settings are not public; this is our interpretation of its linear model,
    without the deep one. Features are scaled to unit length. On held-out classes of CUB, leaving out
    compatibility (β = 0) costs 8 points, and leaving out the second regression (α = 0) half a point.

    Parameters
    ----------
    alpha : float or None, default=None
        Weight of the regression from descriptions to features. None chooses on held-out classes.
    beta : float or None, default=None
        Weight of compatibility. None chooses on held-out classes.
    rho : float or None, default=None
        Regularises P. None chooses on held-out classes.
    centre : bool, default=True
        Subtract the mean of the seen classes from every description before each is scaled to unit length.
    temperature : float or None, default=None
        Temperature of the soft-max over scores. None fits it on held-out rows.

    References
    ----------
    Zhang, Long, Guan & Shao, "Triple verification network for generalized zero-shot learning", TIP 2019.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> TRIPLE(0.1, 1.0, 1e-3, temperature=0.1).fit(X[:50], y[:50], table).predict_proba(X, table).shape
    (100, 20)
    """

    reference: ClassVar[str] = "Zhang, Long, Guan & Shao, TIP 2019"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "alpha": (0.01, 0.1, 1.0, 10.0),
        "beta": (0.1, 1.0, 10.0),
        "rho": (1e-5, 1e-4, 1e-3, 1e-2),
    }

    alpha: float | None = None
    beta: float | None = None
    rho: float | None = None
    _: KW_ONLY
    centre: bool = True
    temperature: float | None = None

    def _fit(self, X: Array, codes: Codes, attributes: Array, **decided: Any) -> None:
        self._learn_mean(attributes)
        equations = _NormalEquations(unit_rows(X), codes, self._signatures(attributes))
        self.weights_ = equations.solve(decided["alpha"], decided["beta"], decided["rho"])

    def _candidates(self, X: Array, codes: Codes, table: pd.DataFrame) -> Iterator[Self]:
        """Decompose once, and yield the solution for each choice of weights."""
        centred = self._with(table.columns)._learn_mean(table.to_numpy())
        equations = _NormalEquations(unit_rows(X), codes, centred._signatures(table.to_numpy()))
        for values in product(*map(self._values, self.grid)):
            candidate = self._with(table.columns, **dict(zip(self.grid, values, strict=True)))
            candidate.mean_ = centred.mean_
            candidate.weights_ = equations.solve(*values)
            yield candidate

    def scores(self, X: ArrayLike, descriptions: pd.DataFrame) -> Array:
        """Return `xᵀ P a_y`, shape (n_samples, n_classes)."""
        A = self._signatures(self.attributes(descriptions))
        return unit_rows(check_features(X, name="X", columns=len(self.weights_))) @ (self.weights_ @ A.T)

    def _learn_mean(self, attributes: Array) -> Self:
        self.mean_ = attributes.mean(axis=0) if self.centre else np.float32(0)
        return self

    def _signatures(self, attributes: Array) -> Array:
        return unit_rows(attributes - self.mean_)


class _NormalEquations:
    """`G P (I + β AᵀA) + P (α M + ρ I) = (1 + α + β) C`, solved for any weights.

    Here `G = XᵀX / N`, `M = A_YᵀA_Y / N` and `C = XᵀA_Y / N`. G is decomposed once. For each choice of
    weights `Vᵀ (I + β AᵀA) V = I` and `Vᵀ (α M + ρ I) V = diag(μ)` is a symmetric eigenproblem, no larger
    than the number of classes because C vanishes outside the span of the descriptions. With
    `P = Q Z Vᵀ` there remains `(λ_i + μ_j) Z_ij = (1 + α + β) (Qᵀ C V)_ij`.
    """

    def __init__(self, X: Array, codes: Codes, A: Array) -> None:
        values, self.vectors = eigh(
            (X.T @ X).astype(np.float64) / len(X), overwrite_a=True, check_finite=False
        )
        # Rounding may leave eigenvalues of a Gram matrix slightly below zero.
        self.values = np.maximum(values, 0)
        self.basis = svd(A.astype(np.float64), full_matrices=False, check_finite=False)[2]
        signatures = A @ self.basis.T
        share = np.bincount(codes, minlength=len(A)) / len(X)
        self.gram = signatures.T @ signatures
        self.weighted_gram = (signatures.T * share) @ signatures
        self.cross = (class_sums(X, codes, len(A)) / len(X) @ self.vectors).T @ signatures

    def solve(self, alpha: float, beta: float, rho: float) -> Array:
        """Return P, shape (n_features, n_attributes)."""
        check_not_negative(alpha=alpha, beta=beta)
        check_positive(rho=rho)
        identity = np.eye(len(self.gram))
        mu, V = eigh(
            alpha * self.weighted_gram + rho * identity, identity + beta * self.gram, check_finite=False
        )
        Z = (1 + alpha + beta) * (self.cross @ V) / (self.values[:, None] + mu)
        return ((self.vectors @ (Z @ V.T)) @ self.basis).astype(np.float32)
