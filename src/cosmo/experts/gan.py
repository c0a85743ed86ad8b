"""Generators of features trained against a critic: f-CLSWGAN, cycle-WGAN and cycle-(U)WGAN."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.linear_model import Ridge

from cosmo.experts._generative import GenerativeExpert, fit_classifier
from cosmo.experts._network import Weights, layer, torch
from cosmo.experts.base import COUNT, NOT_NEGATIVE, POSITIVE, Array, Codes

if TYPE_CHECKING:
    from torch import Generator, Tensor

_SLOPE = 0.2  # slope of leaky rectifiers below zero
_PENALTY = 10.0  # weight of the gradient penalty
_RIDGE = 10.0  # penalty of the regression of descriptions on features


@dataclass(eq=False, repr=False)
class ConditionalWGAN(GenerativeExpert):
    """A Wasserstein GAN with gradient penalty, conditioned on descriptions.

    Generator `ReLU(W₂ leaky(W₁ [z; a] + b₁) + b₂)`, z being as long as a description, and critic
    `vᵀ leaky(V [x; a] + c)`. The critic learns to score real rows above synthetic ones, with a penalty that
    keeps its slope at 1 between them. The generator maximises the critic's score and minimises a term of its
    method (`_demand`). It starts near the mean of the samples.

    Parameters
    ----------
    weight : float, default=0.2
        Weight of the method's term in the generator's loss.
    critic_steps : int, default=1
        Steps of the critic per step of the generator.
    critic_rate : float, default=1e-3
        Learning rate of the critic, which should learn faster than the generator.
    epochs, balance, hidden, learning_rate, batch_size, seed, checkpoints
        See `GenerativeExpert`; `learning_rate` is the generator's.
    """

    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"epochs": (8, 16, 24, 32, 48)}
    ranges: ClassVar[dict[str, str]] = GenerativeExpert.ranges | {
        "critic_steps": COUNT,
        "critic_rate": POSITIVE,
        "weight": NOT_NEGATIVE,
    }

    weight: float = 0.2
    critic_steps: int = 1
    critic_rate: float = 1e-3
    hidden: int = 256
    learning_rate: float = 5e-5
    batch_size: int = 64

    @abstractmethod
    def _demand(self, fake: Tensor, codes: Tensor, A: Tensor) -> Tensor:
        """Return the method's term for synthetic rows of the classes `codes`."""

    def _opponent(self) -> tuple[int, float]:
        return self.critic_steps, self.critic_rate

    def _noise_size(self, n_attributes: int) -> int:
        return n_attributes

    def _networks(self, n_features: int, n_attributes: int, generator: Generator) -> Weights:
        first, bias = layer(2 * n_attributes, self.hidden, generator)
        critic, critic_bias = layer(n_features + n_attributes, self.hidden, generator)
        return {
            "G.noise": first[:n_attributes].clone(),
            "G.description": first[n_attributes:].clone(),
            "G.bias": bias,
            "G.last": 0.05 * layer(self.hidden, n_features, generator)[0],
            "G.last_bias": torch.from_numpy(self.rows_.mean(axis=0)),
            "D.features": critic[:n_features].clone(),
            "D.description": critic[n_features:].clone(),
            "D.bias": critic_bias,
            "D.last": layer(self.hidden, 1, generator)[0][:, 0].clone(),
        }

    def _generate(self, weights: Weights, noise: Tensor, A: Tensor) -> Tensor:
        hidden = noise @ weights["G.noise"] + A @ weights["G.description"] + weights["G.bias"]
        return (_leaky(hidden) @ weights["G.last"] + weights["G.last_bias"]).relu()

    def _draw(self, weights: Weights, A: Tensor, generator: Generator) -> Tensor:
        noise = torch.randn(len(A), self._noise_size(A.shape[1]), generator=generator)
        return self._generate(weights, noise, A)

    def _opponent_loss(self, w: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: Generator) -> Tensor:
        with torch.no_grad():
            fake = self._draw(w, A[codes], generator)
        hidden = _critic_hidden(w, torch.cat([X, fake]), A[codes].repeat(2, 1))
        real_hidden, fake_hidden = hidden.chunk(2)
        lead = (_leaky(fake_hidden) - _leaky(real_hidden)) @ w["D.last"]
        # The hidden layer is linear in the rows, so it is interpolated as they are.
        between = real_hidden.lerp(fake_hidden, torch.rand(len(X), 1, generator=generator))
        return lead.mean() + _PENALTY * gradient_penalty(w, between)

    def _loss(self, weights: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: Generator) -> Tensor:
        fake = self._draw(weights, A[codes], generator)
        value = _leaky(_critic_hidden(weights, fake, A[codes])) @ weights["D.last"]
        return self.weight * self._demand(fake, codes, A) - value.mean()


def _presets(*rows: tuple[Any, ...]) -> dict[str, dict[str, Any]]:
    """Return the defaults as "fast", and the authors' settings by name of the data set."""
    names = ("epochs", "weight", "critic_steps", "critic_rate", "balance", "learning_rate")
    published = {name: {"hidden": 4096} | dict(zip(names, row, strict=True)) for name, *row in rows}
    return GenerativeExpert.presets | published


@dataclass(eq=False, repr=False)
class FCLSWGAN(ConditionalWGAN):
    """f-CLSWGAN: a WGAN whose synthetic rows are to be classified correctly.

    A linear soft-max classifier is trained on the real rows; its cross-entropy on synthetic rows is a term
    of the generator's loss. See `ConditionalWGAN` for both networks and `GenerativeExpert` for the use of
    synthetic rows.

    The defaults, also named "fast", are for a CPU; the presets named after data sets are the authors': 16
    times as many hidden units, five steps of a slower critic, and `balance` as their weight of rows implies.

    Parameters
    ----------
    weight : float, default=0.2
        Weight of the classification loss.
    epochs, critic_steps, critic_rate, balance, hidden, learning_rate, batch_size, seed, checkpoints
        See `ConditionalWGAN`.

    References
    ----------
    Xian, Lorenz, Schiele & Akata, "Feature generating networks for zero-shot learning", CVPR 2018.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> expert = FCLSWGAN(epochs=1, hidden=32).fit(X[:50], y[:50], table)
    >>> expert.synthesize(table, n=4).shape, expert.predict_proba(X, table).shape
    ((80, 576), (100, 20))
    """

    reference: ClassVar[str] = "Xian, Lorenz, Schiele & Akata, CVPR 2018"
    presets: ClassVar[dict[str, dict[str, Any]]] = _presets(
        ("AWA1", 30, 0.01, 5, 1e-5, 0.9, 1e-5),
        ("CUB", 56, 0.01, 5, 1e-4, 2.1, 1e-4),
        ("SUN", 40, 0.01, 5, 2e-4, 2.8, 2e-4),
        ("FLO", 80, 0.1, 5, 1e-4, 4.3, 1e-4),
    )

    def _examples(self, X: Array, codes: Codes) -> tuple[Array, Codes]:
        self.seen_classifier_ = fit_classifier(X, codes)
        return super()._examples(X, codes)

    def _demand(self, fake: Tensor, codes: Tensor, A: Tensor) -> Tensor:
        W, b = self.seen_classifier_
        return torch.nn.functional.cross_entropy(torch.addmm(b, fake, W), codes)


@dataclass(eq=False, repr=False)
class CycleWGAN(ConditionalWGAN):
    """cycle-WGAN: a WGAN from whose synthetic rows the description can be predicted.

    A linear regression of descriptions on features is trained on the real rows; its squared error on
    synthetic rows, relative to that of predicting the mean, is a term of the generator's loss. See
    `ConditionalWGAN` for both networks and `GenerativeExpert` for the use of synthetic rows.

    The defaults, also named "fast", are for a CPU; the presets named after data sets are the authors', whose
    squared error is not relative.

    Parameters
    ----------
    weight : float, default=1.0
        Weight of the cycle: description, row, description.
    epochs, critic_steps, critic_rate, balance, hidden, learning_rate, batch_size, seed, checkpoints
        See `ConditionalWGAN`.

    References
    ----------
    Felix, Kumar, Reid & Carneiro, "Multi-modal cycle-consistent generalized zero-shot learning", ECCV 2018.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> CycleWGAN(epochs=1, hidden=32).fit(X[:50], y[:50], table).predict_proba(X, table).shape
    (100, 20)
    """

    reference: ClassVar[str] = "Felix, Kumar, Reid & Carneiro, ECCV 2018"
    betas: ClassVar[tuple[float, float]] = (0.9, 0.999)
    presets: ClassVar[dict[str, dict[str, Any]]] = _presets(
        ("AWA1", 285, 0.01, 1, 1e-3, 0.6, 1e-4),
        ("CUB", 926, 0.01, 1, 1e-3, 1.4, 1e-4),
        ("SUN", 985, 0.01, 1, 8.7e-3, 1.0, 6.15e-4),
        ("FLO", 926, 0.01, 1, 1e-3, 1.1, 1e-4),
    )

    weight: float = 1.0
    balance: float = 4.0

    def _examples(self, X: Array, codes: Codes) -> tuple[Array, Codes]:
        ridge = Ridge(alpha=_RIDGE).fit(X, self._signatures(self.descriptions_)[codes])
        self.regressor_ = torch.from_numpy(ridge.coef_.T.copy()), torch.from_numpy(ridge.intercept_)
        return super()._examples(X, codes)

    def _demand(self, fake: Tensor, codes: Tensor, A: Tensor) -> Tensor:
        return self._cycle(fake, A[codes])

    def _cycle(self, fake: Tensor, A: Tensor) -> Tensor:
        """Return the squared error of descriptions predicted from rows, relative to their squares."""
        W, b = self.regressor_
        predicted = torch.addmm(b, fake, W)
        return (predicted - A).square().mean() / A.square().mean()


@dataclass(eq=False, repr=False)
class CycleUWGAN(CycleWGAN):
    """cycle-(U)WGAN: the cycle also runs over descriptions of classes without samples.

    In addition to the loss of `CycleWGAN`, rows are synthesised for classes that have descriptions only, and
    their descriptions predicted. Training therefore reads the descriptions of unseen classes.

    Parameters
    ----------
    epochs, weight, critic_steps, critic_rate, balance, hidden, learning_rate, batch_size, ...
        See `CycleWGAN`.

    References
    ----------
    Felix, Kumar, Reid & Carneiro, "Multi-modal cycle-consistent generalized zero-shot learning", ECCV 2018.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> expert = CycleUWGAN(epochs=1, hidden=32).fit(X[:50], y[:50], table)
    >>> expert.others_.shape  # descriptions of the others took part
    (10, 12)
    """

    reads_unseen: ClassVar[bool] = True

    def _loss(self, weights: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: Generator) -> Tensor:
        loss = super()._loss(weights, X, codes, A, generator)
        if self.others_ is None or not len(self.others_):
            return loss
        # Sorted, so that draws do not depend on the order of the table.
        others = torch.from_numpy(self._signatures(np.unique(self.others_, axis=0)))
        drawn = others[torch.randint(len(others), (len(X),), generator=generator)]
        return loss + self.weight * self._cycle(self._draw(weights, drawn, generator), drawn)


def gradient_penalty(weights: Weights, hidden: Tensor) -> Tensor:
    """Return the mean of `(|∇ₓ D| - 1)²`, where `∇ₓ D = Vₓᵀ (leaky'(h) ⊙ v)` at hidden values h."""
    slopes = torch.where(hidden > 0, 1.0, _SLOPE) * weights["D.last"]
    return ((slopes @ weights["D.features"].T).norm(dim=1) - 1).square().mean()


def _critic_hidden(weights: Weights, X: Tensor, A: Tensor) -> Tensor:
    return X @ weights["D.features"] + A @ weights["D.description"] + weights["D.bias"]


def _leaky(values: Tensor) -> Tensor:
    return torch.nn.functional.leaky_relu(values, _SLOPE)
