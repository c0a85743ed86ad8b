"""Generators of features: f-CLSWGAN, cycle-WGAN, cycle-(U)WGAN and SE-GZSL."""

from __future__ import annotations

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


def _presets(names: str, **rows: tuple[Any, ...]) -> dict[str, dict[str, Any]]:
    """Return the defaults as "fast", and the authors' settings by name of the data set.

    Their epochs are passes over its samples, in mini-batches of 64; here they are of 50 mini-batches.
    """
    published = {
        data: {"hidden": 4096} | dict(zip(names.split(), row, strict=True)) for data, row in rows.items()
    }
    return GenerativeExpert.presets | published


@dataclass(eq=False, repr=False)
class FCLSWGAN(GenerativeExpert):
    """f-CLSWGAN: a Wasserstein GAN whose synthetic rows are to be classified correctly.

    Generator `ReLU(W₂ leaky(W₁ [z; a] + b₁) + b₂)`, z being as long as a description, and critic
    `vᵀ leaky(V [x; a] + c)`. The critic learns to score real rows above synthetic ones, with a penalty that
    keeps its slope at 1 between them. The generator maximises the critic's score and minimises the
    cross-entropy, on its rows, of a linear soft-max classifier that was trained on the real ones. It starts
    near the mean of the samples. `GenerativeExpert` describes the use of synthetic rows.

    The defaults, also named "fast", are for a CPU; the presets named after data sets are the authors': 16
    times as many hidden units, five steps of a slower critic, and `balance` as their numbers of rows imply.

    Parameters
    ----------
    weight : float, default=0.5
        Weight of the classification loss.
    critic_steps : int, default=1
        Steps of the critic per step of the generator.
    critic_rate : float, default=1e-3
        Learning rate of the critic, which should learn faster than the generator.
    epochs, balance, hidden, learning_rate, batch_size, seed, checkpoints
        See `GenerativeExpert`; `learning_rate` is the generator's.

    References
    ----------
    Xian, Lorenz, Schiele & Akata, "Feature generating networks for zero-shot learning", CVPR 2018.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> expert = FCLSWGAN(epochs=1, balance=2, hidden=32).fit(X[:50], y[:50], table)
    >>> expert.synthesize(table, n=4).shape, expert.predict_proba(X, table).shape
    ((80, 576), (100, 20))
    """

    reference: ClassVar[str] = "Xian, Lorenz, Schiele & Akata, CVPR 2018"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"epochs": (16, 24, 32, 48)}
    ranges: ClassVar[dict[str, str]] = GenerativeExpert.ranges | {
        "critic_steps": COUNT,
        "critic_rate": POSITIVE,
        "weight": NOT_NEGATIVE,
    }
    presets: ClassVar[dict[str, dict[str, Any]]] = _presets(
        "epochs weight critic_steps critic_rate balance learning_rate",
        AWA1=(186, 0.01, 5, 1e-5, 0.9, 1e-5),
        CUB=(124, 0.01, 5, 1e-4, 2.1, 1e-4),
        SUN=(129, 0.01, 5, 2e-4, 2.8, 2e-4),
        FLO=(141, 0.1, 5, 1e-4, 4.3, 1e-4),
    )

    weight: float = 0.5
    critic_steps: int = 1
    critic_rate: float = 1e-3
    learning_rate: float = 1e-4

    def _opponent(self) -> tuple[int, float]:
        return self.critic_steps, self.critic_rate

    def _noise_size(self, n_attributes: int) -> int:
        return n_attributes

    def _examples(self, X: Array, codes: Codes) -> tuple[Array, Codes]:
        self.seen_classifier_ = fit_classifier(X, codes)
        return super()._examples(X, codes)

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

    def _opponent_loss(self, w: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: Generator) -> Tensor:
        with torch.no_grad():
            _, fake = self._draw(w, A[codes], generator)
        hidden = _critic_hidden(w, torch.cat([X, fake]), A[codes].repeat(2, 1))
        real_hidden, fake_hidden = hidden.chunk(2)
        lead = (_leaky(fake_hidden) - _leaky(real_hidden)) @ w["D.last"]
        # The hidden layer is linear in the rows, so it is interpolated as they are.
        between = real_hidden.lerp(fake_hidden, torch.rand(len(X), 1, generator=generator))
        return lead.mean() + _PENALTY * gradient_penalty(w, between)

    def _loss(self, weights: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: Generator) -> Tensor:
        _, fake = self._draw(weights, A[codes], generator)
        value = _leaky(_critic_hidden(weights, fake, A[codes])) @ weights["D.last"]
        return self._demand(fake, codes, A) - value.mean()

    def _demand(self, fake: Tensor, codes: Tensor, A: Tensor) -> Tensor:
        """Return what the generator minimises besides the critic's score, for rows of the classes `codes`."""
        W, b = self.seen_classifier_
        return self.weight * torch.nn.functional.cross_entropy(torch.addmm(b, fake, W), codes)


@dataclass(eq=False, repr=False)
class CycleWGAN(FCLSWGAN):
    """cycle-WGAN: f-CLSWGAN from whose synthetic rows the description can be predicted.

    A linear regression of descriptions on features is trained on the real rows; its squared error on
    synthetic rows, relative to that of predicting the mean, is a further term of the generator's loss.

    The publication has this with the classification loss (cycle-CLSWGAN) and without it (cycle-WGAN), with
    similar results; here it is much better with it, which is the default. `weight=0`, as in the presets named
    after data sets, leaves it out. The authors' squared error is not relative.

    Parameters
    ----------
    cycle : float, default=1.0
        Weight of the cycle: description, row, description.
    epochs, weight, critic_steps, critic_rate, balance, hidden, learning_rate, batch_size, seed, checkpoints
        See `FCLSWGAN`.

    References
    ----------
    Felix, Kumar, Reid & Carneiro, "Multi-modal cycle-consistent generalized zero-shot learning", ECCV 2018.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> CycleWGAN(epochs=1, balance=2, hidden=32).fit(X[:50], y[:50], table).predict_proba(X, table).shape
    (100, 20)
    """

    reference: ClassVar[str] = "Felix, Kumar, Reid & Carneiro, ECCV 2018"
    ranges: ClassVar[dict[str, str]] = FCLSWGAN.ranges | {"cycle": NOT_NEGATIVE}
    presets: ClassVar[dict[str, dict[str, Any]]] = _presets(
        "epochs weight cycle critic_rate balance learning_rate",
        AWA1=(1767, 0.0, 0.01, 1e-3, 0.6, 1e-4),
        CUB=(2056, 0.0, 0.01, 1e-3, 1.4, 1e-4),
        SUN=(3191, 0.0, 0.01, 8.7e-3, 1.0, 6.15e-4),
        FLO=(1630, 0.0, 0.01, 1e-3, 1.1, 1e-4),
    )

    cycle: float = 1.0

    def _examples(self, X: Array, codes: Codes) -> tuple[Array, Codes]:
        ridge = Ridge(alpha=_RIDGE).fit(X, self._signatures(self.descriptions_)[codes])
        self.regressor_ = torch.from_numpy(ridge.coef_.T.copy()), torch.from_numpy(ridge.intercept_)
        return super()._examples(X, codes)

    def _demand(self, fake: Tensor, codes: Tensor, A: Tensor) -> Tensor:
        return super()._demand(fake, codes, A) + self.cycle * self._error(fake, A[codes])

    def _error(self, fake: Tensor, A: Tensor) -> Tensor:
        """Return the squared error of descriptions predicted from rows, relative to their squares."""
        W, b = self.regressor_
        return (torch.addmm(b, fake, W) - A).square().mean() / A.square().mean()


@dataclass(eq=False, repr=False)
class CycleUWGAN(CycleWGAN):
    """cycle-(U)WGAN: the cycle also runs over descriptions of classes without samples.

    In addition to the loss of `CycleWGAN`, rows are synthesised for classes that have descriptions only, and
    their descriptions predicted. Training therefore reads the descriptions of unseen classes.

    Parameters
    ----------
    cycle : float, default=0.5
        Weight of the cycle, for seen classes and for the others.
    epochs, weight, critic_steps, critic_rate, balance, hidden, learning_rate, batch_size, seed, checkpoints
        See `FCLSWGAN`.

    References
    ----------
    Felix, Kumar, Reid & Carneiro, "Multi-modal cycle-consistent generalized zero-shot learning", ECCV 2018.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> expert = CycleUWGAN(epochs=1, balance=2, hidden=32).fit(X[:50], y[:50], table)
    >>> expert.others_.shape  # descriptions of the others took part
    (10, 12)
    """

    reads_unseen: ClassVar[bool] = True

    cycle: float = 0.5

    def _loss(self, weights: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: Generator) -> Tensor:
        loss = super()._loss(weights, X, codes, A, generator)
        if self.others_ is None or not len(self.others_):
            return loss
        # Sorted, so that draws do not depend on the order of the table.
        others = torch.from_numpy(self._signatures(np.unique(self.others_, axis=0)))
        drawn = others[torch.randint(len(others), (len(X),), generator=generator)]
        return loss + self.cycle * self._error(self._draw(weights, drawn, generator)[1], drawn)


@dataclass(eq=False, repr=False)
class SEGZSL(GenerativeExpert):
    """SE-GZSL: a conditional variational auto-encoder with feedback from a regressor.

    The encoder maps a row to `N(μ(x), σ²(x))`, the decoder maps code and description to a row, `G(z, a)`. A
    regressor R, trained in turn with them, predicts descriptions from real and synthetic rows. For codes
    from N(0, 1) and descriptions of all classes, seen or not, the loss of the auto-encoder has the term ::

        feedback · ( |R(x̂) - a|² + |G(μ(x̂), a) - x̂|² + |μ(x̂) - z|² ),    x̂ = G(z, a)

    so that a row determines its description, rows from N(0, 1) are as likely as real ones, and codes do not
    depend on the class. All networks have one hidden layer. Squared errors of rows are in units of twice
    the mean variance within classes, as in a Gaussian log-likelihood.

    The publication's settings are not public; `feedback` and sizes are our choice.

    Parameters
    ----------
    latent : int, default=100
        Length of a code.
    feedback : float, default=0.1
        Weight of the terms for synthetic rows.
    epochs, balance, hidden, learning_rate, batch_size, seed, checkpoints
        See `GenerativeExpert`.

    References
    ----------
    Verma, Arora, Mishra & Rai, "Generalized zero-shot learning via synthesized examples", CVPR 2018.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> expert = SEGZSL(epochs=1, balance=2, hidden=32, latent=4).fit(X[:50], y[:50], table)
    >>> expert.predict_proba(X, table).shape
    (100, 20)
    """

    reference: ClassVar[str] = "Verma, Arora, Mishra & Rai, CVPR 2018"
    reads_unseen: ClassVar[bool] = True
    ranges: ClassVar[dict[str, str]] = GenerativeExpert.ranges | {"latent": COUNT, "feedback": NOT_NEGATIVE}
    betas: ClassVar[tuple[float, float]] = (0.9, 0.999)

    latent: int = 100
    feedback: float = 0.1
    learning_rate: float = 1e-4

    def _noise_size(self, n_attributes: int) -> int:
        return self.latent

    def _examples(self, X: Array, codes: Codes) -> tuple[Array, Codes]:
        rows = [X[codes == code] for code in np.unique(codes)]
        within = sum(len(one) * one.var(axis=0).mean() for one in rows) / len(X)
        self.variance_ = float(max(within, 1e-6))
        return super()._examples(X, codes)

    def _networks(self, n_features: int, n_attributes: int, generator: Generator) -> Weights:
        weights = {}
        for name, n_in, n_out in (
            ("G.encoder", n_features, 2 * self.latent),
            ("G.decoder", self.latent + n_attributes, n_features),
            ("D.regressor", n_features, n_attributes),
        ):
            weights[f"{name}.W1"], weights[f"{name}.b1"] = layer(n_in, self.hidden, generator)
            W2, weights[f"{name}.b2"] = layer(self.hidden, n_out, generator)
            weights[f"{name}.W2"] = 0.05 * W2
        weights["G.decoder.b2"] = torch.from_numpy(self.rows_.mean(axis=0))
        return weights

    def _generate(self, weights: Weights, noise: Tensor, A: Tensor) -> Tensor:
        return _perceptron(weights, "G.decoder", torch.cat([noise, A], dim=1)).relu()

    def _opponent_loss(self, w: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: Generator) -> Tensor:
        with torch.no_grad():
            drawn = self._drawn(A, len(X), generator)
            _, made = self._draw(w, drawn, generator)
        predicted = _perceptron(w, "D.regressor", torch.cat([X, made]))
        return _squared(predicted, torch.cat([A[codes], drawn]))

    def _drawn(self, A: Tensor, n: int, generator: Generator) -> Tensor:
        """Return descriptions of random classes, seen or not."""
        if self.others_ is not None and len(self.others_):
            A = torch.cat([A, torch.from_numpy(self._signatures(self.others_))])
        return A[torch.randint(len(A), (n,), generator=generator)]

    def _loss(self, weights: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: Generator) -> Tensor:
        unit = 2 * self.variance_
        mean, log_variance = _perceptron(weights, "G.encoder", X).chunk(2, dim=1)
        noise = torch.randn(mean.shape, generator=generator)
        rebuilt = self._generate(weights, mean + noise * (log_variance / 2).exp(), A[codes])
        divergence = (mean.square() + log_variance.exp() - log_variance - 1).sum(dim=1).mean() / 2
        drawn = self._drawn(A, len(X), generator)
        noise, made = self._draw(weights, drawn, generator)
        made_mean = _perceptron(weights, "G.encoder", made)[:, : self.latent]
        feedback = (
            _squared(_perceptron(weights, "D.regressor", made), drawn)
            + _squared(self._generate(weights, made_mean, drawn), made) / unit
            + _squared(made_mean, noise)
        )
        return _squared(rebuilt, X) / unit + divergence + self.feedback * feedback


def gradient_penalty(weights: Weights, hidden: Tensor) -> Tensor:
    """Return the mean of `(|∇ₓ D| - 1)²`, where `∇ₓ D = Vₓᵀ (leaky'(h) ⊙ v)` at hidden values h."""
    slopes = torch.where(hidden > 0, 1.0, _SLOPE) * weights["D.last"]
    return ((slopes @ weights["D.features"].T).norm(dim=1) - 1).square().mean()


def _critic_hidden(weights: Weights, X: Tensor, A: Tensor) -> Tensor:
    return X @ weights["D.features"] + A @ weights["D.description"] + weights["D.bias"]


def _leaky(values: Tensor) -> Tensor:
    return torch.nn.functional.leaky_relu(values, _SLOPE)


def _perceptron(weights: Weights, name: str, X: Tensor) -> Tensor:
    hidden = (X @ weights[f"{name}.W1"] + weights[f"{name}.b1"]).relu()
    return hidden @ weights[f"{name}.W2"] + weights[f"{name}.b2"]


def _squared(one: Tensor, other: Tensor) -> Tensor:
    """Return the mean squared distance of rows."""
    return (one - other).square().sum(dim=1).mean()
