"""Gates of LAGO: soft OR within groups of attributes, soft AND between groups, and their training loss."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.special import expit, logsumexp, softmax

_FLOOR = 1e-12


@dataclass(eq=False)
class Weights:
    """Detectors W and b, and the logits V of Γ, (n_attributes, n_groups), or None if groups are hard."""

    W: NDArray[Any]
    b: NDArray[Any]
    V: NDArray[Any] | None

    def detect(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return `q`, shape (n_samples, n_attributes)."""
        return expit(X @ self.W + self.b)

    def project_back(self, mean: NDArray[Any], axes: NDArray[Any]) -> Weights:
        """Return the weights for `x` that equal these for `(x - mean) @ axes`."""
        W = axes @ self.W
        return Weights(W, self.b - mean @ W, self.V)


def group_membership(V: NDArray[Any], gain: float) -> NDArray[Any]:
    """Return Γ, shape (n_attributes, n_groups)."""
    return softmax(gain * V, axis=1)


class _Block(NamedTuple):
    """Gates that depend on some of the attributes."""

    columns: NDArray[np.intp] | slice
    gates: slice
    factors: NDArray[Any]  # (n_columns, number of gates · n_classes)


@dataclass(eq=False)
class Gates:
    """`G_zk`, that is `q @ factors + constant`, in blocks that share no attribute and no gate."""

    blocks: Sequence[_Block]
    constant: NDArray[Any]  # (n_groups, n_classes)

    def __call__(self, Q: NDArray[Any]) -> NDArray[Any]:
        """Return G, shape (n_samples, n_groups, n_classes)."""
        G = np.empty((len(Q), *self.constant.shape), dtype=Q.dtype)
        for block in self.blocks:
            G[:, block.gates] = (Q[:, block.columns] @ block.factors).reshape(len(Q), -1, G.shape[2])
        G += self.constant
        return np.maximum(G, _FLOOR, out=G)

    def backward(self, dG: NDArray[Any], n_attributes: int) -> NDArray[Any]:
        """Return the gradient for Q, shape (n_samples, n_attributes), from that for G."""
        dQ = np.empty((len(dG), n_attributes), dtype=dG.dtype)
        for block in self.blocks:
            dQ[:, block.columns] = dG[:, block.gates].reshape(len(dG), -1) @ block.factors.T
        return dQ


def _prior(u: NDArray[Any]) -> float:
    return max(float(u.mean(dtype=np.float64)), _FLOOR)


def hard_gates(u: NDArray[Any], groups: Sequence[NDArray[np.intp]]) -> Gates:
    """Return the gates for hard groups."""
    prior = _prior(u)
    blocks = [
        _Block(columns, slice(k, k + 1), np.ascontiguousarray(u[:, columns].T / u.dtype.type(prior)))
        for k, columns in enumerate(groups)
    ]
    constant = np.stack(
        [np.prod(1 - u[:, columns], axis=1) / max((1 - prior) ** len(columns), _FLOOR) for columns in groups]
    )
    return Gates(blocks, constant.astype(u.dtype))


def soft_gates(u: NDArray[Any], gamma: NDArray[Any]) -> Gates:
    """Return the gates if attribute m is in group k with probability `gamma[m, k]`."""
    prior = _prior(u)
    joint = gamma[:, :, None] * u.T[:, None, :]
    background = np.maximum(np.prod(1 - prior * gamma, axis=0), _FLOOR)
    constant = np.prod(1 - joint, axis=0) / background[:, None]
    joint /= u.dtype.type(prior)
    block = _Block(slice(None), slice(None), joint.reshape(len(gamma), -1))
    return Gates([block], constant.astype(u.dtype))


def neutral_bias(u: NDArray[Any], gates: Gates) -> float:
    """Return the common bias of detectors, from 0 to the log-odds of the prior, that prefers no class."""
    # At bias 0 detectors favour classes with many attributes; training corrects that for seen classes only.
    prior = min(_prior(u), 1 - _FLOOR)
    biases = np.linspace(0, np.log(prior / (1 - prior)), 17)
    Q = np.repeat(expit(biases)[:, None], u.shape[1], axis=1).astype(u.dtype)
    spread = np.log(gates(Q)).sum(axis=1, dtype=np.float64).std(axis=1)
    return float(biases[spread.argmin()])


def principal_axes(X: NDArray[np.float32], n: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the mean of the samples, and at most n leading principal axes, partly whitened."""
    mean = X.mean(axis=0)
    centred = X - mean
    wide = len(X) < X.shape[1]  # then the Gram matrix of the samples is smaller
    moments = (centred @ centred.T if wide else centred.T @ centred) / np.float32(len(X))
    size = len(moments)
    variances, axes = eigh(moments, subset_by_index=(max(0, size - n), size - 1), check_finite=False)
    keep = variances > 1e-6 * variances[-1]
    keep[-1] = True
    variances, axes = np.maximum(variances[keep], 0), axes[:, keep]
    if wide:
        axes = centred.T @ axes
        axes /= np.maximum(np.linalg.norm(axes, axis=0), _FLOOR)
    # The sign of an axis is arbitrary; it must not depend on rounding.
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    # Leading axes come close to unit variance; weak ones stay weak: Adam should not fit noise with them.
    lengths = np.sqrt(variances + 3 * variances.mean())
    axes /= np.where(lengths > 0, lengths, 1)
    return mean, np.ascontiguousarray(axes)


def log_probabilities(G: NDArray[Any]) -> NDArray[np.float64]:
    """Return `log p(z|x)`, shape (n_samples, n_classes)."""
    total = np.log(G).sum(axis=1, dtype=np.float64)
    return total - logsumexp(total, axis=1, keepdims=True)


@dataclass(eq=False)
class Loss:
    """Training loss and its gradients, in the precision of its input."""

    u: NDArray[Any]
    weight_decay: float
    class_decay: float
    gain: float
    group_prior: float
    target: NDArray[Any] | None

    def detectors(
        self, X: NDArray[Any], codes: NDArray[np.intp], gates: Gates, weights: Weights
    ) -> tuple[float, NDArray[Any], NDArray[Any]]:
        """Return the mean log-loss, and the gradients of the loss for W and b."""
        Q = weights.detect(X)
        value, dG = self._cross_entropy(gates(Q), codes)
        error = gates.backward(dG, Q.shape[1]) * Q * (1 - Q)
        dW, db = X.T @ error, error.sum(axis=0)
        if self.weight_decay:
            dW += 2 * self.weight_decay * weights.W
            db += 2 * self.weight_decay * weights.b
        if self.class_decay:
            dW += 2 * self.class_decay * ((weights.W @ self.u.T) @ self.u)
        return value, dW, db

    def grouping(
        self, Q: NDArray[Any], codes: NDArray[np.intp], V: NDArray[Any]
    ) -> tuple[float, NDArray[Any]]:
        """Return the mean log-loss, and the gradient of the loss for V, from detected attributes."""
        gamma = group_membership(V, self.gain)
        gates = soft_gates(self.u, gamma)
        value, dG = self._cross_entropy(gates(Q), codes)
        n_classes, prior = len(self.u), _prior(self.u)
        present = (Q.T @ dG.reshape(len(Q), -1)).reshape(*gamma.shape, n_classes)
        dgamma = np.einsum("mkz,zm->mk", present, self.u) / prior
        # From the logarithm of the constant, a sum over attributes.
        absent = dG.sum(axis=0) * gates.constant
        share = self.u.T[:, None, :] / np.maximum(1 - gamma[:, :, None] * self.u.T[:, None, :], _FLOOR)
        dgamma -= np.einsum("mkz,kz->mk", share, absent)
        dgamma += absent.sum(axis=1) * prior / np.maximum(1 - prior * gamma, _FLOOR)
        if self.target is not None:
            dgamma += 2 * self.group_prior * (gamma - self.target)
        return value, self.gain * gamma * (dgamma - (gamma * dgamma).sum(axis=1, keepdims=True))

    def _cross_entropy(self, G: NDArray[Any], codes: NDArray[np.intp]) -> tuple[float, NDArray[Any]]:
        """Return the mean log-loss and its gradient for G, which is overwritten."""
        log_p = log_probabilities(G)
        rows = np.arange(len(codes))
        error = np.exp(log_p)
        error[rows, codes] -= 1
        error /= len(codes)
        dG = np.divide(error.astype(G.dtype)[:, None, :], G, out=G, where=G > _FLOOR)
        return -float(log_p[rows, codes].mean()), dG


class Average:
    """Average of detectors over the steps of a training, the t-th step weighted by about t³."""

    def __init__(self, trained: Weights) -> None:
        self.trained, self.mean = trained, deepcopy(trained)
        self.time = 0

    def update(self) -> None:
        """Add the current weights."""
        self.time += 1
        share = np.float32(4 / (self.time + 3))
        self.mean.W += share * (self.trained.W - self.mean.W)
        self.mean.b += share * (self.trained.b - self.mean.b)

    def weights(self) -> Weights:
        """Return the averaged detectors and the current Γ."""
        return deepcopy(Weights(self.mean.W, self.mean.b, self.trained.V))
