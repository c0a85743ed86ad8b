"""ICINESS: sample and description are fused in a hidden layer, and scored from there.

Guo et al., "Implicit non-linear similarity scoring for recognizing unseen classes", IJCAI 2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from cosmo._core.extras import require
from cosmo.experts._network import NetworkExpert, Weights, layer

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["ICINESS"]


class ICINESS(NetworkExpert):
    """Score a pair by a network, `F(x, y) = w · ReLU(W_x x + W_a a_y + b)`, rather than by a bilinear form.

    Published is the principle: the two are fused in hidden layers before they are scored, by a shallow or a
    deep network. The rest is our reading of it, and no published parameters exist to compare with:

    - the loss is the cross-entropy of a soft-max over the seen classes;
    - the deep network has a ReLU layer of its own for samples and for descriptions before they are fused;
    - features are standardised;
    - dropout takes the same fused units away for all classes of a sample, so that these are compared by one
      and the same network.

    Parameters
    ----------
    deep : bool
        Whether samples and descriptions go through a layer of their own first, which did no better on
        held-out classes of CUB.
    dropout : float
        Share of fused units that are left out of a training step, in [0, 1).
    hidden : int
        Units of each hidden layer.
    epochs, learning_rate, weight_decay, batch_size, seed, checkpoints, temperature
        See `NetworkExpert`.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(rng.random((6, 3)), index=list("abcdef"))
    >>> y = np.repeat(list("abcde"), 20)
    >>> X = table.loc[y].to_numpy() @ rng.normal(size=(3, 8)) + 0.01 * rng.normal(size=(100, 8))
    >>> expert = ICINESS(epochs=5, hidden=32, temperature=1.0).fit(X, y, table)
    >>> expert.predict_proba(X[:2], table).shape  # "f" had no samples
    (2, 6)
    """

    reference: ClassVar[str] = "Guo et al., IJCAI 2018"
    standardised: ClassVar[bool] = True
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"epochs": (2, 4, 8, 12, 16, 24, 32, 48)}

    def __init__(
        self,
        epochs: int | None = None,
        *,
        deep: bool = False,
        dropout: float = 0.5,
        hidden: int = 400,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        batch_size: int = 64,
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
        self.deep = deep
        self.dropout = dropout

    def _check_parameters(self, stops: Sequence[int]) -> None:
        super()._check_parameters(stops)
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {self.dropout}")

    def _start(self, n_features: int, n_attributes: int, generator: torch.Generator) -> Weights:
        start: Weights = {}
        if self.deep:
            start["V_x"], start["b_x"] = layer(n_features, self.hidden, generator)
            start["V_a"], start["b_a"] = layer(n_attributes, self.hidden, generator)
            n_features = n_attributes = self.hidden
        W_x, start["b"] = layer(n_features, self.hidden, generator)
        W_a, _ = layer(n_attributes, self.hidden, generator)
        # Two inputs are added, each with half the spread.
        start["W_x"], start["W_a"] = W_x * 0.5**0.5, W_a * 0.5**0.5
        start["w"] = layer(self.hidden, 1, generator)[0][:, 0].clone()
        return start

    def _loss(
        self, weights: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: torch.Generator
    ) -> Tensor:
        torch = require("torch")
        kept = torch.rand(len(X), self.hidden, generator=generator) >= self.dropout
        w = weights["w"] * kept / (1 - self.dropout)
        F = (self._fused(weights, X, A) @ w[:, :, None])[:, :, 0]
        return torch.nn.functional.cross_entropy(F, codes)

    def _score(self, weights: Weights, X: Tensor, A: Tensor) -> Tensor:
        return self._fused(weights, X, A) @ weights["w"]

    def _fused(self, w: Weights, X: Tensor, A: Tensor) -> Tensor:
        """Return the fused units of every pair, shape (n_samples, n_classes, hidden)."""
        if self.deep:
            X, A = (X @ w["V_x"] + w["b_x"]).relu(), (A @ w["V_a"] + w["b_a"]).relu()
        return ((X @ w["W_x"] + w["b"])[:, None] + A @ w["W_a"]).relu_()
