"""Compare gates: how well each separates samples of seen classes from samples of unseen ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.base import BaseEstimator

from cosmo.classifier.combinations import GatedMixture, Outputs
from cosmo.data.splits import gating_split
from cosmo.evaluation.expert_cache import ExpertCache
from cosmo.experts.base import UnseenExpert
from cosmo.gates import GATES, make_gate
from cosmo.gates.base import ScoreScale
from cosmo.metrics.accuracy import fpr_at_tpr, gate_auc
from cosmo.metrics.calibration import calibration
from cosmo.mixture.outputs import ExpertOutputs, OutputsSummary

_CALIBRATED = (
    "log-odds of the calibrated method, fitted and, except on test, measured on all its hold-out rounds"
)
POOLED = ("confidence", "evidence")
"""Gates that are also fitted on several hold-outs of classes."""


@dataclass(frozen=True, eq=False)
class GateResult:
    """Results of a gate.

    Parameters
    ----------
    name, about : str
    measures : dict
        In percent: `auc` and `fpr` (the share of unseen samples above the score that 95 % of the seen ones
        exceed) on Gating-Val, `test_auc` and `test_fpr` on test, `acc_h` on GZSL-Val and `test_acc_h` of the
        soft combination without smoothing; `ece`, the expected calibration error on Gating-Val of the score
        as a probability of "seen", and `scaled_ece`, the same after Platt scaling on Gating-Train.
    scores, is_seen : array of shape (n_samples,)
        On test.
    """

    name: str
    about: str
    measures: dict[str, float]
    scores: NDArray[np.float64]
    is_seen: NDArray[np.bool_]


def compare_gates(
    experts: ExpertCache, seen: BaseEstimator, unseen: UnseenExpert, names: Sequence[str], *, folds: int = 1
) -> list[GateResult]:
    """Fit and measure gates on the same experts; this opens the test set.

    As in the paper's table of gates there is no smoothing; a gate is fitted on Gating-Train and its threshold
    and softness are chosen on GZSL-Val. If `folds` is more than 1, the gates in `POOLED` are also fitted on
    as many hold-outs of classes. The last result is the gate of the calibrated method.
    """
    cases = []
    for name in names:
        cases.append((name, GATES[name], name, 1))
        if name in POOLED and folds > 1:
            about = f"the same, fitted on {folds} hold-outs that hold out every seen class once"
            cases.append((f"{name}, {folds} folds", about, name, folds))
    stages = [experts.fit(seen, unseen, gate=make_gate(gate), folds=n) for _, _, gate, n in cases]
    model = experts.fit_calibrated(seen, unseen)
    results = [
        _measure(shown, about, one.model.combination_, one.validation, one.labelled(experts.test_labels))
        for (shown, about, _, _), one in zip(cases, stages, strict=True)
    ]
    return [*results, _measure("calibrated", _CALIBRATED, *experts.tested(model))]


def _measure(
    name: str, about: str, mixture: GatedMixture, validation: Outputs, test: ExpertOutputs
) -> GateResult:
    train, val = gating_split(len(validation))
    if isinstance(validation, OutputsSummary):  # of rounds
        train = val = np.arange(len(validation))
    score, on_test = mixture.gate_score(validation), mixture.gate_.score(test)
    is_seen = validation.is_seen
    scaled = ScoreScale().fit(score[train], is_seen[train])(score[val])
    proba = np.clip(score, 0, 1)
    if mixture.gate_.log_odds:  # at equal shares
        proba = expit(score + logit(is_seen.mean()))
    threshold = mixture.operating_point_.threshold
    measures = {
        "auc": gate_auc(is_seen[val], score[val]),
        "fpr": fpr_at_tpr(is_seen[val], score[val]),
        "ece": calibration(proba[val], is_seen[val]).error,
        "scaled_ece": calibration(scaled, is_seen[val]).error,
        "acc_h": mixture.curve(validation).at(threshold).acc_h,
        "test_auc": gate_auc(test.is_seen, on_test),
        "test_fpr": fpr_at_tpr(test.is_seen, on_test),
        "test_acc_h": mixture.curve(test).at(threshold).acc_h,
    }
    percent = {key: 100 * value for key, value in measures.items()}
    return GateResult(name, about, percent, on_test, test.is_seen)
