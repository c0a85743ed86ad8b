"""Combinations of two experts into one classifier, with exact curves and operating points.

A sample goes to the unseen expert iff the threshold exceeds the sample's *flip*. `GatedMixture` covers
COSMO and its ablations; `cosmo.classifier.ways` lists those of the paper.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.base import BaseEstimator

from cosmo._core.validation import as_number, check_shares
from cosmo.data.splits import gating_split
from cosmo.gates.base import Gate
from cosmo.gates.baselines import MaxSoftmaxGate
from cosmo.metrics.accuracy import GZSLScores, accuracy_bound, accuracy_to_reach, harmonic_mean
from cosmo.mixture.curve import CurvePoint, SeenUnseenCurve
from cosmo.mixture.outputs import ExpertOutputs, OutputsSummary
from cosmo.mixture.smoothing import (
    Smoothing,
    check_smoothing,
    combine,
    conditional,
    gate_belief,
    tie_log_odds,
)

Outputs = ExpertOutputs | OutputsSummary

SOFTNESSES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_CERTAIN = 50.0  # log-odds
# Spread of the errors over which a threshold is best, relative to that of the bias between rounds: chosen on
# other draws of glyphs and CLINC intents (100 and above) with 1 to 3 unseen classes.
_CAUTION = 2.0
_EPSILON = float(np.finfo(np.float64).eps)
PRIOR_WEIGHTS = tuple(round(0.05 * i, 2) for i in range(20))


class OperatingPoint(NamedTuple):
    """The free parameters of a combination.

    `softness` is the paper's `1/γ`, `threshold` its `β`, `prior_weight` its constant `λ`.
    """

    threshold: float
    softness: float = 1.0
    prior_weight: float = 0.0


class Combination(BaseEstimator, ABC):  # type: ignore[misc]
    """A rule that chooses between the two experts for each sample."""

    operating_point_: OperatingPoint

    @abstractmethod
    def fit(self, outputs: ExpertOutputs) -> Self:
        """Fit on labelled validation outputs and choose the operating point."""

    @abstractmethod
    def flips(self, outputs: Outputs) -> NDArray[np.float64]:
        """Return the threshold above which each sample goes to the unseen expert."""

    @abstractmethod
    def seen_choice(self, outputs: Outputs) -> NDArray[np.intp]:
        """Return the predicted column of each sample if it counts as seen."""

    def curve(self, outputs: Outputs) -> SeenUnseenCurve:
        """Return the exact seen-unseen curve of labelled outputs over all thresholds."""
        return SeenUnseenCurve(self.flips(outputs), *_gains(outputs, self.seen_choice(outputs)))

    def present_curve(self, outputs: ExpertOutputs) -> SeenUnseenCurve:
        """Return the curve with means over the classes that have samples."""
        curve, present = self.curve(outputs), np.unique(outputs.labels)
        n_seen = int((present < outputs.n_seen).sum())
        return replace(
            curve,
            seen_gain=curve.seen_gain * (outputs.n_seen / max(n_seen, 1)),
            unseen_gain=curve.unseen_gain * (outputs.n_unseen / max(len(present) - n_seen, 1)),
        )

    def takes_for_unseen(self, outputs: Outputs) -> NDArray[np.bool_]:
        """Return which samples go to the unseen expert."""
        return self.operating_point_.threshold > self.flips(outputs)

    def predict(self, outputs: Outputs) -> NDArray[np.intp]:
        """Return the predicted column of `[seen | unseen]` for each sample."""
        unseen = self.takes_for_unseen(outputs)
        return np.where(unseen, outputs.unseen_choice + outputs.n_seen, self.seen_choice(outputs))


@dataclass(eq=False, repr=False)
class GatedMixture(Combination):
    """Total probability over a gate, with or without smoothing: COSMO and its ablations.

    Parameters
    ----------
    gate : Gate, default=MaxSoftmaxGate()
        Fitted on Gating-Train by `fit`.
    smoothing : {"adaptive", "constant", "none"}, default="adaptive"
    hard : bool, default=False
        Decide by the gate alone instead of weighing both experts (only without smoothing).
    softnesses, prior_weights : sequence of float
        Candidate values of `T = 1/γ` and, for constant smoothing, `λ`. The best threshold is found exactly.

    Attributes
    ----------
    gate_ : Gate
        The fitted gate.
    operating_point_ : OperatingPoint
    validation_point_ : CurvePoint
        The accuracies of the operating point on the validation outputs.
    stacking_ : float or None
        Constant of calibrated stacking on the same outputs, for comparisons; set by `Cosmo.fit`.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> sure, unsure = rng.dirichlet([0.1] * 4, 50), rng.dirichlet([1.0] * 4, 50)
    >>> seen, unseen = np.vstack([sure, unsure]), np.vstack([unsure, sure]) / 2
    >>> target = np.r_[sure.argmax(1), 4 + sure.argmax(1)]
    >>> out = ExpertOutputs(pd.Index(list("abcd")), pd.Index(list("wxyz")), seen, unseen, target=target)
    >>> GatedMixture(smoothing="adaptive").fit(out).validation_point_.acc_h > 0.9
    True
    """

    gate: Gate | None = None
    _: KW_ONLY
    smoothing: Smoothing = "adaptive"
    hard: bool = False
    softnesses: Sequence[float] = SOFTNESSES
    prior_weights: Sequence[float] = PRIOR_WEIGHTS

    def fit(self, outputs: ExpertOutputs, *others: ExpertOutputs) -> Self:
        """Fit the gate on Gating-Train, then choose the point of best Acc_H on all rows.

        `outputs` are labelled outputs on GZSL-Val, of experts that were not trained on these rows; `others`
        are the same for other hold-outs, see `further_folds`, used to fit the gate.
        """
        self.fit_gate(outputs, *others)
        return self.operate_at(outputs)

    def fit_gate(self, outputs: ExpertOutputs, *others: ExpertOutputs) -> Self:
        """Fit the gate without choosing an operating point."""
        self._check()
        if outputs.is_seen.all() or not outputs.is_seen.any():
            raise ValueError(
                "the operating point needs held-out samples of seen and unseen classes; one kind is missing"
            )
        train, val = gating_split(len(outputs))
        if len({*outputs.is_seen[train]}) < 2 or len({*outputs.is_seen[val]}) < 2:
            train = val = np.arange(len(outputs))  # There are too few samples to split.
        gate = self.gate if self.gate is not None else MaxSoftmaxGate()
        gating_train = outputs[train]
        self.gate_ = gate.tuned(gating_train, outputs[val]).fit(gating_train, *others)
        return self

    def _check(self) -> None:
        check_smoothing(self.smoothing)
        if self.hard and self.smoothing != "none":
            raise ValueError("a hard gate ignores the experts' confidences: use smoothing='none' with it")
        for name in ("softnesses", "prior_weights"):
            if len(getattr(self, name)) == 0:
                raise ValueError(f"{name} is empty; give at least one value")
        if not all(0 <= weight <= 1 for weight in self.prior_weights):
            raise ValueError(f"prior_weights must lie between 0 and 1, got {tuple(self.prior_weights)}")
        if not all(0 < as_number(softness, name="softness") < np.inf for softness in self.softnesses):
            raise ValueError(f"softnesses must be positive and finite, got {tuple(self.softnesses)}")

    def operate_at(
        self,
        outputs: Outputs,
        *,
        min_seen: float = 0.0,
        min_unseen: float = 0.0,
        confidence: float | None = None,
    ) -> Self:
        """Choose the operating point: the best Acc_H on labelled `outputs` that keeps the floors.

        Softness and prior weight are searched over their values, the threshold exactly. Without floors, the
        threshold of a calibrated gate is best in the mean over errors of its bias. `confidence` is the
        probability with which each floor holds on other samples of the same classes; by default the floors
        hold on `outputs` itself.
        """
        if confidence is not None:
            rows = np.bincount(outputs.labels, minlength=outputs.n_seen + outputs.n_unseen)
            if min_seen:
                min_seen = min(accuracy_to_reach(min_seen, rows[: outputs.n_seen], confidence), 1)
            if min_unseen:
                min_unseen = min(accuracy_to_reach(min_unseen, rows[outputs.n_seen :], confidence), 1)
        best: tuple[float, float, SeenUnseenCurve] | None = None
        height = -1.0
        for softness, prior_weight, curve in self.candidates(outputs):
            try:
                acc_h = curve.acc_h[curve.best_index(min_seen=min_seen, min_unseen=min_unseen)]
            except ValueError as error:
                unreachable = error
                continue
            if best is None or acc_h > height + 1e-12:
                best, height = (softness, prior_weight, curve), acc_h
        if best is None:
            raise unreachable
        softness, prior_weight, curve = best
        point = curve.best(min_seen=min_seen, min_unseen=min_unseen)
        if self.bias_error and not (min_seen or min_unseen):
            threshold = curve.blurred(_CAUTION * self.bias_error).best().threshold
            point = CurvePoint(threshold, *curve.at(threshold))
        self.validation_point_ = point
        self.operating_point_ = OperatingPoint(point.threshold, softness, prior_weight)
        return self

    def set_point(self, *, threshold: float | None = None, softness: float | None = None) -> Self:
        """Set threshold or softness by hand."""
        given = {}
        if softness is not None:
            if self.unseen_share is not None:
                raise ValueError("softness is a parameter of the paper's method; this model is calibrated")
            if not 0 < as_number(softness, name="softness") < np.inf:
                raise ValueError(f"softness must be positive and finite, got {softness}")
            given["softness"] = float(softness)
        if threshold is not None:
            if not np.isfinite(as_number(threshold, name="threshold")):
                raise ValueError(f"threshold must be finite, got {threshold}")
            given["threshold"] = float(threshold)
        self.operating_point_ = self.operating_point_._replace(**given)
        return self

    @property
    def unseen_share(self) -> float | None:
        """Share of unseen samples that the operating point expects; None unless the gate is calibrated."""
        return float(expit(self.operating_point_.threshold)) if self.gate_.log_odds else None

    @property
    def bias_error(self) -> float:
        """Standard deviation of the gate's bias, in units of the threshold; 0 if it is not known."""
        return getattr(self.gate_, "bias_error_", 0.0)

    def check_share(self) -> None:
        """Raise unless the operating point is a share of unseen samples."""
        if not self.gate_.log_odds:
            raise ValueError(
                "a share of unseen samples needs the calibrated method; this model has the paper's"
            )

    def expect_share(self, share: float) -> Self:
        """Set the operating point for a share of unseen samples."""
        self.check_share()
        check_shares(unseen_share=share)
        return self.set_point(threshold=float(logit(share)))

    def bounds(self, outputs: Outputs, confidence: float = 0.95) -> GZSLScores:
        """Return lower confidence bounds of the accuracies at the operating point.

        They are for other samples of the same classes and the same experts, not for experts that are fitted
        again. Each bound holds by itself; `acc_h` is the harmonic mean of the two.
        """
        at = self.curve(outputs).at(self.operating_point_.threshold)
        rows = np.bincount(outputs.labels, minlength=outputs.n_seen + outputs.n_unseen)
        acc_ts = accuracy_bound(at.acc_ts, rows[outputs.n_seen :], confidence)
        acc_tr = accuracy_bound(at.acc_tr, rows[: outputs.n_seen], confidence)
        return GZSLScores(acc_ts, acc_tr, harmonic_mean(acc_ts, acc_tr))

    def candidates(self, outputs: Outputs) -> Iterator[tuple[float, float, SeenUnseenCurve]]:
        """Yield softness, prior weight and the exact curve of labelled outputs for all their values."""
        score = self.gate_score(outputs)
        gains = _gains(outputs, outputs.seen_choice)
        for prior_weight in self.prior_weights if self.smoothing == "constant" else (0.0,):
            log_odds = self._log_odds(outputs, prior_weight)
            for softness in (1.0,) if self.hard else self.softnesses:
                yield softness, prior_weight, SeenUnseenCurve(score + softness * log_odds, *gains)

    def _log_odds(self, outputs: Outputs, prior_weight: float) -> NDArray[np.float64] | float:
        if self.hard:
            return 0.0
        return tie_log_odds(
            *outputs.best(self.smoothing),
            outputs.n_seen,
            outputs.n_unseen,
            smoothing=self.smoothing,
            prior_weight=prior_weight,
        )

    def flips(self, outputs: Outputs) -> NDArray[np.float64]:
        """Return `g + T·log(u*/(1-u*))`, where `u*` is the belief at which the experts tie."""
        point = self.operating_point_
        flips: NDArray[np.float64] = self.gate_score(outputs)
        if outputs.n_seen and outputs.n_unseen:
            flips = flips + point.softness * self._log_odds(outputs, point.prior_weight)
        return flips

    def seen_choice(self, outputs: Outputs) -> NDArray[np.intp]:
        """Return the seen expert's best class."""
        return outputs.seen_choice

    def gate_score(self, outputs: Outputs) -> NDArray[np.float64]:
        """Return the gate's score of each sample; a summary has it stored.

        If all classes are seen, or all unseen, it is certain.
        """
        if not (outputs.n_seen and outputs.n_unseen):
            point, sign = self.operating_point_, 1 if outputs.n_seen else -1
            return np.full(len(outputs), point.threshold + sign * _CERTAIN * point.softness)
        return outputs.gate_score if isinstance(outputs, OutputsSummary) else self.gate_.score(outputs)

    def summary(self, outputs: Outputs) -> OutputsSummary:
        """Return the numbers of labelled outputs from which this mixture's curves follow."""
        if isinstance(outputs, OutputsSummary):
            return outputs
        # Adaptive smoothing compares the experts' own probabilities, which have single precision.
        dtype = np.float32 if self.smoothing == "adaptive" else np.float64
        seen, unseen = (part.astype(dtype) for part in outputs.best(self.smoothing))
        return OutputsSummary(
            outputs.n_seen,
            outputs.n_unseen,
            outputs.labels.astype(np.int32),
            outputs.seen_choice.astype(np.int32),
            outputs.unseen_choice.astype(np.int32),
            seen,
            unseen,
            self.gate_.score(outputs),
        )

    def belief(self, outputs: ExpertOutputs) -> NDArray[np.float64]:
        """Return `p(U)` of each sample at the operating point (0 or 1 for a hard gate)."""
        if not (outputs.n_seen and outputs.n_unseen):
            return np.full(len(outputs), 0.0 if outputs.n_seen else 1.0)
        point = self.operating_point_
        belief = gate_belief(self.gate_score(outputs), point.threshold, point.softness)
        if self.hard:
            belief = (belief > 0.5).astype(np.float64)
        # Strictly between 0 and 1, so that one expert wins where the other has no mass at all.
        return np.clip(belief, _EPSILON, 1 - _EPSILON)

    def scores(self, outputs: ExpertOutputs) -> NDArray[Any]:
        """Return the paper's score of every class `[seen | unseen]`; its argmax is the prediction."""
        if not (outputs.n_seen and outputs.n_unseen):
            return conditional(np.hstack([outputs.seen, outputs.unseen]).astype(np.float64))
        # In float32, smoothing would absorb small probabilities and change the argmax.
        return combine(
            outputs.seen,
            outputs.unseen,
            self.belief(outputs),
            smoothing=self.smoothing,
            prior_weight=self.operating_point_.prior_weight,
            dtype=np.float64,
        )


def _gains(
    outputs: Outputs, seen_choice: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each sample's contribution to Acc_tr if it counts as seen, and to Acc_ts if unseen."""
    target, gain = outputs.labels, outputs.gain
    return (
        np.where(seen_choice == target, gain, 0.0),
        np.where(outputs.unseen_choice + outputs.n_seen == target, gain, 0.0),
    )
