"""Calibrated probabilities of both experts, and confidences that do not depend on the number of classes.

One temperature makes the seen expert's output a distribution over the seen classes, `p(y|S)`. The unseen
expert's scores become a distribution over the unseen classes, `p(y|U)`, by a temperature and, with a smaller
weight, by twice that temperature: descriptions of some classes are worse than others, so that large
probabilities of a single temperature are too large and small ones too small. A gate compares the two domains
by confidences that mean the same among few classes and among many: log-odds, differences of scores, and
log-means instead of log-sums of exponentials.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp, softmax

from cosmo.mixture.smoothing import conditional, row_sums

CONFIDENCES = (
    "log-odds of the best seen class",
    "best unseen minus best seen score",
    "log-mean of unseen minus seen scores",
    "best seen score minus that of the seen expert's class",
)
"""Inputs of the gate; the others are of the unseen expert."""

# Weight of the doubled temperature; chosen among 0.2 to 0.5, and factors 1.6 to 4, on other draws of CLINC
# and glyphs (100 to 111) and on training classes of CUB.
FLAT = 0.3
_TINY = 1e-30
_RANGE = np.array([-9, 6])  # of log-temperatures, around the logarithm of the spread of the scores
LIMIT = 12.0  # of log-odds; beyond it, single precision is exhausted


class Temperatures(NamedTuple):
    """Temperatures of both experts.

    `seen` and `unseen` are those of `p(y|S)` and `p(y|U)`; `gate` is that of the unseen expert's scores in
    the gate's inputs. `flat` is the weight of twice the temperature in `p(y|U)`; files of earlier versions
    have none.
    """

    seen: float
    unseen: float
    gate: float
    flat: float = 0.0


def calibrated(
    logits: NDArray[Any], scores: NDArray[Any], temperatures: Temperatures
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Return `p(y|S)`, `p(y|U)` and the gate's inputs.

    Parameters
    ----------
    logits : array of shape (n_samples, n_seen)
        Of the seen expert, or its log-probabilities.
    scores : array of shape (n_samples, n_seen + n_unseen)
        Of the unseen expert, columns `[seen | unseen]`.
    temperatures : Temperatures

    Returns
    -------
    seen, unseen : arrays of shape (n_samples, n_seen) and (n_samples, n_unseen)
        Rows sum to one.
    confidences : array of shape (n_samples, 4)
        See `CONFIDENCES`.

    Examples
    --------
    >>> seen, unseen, confidences = calibrated(
    ...     np.log([[0.8, 0.2]]), np.array([[1.0, 0.0, 2.0]]), Temperatures(1.0, 1.0, 1.0))
    >>> seen, unseen, confidences.round(2)
    (array([[0.8, 0.2]]), array([[1.]]), array([[1.39, 1.  , 1.38, 0.  ]]))
    """
    n_seen, rows = logits.shape[1], np.arange(len(logits))
    z = logits * logits.dtype.type(1 / temperatures.seen)
    choice = z.argmax(axis=1)
    z -= z[rows, choice][:, None]
    np.exp(z, out=z)
    z[rows, choice] = 0  # Added to the others, its exp(0) would take their digits.
    others = row_sums(z)
    z[rows, choice] = 1
    z /= others + 1

    kind = scores.dtype.type
    best, log_mean = [], []
    for part in (scores[:, :n_seen], scores[:, n_seen:]):
        top = part[rows, part.argmax(axis=1)][:, None]  # Faster than `max` of short rows.
        power = part - top
        flat = power * kind(0.5 / temperatures.unseen)  # Kept of the second part.
        power *= kind(1 / temperatures.gate)
        np.exp(power, out=power)
        best.append(top / kind(temperatures.gate))
        log_mean.append(best[-1] + np.log(row_sums(power) / part.shape[1]))
    np.exp(flat, out=flat)
    unseen = flat * flat
    unseen *= kind(1 - temperatures.flat) / row_sums(unseen)
    flat *= kind(temperatures.flat) / row_sums(flat)
    unseen += flat
    own = scores[rows, choice][:, None] / kind(temperatures.gate)
    odds = -np.log(np.maximum(others, np.exp(-LIMIT)))
    columns = odds, best[1] - best[0], log_mean[1] - log_mean[0], best[0] - own
    return z, unseen, np.hstack(columns).astype(np.float64)


def support(
    logits: NDArray[Any], unseen: NDArray[Any], distance: NDArray[np.float64], temperatures: Temperatures
) -> NDArray[np.float64]:
    """Return what speaks for any class at all: inputs of the score by which samples are rejected.

    They are the best logit of the seen expert, the best score of the unseen one for unseen classes, and the
    squared distance to the centre of the training rows; shape (n_samples, 3).
    """
    best = logits.max(axis=1) / temperatures.seen, unseen.max(axis=1, initial=-1e30) / temperatures.gate
    return np.column_stack([*best, distance]).astype(np.float64)


def with_samples(
    seen: NDArray[Any], unseen: NDArray[Any], log_odds: NDArray[np.float64], change: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[Any], NDArray[np.float64]]:
    """Change the masses of classes with new samples, and move those that were unseen to the seen ones.

    `seen` is `p(y|S)` over the classes of the training; `unseen` is `p(y|U)` over all others, those with
    samples first; `log_odds` are of "unseen" as the gate was fitted; `change` is that of the logarithm of the
    mass of each class with samples. Return the distributions over classes with and without samples, and a
    shift to be added to the log-odds.

    Examples
    --------
    >>> seen, unseen, shift = with_samples(
    ...     np.array([[1.0]]), np.array([[0.75, 0.25]]), np.array([0.0]), np.log([[1.0, 2.0]]))
    >>> seen.round(2), unseen, shift.round(2)  # masses 1, twice 0.75, and 0.25
    (array([[0.4, 0.6]]), array([[1.]]), array([-2.3]))
    """
    n_promoted = change.shape[1] - seen.shape[1]
    described = np.log(np.maximum(unseen[:, :n_promoted], _TINY)) + log_odds[:, None]
    logs = np.concatenate([np.log(np.maximum(seen, _TINY)), described], axis=1) + change
    left = unseen[:, n_promoted:]
    shift = np.log(np.maximum(left.sum(axis=1, dtype=np.float64), _TINY)) - logsumexp(logs, axis=1)
    return softmax(logs, axis=1), conditional(left) if left.shape[1] else left, shift


def pooled_temperature(
    blocks: Sequence[tuple[NDArray[Any], NDArray[np.intp], NDArray[np.float64]]],
    random: float = 0.0,
    flat: float = 0.0,
) -> float:
    """Return the temperature of largest weighted likelihood over several sets of classes.

    Each block has scores (n_samples, n_classes), the column of the true class and a weight for each sample. A
    share `random` of samples of random classes is added, at least half a sample, so that the temperature is
    not zero where all are right. It is 1 if all have the same likelihood: equal scores, or one class only.
    `flat` is the weight of twice the temperature.

    Examples
    --------
    >>> scores, target = np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [2.0, 0.0]]), np.array([0, 1, 0, 1])
    >>> round(pooled_temperature([(scores, target, np.ones(4))]), 2)
    2.09
    """
    parts = [(scores.astype(np.float64), target, weights) for scores, target, weights in blocks]
    if not any(np.ptp(scores, axis=1).any() for scores, _, _ in parts):
        return 1.0
    random = max(random, 0.5 / sum(len(target) for _, target, _ in parts))
    centre = float(np.log(np.mean([scores.std() for scores, _, _ in parts if scores.size])))

    def loss(log_temperature: float) -> float:
        return -sum(likelihood(np.exp(-log_temperature), *part) for part in parts)

    def likelihood(
        inverse: float, scores: NDArray[Any], target: NDArray[np.intp], weights: NDArray[np.float64]
    ) -> float:
        log_proba = log_softmax(scores * inverse, axis=1)
        if flat:
            wide = log_softmax(scores * (inverse / 2), axis=1)
            log_proba = np.logaddexp(np.log1p(-flat) + log_proba, np.log(flat) + wide)
        shared = random * log_proba.mean(axis=1)  # All samples share those of random classes.
        return float(weights @ (log_proba[np.arange(len(target)), target] + shared))

    # Bounds relative to the spread of the scores, so that any unit of score can be fitted.
    found = minimize_scalar(loss, bounds=centre + _RANGE, options={"xatol": 1e-3})
    return float(np.exp(found.x))
