"""RN: a network that judges whether a sample and a description belong together.

Sung, Yang, Zhang, Xiang, Torr & Hospedales, "Learning to compare: relation network for few-shot learning",
CVPR 2018.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from cosmo.experts._network import NetworkExpert, Weights, layer

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["RN"]


class RN(NetworkExpert):
    """Score a pair of sample and description by a network that was trained to tell matches from others.

    A description becomes `e(a) = ReLU(W₂ ReLU(W₁ a + b₁) + b₂)`, as long as a sample is; the relation of the
    two is `r = σ(w · ReLU(M [e(a); x] + c) + c')`. In each mini-batch the relations of all its samples with
    all its classes are fitted, by least squares, to 1 for the own class and 0 for the others. The score is
    the logit of r. Only the weights of e decay.

    Candidates are the classes of the mini-batch, as the authors have it; all seen classes cost more, and did
    no better on held-out classes of CUB. Features are standardised.

    Parameters
    ----------
    hidden : int
        Hidden units of the relation.
    class_hidden : int
        Hidden units of e.
    epochs, learning_rate, weight_decay, batch_size, seed, checkpoints, temperature
        See `NetworkExpert`.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(rng.random((6, 3)), index=list("abcdef"))
    >>> y = np.repeat(list("abcde"), 20)
    >>> X = table.loc[y].to_numpy() @ rng.normal(size=(3, 8)) + 0.01 * rng.normal(size=(100, 8))
    >>> expert = RN(epochs=5, hidden=32, temperature=1.0).fit(X, y, table)
    >>> expert.predict_proba(X[:2], table).shape  # "f" had no samples
    (2, 6)
    """

    reference: ClassVar[str] = "Sung et al., CVPR 2018"
    standardised: ClassVar[bool] = True
    # Epochs are the authors' episodes (500,000 on AWA, else 200,000) of 32 rows, over the rows of the data
    # set. They halve the step now and then, and keep the state that is best on test; here it is constant.
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        name: {
            "epochs": epochs,
            "hidden": hidden,
            "class_hidden": class_hidden,
            "learning_rate": 1e-5,
            "weight_decay": 1e-5,
            "batch_size": 32,
        }
        for name, epochs, hidden, class_hidden in (
            ("AWA1", 807, 400, 1024),
            ("AWA2", 680, 400, 1024),
            ("CUB", 907, 1200, 1200),
        )
    }

    def __init__(
        self,
        epochs: int | None = None,
        *,
        hidden: int = 400,
        class_hidden: int = 400,
        learning_rate: float = 3e-4,
        weight_decay: float = 1e-5,
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
        self.class_hidden = class_hidden

    def _check_parameters(self, stops: Sequence[int]) -> None:
        super()._check_parameters(stops)
        if int(self.class_hidden) != self.class_hidden or self.class_hidden < 1:
            raise ValueError(f"class_hidden must be a whole number of at least 1, got {self.class_hidden}")

    def _start(self, n_features: int, n_attributes: int, generator: torch.Generator) -> Weights:
        W1, b1 = layer(n_attributes, self.class_hidden, generator)
        W2, b2 = layer(self.class_hidden, n_features, generator)
        M, c = layer(2 * n_features, self.hidden, generator)
        w, bias = layer(self.hidden, 1, generator)
        return {
            "W1": W1,
            "b1": b1,
            "W2": W2,
            "b2": b2,
            "M_class": M[:n_features].clone(),
            "M_sample": M[n_features:].clone(),
            "c": c,
            # Small: a relation that is near 0 or 1 for no reason has hardly a gradient to leave it by.
            "w": w[:, 0] / 10,
            "bias": bias,
        }

    def _decayed(self, weights: Weights) -> list[Tensor]:
        return [weights[name] for name in ("W1", "b1", "W2", "b2")]

    def _loss(
        self, weights: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: torch.Generator
    ) -> Tensor:
        present, target = codes.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        # From the start one relation in k is taken for a match. If it were one in two, the first thing
        # learnt would be that nothing matches, from which many a training does not come back.
        relation = (self._score(weights, X, A[present]) - math.log(len(present))).sigmoid()
        own = relation.gather(1, target[:, None])
        return (relation.square().sum() + (1 - 2 * own).sum()) / relation.numel()

    def _score(self, weights: Weights, X: Tensor, A: Tensor) -> Tensor:
        w = weights
        e = ((A @ w["W1"] + w["b1"]).relu() @ w["W2"] + w["b2"]).relu()
        # M [e; x] is a sum of two parts, so that pairs are formed only from here on.
        pairs = (X @ w["M_sample"] + w["c"])[:, None] + e @ w["M_class"]
        return pairs.relu_() @ w["w"] + w["bias"]
