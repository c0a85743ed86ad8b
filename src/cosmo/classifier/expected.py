"""Expected accuracies on test, with intervals that allow for new classes.

The hold-out rounds give one accuracy for each class in the role of an unseen one. Other unseen classes are
like draws from them, and as many are drawn as the task has; where it has more than the rounds offer together,
more of their accuracies are unknown. Seen classes stay the same, with other rows and other classes beside
them. The gate may be wrong by a constant, which the rounds show, too: it moves both accuracies in opposite
directions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from cosmo.data.rounds import offered_together
from cosmo.metrics.accuracy import GZSLScores, Interval, harmonic_mean
from cosmo.mixture.outputs import OutputsSummary

_BIASES = 20
_DRAWS = 200  # for each bias


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
    """Return the expected accuracies with `n_unseen` other unseen classes.

    Parameters
    ----------
    validation : OutputsSummary
        Of the hold-out rounds.
    flips : array of shape (n_samples,)
        Threshold at which each of its samples changes to the unseen expert.
    threshold : float
    n_unseen : int
    error : float, default=0
        Standard deviation of the gate's bias, in units of the threshold.
    level : float, default=0.9
        Probability that an interval contains the accuracy on test.
    seed : int, default=0
    """
    if not 0 < level < 1:
        raise ValueError(f"level is a probability between 0 and 1, got {level}")
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
        GZSLScores(here.mean("unseen"), here.mean("seen"), float(acc_h.mean())),
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

    def mean(self, domain: str) -> float:
        """Return the mean accuracy of the classes."""
        right, rows = self.parts[domain]
        return float((right / rows).mean())

    def other_rows(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw the mean accuracy of the seen classes on as many other rows, beside other classes."""
        right, rows = self.parts["seen"]
        accuracy = rng.beta(right + 0.5, rows - right + 0.5, size=(_DRAWS, len(rows)))
        # Jeffreys' prior adds half a row on each side; its effect on the mean is taken back.
        accuracy += (right / rows - (right + 0.5) / (rows + 1)).mean()
        drawn = rng.binomial(rows, np.clip(accuracy, 0, 1)) / rows
        # Other competitors change the accuracy of each class; their spread stands for that of the changes.
        weights = rng.dirichlet(np.ones(len(rows)), size=_DRAWS)
        means: NDArray[np.float64] = (weights * drawn).sum(axis=1)
        return means

    def other_classes(self, n_unseen: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw the mean accuracy of other unseen classes, whose distribution is itself uncertain.

        One class of any accuracy is added to the held-out ones, so that few of them give a wide interval;
        more of them if the task has more unseen classes than any round can offer.
        """
        right, rows = self.parts["unseen"]
        unknown = n_unseen / offered_together(self.n_seen, n_unseen)
        weights = rng.dirichlet(np.append(np.ones(len(rows)), max(1, unknown)), size=_DRAWS)
        counts = rng.multinomial(n_unseen, weights)
        total = counts[:, :-1] @ (right / rows)
        any_accuracy = np.array([rng.random(n).sum() for n in counts[:, -1]])
        means: NDArray[np.float64] = (total + any_accuracy) / n_unseen
        return means
