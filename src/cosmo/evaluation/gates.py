"""Compare gates: how well each separates samples of seen classes from samples of unseen ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from cosmo._core.cache import fingerprint
from cosmo.classifier.combinations import GatedMixture
from cosmo.data.splits import gating_split
from cosmo.evaluation.expert_cache import ExpertCache
from cosmo.experts.base import UnseenExpert
from cosmo.gates import GATES, LeaveOutGate, OdinGate, make_gate
from cosmo.gates.base import ScoreScale
from cosmo.gates.leave_out import LeaveOutEnsemble
from cosmo.metrics.accuracy import fpr_at_tpr, gate_auc
from cosmo.metrics.calibration import calibration
from cosmo.mixture.outputs import ExpertOutputs

__all__ = ["GateResult", "LeaveOutGap", "compare_gates", "leave_out_gaps", "odin_auc"]

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

    As in the paper's table of gates there is no smoothing; a gate is fitted on Gating-Train and its
    threshold and softness are chosen on GZSL-Val.

    Parameters
    ----------
    experts : ExpertCache
    seen : classifier
    unseen : UnseenExpert
    names : sequence of str
        Keys of `cosmo.gates.GATES`.
    folds : int, default=1
        If more than 1, the gates in `POOLED` are also fitted on as many hold-outs of classes.

    Returns
    -------
    list of GateResult
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


def odin_auc(experts: ExpertCache, seen: BaseEstimator, unseen: UnseenExpert) -> pd.DataFrame:
    """Return the AUC of ODIN on Gating-Val, in percent, by perturbation ε and temperature."""
    gate = OdinGate()
    validation = experts.fit(seen, unseen, gate=gate).validation
    gating_val = validation[gating_split(len(validation))[1]]
    assert gating_val.evidence is not None, "ODIN has an observer"
    auc = [100 * gate_auc(gating_val.is_seen, column) for column in gating_val.evidence.T]
    index = pd.MultiIndex.from_tuples(gate.settings(), names=["temperature", "epsilon"])
    return pd.Series(auc, index).unstack("temperature")


class LeaveOutGap(NamedTuple):
    """Mean AUC, in 0..1, at which members of a leave-out ensemble separate their classes from others.

    The others are the classes that a member left out, on its training rows (`trained`) and on other rows
    (`fresh`), or classes that are new to all members (`unmet`).
    """

    trained: float
    fresh: float
    unmet: float


def leave_out_gaps(experts: ExpertCache) -> dict[str, LeaveOutGap]:
    """Return how well members of the leave-out ensemble separate their classes from others.

    The members are trained on Seen-Train and measured on GZSL-Val. "margin loss" is the ensemble as
    published, "margin loss, no push" leaves samples unperturbed, "cross-entropy only" has no margin loss.
    """
    protocol = experts.protocol
    held, codes = protocol.hold_out, protocol.dataset.codes
    samples, others = protocol.samples(held.seen_train), protocol.samples(held.gzsl_val)
    data = samples.X, codes[samples.rows], others.X, codes[others.rows]
    variants = {
        "margin loss": LeaveOutGate(),
        "margin loss, no push": LeaveOutGate(epsilon=0.0),
        "cross-entropy only": LeaveOutGate(weight=0.0),
    }
    found = {}
    for name, gate in variants.items():

        def compute(gate: LeaveOutGate = gate) -> dict[str, NDArray[np.float64]]:
            return {"gap": np.array(leave_out_gap(gate, *data))}

        entry = experts.cache.arrays("leave-out", fingerprint(gate, *data), compute)
        found[name] = LeaveOutGap(*entry["gap"].tolist())
    return found


def leave_out_gap(
    gate: LeaveOutGate,
    X: NDArray[np.float32],
    codes: NDArray[np.intp],
    X_val: NDArray[np.float32],
    val_codes: NDArray[np.intp],
) -> LeaveOutGap:
    """Train an ensemble on `X` and measure its uncertainty about known and about unknown classes.

    `X_val` are other rows, of the classes in `codes` and of further ones.
    """
    ensemble = LeaveOutEnsemble(gate).fit(None, X, codes)
    on_train, on_val = ensemble.confidence(X), ensemble.confidence(X_val)
    met = np.isin(val_codes, ensemble.classes)
    found = []
    for column, left_out in enumerate(ensemble.left_out):
        left = ensemble.classes[left_out]
        trained, other = on_train[:, column], on_val[:, column]
        own = met & ~np.isin(val_codes, left)
        found.append(
            (
                gate_auc(~np.isin(codes, left), trained),
                gate_auc(own[met], other[met]),
                gate_auc(own[own | ~met], other[own | ~met]),
            )
        )
    return LeaveOutGap(*np.mean(found, axis=0).tolist())
