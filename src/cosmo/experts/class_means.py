"""Experts of class means, which are estimated from descriptions in closed form: Gaussian classes, cosines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import product
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

    closed_form: ClassVar[bool] = True
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
            for ridge, width in product(self._values("ridge"), self._values("width")):
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


@dataclass(eq=False, repr=False)
class SimilarityExpert(UnseenExpert):
    """Score `cos(x, a_y)`, after an optional light adaptation learned from seen classes.

    For sentence encoders and models with two towers, such as CLIP. With `whitening` and `adapter` 0, this is
    the plain cosine, and only the temperature is fitted. Otherwise the means of the seen classes are
    subtracted from samples and descriptions, and

    - *whitening*: both are multiplied by `S^(-1/2)`, with `S` a weighted mean of the covariance of samples
      around the mean of their class and a multiple of the identity, so that directions in which samples of
      one class differ count less;
    - *adapter*: a description is replaced by an estimate of the mean of its samples, `a + aB`; `B` is the
      ridge regression of the steps from descriptions of seen classes to their means.

    Parameters
    ----------
    whitening : float or None, default=None
        Weight of the covariance in `S`, from 0 (not used) to below 1. None chooses on held-out classes.
    adapter : float or None, default=None
        Strength s of the adapter, from 0 (not used) to below 1; the penalty of the regression is
        `(1 - s) / s`. None chooses on held-out classes.
    temperature : float or None, default=None
        Temperature of the soft-max over cosines. None fits it on held-out rows.
    prompts : {"average", "best"}, default="average"
        Of several sentences of a class, their average, in the space of the samples, or the best match. For
        "best", a row of `descriptions` has the embeddings of a class's sentences side by side; `fit_model`
        makes it so.

    References
    ----------
    Radford et al., "Learning transferable visual models from natural language supervision", ICML 2021.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(rng.normal(size=(6, 8)), index=list("abcdef"))
    >>> y = np.repeat(list("abcde"), 20)
    >>> X = table.loc[y].to_numpy() + 0.5 * rng.normal(size=(100, 8))
    >>> expert = SimilarityExpert().fit(X, y, table)
    >>> expert.predict_proba(table, table).argmax(axis=1)  # "f" had no samples
    array([0, 1, 2, 3, 4, 5])
    """

    closed_form: ClassVar[bool] = True
    reference: ClassVar[str] = "cosine in a common space, as in CLIP (Radford et al., ICML 2021)"
    needs: ClassVar[str] = "embeddings by the encoder of the samples"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "whitening": (0.0, 0.2, 0.4, 0.6, 0.8),
        "adapter": (0.0, 0.3, 0.5, 0.7, 0.8, 0.9),
    }
    ranges: ClassVar[dict[str, str]] = {"whitening": SHARE, "adapter": SHARE}

    whitening: float | None = None
    adapter: float | None = None
    _: KW_ONLY
    temperature: float | None = None
    prompts: str = "average"

    def _fit(self, X: Array, codes: Codes, attributes: Array, **decided: Any) -> None:
        self._adapt(self._learn(X, codes, attributes), decided["whitening"], decided["adapter"])

    def _learn(self, X: Array, codes: Codes, attributes: Array) -> tuple[Array, Array, Matrix, Matrix]:
        """Return means and descriptions of the seen classes, and variances and axes of their samples."""
        self._check_joint_space(X, attributes)
        classes = Classes.learn(X, codes)
        variances, axes = eigh(classes.covariance, overwrite_a=True, check_finite=False)
        means = classes.means.astype(np.float32)
        # Rounding may leave variances slightly below zero.
        return means, average_prompts(attributes, X.shape[1]), np.maximum(variances, 0), axes

    def _candidates(self, X: Array, codes: Codes, table: pd.DataFrame) -> Iterator[Self]:
        seen = self._learn(X, codes, table.to_numpy())
        for whitening, adapter in product(self._values("whitening"), self._values("adapter")):
            candidate = self._with(table.columns, whitening=whitening, adapter=adapter)
            candidate._adapt(seen, whitening, adapter)
            yield candidate

    def _adapt(self, seen: tuple[Array, Array, Matrix, Matrix], whitening: float, adapter: float) -> None:
        means, descriptions, variances, axes = seen
        centred = whitening > 0 or adapter > 0
        self.sample_mean_ = (means.mean(axis=0) * centred).astype(np.float32)
        self.description_mean_ = (descriptions.mean(axis=0) * centred).astype(np.float32)
        self.whitener_ = np.eye(len(axes), dtype=np.float32)
        if whitening:
            # Relative to the mean variance, which makes it invariant to scale.
            mixed = (1 - whitening) + whitening * variances / (variances.mean() or 1.0)
            self.whitener_ = ((axes / np.sqrt(mixed)) @ axes.T).astype(np.float32)
        self.step_ = np.zeros_like(self.whitener_)
        if adapter:
            A = self._directions(descriptions, self.description_mean_)
            step = self._directions(means, self.sample_mean_) - A
            gram = (A @ A.T).astype(np.float64)
            gram[np.diag_indices_from(gram)] += (1 - adapter) / adapter
            self.step_ = (A.T @ solve(gram, step, assume_a="pos", check_finite=False)).astype(np.float32)

    def scores(self, X: ArrayLike, descriptions: pd.DataFrame) -> Array:
        """Return cosines, shape (n_samples, n_classes)."""
        X, A = check_features(X, name="X"), self.attributes(descriptions)
        self._check_joint_space(X, A)
        cosines: Array = self._directions(X, self.sample_mean_) @ self.targets(A).T
        return cosines if A.shape[1] == X.shape[1] else cosines.reshape(len(X), len(A), -1).max(axis=2)

    def targets(self, attributes: Array) -> Array:
        """Return the adapted descriptions of unit length, all sentences of a class one after the other."""
        sentences = attributes.reshape(-1, len(self.sample_mean_))
        A = self._directions(sentences, self.description_mean_)
        return unit_rows(A + A @ self.step_)

    def _check_joint_space(self, X: Array, descriptions: Array) -> None:
        if self.prompts not in ("average", "best"):
            raise ValueError(f"prompts must be 'average' or 'best', got {self.prompts!r}")
        n = X.shape[1]
        if descriptions.shape[1] != n and (self.prompts == "average" or descriptions.shape[1] % n):
            raise ValueError(
                f"X has {n} features but the descriptions have {descriptions.shape[1]} columns: "
                "SimilarityExpert compares them as they are, so one encoder must make both; "
                "ESZSL takes descriptions of any kind"
            )

    def _directions(self, rows: Array, mean: Array) -> Array:
        return unit_rows(np.matmul(rows - mean, self.whitener_))


def average_prompts(descriptions: Array, n_features: int) -> Array:
    """Return the average of a class's embeddings, of their mean length; `descriptions` has them in a row."""
    if descriptions.shape[1] == n_features:
        return descriptions
    prompts = descriptions.reshape(len(descriptions), -1, n_features)
    return unit_rows(prompts.mean(axis=1)) * np.linalg.norm(prompts, axis=2).mean(axis=1, keepdims=True)
