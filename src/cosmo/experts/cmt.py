"""CMT: samples mapped into the space of descriptions, and novelty detected there.

Socher, Ganjoo, Manning & Ng, "Zero-shot learning through cross-modal transfer", NIPS 2013.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from cosmo._core.extras import require
from cosmo._core.validation import check_features
from cosmo.experts._network import NetworkExpert, Weights, layer
from cosmo.experts._outliers import Neighbourhoods, learn_neighbourhoods, loop

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["CMT"]

_ROWS = 4096  # samples mapped at once


class CMT(NetworkExpert):
    """Map a sample to where the description of its class should lie; the nearest class wins.

    `φ(x) = W₂ tanh(W₁ x + b₁) + b₂` is fitted to the descriptions of the samples' classes by least squares.
    A sample that lands far from where the training samples did is taken for `novelty`: with the gate
    `NoveltyGate` this is the authors' own way of telling seen from unseen classes (CMT*).

    Parameters
    ----------
    neighbours : int
        Mapped training samples that a new one is compared with to tell how novel it is.
    epochs, hidden, learning_rate, weight_decay, batch_size, seed, checkpoints, temperature
        See `NetworkExpert`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(rng.random((6, 3)), index=list("abcdef"))
    >>> y = np.repeat(list("abcde"), 20)
    >>> X = table.loc[y].to_numpy() @ rng.normal(size=(3, 8)) + 0.01 * rng.normal(size=(100, 8))
    >>> expert = CMT(epochs=50, hidden=32, temperature=0.1).fit(X, y, table)
    >>> expert.predict_proba(X[:2], table).shape  # "f" had no samples
    (2, 6)
    >>> expert.novelty(X[:2]).shape
    (2,)
    """

    neighbourhoods_: Neighbourhoods | None

    reference: ClassVar[str] = "Socher, Ganjoo, Manning & Ng, NIPS 2013"
    detects_novelty: ClassVar[bool] = True

    def __init__(
        self,
        epochs: int | None = None,
        *,
        neighbours: int = 20,
        hidden: int = 512,
        learning_rate: float = 3e-4,
        weight_decay: float = 0.0,
        batch_size: int = 128,
        seed: int = 0,
        checkpoints: str | Path | None = None,
        temperature: float | None = None,
    ) -> None:
        super().__init__(
            epochs,
            hidden=hidden,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            batch_size=batch_size,
            seed=seed,
            checkpoints=checkpoints,
            temperature=temperature,
        )
        self.neighbours = neighbours

    def novelty(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability that each sample is of no seen class, shape (n_samples,).

        It is the local outlier probability (LoOP) of the mapped sample among the mapped training samples.
        """
        if self.neighbourhoods_ is None:  # learned when first needed: only some gates ask
            self.neighbourhoods_ = learn_neighbourhoods(self.mapped_, self.neighbours)
        return loop(self._map(check_features(X, name="X", columns=self._width())), self.neighbourhoods_)

    def _fit(
        self, X: NDArray[np.float32], codes: NDArray[np.intp], attributes: NDArray[np.float32], **decided: Any
    ) -> None:
        super()._fit(X, codes, attributes, **decided)
        self._remember(X)

    def _candidates(
        self, X: NDArray[np.float32], codes: NDArray[np.intp], table: pd.DataFrame
    ) -> Iterator[Self]:
        for candidate in super()._candidates(X, codes, table):
            candidate._remember(X)
            yield candidate

    def _remember(self, X: NDArray[np.float32]) -> None:
        self.mapped_ = self._map(X)
        self.neighbourhoods_ = None

    def _width(self) -> int:
        return len(self.weights_["W1"])

    def _map(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return φ(x), shape (n_samples, n_attributes)."""
        torch = require("torch")
        weights = {name: torch.from_numpy(value) for name, value in self.weights_.items()}
        mapped = np.empty((len(X), len(self.columns_)), dtype=np.float32)
        with torch.inference_mode():
            for start in range(0, len(X), _ROWS):
                rows = torch.from_numpy(self._features(X[start : start + _ROWS]))
                mapped[start : start + _ROWS] = self._embed(weights, rows).numpy()
        return mapped

    def _start(self, n_features: int, n_attributes: int, generator: torch.Generator) -> Weights:
        W1, b1 = layer(n_features, self.hidden, generator)
        W2, b2 = layer(self.hidden, n_attributes, generator)
        # Small at first, so that no unit begins where tanh is flat.
        return {"W1": 0.1 * W1, "b1": b1, "W2": 0.5 * W2, "b2": b2}

    def _embed(self, w: Weights, X: Tensor) -> Tensor:
        """Return φ(x), shape (n_samples, n_attributes)."""
        return (X @ w["W1"] + w["b1"]).tanh() @ w["W2"] + w["b2"]

    def _loss(
        self, weights: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: torch.Generator
    ) -> Tensor:
        return (self._embed(weights, X) - A[codes]).square().mean()

    def _score(self, weights: Weights, X: Tensor, A: Tensor) -> Tensor:
        mapped = self._embed(weights, X)
        distance = mapped.square().sum(dim=1, keepdim=True) - 2 * mapped @ A.T + A.square().sum(dim=1)
        return -distance / A.shape[1]
