"""Reject option: is a sample of any class that the model knows, and is its answer right?

In the hold-out rounds some of the held-out classes are offered without a description. On their samples and
on those of all other classes a score is fitted, larger for known classes: the evidence of a mixture of both
experts, each increasing in its best score, minus a penalty for samples that are farther from the centre of
the training rows than known samples are in the mean. Thresholds are quantiles of held-out samples, of each
domain on its own, with the same weight for each class (conformal prediction by category).

References
----------
Vovk, Gammerman & Shafer, "Algorithmic learning in a random world", Springer 2005.
Geifman & El-Yaniv, "Selective classification for deep neural networks", NeurIPS 2017.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logsumexp
from scipy.stats import norm
from sklearn.utils.validation import check_is_fitted

from cosmo._core.validation import check_shares
from cosmo.classifier._prediction import OperatingPoints
from cosmo.gates.calibrated import domain_weights
from cosmo.mixture.outputs import OutputsSummary
from cosmo.mixture.smoothing import gate_belief

UNKNOWN = "unknown"

Floats = NDArray[np.float64]

# Chosen on CLINC, draws 100 and 101 of the classes, with the out-of-scope texts of "train" and "val".
_DISTANCE = 0.5  # weight of the distance, relative to that of the evidence
_CONFIDENCE = 0.95  # of the bound of the accuracy of answers
_NONE = -1e20  # best score of an unseen class, if there is one, is larger
_FEWEST = 5  # wrong answers that a bound allows for, at least


@dataclass(frozen=True, eq=False)
class Rejection:
    """Score "is the sample of a known class?", with its values on the held-out samples of the rounds.

    `mean` and `spread` standardise the three inputs: best seen logit, best unseen score, squared distance to
    the centre. No weight is negative; `biases` are of the evidence for seen and for unseen classes. Of the
    validation outputs, `known` has the scores, and `own` the probability of the true class within its domain.
    `n_classes` is the number of classes in a round.
    """

    mean: Floats
    spread: Floats
    weights: Floats
    biases: Floats
    known: Floats
    own: Floats
    n_classes: int
    alone: Floats | None = None  # `known`, if there were no unseen classes

    def score(self, support: Floats) -> Floats:
        """Return the score of each sample from its inputs, shape (n_samples, 3)."""
        rows = (support - self.mean) / self.spread
        penalty = self.weights[2] * np.maximum(rows[:, 2], 0)
        return logsumexp(self.weights[:2] * rows[:, :2] + self.biases, axis=1) - penalty

    def conformity(self, support: Floats, validation: OutputsSummary) -> Floats:
        """Return a conformal p-value for each sample: the larger of those for the two domains."""
        score, seen, weights = self.score(support), validation.is_seen, domain_weights([validation])
        if self.alone is not None and (support[:, 1] < _NONE).all():  # There are no unseen classes.
            return p_values(self.alone[seen], weights[seen], score)
        parts = (p_values(self.known[part], weights[part], score) for part in (seen, ~seen))
        return np.maximum(*parts)


def p_values(reference: Floats, weights: Floats, values: Floats) -> Floats:
    """Return the weighted share of the reference values that are not larger, each new value included.

    If a new value is drawn as the reference values are, the probability of a p-value of at most alpha is at
    most alpha.

    Examples
    --------
    >>> p_values(np.array([1.0, 2.0, 3.0]), np.full(3, 1 / 3), np.array([0.5, 2.0, 9.0]))
    array([0.25, 0.75, 1.  ])
    """
    order, n = np.argsort(reference), len(reference)
    below = np.append(0, np.cumsum(weights[order]))
    return (below[np.searchsorted(reference[order], values, side="right")] * n + 1) / (n + 1)


def fit_rejection(
    support: Floats, domain: NDArray[np.intp], weights: Floats, known: Floats, own: Floats, n_classes: int
) -> Rejection:
    """Fit the score on held-out samples; see `Rejection` for `own` and `n_classes`.

    `support` (n_samples, 3) has the inputs, with some classes of each round without a description, whose
    samples have the domain 2; those of seen classes have 0, of unseen ones 1. `weights` are within each
    domain. `known` (n_rows, 3) has the inputs of the validation outputs, with all descriptions.
    """
    totals = np.bincount(domain, weights=weights, minlength=3)
    weights = weights / totals[domain]
    is_known = domain < 2
    mean, spread = _moments(support[is_known], weights[is_known])
    spread = np.where(spread > 0, spread, 1.0)
    rows, truth = ((support - mean) / spread)[:, :2], np.eye(3)[domain]

    def loss(flat: Floats) -> tuple[float, Floats]:
        # The third class, "unknown", has the logit 0.
        logits = np.column_stack([flat[:2] * rows + flat[2:], np.zeros(len(rows))])
        log_proba = log_softmax(logits, axis=1)
        slope = ((np.exp(log_proba) - truth) * weights[:, None])[:, :2]
        slopes = np.concatenate([(slope * rows).sum(axis=0), slope.sum(axis=0)])
        return -float(weights @ (log_proba * truth).sum(axis=1)), slopes

    bounds = [(0.0, 100.0)] * 2 + [(None, None)] * 2
    flat = minimize(loss, [1.0, 1.0, 0.0, 0.0], jac=True, method="L-BFGS-B", bounds=bounds).x
    fitted = Rejection(mean, spread, np.append(flat[:2], 0.0), flat[2:], own, own, n_classes)
    _, scale = _moments(fitted.score(support[is_known]), weights[is_known])
    fitted.weights[2] = _DISTANCE * scale
    alone = fitted.score(known * [1, 0, 1] + [0, 2 * _NONE, 0])
    return replace(fitted, known=fitted.score(known), alone=alone)


def _moments(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    mean = np.average(values, axis=0, weights=weights)
    return mean, np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights))


def least_probability(
    probability: Floats, right: NDArray[np.bool_], target: NDArray[np.intp], weights: Floats, accuracy: float
) -> float:
    """Return the least p(y) above which answers have an accuracy, by a lower bound with 95 % confidence.

    The bound allows for other classes: its standard error is that of the means of classes. Thresholds are
    tried from the largest down, until one fails; ValueError if the first does. Arrays have p(y) of each
    answer, whether it is right, the true class, and a weight.
    """
    order = np.argsort(-probability, kind="stable")
    p, r, t, w = (part[order] for part in (probability, right.astype(float), target, weights))
    found, fewest = None, _FEWEST / (1 - accuracy)
    answers = np.unique(np.linspace(fewest, max(fewest, len(p)), 200).astype(int))
    for n in answers[answers <= len(p)]:
        total = w[:n].sum()
        mean = (w[:n] @ r[:n]) / (total + total / n)  # with one more answer, a wrong one
        by_class = np.bincount(t[:n], weights=w[:n] * (r[:n] - mean))
        error = np.sqrt((by_class**2).sum()) / total
        if mean - norm.ppf(_CONFIDENCE) * error < accuracy:
            break
        found = float(p[n - 1])
    if found is None:
        raise ValueError(f"no share of the answers has an accuracy of {accuracy:g} on held-out samples")
    return found


class RejectOption(OperatingPoints):
    """Methods of `Cosmo` for samples of no known class and for uncertain answers."""

    def predict(
        self,
        X: ArrayLike,
        *,
        reject: float | None = None,
        accuracy: float | None = None,
        unknown: Any = UNKNOWN,
    ) -> NDArray[Any]:
        """Return the class of each sample, among seen and unseen classes, or `unknown`.

        The last digits of probabilities, and predictions in case of a tie, may depend on the batch.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        reject : float, optional
            Answer `unknown` if the sample looks as if it were of no class of the model. Of the samples of
            seen classes at most this share is rejected, and likewise of unseen classes.
        accuracy : float, optional
            Answer `unknown` if p(y) is small, so that the other answers have at least this accuracy, if the
            samples are of known classes and have the share of unseen ones that the operating point expects.
        unknown : label, default="unknown"
        """
        if reject is None and accuracy is None:
            return super().predict(X)
        self.check_unknown(unknown)
        labels, probability, _ = self.predict_top(X, 1)
        conformity = None if reject is None else self.conformity(X)
        answers = labels[:, 0].astype(object)
        answers[self.rejected(probability[:, 0], conformity, reject=reject, accuracy=accuracy)] = unknown
        return answers

    def check_unknown(self, unknown: Any) -> None:
        """Raise if the answer to rejected samples is a class of the model."""
        check_is_fitted(self, "experts_")
        if unknown in self.experts_.classes:
            raise ValueError(f"{unknown!r} is a class of the model; give another name by unknown=...")

    def rejected(
        self,
        probability: NDArray[np.float64],
        conformity: NDArray[np.float64] | None = None,
        *,
        reject: float | None = None,
        accuracy: float | None = None,
    ) -> NDArray[np.bool_]:
        """Return which samples `predict` rejects, by p(y) of their best classes and their conformity."""
        rejected = np.zeros(len(probability), dtype=bool)
        if reject is not None and conformity is not None:
            check_shares(reject=reject)
            rejected |= conformity <= reject
        if accuracy is not None:
            rejected |= probability < self.least_probability(accuracy)
        return rejected

    def conformity(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return how well each sample agrees with the known classes: a conformal p-value, from 0 to 1.

        Of the samples of seen classes at most a share alpha has a value of alpha or less, and likewise of
        unseen classes. Samples of no known class tend to have small values.
        """
        rejection, validation = self.rejection()
        features = self._check_rows(X)
        return rejection.conformity(self.experts_.support(features), validation)

    def least_probability(self, accuracy: float) -> float:
        """Return the least p(y) of answers that together have an accuracy on held-out samples."""
        check_shares(accuracy=accuracy)
        _, validation = self.rejection()
        p_unseen, weights = self._held_out(validation)
        best = np.stack([validation.best_seen * (1 - p_unseen), validation.best_unseen * p_unseen])
        right = self.combination_.predict(validation) == validation.target
        share = expit(self.operating_point_.threshold)
        weights = weights * np.where(validation.is_seen, 1 - share, share)
        return least_probability(best.max(axis=0), right, validation.target, weights, accuracy)

    def predict_set(self, X: ArrayLike, alpha: float = 0.1) -> list[NDArray[Any]]:
        """Return a set of classes for each sample, most probable first; it may be empty.

        Of the samples of seen classes at least a share of 1 - alpha has its class in the set, and likewise of
        unseen classes.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        alpha : float, default=0.1
        """
        check_shares(alpha=alpha)
        rejection, validation = self.rejection()
        p_unseen, weights = self._held_out(validation)
        own = rejection.own * np.where(validation.is_seen, 1 - p_unseen, p_unseen)
        # A class competes with more classes than in a round: the odds against it grow. The unseen expert has
        # learned from more classes, too, which made up for half of that: on glyphs and CLINC intents, draws
        # 100 to 107 and 100 to 105.
        ratio = (len(self.classes_) - 1) / (rejection.n_classes - 1)
        own /= own + (1 - own) * np.where(validation.is_seen, ratio, np.sqrt(ratio))
        proba = self.predict_proba(X)
        is_seen = np.isin(self.classes_, self.seen_classes_)
        inside = np.empty(proba.shape, dtype=bool)
        for columns, rows in ((is_seen, validation.is_seen), (~is_seen, ~validation.is_seen)):
            inside[:, columns] = p_values(own[rows], weights[rows], proba[:, columns]) > alpha
        order = np.argsort(-proba, axis=1, kind="stable")
        return [self.classes_[best[one[best]]] for best, one in zip(order, inside, strict=True)]

    def reasons(self, X: ArrayLike) -> list[str]:
        """Return a line for each sample: what speaks for its class, and what for the other domain."""
        proba, is_seen = self.predict_proba(X), np.isin(self.classes_, self.seen_classes_)
        best = [proba[:, part].max(axis=1, initial=0.0).tolist() for part in (is_seen, ~is_seen)]
        n_seen, n_unseen = len(self.seen_classes_), len(self.unseen_classes_)
        return [reason(seen, unseen, n_seen, n_unseen) for seen, unseen in zip(*best, strict=True)]

    def rejection(self) -> tuple[Rejection, OutputsSummary]:
        """Return the fitted score of rejection and the held-out samples; ValueError if there is none."""
        check_is_fitted(self, "experts_")
        self.experts_.check_trained("it cannot reject samples")
        rejection = getattr(self.combination_, "rejection_", None)
        if rejection is None:
            raise ValueError(
                "this model cannot reject: fit it again with the calibrated method and at least four seen "
                "classes (models of earlier versions and of the paper's method have no such thresholds)"
            )
        return rejection, self.combination_.summary(self.validation_outputs_)

    def _held_out(self, validation: OutputsSummary) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return p(U) and a weight for each held-out sample of the rounds."""
        threshold = self.operating_point_.threshold
        return gate_belief(validation.gate_score, threshold, 1.0), domain_weights([validation])


def reason(seen: float, unseen: float, n_seen: int, n_unseen: int) -> str:
    """Return the reason for an answer, given the largest p(y) of both domains.

    Examples
    --------
    >>> reason(0.063, 0.81, 9, 3)
    'unseen: best among 3 unseen classes (0.81), no seen class above 0.07'
    """
    sides = [("seen", seen, n_seen), ("unseen", unseen, n_unseen)]
    (domain, best, n), (other, second, n_others) = sides if seen >= unseen else sides[::-1]
    above = f" above {math.ceil(100 * second) / 100:.2f}" if n_others else ""
    return f"{domain}: best among {n} {domain} classes ({best:.2f}), no {other} class{above}"
