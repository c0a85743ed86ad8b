"""Estimates for the operating point: accuracies on test, and the share of samples of unseen classes.

**Accuracies.** The hold-out rounds give one accuracy for each class in the role of an unseen one. Other
unseen classes are like draws from them, and as many are drawn as the task has. They compete with more
classes than in a round, so that the odds against each grow, at most in proportion to the number of classes.
Seen classes stay the same, with other rows and other classes beside them. The gate may be wrong by a
constant, which the rounds show, too: it moves both accuracies in opposite directions.

**Share.** The calibrated gate gives the log-odds `v` of "unseen" at equal prior, the logarithm of a ratio of
densities. The share `π` of largest likelihood of a batch maximises `Σ log(π·exp(v) + 1 - π)`: label shift
with two domains. Its interval comes from batches drawn from the hold-out rounds, with varying numbers of
unseen samples, unseen classes and bias of the gate: it contains every share for which the estimate would be
an ordinary one. It is for the share where the samples come from, not for that among the samples themselves.

References
----------
Saerens, Latinne & Decaestecker, "Adjusting the outputs of a classifier to new a priori probabilities", Neural
Computation 2002.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from cosmo._core.validation import check_shares
from cosmo.metrics.accuracy import GZSLScores, Interval, harmonic_mean
from cosmo.mixture.outputs import OutputsSummary

_BIASES = 20
_DRAWS = 200  # for each bias; batches for each share


class ExpectedScores(NamedTuple):
    """Expected Acc_ts, Acc_tr and Acc_H, and their intervals."""

    scores: GZSLScores
    intervals: tuple[Interval, Interval, Interval]


def expected_scores(
    validation: OutputsSummary,
    flips: NDArray[np.float64],
    threshold: float,
    n_unseen: int,
    *,
    error: float = 0.0,
    level: float = 0.9,
    seed: int = 0,
) -> ExpectedScores:
    """Return the expected accuracies with `n_unseen` other unseen classes, from the hold-out rounds.

    `flips` has the threshold at which each sample changes to the unseen expert; `error` is the standard
    deviation of the gate's bias, in units of the threshold; `level` the probability that an interval contains
    the accuracy on test.
    """
    check_shares(level=level)
    rng = np.random.default_rng(seed)
    here = _ClassAccuracy(validation, flips, threshold)
    drawn: list[list[NDArray[np.float64]]] = [[], []]
    # One draw of the bias for each of some equally likely values.
    for quantile in (np.arange(_BIASES) + 0.5) / _BIASES:
        shifted = _ClassAccuracy(validation, flips, threshold + error * float(norm.ppf(quantile)))
        drawn[0].append(shifted.other_classes(n_unseen, rng))
        drawn[1].append(shifted.other_rows(rng))
        if error == 0:
            break
    acc_ts, acc_tr = (np.concatenate(part) for part in drawn)
    acc_h = harmonic_mean(acc_ts, acc_tr)
    tail = (1 - level) / 2
    low, high = np.quantile([acc_ts, acc_tr, acc_h], [tail, 1 - tail], axis=1).tolist()
    return ExpectedScores(
        GZSLScores(here.mean("unseen", here.ratio(n_unseen) ** 0.5), here.mean("seen"), float(acc_h.mean())),
        (Interval(low[0], high[0]), Interval(low[1], high[1]), Interval(low[2], high[2])),
    )


class _ClassAccuracy:
    """Number of rows and of right predictions of each class at a threshold, in either role."""

    def __init__(self, validation: OutputsSummary, flips: NDArray[np.float64], threshold: float) -> None:
        unseen = validation.n_seen + validation.unseen_choice
        guess = np.where(threshold > flips, unseen, validation.seen_choice)
        target, n = validation.target, validation.n_seen + validation.n_unseen
        right = np.bincount(target, weights=(guess == target).astype(np.float64), minlength=n)
        rows = np.bincount(target, minlength=n)
        self.n_seen = validation.n_seen
        self.parts = {}
        for domain, part in (("seen", slice(validation.n_seen)), ("unseen", slice(validation.n_seen, None))):
            with_rows = rows[part] > 0
            self.parts[domain] = right[part][with_rows], rows[part][with_rows]

    def ratio(self, n_unseen: int) -> float:
        """Return how many times as many classes a class competes with in the task, at most."""
        return (self.n_seen + n_unseen - 1) / max(1, self.n_seen - 1)

    def mean(self, domain: str, ratio: float = 1.0) -> float:
        """Return the mean accuracy of the classes, the odds against each a number of times as large."""
        right, rows = self.parts[domain]
        return float(among_more_classes(right / rows, ratio).mean())

    def other_rows(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw the mean accuracy of the seen classes on as many other rows, beside other classes."""
        right, rows = self.parts["seen"]
        accuracy = rng.beta(right + 0.5, rows - right + 0.5, size=(_DRAWS, len(rows)))
        # Jeffreys' prior adds half a row on each side; its effect on the mean is taken back.
        accuracy += (right / rows - (right + 0.5) / (rows + 1)).mean()
        drawn = rng.binomial(rows, np.clip(accuracy, 0, 1)) / rows
        # Other competitors change the accuracy of each class; their spread stands for that of the changes.
        weights = rng.dirichlet(np.ones(len(rows)), size=_DRAWS)
        return (weights * drawn).sum(axis=1)

    def other_classes(self, n_unseen: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw the mean accuracy of other unseen classes, whose distribution is itself uncertain.

        One class of any accuracy is added to the held-out ones, so that few of them give a wide interval.
        """
        right, rows = self.parts["unseen"]
        weights = rng.dirichlet(np.ones(len(rows) + 1), size=_DRAWS)
        counts = rng.multinomial(n_unseen, weights)
        accuracy = among_more_classes(right / rows, self.ratio(n_unseen) ** rng.random((_DRAWS, 1)))
        any_accuracy = np.array([rng.random(n).sum() for n in counts[:, -1]])
        return ((counts[:, :-1] * accuracy).sum(axis=1) + any_accuracy) / n_unseen


def among_more_classes(proba: NDArray[np.float64], ratio: float | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities after the odds against each class grow by a ratio.

    Examples
    --------
    >>> among_more_classes(np.array([0.5, 1.0]), 3.0)
    array([0.25, 1.  ])
    """
    return proba / (proba + (1 - proba) * ratio)


_BINS = 200  # of log-odds
_SHARES = np.concatenate([[0, 0.005, 0.01, 0.02, 0.03], np.arange(0.05, 1, 0.05), [0.98, 0.99, 1]])
_TAIL = 0.05
_WIDEST = 0.5


class ShareEstimate(NamedTuple):
    """Share of samples of unseen classes, and its 90 % interval."""

    share: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether the share is known: its interval is at most 0.5 wide."""
        return self.high - self.low <= _WIDEST


def likeliest_share(log_odds: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of largest likelihood of each batch.

    `log_odds` of "unseen", at equal prior, are of shape (n_values,) or (n_batches, n_values); `counts` has
    how many samples of each batch have each value.

    Examples
    --------
    >>> likeliest_share(np.array([-20.0, 20.0]), np.array([[3.0, 1.0], [0.0, 5.0]])).round(3)
    array([0.25, 1.  ])
    """
    rise = np.expm1(np.clip(log_odds, -30, 30))
    low, high = np.zeros(len(counts)), np.ones(len(counts))
    for _ in range(30):  # The slope of the log-likelihood falls with the share.
        middle = (low + high) / 2
        slope = (counts * (rise / (1 + middle[:, None] * rise))).sum(axis=1)
        low, high = np.where(slope > 0, middle, low), np.where(slope > 0, high, middle)
    return (low + high) / 2


def estimate_share(
    score: NDArray[np.float64],
    validation: OutputsSummary,
    n_unseen: int,
    *,
    error: float = 0.0,
    seed: int = 0,
) -> ShareEstimate:
    """Estimate the share of unseen samples where a batch comes from.

    `score` has the gate's log-odds of "seen" of the batch, `validation` is of the hold-out rounds; `n_unseen`
    is the number of unseen classes that the samples may belong to, `error` the standard deviation of the
    gate's bias.
    """
    known = -validation.gate_score
    edges = np.unique(np.quantile(np.concatenate([known, -score]), np.linspace(0, 1, _BINS + 1)[1:-1]))
    both = np.concatenate([known, -score])
    totals = np.bincount(np.searchsorted(edges, both), weights=both, minlength=len(edges) + 1)
    values = totals / np.maximum(_histogram(both, edges), 1)  # mean of each bin
    observed = float(likeliest_share(values, _histogram(-score, edges)[None])[0])

    rng = np.random.default_rng(seed)
    by_class = [
        _histogram(known[validation.target == column], edges)
        for column in range(validation.n_seen, validation.n_seen + validation.n_unseen)
    ]
    unseen = np.stack([one / one.sum() for one in by_class if one.sum()])
    seen = _histogram(known[validation.is_seen], edges)
    low, high = np.empty(len(_SHARES)), np.empty(len(_SHARES))
    for k, share in enumerate(_SHARES):
        n = rng.binomial(len(score), share, size=_DRAWS)
        counts = rng.multinomial(len(score) - n, seen / seen.sum()).astype(np.float64)
        mixed = rng.multinomial(n_unseen, np.full(len(unseen), 1 / len(unseen)), size=_DRAWS) @ unseen
        counts += rng.multinomial(n, mixed / mixed.sum(axis=1, keepdims=True))
        shifted = values + error * rng.normal(size=(_DRAWS, 1))
        low[k], high[k] = np.quantile(likeliest_share(shifted, counts), [_TAIL, 1 - _TAIL])
    # The interval has all shares between whose ends the estimate lies.
    ends = _crossing(high, observed, "left"), _crossing(low, observed, "right")
    return ShareEstimate(observed, min(ends[0], observed), max(ends[1], observed))


def _crossing(bounds: NDArray[np.float64], estimate: float, side: Literal["left", "right"]) -> float:
    """Return the first (left) or last share (right) at which bounds, which rise, equal the estimate."""
    bounds = np.maximum.accumulate(bounds)
    k = int(np.searchsorted(bounds, estimate, side))
    if k in (0, len(bounds)):
        return float(_SHARES[min(k, len(bounds) - 1)])
    if estimate in bounds:  # Bounds of 0 and 1 stay the same for a while, at most until the next share.
        return float(_SHARES[k - 1 if side == "left" else k])
    part = (estimate - bounds[k - 1]) / (bounds[k] - bounds[k - 1])
    return float(_SHARES[k - 1] + part * (_SHARES[k] - _SHARES[k - 1]))


def _histogram(values: NDArray[np.float64], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    counts = np.bincount(np.searchsorted(edges, values), minlength=len(edges) + 1)
    return counts.astype(np.float64)
