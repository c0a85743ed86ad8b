"""Reliability of a mixture's probabilities on labelled samples."""

from __future__ import annotations

import numpy as np

from cosmo.classifier.combinations import GatedMixture, Outputs
from cosmo.metrics.calibration import Calibration, calibration
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.mixture.smoothing import gate_belief

__all__ = ["reliability"]


def reliability(mixture: GatedMixture, outputs: Outputs, *, bins: int = 15) -> dict[str, Calibration]:
    """Return calibration curves of `p(y)` of the prediction and of `p(U)`.

    Parameters
    ----------
    mixture : GatedMixture
        Fitted; its operating point is used.
    outputs : ExpertOutputs or OutputsSummary
        Labelled.
    bins : int, default=15
        See `cosmo.metrics.calibration.calibration`.

    Returns
    -------
    curves : dict
        "p(y)": whether the prediction is correct; "p(U)": whether the class is unseen. A summary of adaptive
        smoothing has no "p(y)", because the sum of all scores is unknown.
    """
    summary, point = mixture.summary(outputs), mixture.operating_point_
    p_unseen = gate_belief(summary.gate_score, point.threshold, point.softness)
    if mixture.hard:
        p_unseen = (p_unseen > 0.5).astype(np.float64)
    curves = {"p(U)": calibration(p_unseen, ~summary.is_seen, bins=bins)}
    unseen = mixture.takes_for_unseen(summary)
    own = np.where(unseen, p_unseen, 1 - p_unseen)
    best = np.where(unseen, *reversed(summary.best(mixture.smoothing)))
    n_classes = np.where(unseen, summary.n_unseen, summary.n_seen)
    if mixture.smoothing == "adaptive":
        if not isinstance(outputs, ExpertOutputs):
            return curves
        seen_mass, unseen_mass = (
            part.sum(axis=1, dtype=np.float64) for part in (outputs.seen, outputs.unseen)
        )
        total = (seen_mass + p_unseen) * (1 - p_unseen) + (unseen_mass + 1 - p_unseen) * p_unseen
        probability = (best + (1 - own) / n_classes) * own / total
    else:
        probability = own * ((1 - point.prior_weight) * best + point.prior_weight / n_classes)
    correct = mixture.predict(summary) == summary.labels
    return {"p(y)": calibration(np.minimum(probability, 1), correct, bins=bins), **curves}
