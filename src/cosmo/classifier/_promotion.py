"""An unseen class becomes a seen one: the seen expert learns it, everything else stays."""

from __future__ import annotations

from collections.abc import Hashable
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_expit, logsumexp, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from cosmo.experts.pair import ExpertPair, fit_seen_expert
from cosmo.gates import Gate

__all__ = ["add_class", "can_add_class", "promote"]

# Tried on training rows of the CLINC intents: 30 of 100 seen classes played the new one. Of 1, 4, 8
# and 20 classes' worth of weight, 8 of the other 70 was the most that cost these nothing with 20 samples.
_SHARE = 0.1  # weight of the new class's samples together, the rows of all seen classes being 1
_FREEDOM = 10  # times weaker than the others' regularisation: theirs is for weights that share the work


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
    """Return experts for which an unseen class is a seen one.

    A soft-max regression learns the new class only (`add_class`), any other classifier is fitted anew, the
    new samples repeated until they are as many as a seen class has on average.

    Parameters
    ----------
    experts : ExpertPair
    label : class label
        One of `experts.unseen_classes`.
    X : array of shape (n_samples, n_features)
        Its first samples.
    others : array of shape (n_rows, n_features)
        Rows of the seen classes.
    codes : array of int, shape (n_rows,)
        The class of each, a position in `experts.seen_classes`.
    weights : array of shape (n_rows,)
        How many training rows each stands for.
    gate : Gate
        Its observer, if it has one, looks at the seen classes again.
    """
    n_seen = len(experts.seen_classes)
    if can_add_class(experts.seen):
        seen = add_class(experts.seen, X, others, weights)
    else:
        repeats = max(1, round(len(others) / n_seen / len(X)))
        seen = fit_seen_expert(experts.seen, *_joined(np.repeat(X, repeats, axis=0), others, codes, n_seen))
    observer = gate.observer()
    if observer is not None:
        observer.fit(seen, *_joined(X, others, codes, n_seen))
    return replace(
        experts,
        seen=seen,
        seen_classes=experts.seen_classes.append(pd.Index([label], tupleize_cols=False)),
        observer=observer,
    )


def _joined(
    X: NDArray[np.float32], others: NDArray[np.float32], codes: NDArray[np.intp], code: int
) -> tuple[NDArray[np.float32], NDArray[np.intp]]:
    """Return all rows and their codes."""
    return np.concatenate([others, X]), np.append(codes, np.full(len(X), code, dtype=np.intp))


def can_add_class(seen: Any) -> bool:
    """Tell whether `add_class` can extend a fitted classifier: a soft-max regression, maybe after scaling."""
    last = seen[-1] if isinstance(seen, Pipeline) else seen
    if not isinstance(last, LogisticRegression):
        return False
    probe = np.eye(last.n_features_in_, dtype=np.float32)[:1]
    return np.allclose(last.predict_proba(probe), softmax(_logits(last, probe), axis=1), atol=1e-6)


def add_class(
    seen: Any, X: NDArray[np.float32], others: NDArray[np.float32], weights: NDArray[np.float64]
) -> Any:
    """Return a copy of a soft-max regression with one more class, the last; the other weights stay.

    With the others' logits fixed, the likelihood is that of a two-class regression, "the new class or one of
    the others", whose logit is `w·x + b - log Σ exp(others' logits)`: a small convex problem.

    Few samples in many dimensions are told apart too easily, and a new one is then met with doubt, which the
    gate takes for "unseen". So the bias is chosen by the likelihood of rows that were held out of the fit,
    and the new samples together weigh a tenth of all others, or as much as one seen class if that is more.
    Each seen class loses next to nothing, as what the new one takes is taken from all of them.

    Parameters
    ----------
    seen : LogisticRegression, or Pipeline that ends in one
        Fitted, see `can_add_class`.
    X : array of shape (n_samples, n_features)
        Samples of the new class.
    others : array of shape (n_rows, n_features)
        Samples of the other classes.
    weights : array of shape (n_rows,)
        How many training rows each of `others` stands for.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> centres = np.array([[0, 0], [4, 0], [0, 4], [4, 4]], dtype=np.float32)
    >>> codes = np.repeat(np.arange(4), 30)
    >>> X = centres[codes] + rng.normal(size=(120, 2)).astype(np.float32)
    >>> three = LogisticRegression().fit(X[:90], codes[:90])
    >>> four = add_class(three, X[90:100], X[:90], np.ones(90))
    >>> bool(four.score(X[100:], codes[100:]) > 0.8), bool((four.coef_[:3] == three.coef_).all())
    (True, True)
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
    problem = _OneMore(
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


class _OneMore(NamedTuple):
    """A two-class regression with weights and offsets; `sign` is 1 for rows of the new class, else -1."""

    rows: NDArray[np.float32]
    sign: NDArray[np.float64]
    weights: NDArray[np.float64]
    offset: NDArray[np.float64]

    def fit(self, penalty: float) -> tuple[NDArray[np.float64], float]:
        """Return w and b of largest likelihood, less `penalty · |w|² / 2`."""
        rows, sign, weights, offset = self

        def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            w, b = flat[:-1], flat[-1]
            margin = sign * (rows @ w.astype(rows.dtype) + b - offset)
            pull = -weights * sign * expit(-margin)
            value = penalty * (w @ w) / 2 - (weights * log_expit(margin)).sum()
            return float(value), np.append(pull.astype(rows.dtype) @ rows + penalty * w, pull.sum())

        start = np.append(np.zeros(rows.shape[1]), offset[sign > 0].mean())
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 100})
        return found.x[:-1], float(found.x[-1])

    def held_out_shift(self, penalty: float) -> float:
        """Return what to add to b so that rows are likeliest under fits that did not have them."""
        n_new = int((self.sign > 0).sum())
        if n_new < 2:
            return 0.0
        n_folds = min(5, n_new)
        fold = np.append(np.arange(len(self.sign) - n_new), np.arange(n_new)) % n_folds
        value = np.empty(len(fold))
        for k in range(n_folds):
            held = fold == k
            w, b = _OneMore(*(part[~held] for part in self)).fit(penalty)
            value[held] = self.rows[held] @ w + b - self.offset[held]

        def loss(shift: float) -> float:
            return -float((self.weights * log_expit(self.sign * (value + shift))).sum())

        return float(minimize_scalar(loss, bounds=(-20, 20), method="bounded").x)


def _parameters(seen: LogisticRegression) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return one row of weights and one bias per class; two classes share one row otherwise."""
    if len(seen.coef_) > 1:
        return seen.coef_, seen.intercept_
    return np.vstack([0 * seen.coef_, seen.coef_]), np.append(0 * seen.intercept_, seen.intercept_)


def _logits(seen: LogisticRegression, rows: NDArray[Any]) -> NDArray[np.float64]:
    coefficients, intercepts = _parameters(seen)
    return rows.astype(np.float64) @ coefficients.T.astype(np.float64) + intercepts
