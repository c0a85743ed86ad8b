"""The gates of LAGO, soft OR inside groups of attributes and soft AND between them, with gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, softmax

__all__ = [
    "Adam",
    "Gates",
    "Loss",
    "Weights",
    "group_membership",
    "hard_gates",
    "log_probabilities",
    "soft_gates",
]

_FLOOR = 1e-12


@dataclass(eq=False)
class Weights:
    """What is learned: the detectors W (n_features, n_attributes) and b (n_attributes,), and Γ's logits.

    V has shape (n_attributes, n_groups), or is None where groups are hard.
    """

    W: NDArray[Any]
    b: NDArray[Any]
    V: NDArray[Any] | None

    def detect(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return `q`, shape (n_samples, n_attributes), for scaled features."""
        return expit(X @ self.W + self.b)

    def copy(self) -> Weights:
        """Return weights that further training does not change."""
        return Weights(self.W.copy(), self.b.copy(), None if self.V is None else self.V.copy())


def group_membership(V: NDArray[Any], gain: float) -> NDArray[Any]:
    """Return Γ, shape (n_attributes, n_groups)."""
    return softmax(gain * V, axis=1)


class _Block(NamedTuple):
    """The gates that depend on some attributes only."""

    columns: NDArray[np.intp] | slice
    gates: slice
    factors: NDArray[Any]  # (n_columns, number of gates · n_classes)


@dataclass(eq=False)
class Gates:
    """`G_zk` as a function of the detected attributes: `q @ factors + constant`, block by block.

    No two blocks share an attribute or a gate.
    """

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
    """Return the gates where every attribute is in one group."""
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
    """Return the gates where attribute m is in group k with probability `gamma[m, k]`."""
    prior = _prior(u)
    joint = gamma[:, :, None] * u.T[:, None, :]
    background = np.maximum(np.prod(1 - prior * gamma, axis=0), _FLOOR)
    constant = np.prod(1 - joint, axis=0) / background[:, None]
    joint /= u.dtype.type(prior)
    block = _Block(slice(None), slice(None), joint.reshape(len(gamma), -1))
    return Gates([block], constant.astype(u.dtype))


def log_probabilities(G: NDArray[Any]) -> NDArray[np.float64]:
    """Return `log p(z|x)`, shape (n_samples, n_classes)."""
    total = np.log(G).sum(axis=1, dtype=np.float64)
    return total - logsumexp(total, axis=1, keepdims=True)


@dataclass(eq=False)
class Loss:
    """The training loss and its gradients, for scaled features, in the precision of its input."""

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


class Adam:
    """Adam (Kingma & Ba, 2015) on one array, in place."""

    def __init__(self, weights: NDArray[np.float32], step: float) -> None:
        self.weights, self.step = weights, step
        self.mean, self.square = np.zeros_like(weights), np.zeros_like(weights)
        self.time = 0

    def update(self, gradient: NDArray[np.float32]) -> None:
        """Take one step down the gradient."""
        self.time += 1
        self.mean += np.float32(0.1) * (gradient - self.mean)
        gradient = np.square(gradient)
        gradient -= self.square
        self.square += np.float32(0.001) * gradient
        size = np.sqrt(self.square, out=gradient)
        size += np.float32(1e-8 * np.sqrt(1 - 0.999**self.time))
        np.divide(self.mean, size, out=size)
        rate = self.step * np.sqrt(1 - 0.999**self.time) / (1 - 0.9**self.time)
        size *= np.float32(rate)
        self.weights -= size
