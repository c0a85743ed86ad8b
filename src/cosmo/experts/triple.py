"""TRIPLE: a network for regression in both directions and for compatibility, with one matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from cosmo.experts._network import NetworkExpert, Weights, layer, torch
from cosmo.experts.base import check_not_negative, check_positive

if TYPE_CHECKING:
    from torch import Generator, Tensor


@dataclass(eq=False, repr=False)
class TRIPLE(NetworkExpert):
    """Score `F(x, y) = zᵀ P a_y`, `z = ReLU(W x + b)`, with P that also maps z to descriptions and back.

    A triple of sample, description and label is verified in three ways, whose losses regularise each other:
    ::

        cross-entropy(κ F(x, ·), y)  +  α |z P - a_y|²  +  β |a_y Pᵀ - z|²

    The first is compatibility: a sample agrees with its own class rather than with the other seen ones. The
    others are regression of the description on the sample and of the sample on the description. Squares and
    F are means over attributes, or over hidden units. Features are standardised.

    The publication's equations and settings are not public: this is our interpretation of its abstract, with
    the deep extension of a linear model.

    Parameters
    ----------
    alpha, beta : float, default=0.1
        Weights of the two regressions.
    sharpness : float, default=3.0
        κ, the inverse temperature of the soft-max over seen classes.
    epochs, hidden, learning_rate, weight_decay, batch_size, seed, checkpoints, temperature
        See `NetworkExpert`.

    References
    ----------
    Zhang, Long, Guan & Shao, "Triple verification network for generalized zero-shot learning", TIP 2019.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> TRIPLE(epochs=5, hidden=32, temperature=0.1).fit(X[:50], y[:50], table).predict_proba(X, table).shape
    (100, 20)
    """

    reference: ClassVar[str] = "Zhang, Long, Guan & Shao, TIP 2019"
    standardised: ClassVar[bool] = True

    alpha: float = 0.1
    beta: float = 0.1
    sharpness: float = 3.0
    learning_rate: float = 3e-4
    batch_size: int = 64

    def _check_parameters(self, stops: Sequence[int]) -> None:
        super()._check_parameters(stops)
        check_not_negative(alpha=self.alpha, beta=self.beta)
        check_positive(sharpness=self.sharpness)

    def _start(self, n_features: int, n_attributes: int, generator: Generator) -> Weights:
        W, b = layer(n_features, self.hidden, generator)
        return {"W": W, "b": b, "P": layer(self.hidden, n_attributes, generator)[0]}

    def _loss(self, weights: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: Generator) -> Tensor:
        z, own = self._lift(weights, X), A[codes]
        mapped, back = z @ weights["P"], own @ weights["P"].T
        compatibility = torch.nn.functional.cross_entropy(self.sharpness / A.shape[1] * mapped @ A.T, codes)
        regressions = self.alpha * (mapped - own).square().mean() + self.beta * (back - z).square().mean()
        return compatibility + regressions

    def _score(self, weights: Weights, X: Tensor, A: Tensor) -> Tensor:
        return self._lift(weights, X) @ weights["P"] @ A.T / A.shape[1]

    def _lift(self, w: Weights, X: Tensor) -> Tensor:
        """Return z, shape (n_samples, hidden)."""
        return (X @ w["W"] + w["b"]).relu()
