"""Experts that combine linear classifiers: of attributes (DAP), of seen classes (SynC)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh
from scipy.optimize import minimize
from scipy.spatial.distance import cdist, pdist
from scipy.special import expit, softmax

from cosmo._core.validation import check_features
from cosmo.experts._linear import Directions, unit_rows
from cosmo.experts.base import POSITIVE, Array, Codes, UnseenExpert

logger = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class DAP(UnseenExpert):
    """Predict each attribute from the features, then the class whose attributes fit best.

    A class has an attribute if its value exceeds the attribute's mean over the seen classes. The
    attribute classifiers are logistic regressions on standardised features, fitted all at once. The
    score of a class is the sum over attributes of `log p(a_m|x) - log p(a_m)`, with `p(a_m)` the share
    of seen classes that have the attribute; attributes that all or no seen classes have are left out.

    Parameters
    ----------
    C : float or None, default=None
        Inverse regularisation of the attribute classifiers, as in scikit-learn, per sample. None
        chooses on held-out classes.
    temperature : float or None, default=None
        Temperature of the soft-max over scores. None fits it on held-out rows: scores that treat hundreds
        of attributes as independent are overconfident.

    References
    ----------
    Lampert, Nickisch & Harmeling, "Attribute-based classification for zero-shot visual object
    categorization", TPAMI 2014 (direct attribute prediction).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame([[0, 0], [0, 1], [1, 0], [1, 1]], index=list("abcd"))
    >>> y = np.repeat(list("abc"), 20)
    >>> X = table.loc[y].to_numpy() + 0.1 * rng.normal(size=(60, 2))
    >>> expert = DAP(C=1.0, temperature=1.0).fit(X, y, table)
    >>> table.index[expert.scores([[1.0, 1.0]], table).argmax()]
    'd'
    """

    reference: ClassVar[str] = "Lampert, Nickisch & Harmeling, TPAMI 2014"
    needs: ClassVar[str] = "attributes, of which some classes have more than others"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"C": (1e-4, 1e-3, 1e-2, 1e-1)}
    ranges: ClassVar[dict[str, str]] = {"C": POSITIVE}

    C: float | None = None
    _: KW_ONLY
    temperature: float | None = None

    def _fit(self, X: Array, codes: Codes, attributes: Array, **decided: Any) -> None:
        found = Directions.learn(X, attributes)
        self.mean_, self.scale_, self.cut_ = found.mean, found.scale, found.attribute_mean
        has = attributes > self.cut_
        self.used_ = has.any(axis=0) & ~has.all(axis=0)
        if not self.used_.any():
            raise ValueError("no attribute differs between the seen classes, so none can be learned")
        has = has[:, self.used_]
        self.prior_ = np.clip(has.mean(axis=0), 0.01, 0.99)
        self.weights_, self.bias_ = _logistic_regressions(
            (X - self.mean_) / self.scale_, has[codes].astype(np.float32), decided["C"]
        )

    def scores(self, X: ArrayLike, descriptions: pd.DataFrame) -> Array:
        """Return the log-odds of each class's attributes against their prior, (n_samples, n_classes)."""
        scaled = (check_features(X, name="X", columns=len(self.mean_)) - self.mean_) / self.scale_
        proba = np.clip(expit(scaled @ self.weights_ + self.bias_), 1e-6, 1 - 1e-6)
        present, absent = np.log(proba / self.prior_), np.log((1 - proba) / (1 - self.prior_))
        has = (self.attributes(descriptions) > self.cut_)[:, self.used_].astype(np.float32)
        total: Array = present @ has.T + absent @ (1 - has).T
        return total.astype(np.float32)


def _logistic_regressions(X: Array, has: Array, C: float) -> tuple[Array, Array]:
    """Minimise `mean log-loss + |w|² / (2·C·n)` for each column of `has`, all at once."""
    n, d = X.shape
    m = has.shape[1]

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        theta = flat.astype(np.float32).reshape(d + 1, m)
        value = X @ theta[:d] + theta[d]
        error = (expit(value) - has) / n
        data = (np.logaddexp(0, value) - has * value).sum(dtype=np.float64) / n
        gradient = np.empty((d + 1, m), dtype=np.float64)
        gradient[:d] = X.T @ error + theta[:d] / (C * n)
        gradient[d] = error.sum(axis=0)
        return data + float((theta[:d] ** 2).sum(dtype=np.float64)) / (2 * C * n), gradient.reshape(-1)

    found = minimize(
        loss, np.zeros((d + 1) * m), jac=True, method="L-BFGS-B", options={"maxiter": 200, "ftol": 1e-7}
    )
    theta = found.x.astype(np.float32).reshape(d + 1, m)
    return theta[:d], theta[d]


@dataclass(eq=False, repr=False)
class SynC(UnseenExpert):
    """Score `F(x, c) = w_c · x`, with `w_c` a mixture of phantom classifiers weighted by similarity.

    One classifier per seen class is learned by squared hinge loss, one class against the others, without
    bias, on features scaled to unit length. Descriptions are scaled to unit length, then divided by the
    median distance of two seen classes (equal ones aside); the similarity of two classes is
    `exp(-ρ d²)`, scaled to sum to one over the seen classes. Phantoms are such that the mixtures at the
    seen classes are the learned classifiers.

    Parameters
    ----------
    lam : float or None, default=None
        Regularises the classifiers: λ in `mean hinge² + λ/2 |W|²`, the mean being over samples and
        classes. None chooses on held-out classes.
    rho : float or None, default=None
        Decay of similarity with distance. None chooses on held-out classes.
    centre : bool, default=False
        Subtract the mean of the seen classes from every description first, as `ESZSL` does by default. False
        is the authors' version.
    temperature : float or None, default=None
        Temperature of the soft-max over scores. None fits it on held-out rows.

    References
    ----------
    Changpinyo, Chao, Gong & Sha, "Synthesized classifiers for zero-shot learning", CVPR 2016. This is the
    fast one-vs-other version, with one phantom class per seen class, at its description.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> SynC(lam=1e-4, rho=1.0, temperature=0.1).fit(X[:50], y[:50], table).predict_proba(X, table).shape
    (100, 20)
    """

    reference: ClassVar[str] = "Changpinyo, Chao, Gong & Sha, CVPR 2016"
    needs: ClassVar[str] = "descriptions that differ in direction"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "lam": tuple(2.0**e for e in range(-25, -9, 3)),
        "rho": tuple(2.0**e for e in range(-5, 6)),
    }
    ranges: ClassVar[dict[str, str]] = {"lam": POSITIVE, "rho": POSITIVE}

    lam: float | None = None
    rho: float | None = None
    _: KW_ONLY
    centre: bool = False
    temperature: float | None = None

    def check_suitable(self, table: pd.DataFrame) -> None:
        """Raise `ValueError` if no two descriptions differ in direction."""
        if len(table) > 1:
            self._with(table.columns)._learn_signatures(table.to_numpy())

    def _fit(self, X: Array, codes: Codes, attributes: Array, **decided: Any) -> None:
        self._learn_signatures(attributes)
        W = _Classifiers(unit_rows(X), codes, len(attributes)).solve(decided["lam"])
        self._learn_phantoms(W, decided["rho"])

    def _candidates(self, X: Array, codes: Codes, table: pd.DataFrame) -> Iterator[Self]:
        """Learn the classifiers once per λ, and yield the phantoms for each ρ."""
        problem = _Classifiers(unit_rows(X), codes, len(table))
        for lam in self._values("lam"):
            W = problem.solve(lam)
            for rho in self._values("rho"):
                candidate = self._with(table.columns, lam=lam, rho=rho)
                candidate._learn_signatures(table.to_numpy())
                candidate._learn_phantoms(W, rho)
                yield candidate

    def scores(self, X: ArrayLike, descriptions: pd.DataFrame) -> Array:
        """Return `w_c · x`, shape (n_samples, n_classes)."""
        W = self.classifiers(descriptions).astype(np.float32)
        return unit_rows(check_features(X, name="X", columns=W.shape[1])) @ W.T

    def classifiers(self, descriptions: pd.DataFrame) -> NDArray[np.float64]:
        """Return the synthesised classifiers, shape (n_classes, n_features)."""
        signatures = self._directions(self.attributes(descriptions)) / self.distance_
        return similarity(signatures, self.signatures_, self.decided_["rho"]) @ self.phantoms_

    def _learn_signatures(self, attributes: Array) -> None:
        self.mean_ = attributes.mean(axis=0) if self.centre else np.float32(0)
        directions = self._directions(attributes)
        distances = pdist(directions)
        apart = distances[distances > 1e-6]  # descriptions have single precision
        if not len(apart):
            raise ValueError("all descriptions have the same direction; give descriptions that differ")
        self.distance_ = float(np.median(apart))
        self.signatures_ = directions / self.distance_

    def _directions(self, attributes: Array) -> NDArray[np.float64]:
        return unit_rows((attributes - self.mean_).astype(np.float64))

    def _learn_phantoms(self, W: NDArray[np.float64], rho: float) -> None:
        # Small ρ makes the matrix nearly singular; the cut-off bounds the inverse.
        inverse = np.linalg.pinv(similarity(self.signatures_, self.signatures_, rho), rcond=1e-10)
        self.phantoms_ = inverse @ W


def similarity(rows: NDArray[np.float64], columns: NDArray[np.float64], rho: float) -> NDArray[np.float64]:
    """Return `exp(-ρ d²)` scaled so that each row sums to one, shape (n_rows, n_columns)."""
    shares: NDArray[np.float64] = softmax(-rho * cdist(rows, columns, "sqeuclidean"), axis=1)
    return shares


class _Classifiers:
    """One-vs-other classifiers for any λ, by L-BFGS preconditioned with the curvature of least squares."""

    def __init__(self, X: Array, codes: Codes, n_classes: int) -> None:
        self.codes, self.n_classes = codes, n_classes
        values, self.vectors = eigh((X.T @ X).astype(np.float64), overwrite_a=True, check_finite=False)
        # Rounding may leave eigenvalues of a Gram matrix slightly below zero.
        self.curvature = 2 * np.maximum(values, 0) / (len(X) * n_classes)
        self.rotated = X @ self.vectors.astype(np.float32)

    def solve(self, lam: float) -> NDArray[np.float64]:
        """Return W, shape (n_classes, n_features)."""
        scale = 1 / np.sqrt(self.curvature + lam)
        X = self.rotated * scale.astype(np.float32)
        found = minimize(
            one_vs_other_loss,
            np.zeros(len(scale) * self.n_classes),
            args=(X, self.codes, lam * scale**2),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 200, "ftol": 1e-8, "gtol": 1e-8},
        )
        logger.debug("λ = %g: loss %.6g after %d steps", lam, found.fun, found.nit)
        return found.x.reshape(len(scale), -1).T * scale @ self.vectors.T


def one_vs_other_loss(
    flat: NDArray[np.float64], X: NDArray[Any], codes: Codes, penalty: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Return `mean [1 - t x·w_c]_+² + Σ penalty w² / 2`, t = ±1 by class, and its gradient by flat W."""
    W = flat.reshape(X.shape[1], -1)
    value = X @ W.astype(X.dtype)
    rows = np.arange(len(X))
    # h = [1 + F]_+ for the others; dF of its square is 2h, and -2h for the true class.
    true = value[rows, codes]
    hinge = np.maximum(value + 1, 0, out=value)
    hinge[rows, codes] = -np.maximum(1 - true, 0)
    data = float(np.einsum("nc,nc->", hinge, hinge, dtype=np.float64)) / hinge.size
    gradient = (X.T @ hinge) * (2 / hinge.size) + penalty[:, None] * W
    return data + float(penalty @ (W**2).sum(axis=1)) / 2, gradient.reshape(-1)
