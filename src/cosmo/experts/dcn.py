"""DCN: a deep calibration network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cosmo.experts._linear import unit_rows
from cosmo.experts._network import NetworkExpert, Weights, torch
from cosmo.experts.base import Array, check_not_negative, check_positive, check_shares

if TYPE_CHECKING:
    from torch import Generator, Tensor

__all__ = ["DCN"]


@dataclass(eq=False, repr=False)
class DCN(NetworkExpert):
    """DCN: cross-entropy over seen classes plus the entropy over unseen ones, against overconfidence.

    A sample is mapped to `φ(x) = tanh(W₂ ReLU(W₁ x + b₁) + b₂)`, with dropout of the hidden units, a class
    to `c = 10 tanh(a)` with its description `a` scaled to unit length, and their similarity is `φ(x)·c`.
    The loss is the cross-entropy over the seen classes, plus the entropy of the soft-max over the unseen
    ones. Scores are `sharpness · φ(x)·c`: at temperature 1 they give the probabilities of the training.

    Features are standardised, then divided by the largest of them: small values at the start do better on
    held-out classes than unit variance.

    Parameters
    ----------
    sharpness : float, default=8.0
        Inverse temperature of the soft-max over seen classes.
    entropy_sharpness : float, default=0.03
        Inverse temperature of the soft-max over unseen classes.
    entropy_weight : float, default=1.0
        Weight of the entropy. With 0 the unseen classes take no part in the training.
    dropout : float, default=0.5
        Share of hidden units that are dropped in a training step.
    epochs, hidden, learning_rate, weight_decay, batch_size, seed, checkpoints, temperature
        See `NetworkExpert`.

    References
    ----------
    Liu, Long, Wang & Jordan, "Generalized zero-shot learning with deep calibration network", NeurIPS 2018.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> DCN(epochs=5, hidden=32, temperature=1.0).fit(X[:50], y[:50], table).predict_proba(X, table).shape
    (100, 20)
    """

    reference: ClassVar[str] = "Liu, Long, Wang & Jordan, NeurIPS 2018"
    reads_unseen: ClassVar[bool] = True
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"epochs": (4, 8, 12, 16, 24, 32, 48)}
    # The authors train for 100,000 mini-batches, hundreds of epochs, with a shrinking step: epochs stay open.
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        name: {
            "sharpness": sharpness,
            "entropy_sharpness": entropy_sharpness,
            "entropy_weight": entropy_weight,
            "learning_rate": 1e-4,
        }
        for name, (sharpness, entropy_sharpness, entropy_weight) in {
            "AWA1": (2.0, 0.03, 1.0),
            "SUN": (5.0, 0.1, 1.0),
            "CUB": (5.0, 0.03, 1.0),
            "FLO": (5.0, 0.03, 1.0),
            # For unseen classes alone, without the entropy.
            "AWA1 zsl": (2.0, 0.03, 0.0),
            "SUN zsl": (10.0, 0.1, 0.0),
            "CUB zsl": (8.0, 0.03, 0.0),
            "FLO zsl": (8.0, 0.03, 0.0),
        }.items()
    }

    sharpness: float = 8.0
    entropy_sharpness: float = 0.03
    entropy_weight: float = 1.0
    dropout: float = 0.5
    learning_rate: float = 3e-4
    batch_size: int = 64

    def _check_parameters(self, stops: Sequence[int]) -> None:
        super()._check_parameters(stops)
        check_positive(sharpness=self.sharpness, entropy_sharpness=self.entropy_sharpness)
        check_not_negative(entropy_weight=self.entropy_weight)
        check_shares(dropout=self.dropout)

    def _learn_scales(self, X: Array, attributes: Array) -> None:
        mean, spread = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
        spread[spread <= 1e-6 * np.abs(mean)] = 1  # a constant feature, up to rounding
        largest = ((X.max(axis=0) - mean) / spread).max()
        self.mean_ = mean.astype(np.float32)
        self.scale_ = (spread * (largest or 1)).astype(np.float32)

    def _features(self, X: Array) -> Array:
        return (X - self.mean_) / self.scale_

    def _signatures(self, attributes: Array) -> Array:
        return 10 * np.tanh(unit_rows(attributes))

    def _start(self, n_features: int, n_attributes: int, generator: Generator) -> Weights:
        return {
            "W1": 0.01 * torch.randn(n_features, self.hidden, generator=generator),
            "b1": torch.zeros(self.hidden),
            "W2": 0.03 * torch.randn(self.hidden, n_attributes, generator=generator),
            "b2": torch.zeros(n_attributes),
        }

    def _loss(self, weights: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: Generator) -> Tensor:
        hidden = self._hidden(weights, X)
        mask = torch.rand(hidden.shape, generator=generator) >= self.dropout
        mapped = self._map(weights, hidden * mask / (1 - self.dropout))
        loss = torch.nn.functional.cross_entropy(self.sharpness * mapped @ A.T, codes)
        if self.entropy_weight and self.others_ is not None and len(self.others_):
            others = torch.from_numpy(self._signatures(self.others_))
            log_proba = (self.entropy_sharpness * mapped @ others.T).log_softmax(dim=1)
            loss = loss - self.entropy_weight * (log_proba.exp() * log_proba).sum(dim=1).mean()
        return loss

    def _score(self, weights: Weights, X: Tensor, A: Tensor) -> Tensor:
        return self.sharpness * self._map(weights, self._hidden(weights, X)) @ A.T

    def _hidden(self, w: Weights, X: Tensor) -> Tensor:
        return (X @ w["W1"] + w["b1"]).relu()

    def _map(self, w: Weights, hidden: Tensor) -> Tensor:
        """Return φ(x), shape (n_samples, n_attributes)."""
        return (hidden @ w["W2"] + w["b2"]).tanh()
