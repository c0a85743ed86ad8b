"""DEM: descriptions mapped into the space of features.

Zhang, Xiang & Gong, "Learning a deep embedding model for zero-shot learning", CVPR 2017.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from cosmo._core.extras import require
from cosmo.experts._network import NetworkExpert, Weights, layer, normalised

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["DEM"]


class DEM(NetworkExpert):
    """Map a description to where samples of its class should lie; the nearest class wins.

    `ψ(a) = ReLU(W₂ ReLU(W₁ a + b₁) + b₂)` is fitted to the samples by least squares. Searching in the space
    of features rather than descriptions keeps a few classes from being nearest to everything ("hubs").

    The squared error of a class's samples is that of their mean, times their number, plus a constant. So
    the network is fitted to the class means, weighted, all classes in each step: the same loss for a
    fraction of the cost, and `epochs` counts steps.

    Parameters
    ----------
    distance : {"cosine", "euclidean"}
        How samples are compared with mapped descriptions. The authors take the cosine for CUB, else the
        Euclidean distance.
    epochs, hidden, learning_rate, weight_decay, seed, checkpoints, temperature
        See `NetworkExpert`.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(rng.random((6, 3)), index=list("abcdef"))
    >>> y = np.repeat(list("abcde"), 20)
    >>> X = np.abs(table.loc[y].to_numpy() @ rng.normal(size=(3, 8)) + 0.01 * rng.normal(size=(100, 8)))
    >>> expert = DEM(epochs=50, hidden=32, temperature=0.1).fit(X, y, table)
    >>> expert.predict_proba(X[:2], table).shape  # "f" had no samples
    (2, 6)
    """

    reference: ClassVar[str] = "Zhang, Xiang & Gong, CVPR 2017"
    # The authors take steps of 1e-4 (CUB: 1e-5) on mini-batches of 64 to 100 rows, up to a million of them;
    # these steps are over all classes, so that step size and number stay as they are here.
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "AWA1": {"hidden": 1600, "weight_decay": 1e-3, "distance": "euclidean"},
        "AWA2": {"hidden": 1600, "weight_decay": 1e-3, "distance": "euclidean"},
        "SUN": {"hidden": 1600, "weight_decay": 1e-5, "distance": "euclidean"},
        "CUB": {"hidden": 1200, "weight_decay": 1e-2, "distance": "cosine"},
    }
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"epochs": (25, 50, 100, 150, 200, 300, 400, 600, 800)}

    def __init__(
        self,
        epochs: int | None = None,
        *,
        distance: Literal["cosine", "euclidean"] = "cosine",
        hidden: int = 1200,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-3,
        seed: int = 0,
        checkpoints: str | Path | None = None,
        temperature: float | None = None,
    ) -> None:
        super().__init__(
            epochs,
            hidden=hidden,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            batch_size=1 << 30,  # all classes
            seed=seed,
            checkpoints=checkpoints,
            temperature=temperature,
        )
        self.distance = distance

    def _examples(
        self, X: NDArray[np.float32], codes: NDArray[np.intp]
    ) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
        if self.distance not in ("cosine", "euclidean"):
            raise ValueError(f"distance must be 'cosine' or 'euclidean', got {self.distance!r}")
        order = np.argsort(codes, kind="stable")
        classes, first, rows = np.unique(codes[order], return_index=True, return_counts=True)
        means: NDArray[np.float32] = np.add.reduceat(X[order], first, axis=0)
        means /= rows[:, None].astype(np.float32)
        self.share_ = (rows / len(codes)).astype(np.float32)
        return means, classes

    def _start(self, n_features: int, n_attributes: int, generator: torch.Generator) -> Weights:
        W1, b1 = layer(n_attributes, self.hidden, generator)
        W2, b2 = layer(self.hidden, n_features, generator)
        return {"W1": W1, "b1": b1, "W2": W2, "b2": b2}

    def _width(self) -> int:
        return len(self.weights_["b2"])

    def _embed(self, w: Weights, A: Tensor) -> Tensor:
        """Return ψ(a), shape (n_classes, n_features)."""
        return ((A @ w["W1"] + w["b1"]).relu() @ w["W2"] + w["b2"]).relu()

    def _loss(
        self, weights: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: torch.Generator
    ) -> Tensor:
        share = require("torch").from_numpy(self.share_)[codes]
        return share @ (self._embed(weights, A[codes]) - X).square().mean(dim=1)

    def _score(self, weights: Weights, X: Tensor, A: Tensor) -> Tensor:
        prototypes = self._embed(weights, A)
        if self.distance == "cosine":
            return normalised(X) @ normalised(prototypes).T
        distance = X.square().sum(dim=1, keepdim=True) - 2 * X @ prototypes.T + prototypes.square().sum(dim=1)
        return -distance / X.shape[1]
