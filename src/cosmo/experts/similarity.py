"""Similarity of sample and description, for encoders that embed both in one space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import product
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh, solve

from cosmo._core.validation import check_features
from cosmo.experts._linear import unit_rows
from cosmo.experts.base import SHARE, Array, Codes, UnseenExpert


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

    def _learn(self, X: Array, codes: Codes, attributes: Array) -> _Seen:
        self._check_joint_space(X, attributes)
        return _Seen.learn(X, codes, average_prompts(attributes, X.shape[1]))

    def _candidates(self, X: Array, codes: Codes, table: pd.DataFrame) -> Iterator[Self]:
        seen = self._learn(X, codes, table.to_numpy())
        for whitening, adapter in product(self._values("whitening"), self._values("adapter")):
            candidate = self._with(table.columns, whitening=whitening, adapter=adapter)
            candidate._adapt(seen, whitening, adapter)
            yield candidate

    def _adapt(self, seen: _Seen, whitening: float, adapter: float) -> None:
        identity = np.eye(seen.means.shape[1])
        centred = whitening > 0 or adapter > 0
        self.sample_mean_ = (seen.means.mean(axis=0) * centred).astype(np.float32)
        self.description_mean_ = (seen.descriptions.mean(axis=0) * centred).astype(np.float32)
        self.whitener_ = (seen.whitener(whitening) if whitening else identity).astype(np.float32)
        self.step_ = np.zeros_like(self.whitener_)
        if adapter:
            A = self._directions(seen.descriptions, self.description_mean_)
            step = self._directions(seen.means, self.sample_mean_) - A
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


class _Seen(NamedTuple):
    """Means and descriptions of the seen classes, and the covariance of samples within classes."""

    means: Array
    descriptions: Array
    variances: NDArray[np.float64]
    axes: NDArray[np.float64]

    @classmethod
    def learn(cls, X: Array, codes: Codes, descriptions: Array) -> _Seen:
        sizes = np.bincount(codes)
        sums = np.add.reduceat(X[np.argsort(codes, kind="stable")], np.cumsum(sizes) - sizes)
        means = (sums / sizes[:, None]).astype(np.float32)
        residuals = X - means[codes]
        covariance = (residuals.T @ residuals).astype(np.float64) / len(X)
        variances, axes = eigh(covariance, overwrite_a=True, check_finite=False)
        # Rounding may leave variances slightly below zero.
        return cls(means, descriptions, np.maximum(variances, 0), axes)

    def whitener(self, weight: float) -> NDArray[np.float64]:
        """Return `((1 - w) I + w C / v)^(-1/2)`, with v the mean variance, invariant to scale."""
        mean = self.variances.mean() or 1.0
        return (self.axes / np.sqrt((1 - weight) + weight * self.variances / mean)) @ self.axes.T


def average_prompts(descriptions: Array, n_features: int) -> Array:
    """Return the average of a class's embeddings, of their mean length; `descriptions` has them in a row."""
    if descriptions.shape[1] == n_features:
        return descriptions
    prompts = descriptions.reshape(len(descriptions), -1, n_features)
    return unit_rows(prompts.mean(axis=1)) * np.linalg.norm(prompts, axis=2).mean(axis=1, keepdims=True)
