"""Building blocks of linear experts: transforms, class statistics, Adam, averaged gradient descent."""

from __future__ import annotations

import logging
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, svd
from scipy.sparse import csr_array

from cosmo.experts.base import SHARE, Array, Codes, UnseenExpert, check_rule

logger = logging.getLogger(__name__)

Float = TypeVar("Float", np.float32, np.float64)
Step = Callable[[Array, NDArray[np.intp]], float]


def unit_rows(values: NDArray[Float]) -> NDArray[Float]:
    """Return the rows scaled to unit length; rows of zeros are unchanged."""
    length = np.linalg.norm(values, axis=1, keepdims=True)
    return (values / np.where(length > 0, length, 1)).astype(values.dtype, copy=False)


def class_sums(X: Array, codes: Codes, n_classes: int) -> Array:
    """Return `YᵀX`, the sum of the rows of each class, shape (n_classes, n_features)."""
    ones = np.ones(len(codes), dtype=np.float32)
    one_hot = csr_array((ones, (codes, np.arange(len(codes)))), shape=(n_classes, len(codes)))
    return one_hot @ X


class Adam:
    """Adam (Kingma & Ba, ICLR 2015) on one array, in place; `by_row`, a row has one second moment."""

    def __init__(self, weights: Array, learning_rate: float, *, by_row: bool = False) -> None:
        self.weights, self.learning_rate, self.by_row = weights, learning_rate, by_row
        self.mean, self.square = np.zeros_like(weights), np.zeros_like(weights[:, :1] if by_row else weights)
        self.n_steps = 0

    def update(self, gradient: Array) -> None:
        """Take one step down the gradient."""
        self.n_steps += 1
        self.mean += np.float32(0.1) * (gradient - self.mean)
        square = np.square(gradient)
        if self.by_row:
            square = square.mean(axis=1, keepdims=True)
        square -= self.square
        self.square += np.float32(0.001) * square
        size = np.sqrt(self.square, out=square)
        size += np.float32(1e-8 * np.sqrt(1 - 0.999**self.n_steps))
        rate = self.learning_rate * np.sqrt(1 - 0.999**self.n_steps) / (1 - 0.9**self.n_steps)
        step = self.mean / size
        step *= np.float32(rate)
        self.weights -= step


@dataclass(frozen=True, eq=False)
class Directions:
    """Standardised features and centred descriptions, both scaled to unit length."""

    mean: Array
    scale: Array
    attribute_mean: Array

    @classmethod
    def learn(cls, X: Array, attributes: Array) -> Directions:
        """Compute mean and spread of each feature, and the mean description."""
        spread = X.std(axis=0)
        scale = np.where(spread > 0, spread, 1).astype(np.float32)
        return cls(X.mean(axis=0), scale, attributes.mean(axis=0))

    def features(self, X: Array) -> Array:
        """Return features standardised, then scaled to unit length per sample."""
        return unit_rows((X - self.mean) / self.scale)

    def signatures(self, attributes: Array) -> Array:
        """Return descriptions less their mean over the seen classes, scaled to unit length."""
        return unit_rows(attributes - self.attribute_mean)


class GradientExpert(UnseenExpert):
    """Base class of experts with one matrix W between features and descriptions, trained by gradients.

    Mini-batches are drawn in random order. W starts at zero and is averaged over all steps: accuracy then
    rises smoothly with the epochs, and early stopping does not select noise. Features are standardised,
    then scaled to unit length per sample; descriptions are centred, then scaled to unit length. W stays in
    the span of the descriptions of the seen classes.

    Subclasses have the parameters `epochs`, `seed` and the one named by `searched`, and define `_descent`.
    """

    batch_size: ClassVar[int]
    searched: ClassVar[str]  # parameter for each value of which W is trained anew
    patience: ClassVar[float] = math.inf  # values of `epochs` without improvement after which training stops

    epochs: int | None
    seed: int

    @abstractmethod
    def _descent(self, W: Array, A: Array, value: float) -> Step:
        """Return a function that updates W from a mini-batch of rows and codes, and returns its loss."""

    def _fit(self, X: Array, codes: Codes, attributes: Array, **decided: Any) -> None:
        self.directions_ = Directions.learn(X, attributes)
        Z, A = self.directions_.features(X), self.directions_.signatures(attributes)
        self.weights_ = next(self._train(Z, codes, A, decided[self.searched], [decided["epochs"]]))

    def _candidates(self, X: Array, codes: Codes, table: pd.DataFrame) -> Iterator[Self]:
        """Train once per value of the searched parameter, and yield the state at each number of epochs."""
        directions = Directions.learn(X, table.to_numpy())
        Z, A = directions.features(X), directions.signatures(table.to_numpy())
        stops = sorted(self._values("epochs"))
        for value in self._values(self.searched):
            best, stale = -math.inf, 0
            for epochs, weights in zip(stops, self._train(Z, codes, A, value, stops), strict=True):
                candidate = self._with(table.columns, **{self.searched: value, "epochs": epochs})
                candidate.directions_, candidate.weights_ = directions, weights
                yield candidate
                if hasattr(candidate, "accuracy_"):
                    stale = 0 if candidate.accuracy_ > best else stale + 1
                    best = max(best, candidate.accuracy_)
                if stale == self.patience:
                    break

    def _train(self, Z: Array, codes: Codes, A: Array, value: float, stops: Sequence[int]) -> Iterator[Array]:
        """Yield the averaged W, shape (n_features, n_attributes), after each number of epochs in `stops`."""
        basis = svd(A, full_matrices=False, check_finite=False)[2]
        W = np.zeros((Z.shape[1], len(basis)), dtype=np.float32)
        total, n_steps = np.zeros_like(W), 0
        descend = self._descent(W, A @ basis.T, value)
        rng = np.random.default_rng(self.seed)
        for epoch in range(1, int(stops[-1]) + 1):
            order = rng.permutation(len(Z))
            loss = 0.0
            for start in range(0, len(Z), self.batch_size):
                rows = order[start : start + self.batch_size]
                loss += descend(Z[rows], codes[rows]) * len(rows) / len(Z)
                total += W
                n_steps += 1
            logger.debug("%s %g, epoch %d: loss %.4f", self.searched, value, epoch, loss)
            if epoch in stops:
                yield (total / np.float32(n_steps)) @ basis


TRANSFORMS: dict[str, Callable[[Array], Array]] = {
    "none": lambda X: X,
    "roots": lambda X: np.copysign(np.sqrt(np.abs(X)), X),
    "unit": unit_rows,
    "unit roots": lambda X: unit_rows(TRANSFORMS["roots"](X)),
}


def transformed(X: Array, name: str) -> Array:
    """Return the rows by the transform of this name: square roots keep the sign, and unit is the length."""
    return TRANSFORMS[name](X)


Matrix = NDArray[np.float64]


class Classes(NamedTuple):
    """Means of classes and the covariance of samples around them."""

    means: Matrix
    covariance: Matrix

    @property
    def mean(self) -> Matrix:
        """Mean of the class means."""
        return self.means.mean(axis=0)

    @property
    def centred(self) -> Matrix:
        """Class means less their mean."""
        return self.means - self.mean

    @property
    def variance(self) -> float:
        """Mean of the diagonal of the covariance; 1 if that is 0."""
        return float(np.trace(self.covariance) / len(self.covariance)) or 1.0

    @classmethod
    def learn(cls, X: Array, codes: Codes) -> Classes:
        """Compute means and covariance of the rows of each class."""
        sizes = np.bincount(codes)
        means = class_sums(X, codes, len(sizes)).astype(np.float64) / sizes[:, None]
        # Centred first, so that single precision is enough.
        rows = X - means.astype(np.float32)[codes]
        return cls(means, (rows.T @ rows).astype(np.float64) / len(X))

    def solve(self, shrinkage: float, right: Matrix) -> Matrix:
        """Return `C⁻¹ right`, with C the covariance shrunk towards a multiple of the identity."""
        check_rule(SHARE, shrinkage=shrinkage)
        shrunk = (1 - shrinkage) * self.covariance
        np.einsum("dd->d", shrunk)[...] += max(shrinkage, 1e-9) * self.variance
        # The transpose is the same matrix, in the order of LAPACK.
        factor = cho_factor(shrunk.T, lower=True, overwrite_a=True, check_finite=False)
        return cho_solve(factor, right, check_finite=False)
