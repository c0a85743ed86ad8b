"""COSMO as a scikit-learn classifier."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from cosmo._core.cache import Cache
from cosmo._core.validation import (
    as_class_index,
    encode_labels,
)
from cosmo.classifier._input import new_descriptions, training_rows, validated
from cosmo.classifier._rounds import fit_calibrated
from cosmo.classifier._stages import fit_paper
from cosmo.classifier.combinations import SOFTNESSES, GatedMixture, OperatingPoint
from cosmo.classifier.expected import ExpectedScores, expected_scores
from cosmo.classifier.explain import Explanation, explain
from cosmo.classifier.share import ShareEstimate, estimate_share
from cosmo.data.splits import HoldOut, further_folds, hold_out
from cosmo.experts import ESZSL, UnseenExpert, make_seen_expert
from cosmo.gates import ConfidenceGate, Gate
from cosmo.metrics.accuracy import GZSLScores, harmonic_mean, per_class_accuracy
from cosmo.mixture.curve import SeenUnseenCurve
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.mixture.smoothing import Smoothing

__all__ = ["Cosmo"]

logger = logging.getLogger(__name__)

METHODS = ("calibrated", "paper")

# Rows per block: probabilities of a block stay in the processor's cache, or in reused memory.
_ROWS, _CELLS = 2048, 2**21


class Cosmo(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classify samples of seen classes and of classes known by description only.

    Classes in `y` are seen, the other rows of `descriptions` are unseen. `fit` holds out some seen classes to
    fit the gate and to choose the operating point, then fits both experts on all rows.

    The default method returns calibrated probabilities, `p(y|S)·p(S)` or `p(y|U)·p(U)`. It holds out classes
    in several rounds, in the proportion of the task, and its operating point is the share of unseen samples.
    The paper's holds out a third of the classes once, smooths the experts' outputs, and chooses threshold and
    softness of the gate for Acc_H.

    Parameters
    ----------
    descriptions : DataFrame of shape (n_classes, n_attributes), or dict from class to vector
        The index holds the class labels. Two column levels mean (group, attribute).
    method : {"calibrated", "paper"}, default="calibrated"
    seen : classifier, default=SoftmaxRegression(tol=1e-4)
        Any scikit-learn classifier with `predict_proba`.
    unseen : UnseenExpert, default=ESZSL()
    rounds : int, optional
        Number of hold-out rounds; by default 4 to 6, and 3 for experts that are slow to train.
    gate : Gate, default=ConfidenceGate()
        Of the paper's method, as the next three.
    smoothing : {"adaptive", "constant", "none"}, default="adaptive"
    softnesses : sequence of float
        Candidate values of the gate's softness `T = 1/γ`.
    folds : int, default=1
        Number of hold-outs of classes used to fit the gate; if more than 1, every seen class is held out in
        one of them. Parameters and operating point are chosen on the first.
    hold_out : HoldOut, optional
        Rows on which the parameters of the unseen expert are chosen, and the validation stage of the paper's
        method; by default a third of the classes and a quarter of the other rows.
    n_jobs : int, optional
        Number of rounds that run at the same time, as in scikit-learn.
    random_state : int, default=0
        Seed of the hold-outs and rounds.
    cache : path, optional
        Folder for chosen parameters and checkpoints, so that an interrupted fit resumes.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        All described classes in the order of the table: the columns of `predict_proba`.
    seen_classes_, unseen_classes_ : Index
    experts_ : ExpertPair
    combination_ : GatedMixture
        The fitted gate and the operating point.
    validation_outputs_ : ExpertOutputs or OutputsSummary
        Outputs of experts of the hold-out rounds on held-out samples; of the paper's validation stage, on
        GZSL-Val. A model from a file has the summary.

    References
    ----------
    Atzmon & Chechik, "Adaptive confidence smoothing for generalized zero-shot learning", CVPR 2019.

    Examples
    --------
    >>> from cosmo import Cosmo
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> train, test = data.split.trainval, data.split.test_unseen
    >>> model = Cosmo(data.descriptions).fit(data.features[train], data.labels[train])
    >>> bool(model.score(data.features[test], data.labels[test]) > 1 / 40)
    True
    """

    def __init__(
        self,
        descriptions: pd.DataFrame | Mapping[Hashable, Sequence[float]] | None = None,
        *,
        method: Literal["calibrated", "paper"] = "calibrated",
        seen: Any = None,
        unseen: UnseenExpert | None = None,
        rounds: int | None = None,
        gate: Gate | None = None,
        smoothing: Smoothing = "adaptive",
        softnesses: Sequence[float] = SOFTNESSES,
        hold_out: HoldOut | None = None,
        folds: int = 1,
        n_jobs: int | None = None,
        random_state: int | None = 0,
        cache: str | Path | None = None,
    ) -> None:
        self.descriptions = descriptions
        self.method = method
        self.seen = seen
        self.unseen = unseen
        self.rounds = rounds
        self.gate = gate
        self.smoothing = smoothing
        self.softnesses = softnesses
        self.hold_out = hold_out
        self.folds = folds
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.cache = cache

    def fit(self, X: ArrayLike, y: Iterable[Hashable]) -> Self:
        """Fit experts and gate, and choose the point of best Acc_H on held-out data.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : labels of seen classes, length n_samples

        Returns
        -------
        Cosmo
        """
        self._check_method()
        features, labels, table = training_rows(self, X, y, self.descriptions)
        held = self.hold_out if self.hold_out is not None else hold_out(labels, seed=self.random_state)
        held.check(labels)
        seen = self.seen if self.seen is not None else make_seen_expert("logistic")
        unseen = self.unseen if self.unseen is not None else ESZSL()
        cache = None if self.cache is None else Cache(self.cache)
        with config_context(assume_finite=True):
            if self.method == "paper":
                gate = self.gate if self.gate is not None else ConfidenceGate()
                mixture = GatedMixture(gate, smoothing=self.smoothing, softnesses=self.softnesses)
                holds = [held, *further_folds(labels, held, self.folds, seed=self.random_state)]
                fitted = fit_paper(mixture, seen, unseen, features, labels, table, holds, cache=cache)
            else:
                options = {"n_rounds": self.rounds, "n_jobs": self.n_jobs, "seed": self.random_state}
                fitted = fit_calibrated(seen, unseen, features, labels, table, held, cache=cache, **options)
        self.experts_, self.combination_, self.validation_outputs_ = fitted
        return self

    def _check_method(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}; got {self.method!r}")
        if self.method == "paper":
            if self.rounds is not None:
                raise ValueError("rounds belong to the calibrated method; the paper's has folds")
        elif self.gate is not None or self.folds != 1 or self.smoothing != "adaptive":
            raise ValueError("gate, smoothing and folds are choices of the paper: add method='paper'")
        elif tuple(self.softnesses) != SOFTNESSES:
            raise ValueError("softnesses are choices of the paper: add method='paper'")

    @property
    def classes_(self) -> NDArray[Any]:
        """All described classes, in the order of the table."""
        return self.experts_.descriptions.index.to_numpy()

    seen_classes_ = property(lambda self: self.experts_.seen_classes, doc="Classes with samples.")
    unseen_classes_ = property(lambda self: self.experts_.unseen_classes, doc="Classes without samples.")

    @property
    def operating_point_(self) -> OperatingPoint:
        """Threshold and softness in use."""
        return self.combination_.operating_point_

    @property
    def validation_curve_(self) -> SeenUnseenCurve:
        """The exact seen-unseen curve on GZSL-Val at the softness in use."""
        return self.combination_.curve(self.validation_outputs_)

    def outputs(self, X: ArrayLike, y: Iterable[Hashable] | None = None) -> ExpertOutputs:
        """Return the outputs of both experts for `X`; with `y`, labelled for curves and metrics."""
        return self.experts_.outputs(self._check_rows(X), y)

    def _check_rows(self, X: ArrayLike) -> NDArray[np.float32]:
        check_is_fitted(self, "experts_")
        features: NDArray[np.float32] = validated(self, X)
        return features

    def _check_for_prediction(self, X: ArrayLike) -> NDArray[np.float32]:
        check_is_fitted(self, "experts_")
        # A linear unseen expert shows values that are not finite; scanning for them takes time.
        features: NDArray[np.float32] = validated(self, X, finite=not self.experts_.linear)
        return features

    def _predictions(self, features: NDArray[np.float32]) -> Iterator[ExpertOutputs]:
        """Yield the experts' predictions for consecutive blocks of rows."""
        most = max(1, min(_ROWS, _CELLS // len(self.experts_.classes)))
        step = -(-len(features) // -(-len(features) // most))
        for first in range(0, len(features), step):
            try:
                outputs = self.experts_.predictions(features[first : first + step])
            except ValueError:
                self._check_rows(features)
                raise
            yield outputs

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each sample, among seen and unseen classes.

        The last digits of probabilities, and predictions in case of a tie, may depend on the batch.
        """
        features = self._check_for_prediction(X)
        columns = [self.combination_.predict(outputs) for outputs in self._predictions(features)]
        return self.experts_.classes.to_numpy()[np.concatenate(columns)]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the distribution over `classes_` for each sample; its argmax is the prediction."""
        features, start = self._check_for_prediction(X), 0
        proba = np.empty((len(features), len(self.experts_.classes)))
        for outputs in self._predictions(features):
            scores = self.combination_.scores(outputs)
            scores /= np.einsum("ij->i", scores)[:, None]  # Faster than `sum` of short rows.
            block = proba[start : start + len(scores)]
            np.take(scores, self.experts_.columns, axis=1, out=block, mode="clip")  # Without a buffer.
            start += len(scores)
        return proba

    def predict_top(
        self, X: ArrayLike, top: int = 3
    ) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.float64]]:
        """Return the most probable classes of each sample, best first, and `p(S)` of the gate.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        top : int, default=3
            Number of classes, at most all.

        Returns
        -------
        labels, probabilities : arrays of shape (n_samples, top)
        p_seen : array of shape (n_samples,)
        """
        features, classes = self._check_for_prediction(X), self.experts_.classes.to_numpy()
        blocks = []
        for outputs in self._predictions(features):
            scores = self.combination_.scores(outputs)
            mass, each = scores.sum(axis=1), np.arange(len(scores))
            columns = np.empty((len(scores), min(top, len(classes))), dtype=np.intp)
            proba = np.empty(columns.shape)
            for k in range(columns.shape[1]):  # A few maxima cost less than a sort.
                columns[:, k] = scores.argmax(axis=1)
                proba[:, k] = scores[each, columns[:, k]] / mass
                scores[each, columns[:, k]] = -1
            blocks.append((classes[columns], proba, 1 - self.combination_.belief(outputs)))
        labels, probabilities, p_seen = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        return labels, probabilities, p_seen

    def score(self, X: ArrayLike, y: Iterable[Hashable]) -> float:
        """Return Acc_H over the classes present in `y`.

        If `y` has samples of one kind only, it is the per-class accuracy of that kind.
        """
        truth, guess = as_class_index(y), self.predict(X)
        encode_labels(truth, self.experts_.descriptions.index, name="y")
        present = truth.unique()
        is_seen = present.isin(self.seen_classes_)
        domains = [classes for classes in (present[is_seen], present[~is_seen]) if len(classes)]
        parts = [per_class_accuracy(truth, guess, classes) for classes in domains]
        return harmonic_mean(*parts) if len(parts) == 2 else parts[0]

    def explain(self, X: ArrayLike) -> Explanation:
        """Return every step from the experts to the prediction, for each sample."""
        return explain(self.combination_, self.outputs(X))

    def operate_at(
        self,
        *,
        unseen_share: float | None = None,
        samples: ArrayLike | None = None,
        min_seen: float = 0.0,
        min_unseen: float = 0.0,
        confidence: float | None = None,
        threshold: float | None = None,
        softness: float | None = None,
    ) -> Self:
        """Choose another operating point on the seen-unseen curve, without training.

        Without arguments this is the point of best Acc_H on held-out samples, as after `fit`.

        Parameters
        ----------
        unseen_share : float, optional
            Share of samples of unseen classes that are expected, above 0 and below 1 (calibrated method).
        samples : array of shape (n_samples, n_features), optional
            Unlabelled samples of the application, from which the share is estimated; see `estimate_share`.
        min_seen, min_unseen : float, default=0
            Smallest accuracy on seen / unseen classes of held-out samples; the best Acc_H that keeps both is
            chosen.
        confidence : float, optional
            Probability with which a floor holds on other samples; by default it holds on the held-out ones.
        threshold, softness : float, optional
            Set the point by hand instead. A larger threshold gives more samples to unseen classes; that of
            the calibrated method is the log-odds of the share. Softness is the paper's.

        Returns
        -------
        Cosmo

        Raises
        ------
        ValueError
            If the samples leave an interval of the share that is wider than 0.5.
        """
        check_is_fitted(self, "experts_")
        by_hand = threshold is not None or softness is not None
        floors = bool(min_seen or min_unseen) or confidence is not None
        if (unseen_share is not None) + (samples is not None) + floors + by_hand > 1:
            raise ValueError("give one of unseen_share, samples, floors, or a threshold / softness by hand")
        if samples is not None:
            estimate = self.estimate_share(samples)
            if not estimate.known:
                raise ValueError(
                    f"{len(np.asarray(samples))} samples leave the share of unseen classes between "
                    f"{estimate.low:.2f} and {estimate.high:.2f}; give more samples, or unseen_share"
                )
            # A share of exactly 0 or 1 would exclude a domain.
            unseen_share = float(np.clip(estimate.share, 0.001, 0.999))
        if unseen_share is not None:
            self.combination_.expect_share(unseen_share)
        elif by_hand:
            self.combination_.set_point(threshold=threshold, softness=softness)
        else:
            self.combination_.operate_at(
                self.validation_outputs_, min_seen=min_seen, min_unseen=min_unseen, confidence=confidence
            )
        return self

    def estimate_share(self, X: ArrayLike) -> ShareEstimate:
        """Estimate the share of samples of unseen classes in an unlabelled batch, with a 90 % interval."""
        check_is_fitted(self, "experts_")
        mixture = self.combination_
        mixture.check_share()
        score = mixture.gate_score(self.experts_.predictions(self._check_rows(X)))
        validation, n_unseen = mixture.summary(self.validation_outputs_), len(self.unseen_classes_)
        return estimate_share(score, validation, n_unseen, error=mixture.bias_error)

    def expected_scores(self, level: float = 0.9) -> ExpectedScores:
        """Return the accuracies to expect on test, with intervals that allow for other unseen classes."""
        check_is_fitted(self, "experts_")
        mixture, n_unseen = self.combination_, len(self.unseen_classes_)
        validation = mixture.summary(self.validation_outputs_)
        at = mixture.flips(validation), mixture.operating_point_.threshold
        return expected_scores(validation, *at, n_unseen, error=mixture.bias_error, level=level)

    def validation_bounds(self, confidence: float = 0.95) -> GZSLScores:
        """Return lower confidence bounds of the accuracies on other samples of the held-out classes."""
        return self.combination_.bounds(self.validation_outputs_, confidence)

    def add_classes(self, descriptions: pd.DataFrame | Mapping[Hashable, Sequence[float]]) -> Self:
        """Add unseen classes by their descriptions, without training.

        Parameters
        ----------
        descriptions : DataFrame or dict
            One row per new class, with the attributes of the table that the model was fitted with.
        """
        check_is_fitted(self, "experts_")
        new = new_descriptions(descriptions, self.experts_.descriptions)
        self.experts_ = self.experts_.with_classes(new)
        return self
