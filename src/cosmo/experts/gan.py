"""Generators of features trained against a critic: f-CLSWGAN, cycle-WGAN and cycle-(U)WGAN.

Xian, Lorenz, Schiele & Akata, "Feature generating networks for zero-shot learning", CVPR 2018.
Felix, Kumar, Reid & Carneiro, "Multi-modal cycle-consistent generalized zero-shot learning", ECCV 2018.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cosmo._core.extras import require
from cosmo.experts._generative import GenerativeExpert
from cosmo.experts._network import Weights, layer
from cosmo.experts._synthetic import fit_linear

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["FCLSWGAN", "ConditionalWGAN", "CycleUWGAN", "CycleWGAN", "gradient_penalty"]

_SLOPE = 0.2  # of leaky rectifiers, below zero
_PENALTY = 10.0  # weight of the gradient penalty


class ConditionalWGAN(GenerativeExpert):
    """A Wasserstein GAN with gradient penalty, conditioned on descriptions.

    Generator `ReLU(W₂ leaky(W₁ [z; a] + b₁) + b₂)`, z being as long as a description, and critic
    `vᵀ leaky(V [x; a] + c)`. The critic learns to value real rows above made ones, its slope held at 1
    between them. The generator learns to be valued, and what its method demands besides (`_demand`).

    The generator starts near the mean of the samples, so that no step is lost on getting there.

    Parameters
    ----------
    weight : float
        Of what the method demands of the generator, against the critic's value.
    critic_steps : int
        Steps of the critic for each of the generator.
    critic_rate : float
        The critic's step of Adam. The critic should be ahead of the generator, by longer steps or by more.
    epochs, n_syn, balance, hidden, learning_rate, batch_size, seed, checkpoints
        See `GenerativeExpert`; `learning_rate` is the generator's.
    """

    def __init__(
        self,
        epochs: int | None = None,
        *,
        weight: float = 0.2,
        critic_steps: int = 1,
        critic_rate: float = 1e-3,
        n_syn: int = 300,
        balance: float = 6.0,
        hidden: int = 256,
        learning_rate: float = 5e-5,
        batch_size: int = 64,
        seed: int = 0,
        checkpoints: str | Path | None = None,
    ) -> None:
        super().__init__(
            epochs,
            n_syn=n_syn,
            balance=balance,
            hidden=hidden,
            learning_rate=learning_rate,
            batch_size=batch_size,
            seed=seed,
            checkpoints=checkpoints,
        )
        self.weight = weight
        self.critic_steps = critic_steps
        self.critic_rate = critic_rate

    @abstractmethod
    def _demand(self, fake: Tensor, codes: Tensor, A: Tensor) -> Tensor:
        """Return what the generator's rows of the classes `codes` are to minimise."""

    def _opponent(self) -> tuple[int, float]:
        return self.critic_steps, self.critic_rate

    def _noise_size(self, n_attributes: int) -> int:
        return n_attributes

    def _networks(self, n_features: int, n_attributes: int, generator: torch.Generator) -> Weights:
        first, bias = layer(2 * n_attributes, self.hidden, generator)
        critic, critic_bias = layer(n_features + n_attributes, self.hidden, generator)
        return {
            "G.noise": first[:n_attributes].clone(),
            "G.description": first[n_attributes:].clone(),
            "G.bias": bias,
            "G.last": 0.05 * layer(self.hidden, n_features, generator)[0],
            "G.last_bias": require("torch").from_numpy(self.rows_.mean(axis=0)),
            "D.features": critic[:n_features].clone(),
            "D.description": critic[n_features:].clone(),
            "D.bias": critic_bias,
            "D.last": layer(self.hidden, 1, generator)[0][:, 0].clone(),
        }

    def _generate(self, weights: Weights, noise: Tensor, A: Tensor) -> Tensor:
        hidden = noise @ weights["G.noise"] + A @ weights["G.description"] + weights["G.bias"]
        return (_leaky(hidden) @ weights["G.last"] + weights["G.last_bias"]).relu()

    def _draw(self, weights: Weights, A: Tensor, generator: torch.Generator) -> Tensor:
        noise = require("torch").randn(len(A), self._noise_size(A.shape[1]), generator=generator)
        return self._generate(weights, noise, A)

    def _opponent_loss(
        self, weights: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: torch.Generator
    ) -> Tensor:
        torch = require("torch")
        with torch.no_grad():
            fake = self._draw(weights, A[codes], generator)
        real_hidden, fake_hidden = _critic_hidden(weights, torch.cat([X, fake]), A[codes].repeat(2, 1)).chunk(
            2
        )
        lead = (_leaky(fake_hidden) - _leaky(real_hidden)) @ weights["D.last"]
        # The critic's hidden layer is linear: between two rows it is between what it is for each.
        between = real_hidden.lerp(fake_hidden, torch.rand(len(X), 1, generator=generator))
        return lead.mean() + _PENALTY * gradient_penalty(weights, between)

    def _loss(
        self, weights: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: torch.Generator
    ) -> Tensor:
        fake = self._draw(weights, A[codes], generator)
        value = _leaky(_critic_hidden(weights, fake, A[codes])) @ weights["D.last"]
        return self.weight * self._demand(fake, codes, A) - value.mean()

    def _check_parameters(self, stops: Sequence[int]) -> None:
        super()._check_parameters(stops)
        if int(self.critic_steps) != self.critic_steps or self.critic_steps < 1:
            raise ValueError(f"critic_steps must be a whole number of at least 1, got {self.critic_steps}")
        if not self.critic_rate > 0:
            raise ValueError(f"critic_rate must be positive, got {self.critic_rate}")
        if not self.weight >= 0:
            raise ValueError(f"weight must not be negative, got {self.weight}")


class FCLSWGAN(ConditionalWGAN):
    """f-CLSWGAN: rows that look real to a critic, and to a classifier like their class.

    The classifier is a linear soft-max, trained on the real rows and then left as it is; the generator
    minimises its cross-entropy besides the critic's verdict. See `ConditionalWGAN` for both networks and
    `GenerativeExpert` for what is done with the rows.

    The defaults, also named "fast", are for a CPU; the presets named after data sets are the authors': 16
    times as many hidden units, five steps of a slower critic, and `balance` as rows of the final classifier
    counted in theirs. Descriptions are scaled, and weights averaged and drawn, as here.

    Parameters
    ----------
    weight : float
        Of the classification loss.
    epochs, critic_steps, critic_rate, n_syn, balance, hidden, learning_rate, batch_size, seed, checkpoints
        See `ConditionalWGAN`.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(rng.random((6, 3)), index=list("abcdef"))
    >>> y = np.repeat(list("abcde"), 20)
    >>> X = np.abs(table.loc[y].to_numpy() @ rng.normal(size=(3, 8)) + 0.01 * rng.normal(size=(100, 8)))
    >>> expert = FCLSWGAN(epochs=5, hidden=32).fit(X, y, table)
    >>> expert.synthesize(table.loc[["f"]], n=4).shape  # "f" had no samples
    (4, 8)
    >>> expert.predict_proba(X[:2], table).shape
    (2, 6)
    """

    reference: ClassVar[str] = "Xian, Lorenz, Schiele & Akata, CVPR 2018"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        **GenerativeExpert.presets,
        **{
            name: {
                "epochs": epochs,
                "weight": weight,
                "critic_steps": 5,
                "critic_rate": rate,
                "n_syn": n_syn,
                "balance": balance,
                "hidden": 4096,
                "learning_rate": rate,
                "batch_size": 64,
            }
            for name, rate, epochs, weight, n_syn, balance in (
                ("AWA1", 1e-5, 30, 0.01, 1800, 3.6),
                ("CUB", 1e-4, 56, 0.01, 300, 6.4),
                ("SUN", 2e-4, 40, 0.01, 400, 25.0),
                ("FLO", 1e-4, 80, 0.1, 1200, 17.5),
            )
        },
    }

    def _examples(
        self, X: NDArray[np.float32], codes: NDArray[np.intp]
    ) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
        torch = require("torch")
        self.seen_classifier_ = fit_linear(
            torch.from_numpy(X),
            torch.from_numpy(codes),
            len(self.descriptions_),
            "cross-entropy",
            seed=self.seed,
        )
        return super()._examples(X, codes)

    def _demand(self, fake: Tensor, codes: Tensor, A: Tensor) -> Tensor:
        torch = require("torch")
        W, b = self.seen_classifier_
        loss: Tensor = torch.nn.functional.cross_entropy(torch.addmm(b, fake, W), codes)
        return loss


class CycleWGAN(ConditionalWGAN):
    """cycle-WGAN: rows that look real to a critic, and from which the description can be told.

    A linear regression of descriptions on features is trained on the real rows and then left as it is; the
    generator minimises its squared error, relative to that of guessing the mean, besides the critic's
    verdict. See `ConditionalWGAN` for both networks and `GenerativeExpert` for what is done with the rows.

    The defaults, also named "fast", are for a CPU; the presets named after data sets are the authors', except
    that their term is not relative.

    Parameters
    ----------
    weight : float
        Of the cycle: description, row, description.
    epochs, critic_steps, critic_rate, n_syn, balance, hidden, learning_rate, batch_size, seed, checkpoints
        See `ConditionalWGAN`.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(rng.random((6, 3)), index=list("abcdef"))
    >>> y = np.repeat(list("abcde"), 20)
    >>> X = np.abs(table.loc[y].to_numpy() @ rng.normal(size=(3, 8)) + 0.01 * rng.normal(size=(100, 8)))
    >>> expert = CycleWGAN(epochs=5, hidden=32).fit(X, y, table)
    >>> expert.predict_proba(X[:2], table).shape  # "f" had no samples
    (2, 6)
    """

    reference: ClassVar[str] = "Felix, Kumar, Reid & Carneiro, ECCV 2018"
    betas: ClassVar[tuple[float, float]] = (0.9, 0.999)
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        **GenerativeExpert.presets,
        **{
            name: {
                "epochs": epochs,
                "weight": 0.01,
                "critic_rate": critic_rate,
                "n_syn": n_syn,
                "balance": balance,
                "hidden": 4096,
                "learning_rate": rate,
            }
            for name, epochs, rate, critic_rate, n_syn, balance in (
                ("AWA1", 285, 1e-4, 1e-3, 1200, 2.4),
                ("CUB", 926, 1e-4, 1e-3, 200, 4.3),
                ("SUN", 985, 6.15e-4, 8.7e-3, 141, 8.8),
                ("FLO", 926, 1e-4, 1e-3, 300, 4.4),
            )
        },
    }

    def __init__(
        self,
        epochs: int | None = None,
        *,
        weight: float = 1.0,
        critic_steps: int = 1,
        critic_rate: float = 1e-3,
        n_syn: int = 300,
        balance: float = 6.0,
        hidden: int = 256,
        learning_rate: float = 5e-5,
        batch_size: int = 64,
        seed: int = 0,
        checkpoints: str | Path | None = None,
    ) -> None:
        super().__init__(
            epochs,
            weight=weight,
            critic_steps=critic_steps,
            critic_rate=critic_rate,
            n_syn=n_syn,
            balance=balance,
            hidden=hidden,
            learning_rate=learning_rate,
            batch_size=batch_size,
            seed=seed,
            checkpoints=checkpoints,
        )

    def _examples(
        self, X: NDArray[np.float32], codes: NDArray[np.intp]
    ) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
        torch = require("torch")
        A = torch.from_numpy(self._signatures(self.descriptions_))
        self.regressor_ = fit_linear(
            torch.from_numpy(X), A[torch.from_numpy(codes)], A.shape[1], "squared error", seed=self.seed
        )
        return super()._examples(X, codes)

    def _demand(self, fake: Tensor, codes: Tensor, A: Tensor) -> Tensor:
        return self._cycle(fake, A[codes])

    def _cycle(self, fake: Tensor, A: Tensor) -> Tensor:
        """Return the squared error of descriptions told from rows, relative to their squares."""
        W, b = self.regressor_
        told = require("torch").addmm(b, fake, W)
        return (told - A).square().mean() / A.square().mean()


class CycleUWGAN(CycleWGAN):
    """cycle-(U)WGAN: the cycle also runs over descriptions of classes without samples.

    Besides the steps of `CycleWGAN`, rows are made of classes that have descriptions only, drawn evenly,
    and their descriptions told from them. No row of those classes is needed; their descriptions are, at
    the time of training.

    Parameters
    ----------
    epochs, weight, critic_steps, critic_rate, n_syn, balance, hidden, learning_rate, batch_size, seed
        See `CycleWGAN`; so is `checkpoints`.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(rng.random((6, 3)), index=list("abcdef"))
    >>> y = np.repeat(list("abcde"), 20)
    >>> X = np.abs(table.loc[y].to_numpy() @ rng.normal(size=(3, 8)) + 0.01 * rng.normal(size=(100, 8)))
    >>> expert = CycleUWGAN(epochs=5, hidden=32).fit(X, y, table)
    >>> expert.others_.shape  # the description of "f" took part
    (1, 3)
    """

    reads_unseen: ClassVar[bool] = True

    def _loss(
        self, weights: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: torch.Generator
    ) -> Tensor:
        torch = require("torch")
        loss = super()._loss(weights, X, codes, A, generator)
        if self.others_ is None or not len(self.others_):
            return loss
        others = torch.from_numpy(self._signatures(self.others_))
        drawn = others[torch.randint(len(others), (len(X),), generator=generator)]
        return loss + self.weight * self._cycle(self._draw(weights, drawn, generator), drawn)


def gradient_penalty(weights: Weights, hidden: Tensor) -> Tensor:
    """Return the mean of `(|∇ₓ D| - 1)²` for a critic with one hidden layer.

    The gradient is `Vₓᵀ (leaky'(h) ⊙ v)`, in closed form: no derivative is taken of a derivative, since
    leaky' is constant wherever it has one.

    Parameters
    ----------
    weights : dict
        "D.features" (n_features, n_hidden) and "D.last" (n_hidden,).
    hidden : tensor of shape (n_rows, n_hidden)
        The critic's hidden layer, before the leaky rectifier, at the rows where the slope is looked at.
    """
    slopes = require("torch").where(hidden > 0, 1.0, _SLOPE) * weights["D.last"]
    penalty: Tensor = ((slopes @ weights["D.features"].T).norm(dim=1) - 1).square().mean()
    return penalty


def _critic_hidden(weights: Weights, X: Tensor, A: Tensor) -> Tensor:
    return X @ weights["D.features"] + A @ weights["D.description"] + weights["D.bias"]


def _leaky(values: Tensor) -> Tensor:
    result: Tensor = require("torch").nn.functional.leaky_relu(values, _SLOPE)
    return result
