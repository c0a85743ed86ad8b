"""Leave-out gate: classifiers that were each taught to be unsure about a part of the seen classes.

Vyas, Jammalamadaka, Zhu, Das, Kaul & Willke, "Out-of-distribution detection using an ensemble of
self supervised leave-out classifiers", ECCV 2018.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax, xlogy

from cosmo.gates.base import Gate, evidence_of
from cosmo.gates.odin import pushed_logits
from cosmo.gates.scaling import ScoreScale
from cosmo.observer import Observer
from cosmo.optimisers import Adam
from cosmo.outputs import ExpertOutputs

__all__ = ["LeaveOutGate", "entropy", "margin_entropy_loss"]


class LeaveOutGate(Gate):
    """Score a sample by the confidence of an ensemble, each member trained to doubt some classes.

    The seen classes are cut into folds. Member k is a linear soft-max classifier of the classes outside
    fold k, trained to be at least `margin` surer, in mean entropy, about their samples than about those of
    fold k. A sample's score is the sum over members of `n max_y p_y - 1 + log n - H(p)`, after a push as in
    ODIN, with n the member's classes: the authors' `max - H`, measured from the uniform distribution so
    that it stays comparable when the number of classes changes, and then from its mean over the training
    rows. On held-out samples a line is fitted that turns scores into probabilities; it keeps their order.

    Parameters
    ----------
    folds : int
        Number of members.
    margin : float
        In nats.
    weight : float
        Of the margin loss, beside the cross-entropy.
    temperature, epsilon : float
        Of the soft-max and of the push when scores are computed; see `OdinGate`.
    epochs : int
        Passes over the samples for each member.
    seed : int
        Draws folds and mini-batches.

    Examples
    --------
    >>> from cosmo import Cosmo
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> train = data.split.trainval
    >>> model = Cosmo(data.descriptions, gate=LeaveOutGate(epochs=2))
    >>> model.fit(data.features[train], data.labels[train]).predict(data.features[:2]).shape
    (2,)
    """

    def __init__(
        self,
        folds: int = 5,
        *,
        margin: float = 0.4,
        weight: float = 0.2,
        temperature: float = 1000.0,
        epsilon: float = 0.002,
        epochs: int = 20,
        seed: int = 0,
    ) -> None:
        self.folds = folds
        self.margin = margin
        self.weight = weight
        self.temperature = temperature
        self.epsilon = epsilon
        self.epochs = epochs
        self.seed = seed

    def observer(self) -> Observer:
        """Return the ensemble, not trained yet."""
        if self.folds < 2:
            raise ValueError(f"folds must be at least 2, got {self.folds}")
        if self.epochs < 1:
            raise ValueError(f"epochs must be at least 1, got {self.epochs}")
        if not self.temperature > 0:
            raise ValueError(f"temperature must be positive, got {self.temperature}")
        return _Ensemble(self)

    def fit(self, outputs: ExpertOutputs) -> Self:
        """Learn the scale of the scores."""
        self.scale_ = ScoreScale().fit(evidence_of(outputs, self)[:, 0], outputs.is_seen)
        return self

    def score(self, outputs: ExpertOutputs) -> NDArray[np.float64]:
        """Return the probability of "seen" for each sample."""
        return self.scale_(evidence_of(outputs, self)[:, 0])


class _Ensemble(Observer):
    """The leave-out classifiers of one stage."""

    def __init__(self, gate: LeaveOutGate) -> None:
        self.gate = gate

    def fit(self, seen: Any, X: NDArray[np.float32], codes: NDArray[np.intp]) -> Self:
        gate = self.gate
        self.mean = X.mean(axis=0)
        spread = X.std(axis=0)
        self.spread = np.where(spread > 0, spread, 1).astype(np.float32)
        scaled = (X - self.mean) / self.spread
        ranks = np.unique(codes, return_inverse=True)[1].reshape(-1)
        n_classes = int(ranks.max()) + 1
        rng = np.random.default_rng(gate.seed)
        fold = rng.permutation(n_classes) % min(gate.folds, n_classes)
        self.members = [
            _train(scaled, ranks, fold == k, gate, rng)
            for k in range(fold.max() + 1)
            if (fold != k).sum() > 1  # one class leaves nothing to be unsure between
        ]
        if not self.members:
            raise ValueError("the leave-out gate needs at least three seen classes")
        self.centre = self._confidence(X).mean()
        return self

    def evidence(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        return (self._confidence(X) - self.centre)[:, None]

    def _confidence(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        scaled = (X - self.mean) / self.spread
        total = np.zeros(len(X))
        for weights, bias in self.members:
            logits = scaled @ weights + bias
            moved = pushed_logits(
                logits, weights, np.ones_like(self.spread), self.gate.temperature, [self.gate.epsilon]
            )
            proba = softmax(next(moved).astype(np.float64) / self.gate.temperature, axis=1)
            n_classes = proba.shape[1]
            total += n_classes * proba.max(axis=1) - 1 + np.log(n_classes) - entropy(proba)
        return total


def entropy(proba: NDArray[Any]) -> NDArray[Any]:
    """Return the entropy of each row, in nats.

    Examples
    --------
    >>> entropy(np.array([[1.0, 0.0], [0.5, 0.5]])).round(3)
    array([0.   , 0.693])
    """
    total: NDArray[Any] = -xlogy(proba, proba).sum(axis=1)
    return np.maximum(total, 0)  # not -0.0


def margin_entropy_loss(
    logits: NDArray[Any], codes: NDArray[np.intp], n_in: int, margin: float, weight: float
) -> tuple[float, NDArray[Any]]:
    """Return the loss of a mini-batch and its gradient for the logits.

    Parameters
    ----------
    logits : array of shape (n_samples, n_classes)
        The first `n_in` samples are of the classes, the others of left-out ones.
    codes : array of int, shape (n_in,)
    """
    log_p = logits - logits.max(axis=1, keepdims=True)
    log_p = log_p - np.log(np.exp(log_p).sum(axis=1, keepdims=True))
    proba = np.exp(log_p)
    H = -(proba * log_p).sum(axis=1)
    rows = np.arange(n_in)
    gradient = np.zeros_like(logits)
    gradient[:n_in] = proba[:n_in] / n_in
    gradient[rows, codes] -= 1 / n_in
    value = -float(log_p[rows, codes].mean())
    n_out = len(logits) - n_in
    if n_out:
        violation = margin + float(H[:n_in].mean()) - float(H[n_in:].mean())
        if violation > 0:
            # dH/dz_j = -p_j (log p_j + H)
            slope = -proba * (log_p + H[:, None])
            gradient[:n_in] += weight / n_in * slope[:n_in]
            gradient[n_in:] -= weight / n_out * slope[n_in:]
            value += weight * violation
    return value, gradient


def _train(
    X: NDArray[np.float32],
    codes: NDArray[np.intp],
    left_out: NDArray[np.bool_],
    gate: LeaveOutGate,
    rng: np.random.Generator,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return weights and bias of a member; `left_out` says which classes it is to doubt."""
    kept = np.cumsum(~left_out) - 1  # column of each class that stays
    n_classes = int((~left_out).sum())
    weights = np.zeros((X.shape[1], n_classes), dtype=np.float32)
    bias = np.zeros(n_classes, dtype=np.float32)
    # A step that changes a logit at an average sample by a tenth or so, whatever the number of features.
    steps = [Adam(weights, 0.1 / X.shape[1]), Adam(bias, 0.01)]
    outside = left_out[codes]
    for _ in range(gate.epochs):
        for rows, others in _batches(np.flatnonzero(~outside), np.flatnonzero(outside), rng):
            batch = X[np.r_[rows, others]]
            logits = batch @ weights + bias
            _, gradient = margin_entropy_loss(logits, kept[codes[rows]], len(rows), gate.margin, gate.weight)
            steps[0].update(batch.T @ gradient)
            steps[1].update(gradient.sum(axis=0))
    return weights, bias


def _batches(
    rows: NDArray[np.intp], others: NDArray[np.intp], rng: np.random.Generator, size: int = 100
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield mini-batches that go once through `rows`, each with as many of `others`, taken in turn."""
    rows, others = rng.permutation(rows), rng.permutation(others)
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        yield part, np.take(others, np.arange(start, start + len(part)), mode="wrap")
