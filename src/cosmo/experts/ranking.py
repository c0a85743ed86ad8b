"""SJE, DeViSE and ALE: one bilinear map between features and descriptions, three ranking losses.

- Akata, Reed, Walter, Lee & Schiele, "Evaluation of output embeddings for fine-grained image
  classification", CVPR 2015 (SJE).
- Frome et al., "DeViSE: a deep visual-semantic embedding model", NIPS 2013.
- Akata, Perronnin, Harchaoui & Schmid, "Label-embedding for image classification", TPAMI 2016 (ALE).
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import svd

from cosmo._core.validation import check_features
from cosmo.experts._directions import Directions
from cosmo.experts.base import UnseenExpert

__all__ = ["ALE", "SJE", "DeViSE", "RankingExpert"]

logger = logging.getLogger(__name__)

BATCH = 64


class RankingExpert(UnseenExpert):
    """Score `F(x, y) = xᵀ W a_y`, with W such that the true class outranks the other seen classes.

    A wrong class y violates the margin by `h_y = [Δ + F(x, y) - F(x, y_true)]_+`. Subclasses say in
    `violator_weights` how much each violation counts; what they share is the descent: mini-batches of 64
    rows in random order, constant learning rate, W zero at first and averaged over all steps.

    Features are standardised, then scaled to unit length per sample; on held-out classes of CUB, SJE
    with unit length alone learns much slower and ends 2 points lower. The mean of the seen classes is
    taken off every description, and each is scaled to unit length.

    Parameters
    ----------
    learning_rate : float or None
        Step size, for the mean sub-gradient of a mini-batch. None chooses on held-out classes.
    epochs : int or None
        Passes over the samples. None chooses on held-out classes, that is, stops early.
    margin : float
        Δ. As W starts from zero, only the ratio of learning rate and margin matters, so it is not chosen.
    seed : int
        Draws the order of the samples.
    temperature : float or None
        Of the soft-max over scores. None fits it on held-out rows.
    """

    grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "learning_rate": (1.0, 3.0, 10.0, 30.0),
        "epochs": (1, 3, 10, 20, 40),
    }
    trained_apart: ClassVar[str | None] = "learning_rate"

    def __init__(
        self,
        learning_rate: float | None = None,
        epochs: int | None = None,
        *,
        margin: float = 1.0,
        seed: int = 0,
        temperature: float | None = None,
    ) -> None:
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.margin = margin
        self.seed = seed
        self.temperature = temperature

    @staticmethod
    @abstractmethod
    def violator_weights(hinge: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return how much each violation counts.

        Parameters
        ----------
        hinge : array of shape (n_samples, n_classes)
            `h_y` of each class, zero at the true one.

        Returns
        -------
        array of shape (n_samples, n_classes)
            The sub-gradient of the loss of each sample with respect to `hinge`; zero where that is zero.
        """

    def _fit(
        self, X: NDArray[np.float32], codes: NDArray[np.intp], attributes: NDArray[np.float32], **decided: Any
    ) -> None:
        self.directions_ = Directions.learn(X, attributes)
        path = self._train(
            self.directions_.features(X),
            codes,
            self.directions_.signatures(attributes),
            decided["learning_rate"],
            [decided["epochs"]],
        )
        self.weights_ = next(path)

    def _candidates(
        self, X: NDArray[np.float32], codes: NDArray[np.intp], table: pd.DataFrame
    ) -> Iterator[Self]:
        """Train once per learning rate, and yield the state at each number of epochs."""
        directions = Directions.learn(X, table.to_numpy())
        Z, A = directions.features(X), directions.signatures(table.to_numpy())
        stops = sorted(self.grid["epochs"]) if self.epochs is None else [self.epochs]
        for rate in self.grid["learning_rate"] if self.learning_rate is None else (self.learning_rate,):
            for epochs, weights in zip(stops, self._train(Z, codes, A, rate, stops), strict=True):
                candidate = self._with(table.columns, learning_rate=rate, epochs=epochs)
                candidate.directions_, candidate.weights_ = directions, weights
                yield candidate

    def scores(self, X: ArrayLike, descriptions: pd.DataFrame) -> NDArray[np.float32]:
        """Return `xᵀ W a_y`, shape (n_samples, n_classes)."""
        A = self.directions_.signatures(self.attributes(descriptions))
        X = check_features(X, name="X", columns=len(self.directions_.mean))
        return self.directions_.features(X) @ (self.weights_ @ A.T)

    def _train(
        self,
        Z: NDArray[np.float32],
        codes: NDArray[np.intp],
        A: NDArray[np.float32],
        rate: float,
        stops: Sequence[int],
    ) -> Iterator[NDArray[np.float32]]:
        """Yield the averaged W, shape (n_features, n_attributes), after each number of epochs in `stops`."""
        _check_parameters(rate, self.margin, stops)
        # W stays in the span of the descriptions, which has no more dimensions than there are classes.
        basis = svd(A, full_matrices=False, check_finite=False)[2]
        signatures = A @ basis.T
        W = np.zeros((Z.shape[1], len(basis)), dtype=np.float32)
        total = np.zeros_like(W)
        rng = np.random.default_rng(self.seed)
        steps = 0
        for epoch in range(1, int(stops[-1]) + 1):
            order = rng.permutation(len(Z))
            violation = 0.0
            for start in range(0, len(Z), BATCH):
                rows = order[start : start + BATCH]
                batch = Z[rows]
                hinge = margin_violations((batch @ W) @ signatures.T, codes[rows], self.margin)
                pull = self.violator_weights(hinge)
                pull[np.arange(len(rows)), codes[rows]] = -pull.sum(axis=1)
                W -= (rate / len(rows)) * (batch.T @ (pull @ signatures))
                total += W
                steps += 1
                violation += float((hinge > 0).sum())
            logger.debug("epoch %d, rate %g: %.2f violations per sample", epoch, rate, violation / len(Z))
            if epoch in stops:
                yield (total / np.float32(steps)) @ basis


class DeViSE(RankingExpert):
    """Bilinear map in which every violation counts: `loss = Σ_y h_y`.

    Steps follow the sub-gradient of this loss. The authors' practical version moves away from the first
    violator found in random order only: the same direction in expectation, at unit length for each sample.
    See `RankingExpert` for the parameters.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(rng.random((6, 3)), index=list("abcdef"))
    >>> y = np.repeat(list("abcde"), 20)
    >>> X = table.loc[y].to_numpy() @ rng.normal(size=(3, 8)) + 0.01 * rng.normal(size=(100, 8))
    >>> expert = DeViSE(learning_rate=1.0, epochs=5, temperature=0.1).fit(X, y, table)
    >>> expert.predict_proba(X[:2], table).shape  # "f" had no samples
    (2, 6)
    """

    reference: ClassVar[str] = "Frome et al., NIPS 2013"

    @staticmethod
    def violator_weights(hinge: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return one for every violation."""
        return (hinge > 0).astype(np.float32)


class SJE(RankingExpert):
    """Bilinear map in which the worst violation counts: `loss = max_y h_y`.

    See `RankingExpert` for the parameters.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(rng.random((6, 3)), index=list("abcdef"))
    >>> y = np.repeat(list("abcde"), 20)
    >>> X = table.loc[y].to_numpy() @ rng.normal(size=(3, 8)) + 0.01 * rng.normal(size=(100, 8))
    >>> expert = SJE(learning_rate=1.0, epochs=5, temperature=0.1).fit(X, y, table)
    >>> expert.predict_proba(X[:2], table).shape  # "f" had no samples
    (2, 6)
    """

    reference: ClassVar[str] = "Akata et al., CVPR 2015"

    @staticmethod
    def violator_weights(hinge: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return one for the worst violation, shared among equals so that their order does not matter."""
        worst = (hinge > 0) & (hinge == hinge.max(axis=1, keepdims=True))
        return worst / np.maximum(worst.sum(axis=1, keepdims=True), 1).astype(np.float32)


class ALE(RankingExpert):
    """Bilinear map in which violations count by rank: `loss = (ℓ_r / r) Σ_y h_y`, `ℓ_r = Σ_{j≤r} 1/j`.

    Here r is the number of classes that violate the margin; the authors estimate it by sampling. A
    mistake near the top of the ranking thus costs more than one further down. See `RankingExpert` for
    the parameters.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(rng.random((6, 3)), index=list("abcdef"))
    >>> y = np.repeat(list("abcde"), 20)
    >>> X = table.loc[y].to_numpy() @ rng.normal(size=(3, 8)) + 0.01 * rng.normal(size=(100, 8))
    >>> expert = ALE(learning_rate=1.0, epochs=5, temperature=0.1).fit(X, y, table)
    >>> expert.predict_proba(X[:2], table).shape  # "f" had no samples
    (2, 6)
    """

    reference: ClassVar[str] = "Akata et al., TPAMI 2016"

    @staticmethod
    def violator_weights(hinge: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return `ℓ_r / r` for every violation."""
        violates = hinge > 0
        rank = violates.sum(axis=1)
        harmonic = np.r_[0, np.cumsum(1 / np.arange(1, hinge.shape[1] + 1))]
        weight = harmonic[rank] / np.maximum(rank, 1)
        return (violates * weight[:, None]).astype(np.float32)


def margin_violations(
    scores: NDArray[np.float32], truth: NDArray[np.intp], margin: float
) -> NDArray[np.float32]:
    """Return `[Δ + F(x, y) - F(x, y_true)]_+`, zero at the true class, shape (n_samples, n_classes)."""
    rows = np.arange(len(scores))
    hinge = np.maximum(scores - scores[rows, truth][:, None] + np.float32(margin), 0)
    hinge[rows, truth] = 0
    return hinge


def _check_parameters(rate: float, margin: float, stops: Sequence[int]) -> None:
    for name, value in (("learning_rate", rate), ("margin", margin)):
        if not value > 0:
            raise ValueError(f"{name} must be positive, got {value}")
    for epochs in stops:
        if int(epochs) != epochs or epochs < 1:
            raise ValueError(f"epochs must be a whole number of at least 1, got {epochs}")
