"""Operating points of the estimator, and accuracies to expect there."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from cosmo.classifier._prediction import Predictor
from cosmo.classifier.combinations import OperatingPoint
from cosmo.classifier.estimates import ExpectedScores, ShareEstimate, estimate_share, expected_scores
from cosmo.data.rounds import expected_unseen
from cosmo.metrics.accuracy import GZSLScores
from cosmo.mixture.curve import SeenUnseenCurve
from cosmo.mixture.outputs import ExpertOutputs, OutputsSummary


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
        if not len(self.seen_classes_):
            raise ValueError("no class has samples, so that no accuracy can be expected")
        mixture = self.combination_
        n_unseen = expected_unseen(len(self.seen_classes_), len(self.unseen_classes_))
        validation = mixture.summary(self.validation_outputs_)
        at = mixture.flips(validation), mixture.operating_point_.threshold
        return expected_scores(validation, *at, n_unseen, error=mixture.bias_error, level=level)

    def validation_bounds(self, confidence: float = 0.95) -> GZSLScores:
        """Return lower confidence bounds of the accuracies on other samples of the held-out classes."""
        return self.combination_.bounds(self.validation_outputs_, confidence)
