"""Reliability of a mixture's probabilities on labelled samples, as curves and as a diagram."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from cosmo.classifier.combinations import GatedMixture, Outputs
from cosmo.metrics.calibration import Calibration, calibration
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.mixture.smoothing import gate_belief

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def reliability(mixture: GatedMixture, outputs: Outputs) -> dict[str, Calibration]:
    """Return calibration curves of `p(y)` of the prediction and of `p(U)` at the operating point.

    The outputs must be labelled. A summary of adaptive smoothing has no "p(y)", because the sum of all scores
    is unknown.
    """
    summary, point = mixture.summary(outputs), mixture.operating_point_
    p_unseen = gate_belief(summary.gate_score, point.threshold, point.softness)
    if mixture.hard:
        p_unseen = (p_unseen > 0.5).astype(np.float64)
    curves = {"p(U)": calibration(p_unseen, ~summary.is_seen)}
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
    return {"p(y)": calibration(np.minimum(probability, 1), correct), **curves}


def plot_reliability(curves: Mapping[str, Calibration], *, title: str = "") -> Figure:
    """Draw a reliability diagram for each calibration curve.

    Each point is a bin of equally many samples. Titles state the expected calibration error (ECE) and, as
    "by chance", that of perfectly calibrated probabilities on as many samples.
    """
    from matplotlib.figure import Figure  # matplotlib is slow to import

    from cosmo.viz.plots import LINES

    figure = Figure(figsize=(4.2 * len(curves), 4.6), layout="constrained")
    places = figure.subplots(1, len(curves), squeeze=False).ravel()
    line = LINES[0]
    for axes, (name, curve) in zip(places, curves.items(), strict=True):
        axes.plot([0, 100], [0, 100], color="#777777", linewidth=0.9, linestyle=(0, (3, 3)))
        axes.plot(
            100 * curve.probability,
            100 * curve.frequency,
            color=line.colour,
            linewidth=line.width,
            marker="o",
            markersize=5,
            clip_on=False,
        )
        axes.set(xlim=(0, 100), ylim=(0, 100), aspect="equal")
        axes.set(xlabel="predicted probability (%)", ylabel="observed frequency (%)")
        error = f"ECE {100 * curve.error:.1f} %, by chance {100 * curve.chance:.1f} %"
        axes.set_title(f"{name}: {error}", fontsize=10, parse_math=False)
        axes.spines[["right", "top"]].set_visible(False)
    if title:
        figure.suptitle(title, parse_math=False)
    return figure
