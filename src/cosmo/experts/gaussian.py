"""Gaussian classes: means of unseen classes by kernel regression, one covariance, all in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.linalg import eigh, solve

from cosmo._core.validation import check_features
from cosmo.experts._linear import Classes, Matrix, unit_rows
from cosmo.experts.base import NOT_NEGATIVE, POSITIVE, SHARE, Array, Codes, UnseenExpert


@dataclass(eq=False, repr=False)
class GaussianExpert(UnseenExpert):
    """Score `log N(x; m_y, C)` up to a constant, with class means predicted from descriptions.

    The mean of a class is a kernel ridge regression on its description (the posterior mean of a Gaussian
    process), learned from the means of the seen classes. C is the covariance of samples around the mean of
    their class, shrunk towards a multiple of the identity. Scores are linear in the features. The
    publication has a diagonal covariance for each class, predicted like the mean.

    Descriptions are centred and scaled to unit length. With c the cosine of two of them, the kernel is c if
    `width` is 0, else `exp(width (c - 1))`.

    Parameters
    ----------
    shrinkage : float or None, default=None
        Weight of the identity in C, from 0 to below 1. None chooses on held-out classes, as for the next two.
    ridge : float or None, default=None
        Penalty of the regression, relative to the mean eigenvalue of the kernel matrix.
    width : float or None, default=None
    temperature : float or None, default=None
        Temperature of the soft-max over scores. None fits it on held-out rows.

    References
    ----------
    Verma & Rai, "A simple exponential family framework for zero-shot learning", ECML PKDD 2017.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> GaussianExpert(0.2, 0.1, 0, temperature=1.0).fit(X[:50], y[:50], table).predict_proba(X, table).shape
    (100, 20)
    """

    reference: ClassVar[str] = "Verma & Rai, ECML PKDD 2017, with one covariance"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "shrinkage": (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9),
        "ridge": (0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
        "width": (0.0, 0.3, 1.0),
    }
    ranges: ClassVar[dict[str, str]] = {"shrinkage": SHARE, "ridge": POSITIVE, "width": NOT_NEGATIVE}

    shrinkage: float | None = None
    ridge: float | None = None
    width: float | None = None
    _: KW_ONLY
    temperature: float | None = None

    def _fit(self, X: Array, codes: Codes, attributes: Array, **decided: Any) -> None:
        classes = Classes.learn(X, codes)
        solution = classes.solve(decided["shrinkage"], classes.centred.T)
        self._regress(classes, solution, attributes, decided["ridge"], decided["width"])

    def _candidates(self, X: Array, codes: Codes, table: pd.DataFrame) -> Iterator[Self]:
        classes = Classes.learn(X, codes)
        values, vectors = eigh(classes.covariance, check_finite=False)
        rotated = vectors.T @ classes.centred.T
        for shrinkage in self._values("shrinkage"):
            spread = (1 - shrinkage) * np.maximum(values, 0) + shrinkage * classes.variance
            solution = vectors @ (rotated / np.maximum(spread, 1e-9 * classes.variance)[:, None])
            for ridge in self._values("ridge"):
                for width in self._values("width"):
                    one = self._with(table.columns, shrinkage=shrinkage, ridge=ridge, width=width)
                    one._regress(classes, solution, table.to_numpy(), ridge, width)
                    yield one

    def _regress(
        self, classes: Classes, solution: Matrix, attributes: Array, ridge: float, width: float
    ) -> None:
        """Learn how discriminants depend on descriptions; `solution` is `C⁻¹ (M - mean)ᵀ`."""
        self.attribute_mean_ = attributes.mean(axis=0)
        self.signatures_ = unit_rows(attributes - self.attribute_mean_)
        kernel = _kernel(self.signatures_, self.signatures_, width)
        penalised = kernel + ridge * (np.trace(kernel) / len(kernel) or 1.0) * np.eye(len(kernel))
        inverse = solve(penalised, np.eye(len(kernel)), assume_a="pos", check_finite=False)
        directions = solution @ inverse
        self.directions_ = directions.astype(np.float32)
        self.gram_ = inverse @ classes.centred @ directions
        self.offset_ = classes.mean @ directions

    def scores(self, X: ArrayLike, descriptions: pd.DataFrame) -> Array:
        """Return the log-density of each class up to a constant, shape (n_samples, n_classes)."""
        rows, A = check_features(X, name="X", columns=len(self.directions_)), self.attributes(descriptions)
        return rows @ self.class_weights(A) + self.class_biases(A)

    def class_weights(self, attributes: Array) -> Array:
        """Return `C⁻¹ m_y` less the part that all classes share, shape (n_features, n_classes)."""
        return self.directions_ @ self._similarity(attributes).T.astype(np.float32)

    def class_biases(self, attributes: Array) -> Array:
        """Return the part of the scores that does not depend on the sample, shape (n_classes,)."""
        k = self._similarity(attributes)
        bias: Array = -(k @ self.offset_) - np.einsum("ij,ij->i", k @ self.gram_, k) / 2
        return bias.astype(np.float32)

    def _similarity(self, attributes: Array) -> Matrix:
        return _kernel(unit_rows(attributes - self.attribute_mean_), self.signatures_, self.decided_["width"])


def _kernel(rows: Array, columns: Array, width: float) -> Matrix:
    cosines = rows.astype(np.float64) @ columns.T.astype(np.float64)
    return np.exp(width * (cosines - 1)) if width else cosines
