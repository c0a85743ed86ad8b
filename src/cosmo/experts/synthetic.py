"""Linear models trained on real and synthetic features."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from cosmo.extras import import_torch

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["fit_linear"]


def fit_linear(
    X: Tensor,
    target: Tensor,
    n_outputs: int,
    loss: Literal["cross-entropy", "squared error"],
    *,
    epochs: int = 25,
    learning_rate: float = 1e-3,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Return weights (n_features, n_outputs) and biases of `X W + b`, trained by Adam from zero.

    Few passes from zero keep the weights small, which is all the regularisation there is. A pass has at
    least 20 steps, each on at most 256 samples.

    Parameters
    ----------
    X : tensor of shape (n_samples, n_features)
    target : tensor
        Class of each sample for the cross-entropy, shape (n_samples, n_outputs) for the squared error.
    seed : int
        Draws the order of samples.
    """
    torch = import_torch()
    criterion = torch.nn.functional.cross_entropy if loss == "cross-entropy" else torch.nn.functional.mse_loss
    W = torch.zeros(X.shape[1], n_outputs, requires_grad=True)
    b = torch.zeros(n_outputs, requires_grad=True)
    adam = torch.optim.Adam([W, b], lr=learning_rate, fused=True)
    generator = torch.Generator().manual_seed(seed)
    batch_size = min(256, math.ceil(len(X) / 20))
    for _ in range(epochs):
        for batch in torch.randperm(len(X), generator=generator).split(batch_size):
            adam.zero_grad()
            criterion(torch.addmm(b, X[batch], W), target[batch]).backward()
            adam.step()
    return W.detach(), b.detach()
