"""Networks that score pairs of sample and description: RN, ICINESS and TRIPLE."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cosmo.experts._linear import unit_rows
from cosmo.experts._network import NetworkExpert, Weights, layer, torch
from cosmo.experts.base import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, Array

if TYPE_CHECKING:
    from torch import Generator, Tensor


@dataclass(eq=False, repr=False)
class RN(NetworkExpert):
    """RN: score a pair of sample and description by a network trained to recognise matches.

    A description is mapped to `e(a) = ReLU(W₂ ReLU(W₁ a + b₁) + b₂)`, as long as a sample; the relation of
    the two is `r = σ(w · ReLU(M [e(a); x] + c) + c')`. In each mini-batch the relations of all samples with
    all its classes are fitted, by least squares, to 1 for the own class and 0 for the others. The score is
    the logit of r. Only the weights of e decay. Features are standardised; descriptions are scaled to equal
    length but, as published, not centred.

    Candidates are the classes of the mini-batch, as published; all seen classes cost more and were no better
    on held-out classes of CUB.

    Parameters
    ----------
    hidden : int, default=400
        Hidden units of the relation.
    class_hidden : int, default=400
        Hidden units of e.
    epochs, learning_rate, weight_decay, batch_size, seed, checkpoints, temperature
        See `NetworkExpert`.

    References
    ----------
    Sung, Yang, Zhang, Xiang, Torr & Hospedales, "Learning to compare: relation network for few-shot
    learning", CVPR 2018.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> RN(epochs=5, hidden=32, temperature=1.0).fit(X[:50], y[:50], table).predict_proba(X, table).shape
    (100, 20)
    """

    reference: ClassVar[str] = "Sung et al., CVPR 2018"
    ranges: ClassVar[dict[str, str]] = NetworkExpert.ranges | {"class_hidden": COUNT}
    standardised: ClassVar[bool] = True
    # Epochs are the authors' episodes (500,000 on AWA, else 200,000) of 32 rows. They halve the learning rate
    # now and then and select the state by test accuracy; here the rate is constant.
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        name: dict(zip(("epochs", "hidden", "class_hidden"), values, strict=True))
        | {"learning_rate": 1e-5, "weight_decay": 1e-5, "batch_size": 32}
        for name, *values in (
            ("AWA1", 807, 400, 1024),
            ("AWA2", 680, 400, 1024),
            ("CUB", 907, 1200, 1200),
        )
    }

    class_hidden: int = 400
    hidden: int = 400
    learning_rate: float = 3e-4
    weight_decay: float = 1e-5
    batch_size: int = 64

    def _signatures(self, attributes: Array) -> Array:
        return unit_rows(attributes) * np.float32(np.sqrt(attributes.shape[1]))

    def _start(self, n_features: int, n_attributes: int, generator: Generator) -> Weights:
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
            # Small initial weights avoid saturation of the sigmoid.
            "w": w[:, 0] / 10,
            "bias": bias,
        }

    def _decayed(self, weights: Weights) -> list[Tensor]:
        return [weights[name] for name in ("W1", "b1", "W2", "b2")]

    def _loss(self, weights: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: Generator) -> Tensor:
        present, target = codes.unique(return_inverse=True)  # type: ignore[no-untyped-call]
        # Initial relations are 1/k, the share of matches. From 1/2, many trainings collapse to no match.
        relation = (self._score(weights, X, A[present]) - math.log(len(present))).sigmoid()
        own = relation.gather(1, target[:, None])
        return (relation.square().sum() + (1 - 2 * own).sum()) / relation.numel()

    def _score(self, weights: Weights, X: Tensor, A: Tensor) -> Tensor:
        w = weights
        e = ((A @ w["W1"] + w["b1"]).relu() @ w["W2"] + w["b2"]).relu()
        # M [e; x] is a sum of two parts: pairs are formed after the products.
        pairs = (X @ w["M_sample"] + w["c"])[:, None] + e @ w["M_class"]
        return pairs.relu_() @ w["w"] + w["bias"]


@dataclass(eq=False, repr=False)
class ICINESS(NetworkExpert):
    """ICINESS: score a pair by `F(x, y) = w · ReLU(W_x x + W_a a_y + b)` rather than by a bilinear form.

    The publication describes the principle: sample and description are fused in hidden layers before they
    are scored. The rest is our interpretation, and there are no published parameters:

    - the loss is the cross-entropy of a soft-max over the seen classes;
    - the deep network has a ReLU layer for samples and one for descriptions before they are fused;
    - features are standardised;
    - dropout removes the same fused units for all classes of a sample.

    Parameters
    ----------
    deep : bool, default=False
        Whether samples and descriptions pass through a layer of their own first, which was no better on
        held-out classes of CUB.
    dropout : float, default=0.5
        Share of fused units that are dropped in a training step, in [0, 1).
    hidden : int, default=400
        Units of each hidden layer.
    epochs, learning_rate, weight_decay, batch_size, seed, checkpoints, temperature
        See `NetworkExpert`.

    References
    ----------
    Guo et al., "Implicit non-linear similarity scoring for recognizing unseen classes", IJCAI 2018.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> ICINESS(epochs=5, hidden=32, temperature=1.0).fit(X[:50], y[:50], table).predict_proba(X, table).shape
    (100, 20)
    """

    reference: ClassVar[str] = "Guo et al., IJCAI 2018"
    ranges: ClassVar[dict[str, str]] = NetworkExpert.ranges | {"dropout": SHARE}
    standardised: ClassVar[bool] = True
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"epochs": (2, 4, 8, 12, 16, 24, 32, 48)}

    deep: bool = False
    dropout: float = 0.5
    hidden: int = 400
    batch_size: int = 64

    def _start(self, n_features: int, n_attributes: int, generator: Generator) -> Weights:
        start: Weights = {}
        if self.deep:
            start["V_x"], start["b_x"] = layer(n_features, self.hidden, generator)
            start["V_a"], start["b_a"] = layer(n_attributes, self.hidden, generator)
            n_features = n_attributes = self.hidden
        W_x, start["b"] = layer(n_features, self.hidden, generator)
        W_a, _ = layer(n_attributes, self.hidden, generator)
        # Two inputs are added, each with half the variance.
        start["W_x"], start["W_a"] = W_x * 0.5**0.5, W_a * 0.5**0.5
        start["w"] = layer(self.hidden, 1, generator)[0][:, 0].clone()
        return start

    def _loss(self, weights: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: Generator) -> Tensor:
        mask = torch.rand(len(X), self.hidden, generator=generator) >= self.dropout
        w = weights["w"] * mask / (1 - self.dropout)
        F = (self._fuse(weights, X, A) @ w[:, :, None])[:, :, 0]
        return torch.nn.functional.cross_entropy(F, codes)

    def _score(self, weights: Weights, X: Tensor, A: Tensor) -> Tensor:
        return self._fuse(weights, X, A) @ weights["w"]

    def _fuse(self, w: Weights, X: Tensor, A: Tensor) -> Tensor:
        """Return the fused units of every pair, shape (n_samples, n_classes, hidden)."""
        if self.deep:
            X, A = (X @ w["V_x"] + w["b_x"]).relu(), (A @ w["V_a"] + w["b_a"]).relu()
        return ((X @ w["W_x"] + w["b"])[:, None] + A @ w["W_a"]).relu_()


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
    ranges: ClassVar[dict[str, str]] = NetworkExpert.ranges | {
        "alpha": NOT_NEGATIVE,
        "beta": NOT_NEGATIVE,
        "sharpness": POSITIVE,
    }
    standardised: ClassVar[bool] = True

    alpha: float = 0.1
    beta: float = 0.1
    sharpness: float = 3.0
    learning_rate: float = 3e-4
    batch_size: int = 64

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
