"""Compare gates: how well each separates samples of seen classes from samples of unseen ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from cosmo.classifier.combinations import GatedMixture
from cosmo.data.splits import gating_split
from cosmo.evaluation.expert_cache import ExpertCache
from cosmo.experts.base import UnseenExpert
from cosmo.gates import GATES, make_gate
from cosmo.gates.base import ScoreScale
from cosmo.metrics.accuracy import fpr_at_tpr, gate_auc
from cosmo.metrics.calibration import calibration
from cosmo.mixture.outputs import ExpertOutputs

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
    as many hold-outs of classes.
    """
    cases = []
    for name in names:
        cases.append((name, GATES[name], name, 1))
        if name in POOLED and folds > 1:
            about = f"the same, fitted on {folds} hold-outs that hold out every seen class once"
            cases.append((f"{name}, {folds} folds", about, name, folds))
    stages = [experts.fit(seen, unseen, gate=make_gate(gate), folds=n) for _, _, gate, n in cases]
    return [
        _measure(shown, about, one.model.combination_, one.validation, one.labelled(experts.test_labels))
        for (shown, about, _, _), one in zip(cases, stages, strict=True)
    ]


def _measure(
    name: str, about: str, mixture: GatedMixture, validation: ExpertOutputs, test: ExpertOutputs
) -> GateResult:
    gating_train, gating_val = (validation[rows] for rows in gating_split(len(validation)))
    train_score, score, on_test = (mixture.gate_.score(part) for part in (gating_train, gating_val, test))
    scaled = ScoreScale().fit(train_score, gating_train.is_seen)(score)
    threshold = mixture.operating_point_.threshold
    measures = {
        "auc": gate_auc(gating_val.is_seen, score),
        "fpr": fpr_at_tpr(gating_val.is_seen, score),
        "ece": calibration(np.clip(score, 0, 1), gating_val.is_seen).error,
        "scaled_ece": calibration(scaled, gating_val.is_seen).error,
        "acc_h": mixture.curve(validation).at(threshold).acc_h,
        "test_auc": gate_auc(test.is_seen, on_test),
        "test_fpr": fpr_at_tpr(test.is_seen, on_test),
        "test_acc_h": mixture.curve(test).at(threshold).acc_h,
    }
    percent = {key: 100 * value for key, value in measures.items()}
    return GateResult(name, about, percent, on_test, test.is_seen)
