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
from cosmo.experts.base import Array, Codes, UnseenExpert, check_shares


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

    whitening: float | None = None
    adapter: float | None = None
    _: KW_ONLY
    temperature: float | None = None

    def _fit(self, X: Array, codes: Codes, attributes: Array, **decided: Any) -> None:
        self._adapt(_Seen.learn(X, codes, attributes), decided["whitening"], decided["adapter"])

    def _candidates(self, X: Array, codes: Codes, table: pd.DataFrame) -> Iterator[Self]:
        seen = _Seen.learn(X, codes, table.to_numpy())
        for whitening, adapter in product(self._values("whitening"), self._values("adapter")):
            candidate = self._with(table.columns, whitening=whitening, adapter=adapter)
            candidate._adapt(seen, whitening, adapter)
            yield candidate

    def _adapt(self, seen: _Seen, whitening: float, adapter: float) -> None:
        check_shares(whitening=whitening, adapter=adapter)
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
        _check_joint_space(X, A)
        return self._directions(X, self.sample_mean_) @ self.targets(A).T

    def targets(self, attributes: Array) -> Array:
        """Return the adapted descriptions, of unit length."""
        A = self._directions(attributes, self.description_mean_)
        return unit_rows(A + A @ self.step_)

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
        _check_joint_space(X, descriptions)
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


def _check_joint_space(X: Array, descriptions: Array) -> None:
    if X.shape[1] != descriptions.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} features but the descriptions have {descriptions.shape[1]} columns: "
            "SimilarityExpert compares them as they are, so one encoder must make both; "
            "ESZSL takes descriptions of any kind"
        )
