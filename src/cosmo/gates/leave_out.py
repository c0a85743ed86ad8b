"""Leave-out gate: an ensemble of classifiers, each trained to be uncertain about a part of the classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax, xlogy

from cosmo._core.validation import as_number
from cosmo.experts._linear import Adam
from cosmo.experts.base import Array, Codes, Observer
from cosmo.gates.base import ScaledGate, require_evidence
from cosmo.gates.odin import Logits, perturbed_logits
from cosmo.mixture.outputs import ExpertOutputs

_BATCH = 100  # samples in a step


@dataclass(eq=False, repr=False)
class LeaveOutGate(ScaledGate):
    """Score a sample by the confidence of an ensemble of leave-out classifiers.

    The seen classes are divided into folds. Member k is a linear soft-max classifier of the classes outside
    fold k, trained so that its mean entropy on samples of fold k exceeds that on the others by `margin`. A
    sample's confidence is the sum over members of `n max_y p_y - 1 + log n - H(p)`, after a perturbation as
    in ODIN, with n the number of the member's classes: the authors' `max - H`, relative to the uniform
    distribution so that it is comparable between numbers of classes, less its mean over the training rows.
    It is scaled to probabilities on held-out samples.

    Parameters
    ----------
    folds : int, default=5
        Number of members.
    margin : float, default=0.4
        In nats.
    weight : float, default=0.2
        Weight of the margin loss, relative to the cross-entropy.
    temperature : float, default=1000.0
        Temperature of the soft-max at prediction.
    epsilon : float, default=0.002
        Size of the perturbation, see `OdinGate`.
    epochs : int, default=20
        Passes over the samples for each member.
    seed : int, default=0
        Seed of folds and mini-batches.

    References
    ----------
    Vyas, Jammalamadaka, Zhu, Das, Kaul & Willke, "Out-of-distribution detection using an ensemble of self
    supervised leave-out classifiers", ECCV 2018.

    Examples
    --------
    >>> from cosmo import Cosmo
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> train = data.split.trainval
    >>> model = Cosmo(data.descriptions, gate=LeaveOutGate(epochs=2), method="paper")
    >>> model.fit(data.features[train], data.labels[train]).predict(data.features[:2]).shape
    (2,)
    """

    folds: int = 5
    _: KW_ONLY
    margin: float = 0.4
    weight: float = 0.2
    temperature: float = 1000.0
    epsilon: float = 0.002
    epochs: int = 20
    seed: int = 0

    def observer(self) -> Observer:
        """Return a new ensemble, not fitted."""
        for name, least in (("folds", 2), ("epochs", 1)):
            if as_number(getattr(self, name), name=name, whole=True) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if not as_number(self.temperature, name="temperature") > 0:
            raise ValueError(f"temperature must be positive, got {self.temperature}")
        return LeaveOutEnsemble(self)

    def _confidence(self, outputs: ExpertOutputs) -> NDArray[np.float64]:
        return require_evidence(outputs, self)[:, 0]


class LeaveOutEnsemble(Observer):
    """The leave-out classifiers of one stage."""

    def __init__(self, gate: LeaveOutGate) -> None:
        self.gate = gate

    def fit(self, seen: Any, X: Array, codes: Codes) -> Self:
        """Train the members."""
        gate = self.gate
        self.mean = X.mean(axis=0)
        spread = X.std(axis=0)
        self.spread = np.where(spread > 0, spread, 1).astype(np.float32)
        scaled = (X - self.mean) / self.spread
        self.classes, ranks = np.unique(codes, return_inverse=True)
        n_classes = len(self.classes)
        rng = np.random.default_rng(gate.seed)
        fold = rng.permutation(n_classes) % min(gate.folds, n_classes)
        # A member needs at least two classes.
        self.left_out = [fold == k for k in range(fold.max() + 1) if (fold != k).sum() > 1]
        if not self.left_out:
            raise ValueError("the leave-out gate needs at least three seen classes")
        self.members = [_train(scaled, ranks, left_out, gate, rng) for left_out in self.left_out]
        self.centre = self.confidence(X).sum(axis=1).mean()
        return self

    def evidence(self, X: Array) -> NDArray[np.float64]:
        """Return the summed confidence, centred."""
        return self.confidence(X).sum(axis=1, keepdims=True) - self.centre

    def confidence(self, X: Array) -> NDArray[np.float64]:
        """Return the confidence of each member, shape (n_samples, n_members)."""
        scaled = (X - self.mean) / self.spread
        result = np.empty((len(X), len(self.members)))
        temperature, epsilon = self.gate.temperature, self.gate.epsilon
        for column, logits in enumerate(self.members):
            moved = next(perturbed_logits(scaled, logits, np.ones_like(self.spread), temperature, [epsilon]))
            proba = softmax(moved.astype(np.float64) / temperature, axis=1)
            n_classes = proba.shape[1]
            result[:, column] = n_classes * proba.max(axis=1) - 1 + np.log(n_classes) - entropy(proba)
        return result


def entropy(proba: NDArray[Any]) -> NDArray[Any]:
    """Return the entropy of each row, in nats."""
    total: NDArray[Any] = -xlogy(proba, proba).sum(axis=1)
    return np.maximum(total, 0)  # not -0.0


def margin_entropy_loss(
    logits: NDArray[Any], codes: Codes, n_in: int, margin: float, weight: float
) -> tuple[float, NDArray[Any]]:
    """Return the loss of a mini-batch, whose first `n_in` samples have classes `codes`, and its gradient."""
    log_p = log_softmax(logits, axis=1)
    proba = np.exp(log_p)
    H = -(proba * log_p).sum(axis=1)
    rows = np.arange(n_in)
    gradient = np.zeros_like(logits)
    gradient[:n_in] = proba[:n_in] / n_in
    gradient[rows, codes] -= 1 / n_in
    value = -float(log_p[rows, codes].mean())
    n_out = len(logits) - n_in
    violation = margin + float(H[:n_in].mean()) - float(H[n_in:].mean()) if n_out else 0.0
    if violation > 0:
        # dH/dz_j = -p_j (log p_j + H)
        slope = -proba * (log_p + H[:, None])
        gradient[:n_in] += weight / n_in * slope[:n_in]
        gradient[n_in:] -= weight / n_out * slope[n_in:]
        value += weight * violation
    return value, gradient


def _train(
    X: Array, codes: Codes, left_out: NDArray[np.bool_], gate: LeaveOutGate, rng: np.random.Generator
) -> Logits:
    """Return a member, trained to be uncertain about the classes in `left_out`."""
    new = np.cumsum(~left_out) - 1  # codes without the left-out classes
    n_classes = int((~left_out).sum())
    weights = np.zeros((X.shape[1], n_classes), dtype=np.float32)
    bias = np.zeros(n_classes, dtype=np.float32)
    # A step changes the logits of an average sample by about a tenth, for any number of features.
    steps = [Adam(weights, 0.1 / X.shape[1]), Adam(bias, 0.01)]
    outside = left_out[codes]
    for _ in range(gate.epochs):
        for rows, others in _batches(np.flatnonzero(~outside), np.flatnonzero(outside), rng):
            batch = X[np.r_[rows, others]]
            logits = batch @ weights + bias
            _, gradient = margin_entropy_loss(logits, new[codes[rows]], len(rows), gate.margin, gate.weight)
            steps[0].update(batch.T @ gradient)
            steps[1].update(gradient.sum(axis=0))
    return Logits([(weights, bias)])


def _batches(rows: Codes, others: Codes, rng: np.random.Generator) -> Iterator[tuple[Codes, Codes]]:
    """Yield mini-batches of all `rows`, each with as many of `others`, in turn."""
    rows, others = rng.permutation(rows), rng.permutation(others)
    for start in range(0, len(rows), _BATCH):
        part = rows[start : start + _BATCH]
        yield part, np.take(others, np.arange(start, start + len(part)), mode="wrap")
