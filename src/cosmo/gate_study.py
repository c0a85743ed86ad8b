"""Gates side by side: how well each tells samples of seen classes from samples of unseen ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from cosmo.combinations import GatedMixture
from cosmo.experts import UnseenExpert
from cosmo.gates import Gate, make_gate
from cosmo.metrics import fpr_at_tpr, gate_auc
from cosmo.outputs import ExpertOutputs
from cosmo.protocol import gating_split
from cosmo.stages import Stages

__all__ = ["GateResult", "study_gates"]


@dataclass(frozen=True, eq=False)
class GateResult:
    """What a gate does.

    Parameters
    ----------
    name : str
    measures : dict
        In percent: `auc` and `fpr` (the share of unseen samples taken for seen where 95 % of the seen ones
        are) on Gating-Val, `test_auc` and `test_fpr` on test, `acc_h` on GZSL-Val and `test_acc_h` of the
        soft combination without smoothing.
    scores, is_seen : array of shape (n_samples,)
        On test.
    """

    name: str
    measures: dict[str, float]
    scores: NDArray[np.float64]
    is_seen: NDArray[np.bool_]


def study_gates(
    stages: Stages, seen: BaseEstimator, unseen: UnseenExpert, names: Sequence[str]
) -> list[GateResult]:
    """Fit and measure gates by their names in `cosmo.gates.GATES`, on the same experts.

    As in the paper's table of gates there is no smoothing; a gate is fitted on Gating-Train and its
    threshold and softness are chosen on GZSL-Val.

    Examples
    --------
    >>> import tempfile
    >>> from cosmo.cache import Cache
    >>> from cosmo.data import load_glyphs
    >>> from cosmo.experts import ESZSL, make_seen_expert
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stages = Stages(data, Cache(folder))
    ...     found = study_gates(stages, make_seen_expert("logistic"), ESZSL(), ["max-softmax", "confidence"])
    >>> [result.name for result in found]
    ['max-softmax', 'confidence']
    """
    validation, test = stages.outputs(stages.seen(seen), stages.unseen(unseen), unseen)
    gates = [make_gate(name) for name in names]
    results = []
    for name, gate, evidence in zip(names, gates, stages.evidence(seen, gates), strict=True):
        on_val, on_test = (None, None) if evidence is None else evidence
        seen_by = replace(validation, evidence=on_val), replace(test, evidence=on_test)
        results.append(_measure(name, gate, *seen_by))
    return results


def _measure(name: str, gate: Gate, validation: ExpertOutputs, test: ExpertOutputs) -> GateResult:
    mixture = GatedMixture(gate, smoothing="none").fit(validation)
    gating_val = validation[gating_split(len(validation))[1]]
    score, on_test = mixture.gate_.score(gating_val), mixture.gate_.score(test)
    threshold = mixture.operating_point_.threshold
    measures = {
        "auc": gate_auc(gating_val.is_seen, score),
        "fpr": fpr_at_tpr(gating_val.is_seen, score),
        "acc_h": mixture.curve(validation).at(threshold).acc_h,
        "test_auc": gate_auc(test.is_seen, on_test),
        "test_fpr": fpr_at_tpr(test.is_seen, on_test),
        "test_acc_h": mixture.curve(test).at(threshold).acc_h,
    }
    return GateResult(name, {key: 100 * value for key, value in measures.items()}, on_test, test.is_seen)
