"""Promotion: the seen expert learns an unseen class, everything else stays."""

from __future__ import annotations

from collections.abc import Hashable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_expit, logsumexp, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from cosmo.experts._linear import transformed
from cosmo.experts.pair import ExpertPair, fit_seen_expert
from cosmo.gates import Gate

# Chosen on training rows of the CLINC intents, with 30 of 100 seen classes promoted: of the weights of 1, 4,
# 8 and 20 classes, 8 was the largest that cost the other 70 classes no accuracy with 20 samples.
_SHARE = 0.1  # total weight of the new samples, relative to the rows of all seen classes
_FREEDOM = 10  # C of the new class, relative to that of the others


@dataclass(frozen=True, eq=False)
class ExemplarBuffer:
    """Exemplar buffer used by `promote`: a few training rows of each seen class.

    `rows` are in half precision where that is precise enough; `codes` are positions among the seen classes;
    `counts` has the number of training rows of each class, `per_class` the largest number that is kept.
    """

    rows: NDArray[Any]
    codes: NDArray[np.integer[Any]]
    counts: NDArray[np.integer[Any]]
    per_class: int

    def __post_init__(self) -> None:
        matrix = self.rows.ndim == 2 and self.rows.dtype.kind == "f" and self.counts.ndim == 1
        if not matrix or self.codes.shape != (len(self.rows),):
            raise ValueError("an exemplar buffer needs rows of numbers, a code for each, and class counts")
        if set(np.unique(self.codes)) != set(range(len(self.counts))):
            raise ValueError(f"an exemplar buffer needs rows of each of its {len(self.counts)} classes")

    @classmethod
    def draw(cls, X: NDArray[Any], codes: NDArray[np.integer[Any]], per_class: int) -> ExemplarBuffer:
        """Draw at most `per_class` rows of each class, with a fixed seed."""
        counts = np.bincount(codes)
        order = np.random.default_rng(0).permutation(len(codes))
        order = order[np.argsort(codes[order], kind="stable")]
        rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        drawn = order[rank < per_class]
        return cls(_compress(X[drawn]), codes[drawn], counts, per_class)

    @property
    def weights(self) -> NDArray[np.float64]:
        """Number of training rows that each row represents."""
        return (self.counts / np.bincount(self.codes))[self.codes]

    def with_class(self, X: NDArray[Any]) -> ExemplarBuffer:
        """Return the buffer with rows of one more class."""
        new = X[: self.per_class]
        return ExemplarBuffer(
            _compress(np.concatenate([self.rows.astype(np.float32), new])),
            np.append(self.codes, np.full(len(new), len(self.counts))),
            np.append(self.counts, len(X)),
            self.per_class,
        )


def _compress(rows: NDArray[Any]) -> NDArray[Any]:
    """Return rows in half precision if that changes them little, else in single precision."""
    with np.errstate(over="ignore"):
        half = rows.astype(np.float16)
    precise = np.abs(half - rows).max(initial=0) <= 1e-3 * np.abs(rows).max(initial=0)
    return half if precise else rows.astype(np.float32)


def promote(
    experts: ExpertPair,
    label: Hashable,
    X: NDArray[np.float32],
    others: NDArray[np.float32],
    codes: NDArray[np.intp],
    weights: NDArray[np.float64],
    *,
    gate: Gate,
) -> ExpertPair:
    """Return experts with an unseen class made a seen one.

    A soft-max regression only learns the new class (`add_class`). Any other classifier is fitted again, with
    the new samples `X` repeated until they are as many as a seen class has on average. `others` are rows of
    the seen classes, `codes` their classes, `weights` the number of training rows that each represents. The
    observer of the gate, if any, is fitted again. In the calibrated method the class keeps the probability by
    its description, too; see `with_promoted`.
    """
    n_seen = len(experts.seen_classes)
    X, others = transformed(X, experts.transform), transformed(others, experts.transform)
    if can_add_class(experts.seen):
        seen = add_class(experts.seen, X, others, weights)
    else:
        repeats = max(1, round(len(others) / n_seen / len(X)))
        seen = fit_seen_expert(experts.seen, *_append(np.repeat(X, repeats, axis=0), others, codes, n_seen))
    observer = gate.observer()
    if observer is not None:
        observer.fit(seen, *_append(X, others, codes, n_seen))
    is_calibrated = experts.temperatures is not None
    return replace(
        experts,
        n_promoted=experts.n_promoted + is_calibrated,
        gate=gate if is_calibrated else None,
        seen=seen,
        seen_classes=experts.seen_classes.append(pd.Index([label], tupleize_cols=False)),
        observer=observer,
    )


def _append(
    X: NDArray[np.float32], others: NDArray[np.float32], codes: NDArray[np.intp], code: int
) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
    return np.concatenate([others, X]), np.append(codes, np.full(len(X), code, dtype=np.intp))


def can_add_class(seen: Any) -> bool:
    """Return whether a fitted classifier is a soft-max regression, maybe in a pipeline."""
    last = seen[-1] if isinstance(seen, Pipeline) else seen
    if not isinstance(last, LogisticRegression):
        return False
    probe = np.eye(last.n_features_in_, dtype=np.float32)[:1]
    return np.allclose(last.predict_proba(probe), softmax(_logits(last, probe), axis=1), atol=1e-6)


def add_class(
    seen: Any, X: NDArray[np.float32], others: NDArray[np.float32], weights: NDArray[np.float64]
) -> Any:
    """Return a copy of a soft-max regression with one more class; the other weights stay.

    With the logits of the others fixed, the likelihood is that of a two-class regression, "the new class or
    one of the others", whose logit is `w·x + b - log Σ exp(others' logits)`: a small convex problem.

    Few samples in many dimensions are separated too easily, and new ones then get low confidences, which the
    gate takes for "unseen". So the bias maximises the likelihood of held-out rows, and the new samples
    together weigh a tenth of all others, or as much as one seen class if that is more.
    """
    if isinstance(seen, Pipeline):
        head, (name, last) = seen[:-1], seen.steps[-1]
        if head.steps:
            X, others = head.transform(X), head.transform(others)
        extended = copy(seen)
        extended.steps = [*seen.steps[:-1], (name, add_class(last, X, others, weights))]
        return extended
    share = max(_SHARE, 1 / len(seen.classes_)) * weights.sum()
    rows = np.concatenate([others, X])
    problem = _Regression(
        rows,
        np.repeat([-1.0, 1.0], [len(others), len(X)]),
        np.append(weights, np.full(len(X), share / len(X))),
        logsumexp(_logits(seen, rows), axis=1),
    )
    penalty = 1 / (_FREEDOM * seen.C)
    w, b = problem.fit(penalty)
    b += problem.held_out_shift(penalty)
    coefficients, intercepts = _parameters(seen)
    result = copy(seen)
    result.coef_ = np.vstack([coefficients, w]).astype(seen.coef_.dtype)
    result.intercept_ = np.append(intercepts, b).astype(seen.intercept_.dtype)
    result.classes_ = np.append(seen.classes_, len(seen.classes_))
    return result


class _Regression(NamedTuple):
    """Two-class regression with weights and offsets; `sign` is 1 for the new class, else -1."""

    rows: NDArray[np.float32]
    sign: NDArray[np.float64]
    weights: NDArray[np.float64]
    offset: NDArray[np.float64]

    def fit(self, penalty: float) -> tuple[NDArray[np.float64], float]:
        """Return w and b of largest likelihood minus `penalty · |w|² / 2`."""
        rows, sign, weights, offset = self

        def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            w, b = flat[:-1], flat[-1]
            margin = sign * (rows @ w.astype(rows.dtype) + b - offset)
            slope = -weights * sign * expit(-margin)
            value = penalty * (w @ w) / 2 - (weights * log_expit(margin)).sum()
            return float(value), np.append(slope.astype(rows.dtype) @ rows + penalty * w, slope.sum())

        start = np.append(np.zeros(rows.shape[1]), offset[sign > 0].mean())
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 100})
        return found.x[:-1], float(found.x[-1])

    def held_out_shift(self, penalty: float) -> float:
        """Return the shift of b of largest likelihood on rows held out by cross-validation."""
        n_new = int((self.sign > 0).sum())
        if n_new < 2:
            return 0.0
        n_folds = min(5, n_new)
        fold = np.append(np.arange(len(self.sign) - n_new), np.arange(n_new)) % n_folds
        value = np.empty(len(fold))
        for k in range(n_folds):
            held = fold == k
            w, b = _Regression(*(part[~held] for part in self)).fit(penalty)
            value[held] = self.rows[held] @ w + b - self.offset[held]

        def loss(shift: float) -> float:
            return -float((self.weights * log_expit(self.sign * (value + shift))).sum())

        return float(minimize_scalar(loss, bounds=(-20, 20), method="bounded").x)


def _parameters(seen: LogisticRegression) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return weights and biases per class; scikit-learn has one row for two classes."""
    if len(seen.coef_) > 1:
        return seen.coef_, seen.intercept_
    return np.vstack([0 * seen.coef_, seen.coef_]), np.append(0 * seen.intercept_, seen.intercept_)


def _logits(seen: LogisticRegression, rows: NDArray[Any]) -> NDArray[np.float64]:
    coefficients, intercepts = _parameters(seen)
    return rows.astype(np.float64) @ coefficients.T.astype(np.float64) + intercepts
