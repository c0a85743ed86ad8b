"""SE-GZSL: a conditional auto-encoder that synthesises features, with feedback from a regressor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from cosmo.experts._generative import GenerativeExpert
from cosmo.experts._network import Weights, layer, torch
from cosmo.experts.base import COUNT, NOT_NEGATIVE, Array, Codes

if TYPE_CHECKING:
    from torch import Generator, Tensor


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
    >>> SEGZSL(epochs=1, hidden=32, latent=4).fit(X[:50], y[:50], table).predict_proba(X, table).shape
    (100, 20)
    """

    reference: ClassVar[str] = "Verma, Arora, Mishra & Rai, CVPR 2018"
    reads_unseen: ClassVar[bool] = True
    ranges: ClassVar[dict[str, str]] = GenerativeExpert.ranges | {"latent": COUNT, "feedback": NOT_NEGATIVE}
    betas: ClassVar[tuple[float, float]] = (0.9, 0.999)

    latent: int = 100
    feedback: float = 0.1
    hidden: int = 256
    learning_rate: float = 1e-4
    batch_size: int = 64

    def _noise_size(self, n_attributes: int) -> int:
        return self.latent

    def _examples(self, X: Array, codes: Codes) -> tuple[Array, Codes]:
        order = np.argsort(codes, kind="stable")
        _, first, sizes = np.unique(codes[order], return_index=True, return_counts=True)
        sums = np.add.reduceat(X[order], first, axis=0)
        between = (np.square(sums).sum(axis=1) / sizes).sum()
        within = (np.einsum("ij,ij", X, X) - between) / X.size
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

    def _draw(self, weights: Weights, A: Tensor, n: int, generator: Generator) -> tuple[Tensor, ...]:
        """Return codes, descriptions of any classes, and the rows synthesised from both."""
        if self.others_ is not None and len(self.others_):
            A = torch.cat([A, torch.from_numpy(self._signatures(self.others_))])
        drawn = A[torch.randint(len(A), (n,), generator=generator)]
        noise = torch.randn(n, self.latent, generator=generator)
        return noise, drawn, self._generate(weights, noise, drawn)

    def _opponent_loss(self, w: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: Generator) -> Tensor:
        with torch.no_grad():
            _, drawn, made = self._draw(w, A, len(X), generator)
        predicted = _perceptron(w, "D.regressor", torch.cat([X, made]))
        return _squared(predicted, torch.cat([A[codes], drawn]))

    def _loss(self, weights: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: Generator) -> Tensor:
        unit = 2 * self.variance_
        mean, log_variance = _perceptron(weights, "G.encoder", X).chunk(2, dim=1)
        noise = torch.randn(mean.shape, generator=generator)
        rebuilt = self._generate(weights, mean + noise * (log_variance / 2).exp(), A[codes])
        divergence = (mean.square() + log_variance.exp() - log_variance - 1).sum(dim=1).mean() / 2
        noise, drawn, made = self._draw(weights, A, len(X), generator)
        made_mean = _perceptron(weights, "G.encoder", made)[:, : self.latent]
        feedback = (
            _squared(_perceptron(weights, "D.regressor", made), drawn)
            + _squared(self._generate(weights, made_mean, drawn), made) / unit
            + _squared(made_mean, noise)
        )
        return _squared(rebuilt, X) / unit + divergence + self.feedback * feedback


def _perceptron(weights: Weights, name: str, X: Tensor) -> Tensor:
    hidden = (X @ weights[f"{name}.W1"] + weights[f"{name}.b1"]).relu()
    return hidden @ weights[f"{name}.W2"] + weights[f"{name}.b2"]


def _squared(one: Tensor, other: Tensor) -> Tensor:
    """Return the mean squared distance of rows."""
    return (one - other).square().sum(dim=1).mean()
