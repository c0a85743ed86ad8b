"""Accuracies of generalized zero-shot learning and measures of gates, with confidence intervals.

Accuracies are per class ("balanced"): every class counts the same however many rows it has. `Acc_tr`
is the accuracy on rows of seen classes, `Acc_ts` on rows of unseen classes, both predicted among all
classes; `Acc_H` is their harmonic mean.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm
from sklearn.metrics import roc_auc_score, roc_curve

from cosmo._core.validation import as_array, as_class_index, check_scores, check_shares

__all__ = [
    "GZSLScores",
    "Interval",
    "fpr_at_tpr",
    "gate_auc",
    "gate_intervals",
    "gzsl_intervals",
    "gzsl_scores",
    "harmonic_mean",
    "per_class_accuracy",
    "sampled_ausuc",
    "zsl_accuracy",
]


class GZSLScores(NamedTuple):
    """`Acc_ts` (unseen), `Acc_tr` (seen) and their harmonic mean `Acc_H`, each in 0..1."""

    acc_ts: float
    acc_tr: float
    acc_h: float


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


def harmonic_mean(acc_ts: ArrayLike, acc_tr: ArrayLike) -> Any:
    """Return `2·ts·tr / (ts + tr)`, 0 where both are 0; works on scalars and arrays.

    Examples
    --------
    >>> round(harmonic_mean(0.246, 0.648), 3), harmonic_mean(0, 0)
    (0.357, 0.0)
    """
    ts, tr = (np.asarray(part, dtype=np.float64) for part in (acc_ts, acc_tr))
    total, mean = ts + tr, np.asarray(2 * ts * tr)
    np.divide(mean, total, out=mean, where=total > 0)
    return mean if mean.ndim else float(mean)


def _hits(
    y_true: Iterable[Hashable], y_pred: Iterable[Hashable], classes: Iterable[Hashable]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the number of correct rows and of rows of each class."""
    index = as_class_index(classes)
    if len(index) == 0:
        raise ValueError("accuracy over no classes is undefined")
    if not index.is_unique:
        raise ValueError("classes lists a class more than once")
    truth, guess = as_class_index(y_true), as_class_index(y_pred)
    if len(truth) != len(guess):
        raise ValueError(
            f"{len(truth)} true labels but {len(guess)} predictions; give one of each per sample"
        )
    missing = truth.isna()
    if missing.any() and not index.hasnans:
        raise ValueError(f"y_true has no label in row {missing.argmax()}; fill it in or drop the row")
    codes, guessed = index.get_indexer(truth), index.get_indexer(guess)
    inside = codes >= 0
    return _count_hits(codes[inside], guessed[inside], len(index))


def _count_hits(
    codes: NDArray[np.intp], predicted: NDArray[np.intp], n_classes: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the number of right rows and of rows of every class, given as codes."""
    right = np.bincount(codes[codes == predicted], minlength=n_classes)
    return right, np.bincount(codes, minlength=n_classes)


def _mean_over_classes(right: NDArray[np.intp], rows: NDArray[np.intp]) -> float:
    """Average `right / rows`; a class without rows counts as 0."""
    return float((right / np.maximum(rows, 1)).mean())


def class_accuracy(codes: NDArray[np.intp], predicted: NDArray[np.intp], n_classes: int) -> float:
    """Return the mean per-class accuracy of class codes, which are not validated."""
    return _mean_over_classes(*_count_hits(codes, predicted, n_classes))


def per_class_accuracy(
    y_true: Iterable[Hashable], y_pred: Iterable[Hashable], classes: Iterable[Hashable]
) -> float:
    """Return the mean over `classes` of the share of each class's rows that are predicted right.

    Rows of other classes are ignored. The mean is over *all* of `classes`: one without rows counts
    as 0, the benchmark's convention.

    Parameters
    ----------
    y_true, y_pred : sequences of labels, length n_samples
    classes : sequence of labels

    Examples
    --------
    >>> per_class_accuracy(["a", "a", "b"], ["a", "b", "b"], ["a", "b"])
    0.75
    """
    return _mean_over_classes(*_hits(y_true, y_pred, classes))


def zsl_accuracy(y_true: Iterable[Hashable], scores: ArrayLike, classes: Iterable[Hashable]) -> float:
    """Return T1, plain zero-shot accuracy: per class, on rows of `classes`, predicted among them only.

    Parameters
    ----------
    y_true : sequence of labels, length n_samples
    scores : array of shape (n_samples, n_classes)
        How well each sample fits each of `classes`.

    Examples
    --------
    >>> zsl_accuracy(["y", "z"], [[0.3, 0.1], [0.2, 0.1]], classes=["y", "z"])
    0.5
    """
    index = as_class_index(classes)
    values = as_array(scores, name="scores")
    if values.dtype.kind not in "fiub" or values.ndim != 2 or values.shape[1] != len(index):
        raise ValueError(
            "scores must be a matrix of numbers, a row per sample and a column for each of the "
            f"{len(index)} classes, got shape {values.shape}, {values.dtype}"
        )
    if np.isnan(values).any():
        raise ValueError("scores have NaN values; fill them in or drop the rows")
    return per_class_accuracy(y_true, index[values.argmax(axis=1)], index)


def gzsl_scores(
    y_true: Iterable[Hashable],
    y_pred: Iterable[Hashable],
    seen: Iterable[Hashable],
    unseen: Iterable[Hashable],
) -> GZSLScores:
    """Return `(Acc_ts, Acc_tr, Acc_H)` of predictions made among seen and unseen classes together.

    Examples
    --------
    >>> gzsl_scores(["a", "a", "z"], ["a", "z", "z"], seen=["a"], unseen=["z"])
    GZSLScores(acc_ts=1.0, acc_tr=0.5, acc_h=0.6666666666666666)
    """
    truth, guess = as_class_index(y_true), as_class_index(y_pred)
    seen, unseen = as_class_index(seen), as_class_index(unseen)
    both = seen.intersection(unseen)
    if len(both):
        raise ValueError(f"a class is both seen and unseen: {both[0]!r}; name it in one of the two")
    acc_ts = per_class_accuracy(truth, guess, unseen)
    acc_tr = per_class_accuracy(truth, guess, seen)
    return GZSLScores(acc_ts, acc_tr, harmonic_mean(acc_ts, acc_tr))


def plausible_accuracies(
    right: NDArray[np.intp], rows: NDArray[np.intp], size: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Draw mean accuracies from Jeffreys' posterior, given right rows and rows of each class.

    The proportion has the effective sample size of the class mean: the number of rows for which it has the
    same variance. Classes without rows count as 0.

    Examples
    --------
    >>> drawn = plausible_accuracies(np.array([3, 5]), np.array([5, 5]), 1000, np.random.default_rng(0))
    >>> np.quantile(drawn, [0.025, 0.975]).round(1)
    array([0.5, 1. ])
    """
    n_classes = len(rows)
    right, rows = right[rows > 0], rows[rows > 0]
    if not len(rows):
        return np.zeros(size)
    share, single = right / rows, rows == 1
    mean = share.mean()
    spread = share * (1 - share) / np.maximum(rows - 1, 1)
    if single.any():  # One row has no variance of its own; such classes are pooled.
        spread[single] = share[single].mean() * (1 - share[single].mean())
    variance = spread.sum() / len(rows) ** 2
    effective = mean * (1 - mean) / variance if variance > 0 else _effective_size(rows)
    draws: NDArray[np.float64] = generator.beta(effective * mean + 0.5, effective * (1 - mean) + 0.5, size)
    return draws * (len(rows) / n_classes)


def _effective_size(rows: ArrayLike) -> float:
    """Return the effective sample size of a mean over classes with these numbers of rows."""
    counts = np.asarray(rows, dtype=np.float64)
    counts = counts[counts > 0]
    return float(len(counts) ** 2 / (1 / counts).sum())


def accuracy_bound(accuracy: float, rows: ArrayLike, confidence: float = 0.95) -> float:
    """Return the lower Wilson bound of a mean accuracy over other rows of the same classes.

    `rows` has the number of rows of each class. Differences between classes are ignored. This makes the bound
    slightly conservative, but a function of the accuracy alone, which `accuracy_to_reach` inverts.

    Examples
    --------
    >>> round(accuracy_bound(0.8, [10] * 20), 3)
    0.75
    """
    n, z = _effective_size(rows), norm.ppf(confidence)
    half = z * np.sqrt(accuracy * (1 - accuracy) / n + (z / (2 * n)) ** 2)
    return float((accuracy + z**2 / (2 * n) - half) / (1 + z**2 / n))


def accuracy_to_reach(floor: float, rows: ArrayLike, confidence: float = 0.95) -> float:
    """Return the smallest accuracy whose `accuracy_bound` is at least `floor`; it may exceed 1.

    Accuracies are monotonic along a seen-unseen curve, so choosing the last threshold that reaches this
    accuracy keeps the confidence of a single threshold.

    Examples
    --------
    >>> reach = accuracy_to_reach(0.75, [10] * 20)
    >>> round(reach, 3), round(accuracy_bound(reach, [10] * 20), 9)
    (0.8, 0.75)
    """
    check_shares(confidence=confidence)
    return float(floor + norm.ppf(confidence) * np.sqrt(floor * (1 - floor) / _effective_size(rows)))


def gzsl_intervals(
    y_true: Iterable[Hashable],
    y_pred: Iterable[Hashable],
    seen: Iterable[Hashable],
    unseen: Iterable[Hashable],
    *,
    level: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
) -> tuple[Interval, Interval, Interval]:
    """Return intervals of `Acc_ts`, `Acc_tr` and `Acc_H` over other rows of the same classes.

    The classes are the task and stay fixed. An accuracy is drawn from what is plausible after the count:
    a Beta distribution with Jeffreys' prior, for as many rows as the mean over classes is worth.
    A bootstrap of rows would be too short with few rows per class, and without any width where all
    are right or all are wrong.

    Examples
    --------
    >>> low, high = gzsl_intervals(["a"] * 9 + ["z"] * 9, ["a"] * 9 + ["z"] * 9, ["a"], ["z"])[2]
    >>> round(low, 2), float(high)
    (0.81, 1.0)
    """
    truth, guess = as_class_index(y_true), as_class_index(y_pred)
    check_shares(level=level)
    generator = np.random.default_rng(seed)
    hits = [_hits(truth, guess, classes) for classes in (unseen, seen)]
    counted = [_mean_over_classes(*one) for one in hits]
    drawn = [plausible_accuracies(*one, n_resamples, generator) for one in hits]
    tail = (1 - level) / 2

    def interval(values: NDArray[np.float64], value: float) -> Interval:
        low, high = np.quantile(values, [tail, 1 - tail])
        return Interval(float(min(low, value)), float(max(high, value)))

    ts, tr = map(interval, drawn, counted)
    return ts, tr, interval(harmonic_mean(*drawn), harmonic_mean(*counted))


def _measured(is_seen: ArrayLike, score: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    domains = np.asarray(is_seen, dtype=bool)
    if domains.all() or not domains.any():
        raise ValueError("a gate is measured on samples of both seen and unseen classes; one kind is missing")
    return domains, check_scores(score, len(domains), name="score")


def gate_auc(is_seen: ArrayLike, score: ArrayLike) -> float:
    """Return the area under the ROC curve of a gate score; positives are seen rows.

    Examples
    --------
    >>> gate_auc([True, True, False], [0.9, 0.4, 0.1])
    1.0
    """
    return float(roc_auc_score(*_measured(is_seen, score)))


def fpr_at_tpr(is_seen: ArrayLike, score: ArrayLike, tpr: float = 0.95) -> float:
    """Return the false positive rate of a gate at a true positive rate; positives are seen rows.

    The rate is interpolated linearly between the points of the ROC curve; where several have exactly
    the rate `tpr`, the smallest counts.

    Examples
    --------
    >>> fpr_at_tpr([True, True, False], [0.9, 0.4, 0.1])
    0.0
    """
    check_shares(tpr=tpr)
    false_rate, true_rate, _ = roc_curve(*_measured(is_seen, score))
    # Of equal abscissae np.interp takes the last, so the curve is walked from its far end.
    return float(np.interp(-tpr, -true_rate[::-1], false_rate[::-1]))


def gate_intervals(
    is_seen: ArrayLike,
    score: ArrayLike,
    *,
    level: float = 0.95,
    tpr: float = 0.95,
    n_resamples: int = 200,
    seed: int = 0,
) -> tuple[Interval, Interval]:
    """Return bootstrap intervals of `gate_auc` and `fpr_at_tpr`, resampling seen and unseen rows apart.

    Examples
    --------
    >>> auc, fpr = gate_intervals([True, True, False], [0.9, 0.4, 0.1])
    >>> float(auc.low), float(fpr.high)
    (1.0, 0.0)
    """
    check_shares(level=level, tpr=tpr)
    seen, score = _measured(is_seen, score)
    # Rows with the same score cross every threshold together: one column each, highest first.
    _, column = np.unique(-score, return_inverse=True)
    generator = np.random.default_rng(seed)

    def rates(columns: NDArray[np.intp]) -> NDArray[np.float64]:
        counts = np.bincount(columns, minlength=int(column.max()) + 1)
        drawn = generator.multinomial(len(columns), counts / len(columns), size=n_resamples)
        return np.pad(drawn.cumsum(axis=1) / len(columns), ((0, 0), (1, 0)))

    true_rate, false_rate = rates(column[seen]), rates(column[~seen])
    auc = np.trapezoid(true_rate, false_rate)
    fpr = list(map(partial(np.interp, -tpr), -true_rate[:, ::-1], false_rate[:, ::-1]))  # as in fpr_at_tpr
    tail = [(1 - level) / 2, (1 + level) / 2]
    return Interval(*map(float, np.quantile(auc, tail))), Interval(*map(float, np.quantile(fpr, tail)))


def sampled_ausuc(acc_tr: ArrayLike, acc_ts: ArrayLike) -> float:
    """Return the area under sampled points of a seen-unseen curve, with the usual padding.

    Points are sorted by `Acc_tr` and `(0, Acc_ts of the first)` goes in front; trapezoidal rule. The usual
    `(largest Acc_tr, 0)` behind adds nothing. `cosmo.mixture.curve.SeenUnseenCurve.area` is the exact value.

    Examples
    --------
    >>> sampled_ausuc([0.0, 0.5, 1.0], [1.0, 0.5, 0.0])
    0.5
    """
    tr = check_scores(acc_tr, name="acc_tr")
    ts = check_scores(acc_ts, len(tr), name="acc_ts")
    if len(tr) == 0:
        raise ValueError("the area under no points is undefined; give acc_tr and acc_ts of at least one")
    order = np.lexsort((-ts, tr))
    tr, ts = tr[order], ts[order]
    return float(np.trapezoid(np.r_[ts[0], ts], np.r_[0, tr]))
