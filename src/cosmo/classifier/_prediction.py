"""Methods of the estimator: predictions and their steps, operating points, accuracies to expect there."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from cosmo._core.parallel import blas_threads
from cosmo._core.validation import as_class_index, encode_labels, validated
from cosmo.classifier.combinations import GatedMixture, OperatingPoint
from cosmo.classifier.estimates import ExpectedScores, ShareEstimate, estimate_share, expected_scores
from cosmo.data.rounds import expected_unseen
from cosmo.experts.pair import ExpertPair
from cosmo.metrics.accuracy import GZSLScores, harmonic_mean, per_class_accuracy
from cosmo.mixture.curve import SeenUnseenCurve
from cosmo.mixture.outputs import ExpertOutputs, OutputsSummary
from cosmo.mixture.smoothing import smooth

# Rows per block: probabilities of a block stay in the processor's cache, or in reused memory.
_ROWS, _CELLS = 2048, 2**21


@dataclass(frozen=True, eq=False)
class Explanation:
    """Every quantity from the experts to the prediction, for some samples.

    `seen` and `unseen` are the experts' own outputs, `p(y,S)` and `p(y,U)`; `p(y|S)` and `p(y|U)` in the
    calibrated method. `gate_score` is larger for samples that look seen; `p_unseen` is the gate's `p(U)` at
    the operating point. `smoothed_seen` and `smoothed_unseen` are the experts after smoothing, `p'(y|S)` and
    `p'(y|U)`; in the calibrated method they are `seen` and `unseen`, and the result is the product of expert
    and gate. `proba` is the result, normalised, columns `[seen | unseen]`.

    Examples
    --------
    >>> one = Explanation(pd.Index(["a"]), pd.Index(["z"]), np.array([[1.0]]), np.array([[0.4]]),
    ...                   np.array([0.7]), np.array([0.25]), np.array([[1.25]]), np.array([[1.15]]),
    ...                   np.array([[0.77, 0.23]]))
    >>> print(one)
    gate score 0.700, p(unseen) 0.250 -> 'a' (seen)
       domain  expert  smoothed  result
    a    seen   1.000     1.250   0.770
    z  unseen   0.400     1.150   0.230
    """

    seen_classes: pd.Index
    unseen_classes: pd.Index
    seen: NDArray[Any]
    unseen: NDArray[Any]
    gate_score: NDArray[np.float64]
    p_unseen: NDArray[np.float64]
    smoothed_seen: NDArray[Any]
    smoothed_unseen: NDArray[Any]
    proba: NDArray[Any]

    def __len__(self) -> int:
        return len(self.proba)

    @property
    def classes(self) -> pd.Index:
        """All classes, seen ones first."""
        return self.seen_classes.append(self.unseen_classes)

    @property
    def prediction(self) -> pd.Index:
        """The predicted class of each sample."""
        return self.classes[self.proba.argmax(axis=1)]

    def table(self, sample: int = 0) -> pd.DataFrame:
        """Return one sample's classes, best first: domain, expert, smoothed (if it is), result."""
        frame = pd.DataFrame(
            {
                "domain": ["seen"] * len(self.seen_classes) + ["unseen"] * len(self.unseen_classes),
                "expert": np.concatenate([self.seen[sample], self.unseen[sample]]),
                "smoothed": np.concatenate([self.smoothed_seen[sample], self.smoothed_unseen[sample]]),
                "result": self.proba[sample],
            },
            index=self.classes,
        )
        if self.smoothed_seen is self.seen:
            frame = frame.drop(columns="smoothed")
        return frame.sort_values("result", ascending=False, kind="stable")

    def __str__(self) -> str:
        shown = []
        for sample in range(min(len(self), 5)):
            table, p_unseen = self.table(sample), self.p_unseen[sample]
            best = table.index[:1].tolist()[0]  # 3, not np.int64(3)
            gate = f"gate score {self.gate_score[sample]:.3f}, p(unseen) {p_unseen:.3f}"
            rows = table.head(6).to_string(float_format="{:.3f}".format)
            shown.append(f"{gate} -> {best!r} ({table['domain'].iloc[0]})\n{rows}")
        if len(self) > len(shown):
            shown.append(f"... and {len(self) - len(shown)} more samples")
        return "\n\n".join(shown)


def explain(mixture: GatedMixture, outputs: ExpertOutputs) -> Explanation:
    """Return every step of a fitted mixture for the outputs of both experts.

    Examples
    --------
    >>> from cosmo.classifier.combinations import OperatingPoint
    >>> from cosmo.gates import MaxSoftmaxGate
    >>> mixture = GatedMixture(smoothing="adaptive")
    >>> mixture.gate_, mixture.operating_point_ = MaxSoftmaxGate(), OperatingPoint(0.9, 0.1)
    >>> out = ExpertOutputs(pd.Index(["a", "b"]), pd.Index(["z"]), np.array([[0.6, 0.4]]), np.array([[0.7]]))
    >>> explain(mixture, out).prediction[0]
    'z'
    """
    belief = mixture.belief(outputs)
    weight = mixture.operating_point_.prior_weight
    scores = mixture.scores(outputs)
    smoothed = outputs.seen, outputs.unseen
    if not mixture.gate_.log_odds and outputs.n_unseen:
        smoothed = (
            smooth(outputs.seen, 1 - belief, mixture.smoothing, weight),
            smooth(outputs.unseen, belief, mixture.smoothing, weight),
        )
    return Explanation(
        seen_classes=outputs.seen_classes,
        unseen_classes=outputs.unseen_classes,
        seen=outputs.seen,
        unseen=outputs.unseen,
        gate_score=mixture.gate_score(outputs),
        p_unseen=belief,
        smoothed_seen=smoothed[0],
        smoothed_unseen=smoothed[1],
        proba=scores / scores.sum(axis=1, keepdims=True),
    )


class Predictor:
    """Methods of `Cosmo` that predict."""

    experts_: ExpertPair
    combination_: GatedMixture

    @property
    def classes_(self) -> NDArray[Any]:
        """All described classes, in the order of the table."""
        return self.experts_.descriptions.index.to_numpy()

    seen_classes_ = property(lambda self: self.experts_.seen_classes, doc="Classes with samples.")
    unseen_classes_ = property(lambda self: self.experts_.unseen_classes, doc="Classes without samples.")

    def outputs(self, X: ArrayLike, y: Iterable[Hashable] | None = None) -> ExpertOutputs:
        """Return the outputs of both experts for `X`; with `y`, labelled for curves and metrics."""
        features = self._check_rows(X)
        with blas_threads(features.size):
            return self.experts_.outputs(features, y)

    def _check_rows(self, X: ArrayLike, *, finite: bool = True) -> NDArray[np.float32]:
        check_is_fitted(self, "experts_")
        return validated(self, X, finite=finite)

    def _predictions(self, X: ArrayLike) -> Iterator[ExpertOutputs]:
        """Yield the experts' predictions for consecutive blocks of rows."""
        check_is_fitted(self, "experts_")
        # A linear unseen expert shows values that are not finite; scanning for them takes time.
        features = self._check_rows(X, finite=not self.experts_.linear)
        most = max(1, min(_ROWS, _CELLS // len(self.experts_.classes)))
        step = -(-len(features) // -(-len(features) // most))
        for first in range(0, len(features), step):
            try:
                with blas_threads(features.size):
                    outputs = self.experts_.predictions(features[first : first + step])
            except ValueError:
                self._check_rows(features)
                raise
            yield outputs

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each sample, among seen and unseen classes.

        The last digits of probabilities, and predictions in case of a tie, may depend on the batch.
        """
        columns = [self.combination_.predict(outputs) for outputs in self._predictions(X)]
        return self.experts_.classes.to_numpy()[np.concatenate(columns)]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the distribution over `classes_` for each sample; its argmax is the prediction."""
        blocks = []
        for outputs in self._predictions(X):
            scores = self.combination_.scores(outputs)
            if self.combination_.smoothing == "adaptive":  # Others sum to one.
                scores /= np.einsum("ij->i", scores)[:, None]  # Faster than `sum` of short rows.
            blocks.append(scores[:, self.experts_.columns])
        return np.concatenate(blocks)

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
        blocks = []
        for outputs in self._predictions(X):
            scores, classes = self.combination_.scores(outputs), outputs.classes.to_numpy()
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


class OperatingPoints(Predictor):
    """Methods of `Cosmo` that choose its operating point or evaluate it on held-out samples."""

    validation_outputs_: ExpertOutputs | OutputsSummary

    @property
    def operating_point_(self) -> OperatingPoint:
        """Threshold and softness in use."""
        return self.combination_.operating_point_

    @property
    def validation_curve_(self) -> SeenUnseenCurve:
        """The exact seen-unseen curve on GZSL-Val at the softness in use."""
        return self.combination_.curve(self.validation_outputs_)

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
        self.experts_.check_trained("no share can be estimated")
        if not len(self.unseen_classes_):
            raise ValueError("the model has no unseen class; add one by add_classes")
        score = mixture.gate_score(self.experts_.predictions(self._check_rows(X)))
        validation, n_unseen = mixture.summary(self.validation_outputs_), len(self.unseen_classes_)
        return estimate_share(score, validation, n_unseen, error=mixture.bias_error)

    def expected_scores(self, level: float = 0.9) -> ExpectedScores:
        """Return the accuracies to expect on test, with intervals that allow for other unseen classes.

        If there is no unseen class yet, they are those with a quarter as many as seen ones.
        """
        check_is_fitted(self, "experts_")
        self.experts_.check_trained("no accuracy can be expected")
        mixture = self.combination_
        n_unseen = expected_unseen(len(self.seen_classes_), len(self.unseen_classes_))
        validation = mixture.summary(self.validation_outputs_)
        at = mixture.flips(validation), mixture.operating_point_.threshold
        return expected_scores(validation, *at, n_unseen, error=mixture.bias_error, level=level)

    def validation_bounds(self, confidence: float = 0.95) -> GZSLScores:
        """Return lower confidence bounds of the accuracies on other samples of the held-out classes."""
        return self.combination_.bounds(self.validation_outputs_, confidence)
