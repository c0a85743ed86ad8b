"""Leave-out gate: classifiers that were each taught to be unsure about a part of the seen classes.

Vyas, Jammalamadaka, Zhu, Das, Kaul & Willke, "Out-of-distribution detection using an ensemble of
self supervised leave-out classifiers", ECCV 2018.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax, xlogy

from cosmo._core.validation import as_number
from cosmo.experts._linear import Adam
from cosmo.experts._observer import Observer
from cosmo.gates._gradients import Logits
from cosmo.gates._platt import ScoreScale
from cosmo.gates.base import Gate, domains_of, evidence_of
from cosmo.gates.odin import pushed_logits
from cosmo.metrics.accuracy import gate_auc
from cosmo.mixture.outputs import ExpertOutputs

__all__ = ["LeaveOutGap", "LeaveOutGate", "entropy", "leave_out_gap", "margin_entropy_loss"]


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
        if as_number(self.folds, name="folds", whole=True) < 2:
            raise ValueError(f"folds must be at least 2, got {self.folds}")
        if as_number(self.epochs, name="epochs", whole=True) < 1:
            raise ValueError(f"epochs must be at least 1, got {self.epochs}")
        if not as_number(self.temperature, name="temperature") > 0:
            raise ValueError(f"temperature must be positive, got {self.temperature}")
        return _Ensemble(self)

    def fit(self, *outputs: ExpertOutputs) -> Self:
        """Learn the scale of the scores."""
        confidence = np.concatenate([evidence_of(one, self)[:, 0] for one in outputs])
        self.scale_ = ScoreScale().fit(confidence, domains_of(outputs))
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
        self.classes, ranks = np.unique(codes, return_inverse=True)
        ranks, n_classes = ranks.reshape(-1), len(self.classes)
        rng = np.random.default_rng(gate.seed)
        fold = rng.permutation(n_classes) % min(gate.folds, n_classes)
        # One class would leave a member nothing to be unsure between.
        self.left_out = [fold == k for k in range(fold.max() + 1) if (fold != k).sum() > 1]
        if not self.left_out:
            raise ValueError("the leave-out gate needs at least three seen classes")
        self.members = [_train(scaled, ranks, left_out, gate, rng) for left_out in self.left_out]
        self.centre = self.confidence(X).sum(axis=1).mean()
        return self

    def evidence(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        return self.confidence(X).sum(axis=1, keepdims=True) - self.centre

    def confidence(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return how sure each member is, shape (n_samples, n_members)."""
        scaled = (X - self.mean) / self.spread
        result = np.empty((len(X), len(self.members)))
        temperature, epsilon = self.gate.temperature, self.gate.epsilon
        for column, logits in enumerate(self.members):
            moved = next(pushed_logits(scaled, logits, np.ones_like(self.spread), temperature, [epsilon]))
            proba = softmax(moved.astype(np.float64) / temperature, axis=1)
            n_classes = proba.shape[1]
            result[:, column] = n_classes * proba.max(axis=1) - 1 + np.log(n_classes) - entropy(proba)
        return result


class LeaveOutGap(NamedTuple):
    """How well members of a leave-out ensemble tell their classes from others: mean AUC, in 0..1.

    The others are the classes that a member was trained to doubt, on the rows it was trained on (`trained`)
    and on other rows (`fresh`), or classes that no member has met (`unmet`).
    """

    trained: float
    fresh: float
    unmet: float


def leave_out_gap(
    gate: LeaveOutGate,
    X: NDArray[np.float32],
    codes: NDArray[np.intp],
    X_val: NDArray[np.float32],
    val_codes: NDArray[np.intp],
) -> LeaveOutGap:
    """Train an ensemble on `X` and measure what it has learned to doubt: these classes, or any class.

    Parameters
    ----------
    gate : LeaveOutGate
    X, codes
        Training rows (n_samples, n_features) and their classes.
    X_val, val_codes
        Other rows, of the same classes and of further ones.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> codes = np.repeat(np.arange(12), 40)
    >>> X = (rng.normal(size=(12, 20))[codes] + rng.normal(size=(480, 20))).astype(np.float32)
    >>> train, val = (codes < 9) & (np.arange(480) % 4 > 0), (codes >= 9) | (np.arange(480) % 4 == 0)
    >>> gap = leave_out_gap(LeaveOutGate(3, weight=3.0), X[train], codes[train], X[val], codes[val])
    >>> gap.trained > gap.unmet
    True
    """
    ensemble = _Ensemble(gate).fit(None, X, codes)
    on_train, on_val = ensemble.confidence(X), ensemble.confidence(X_val)
    met = np.isin(val_codes, ensemble.classes)
    found = []
    for column, left_out in enumerate(ensemble.left_out):
        doubted = ensemble.classes[left_out]
        trained, other = on_train[:, column], on_val[:, column]
        own = met & ~np.isin(val_codes, doubted)
        found.append(
            (
                gate_auc(~np.isin(codes, doubted), trained),
                gate_auc(own[met], other[met]),
                gate_auc(own[own | ~met], other[own | ~met]),
            )
        )
    return LeaveOutGap(*np.mean(found, axis=0).tolist())


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
) -> Logits:
    """Return a member; `left_out` says which classes it is to doubt."""
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
    return Logits([(weights, bias)])


def _batches(
    rows: NDArray[np.intp], others: NDArray[np.intp], rng: np.random.Generator, size: int = 100
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield mini-batches that go once through `rows`, each with as many of `others`, taken in turn."""
    rows, others = rng.permutation(rows), rng.permutation(others)
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        yield part, np.take(others, np.arange(start, start + len(part)), mode="wrap")
