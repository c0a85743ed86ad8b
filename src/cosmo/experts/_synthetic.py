"""Linear models trained on real and synthetic features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from cosmo._core.extras import require

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["fit_linear"]

_STEPS = 600
_BATCH = 256


def fit_linear(
    X: Tensor,
    target: Tensor,
    n_outputs: int,
    loss: Literal["cross-entropy", "squared error"],
    *,
    importance: Tensor | None = None,
    learning_rate: float = 1e-3,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Return weights (n_features, n_outputs) and biases of `X W + b`, trained by Adam from zero.

    Few steps from zero keep the weights small, which is all the regularisation there is. There are 600,
    each on 256 samples or, where there are fewer, all: with more samples a model is no more confident.

    Parameters
    ----------
    X : tensor of shape (n_samples, n_features)
    target : tensor
        Class of each sample for the cross-entropy, shape (n_samples, n_outputs) for the squared error.
    importance : tensor of shape (n_samples,), optional
        Of each sample in the loss; only ratios matter.
    seed : int
        Draws the order of samples.

    Examples
    --------
    >>> import torch
    >>> X = torch.eye(3).repeat(10, 1)
    >>> W, b = fit_linear(X, X.argmax(dim=1), 3, "cross-entropy")
    >>> (X[:3] @ W + b).argmax(dim=1)
    tensor([0, 1, 2])
    """
    torch = require("torch")
    W = torch.zeros(X.shape[1], n_outputs, requires_grad=True)
    b = torch.zeros(n_outputs, requires_grad=True)
    adam = torch.optim.Adam([W, b], lr=learning_rate, fused=True)
    generator = torch.Generator().manual_seed(seed)
    share = None if importance is None else importance / importance.mean()
    batches: list[Tensor] = []
    for _ in range(_STEPS):
        if not batches:
            batches = list(torch.randperm(len(X), generator=generator).split(_BATCH))
        batch = batches.pop()
        output = torch.addmm(b, X[batch], W)
        if loss == "cross-entropy":
            losses = torch.nn.functional.cross_entropy(output, target[batch], reduction="none")
        else:
            losses = (output - target[batch]).square().mean(dim=1)
        adam.zero_grad()
        (losses if share is None else losses * share[batch]).mean().backward()
        adam.step()
    return W.detach(), b.detach()
