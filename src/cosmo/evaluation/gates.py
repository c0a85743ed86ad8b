"""Gates side by side: how well each tells samples of seen classes from samples of unseen ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from cosmo._core.cache import fingerprint
from cosmo.classifier.combinations import GatedMixture
from cosmo.data.splits import Protocol, gating_split
from cosmo.evaluation.stages import Stages
from cosmo.experts import UnseenExpert
from cosmo.gates import GATES, Gate, LeaveOutGate, OdinGate, make_gate
from cosmo.gates._platt import ScoreScale, calibration_error
from cosmo.gates.leave_out import LeaveOutGap, leave_out_gap
from cosmo.metrics.accuracy import fpr_at_tpr, gate_auc
from cosmo.mixture.outputs import ExpertOutputs

__all__ = ["GateResult", "study_gates", "study_leave_out", "study_pushes"]

POOLED = ("confidence", "evidence")
"""Gates that learn enough to gain from several hold-outs of classes."""


@dataclass(frozen=True, eq=False)
class GateResult:
    """What a gate does.

    Parameters
    ----------
    name, about : str
    measures : dict
        In percent: `auc` and `fpr` (the share of unseen samples taken for seen where 95 % of the seen ones
        are) on Gating-Val, `test_auc` and `test_fpr` on test, `acc_h` on GZSL-Val and `test_acc_h` of the
        soft combination without smoothing; `ece`, the expected calibration error on Gating-Val of the score
        as a probability of "seen", and `scaled_ece`, the same after `ScoreScale` was fitted on
        Gating-Train.
    scores, is_seen : array of shape (n_samples,)
        On test.
    """

    name: str
    about: str
    measures: dict[str, float]
    scores: NDArray[np.float64]
    is_seen: NDArray[np.bool_]


def study_gates(
    stages: Stages, seen: BaseEstimator, unseen: UnseenExpert, names: Sequence[str], *, folds: int = 1
) -> list[GateResult]:
    """Fit and measure gates by their names in `cosmo.gates.GATES`, on the same experts.

    As in the paper's table of gates there is no smoothing; a gate is fitted on Gating-Train and its
    threshold and softness are chosen on GZSL-Val.

    Parameters
    ----------
    folds : int
        If more than 1, the gates of `POOLED` are also fitted with so many hold-outs of classes.

    Examples
    --------
    >>> import tempfile
    >>> from cosmo._core.cache import Cache
    >>> from cosmo.data import load_glyphs
    >>> from cosmo.experts import ESZSL, make_seen_expert
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stages = Stages(data, Cache(folder))
    ...     expert, names = make_seen_expert("logistic"), ["max-softmax", "confidence"]
    ...     found = study_gates(stages, expert, ESZSL(), names, folds=3)
    >>> [result.name for result in found]
    ['max-softmax', 'confidence', 'confidence, 3 folds']
    """
    validation, test = stages.outputs(stages.seen(seen), stages.unseen(unseen), unseen)
    gates = [make_gate(name) for name in names]
    pooled = [name for name in names if name in POOLED]
    others = dict(
        zip(pooled, stages.further(seen, unseen, [make_gate(name) for name in pooled], folds), strict=True)
    )
    results = []
    for name, gate, evidence in zip(names, gates, stages.evidence(seen, gates), strict=True):
        on_val, on_test = (None, None) if evidence is None else evidence
        both = replace(validation, evidence=on_val), replace(test, evidence=on_test)
        results.append(_measure(name, GATES[name], gate, both))
        if others.get(name):
            about = f"the same, every seen class having played unseen in one of {folds} hold-outs"
            results.append(_measure(f"{name}, {folds} folds", about, gate, both, others[name]))
    return results


def _measure(
    name: str,
    about: str,
    gate: Gate,
    outputs: tuple[ExpertOutputs, ExpertOutputs],
    others: Sequence[ExpertOutputs] = (),
) -> GateResult:
    validation, test = outputs
    mixture = GatedMixture(gate, smoothing="none").fit(validation, *others)
    gating_train, gating_val = (validation[rows] for rows in gating_split(len(validation)))
    learned, score, on_test = (mixture.gate_.score(part) for part in (gating_train, gating_val, test))
    scaled = ScoreScale().fit(learned, gating_train.is_seen)(score)
    threshold = mixture.operating_point_.threshold
    measures = {
        "auc": gate_auc(gating_val.is_seen, score),
        "fpr": fpr_at_tpr(gating_val.is_seen, score),
        "ece": calibration_error(gating_val.is_seen, score),
        "scaled_ece": calibration_error(gating_val.is_seen, scaled),
        "acc_h": mixture.curve(validation).at(threshold).acc_h,
        "test_auc": gate_auc(test.is_seen, on_test),
        "test_fpr": fpr_at_tpr(test.is_seen, on_test),
        "test_acc_h": mixture.curve(test).at(threshold).acc_h,
    }
    percent = {key: 100 * value for key, value in measures.items()}
    return GateResult(name, about, percent, on_test, test.is_seen)


def study_pushes(stages: Stages, seen: BaseEstimator) -> pd.DataFrame:
    """Return the AUC of ODIN on Gating-Val, in percent, for every push ε (row) and temperature (column).

    Examples
    --------
    >>> import tempfile
    >>> from cosmo._core.cache import Cache
    >>> from cosmo.data import load_glyphs
    >>> from cosmo.experts import make_seen_expert
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = study_pushes(Stages(data, Cache(folder)), make_seen_expert("logistic"))
    >>> table.loc[0.0, 1.0] > 50
    np.True_
    """
    gate = OdinGate()
    found = stages.evidence(seen, [gate])[0]
    assert found is not None, "ODIN has an observer"
    protocol = Protocol(stages.dataset, seed=stages.seed)
    held = protocol.hold_out
    rows = gating_split(len(held.gzsl_val))[1]
    is_seen = (np.arange(len(held.gzsl_val)) < len(held.seen_val))[rows]
    auc = [100 * gate_auc(is_seen, column) for column in found[0][rows].T]
    index = pd.MultiIndex.from_tuples(gate.settings(), names=["temperature", "epsilon"])
    return pd.Series(auc, index).unstack("temperature")


def study_leave_out(stages: Stages) -> dict[str, LeaveOutGap]:
    """Return how well members of the leave-out ensemble tell their classes from others.

    They are trained on Seen-Train and asked about GZSL-Val. The keys are "margin loss", for the ensemble as
    it is, "margin loss, no push", where samples stay where they are, and "cross-entropy only", for one that
    is never told to doubt anything.

    Examples
    --------
    >>> import tempfile
    >>> from cosmo._core.cache import Cache
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = study_leave_out(Stages(data, Cache(folder)))
    >>> list(found)
    ['margin loss', 'margin loss, no push', 'cross-entropy only']
    """
    protocol = Protocol(stages.dataset, seed=stages.seed)
    held, codes = protocol.hold_out, stages.dataset.codes
    samples, others = protocol.samples(held.seen_train), protocol.samples(held.gzsl_val)

    def gap(gate: LeaveOutGate) -> LeaveOutGap:
        return leave_out_gap(gate, samples.X, codes[samples.rows], others.X, codes[others.rows])

    found = {}
    for name, gate in (
        ("margin loss", LeaveOutGate()),
        ("margin loss, no push", LeaveOutGate(epsilon=0.0)),
        ("cross-entropy only", LeaveOutGate(weight=0.0)),
    ):
        key = fingerprint(gate, samples.X, codes[samples.rows], others.X, codes[others.rows])
        kept = stages.cache.arrays("leave-out", key, lambda gate=gate: {"gap": np.array(gap(gate))})  # type: ignore[misc]
        found[name] = LeaveOutGap(*kept["gap"].tolist())
    return found
