"""Figures: the seen-unseen plane, and what gates see."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import rankdata

from cosmo.experiment import Evaluation
from cosmo.gate_study import GateResult
from cosmo.metrics import harmonic_mean

__all__ = ["plot_gates", "plot_plane"]

# Okabe & Ito's palette: told apart by readers with any colour vision.
_COLOURS = ("#999999", "#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2", "#D55E00", "#000000")
_STYLES = ("--", "-.", ":")


def plot_plane(evaluations: Sequence[Evaluation], *, title: str = "") -> Figure:
    """Draw the exact curves of some combinations and their operating points.

    Horizontal: accuracy on seen classes; vertical: accuracy on unseen classes; both in percent. Squares
    are the points chosen on validation, a triangle is a method that has no choice. Thin lines join
    places of equal Acc_H.

    Parameters
    ----------
    evaluations : sequence of Evaluation
        The last one is drawn strongest.
    """
    figure = Figure(figsize=(7.2, 5.2), layout="constrained")
    axes = figure.add_subplot()
    right = 105 * max(float(e.curve.acc_tr.max()) for e in evaluations) or 1.0
    top = 105 * max(float(e.curve.acc_ts.max()) for e in evaluations) or 1.0
    _equal_means(axes, right, top)
    for i, one in enumerate(evaluations):
        colour, last = _COLOURS[i % len(_COLOURS)], i == len(evaluations) - 1
        x, y = 100 * one.scores.acc_tr, 100 * one.scores.acc_ts
        label = f"{one.name}: H {100 * one.scores.acc_h:.1f}, AUSUC {100 * one.ausuc:.1f}"
        if i == 0 and not last:
            axes.plot(x, y, "^", color=colour, markersize=10, markeredgecolor="black", zorder=4, label=label)
            continue
        style = "-" if last else _STYLES[i % len(_STYLES)]
        axes.plot(
            100 * one.curve.acc_tr,
            100 * one.curve.acc_ts,
            style,
            color=colour,
            linewidth=2.4 if last else 1.5,
            marker="s",
            markevery=[],
            markeredgecolor="black",
            label=label,
            zorder=3 if last else 2,
        )
        axes.plot(x, y, "s", color=colour, markersize=8, markeredgecolor="black", zorder=4)
    axes.set(xlim=(0, right), ylim=(0, top))
    axes.set_title(title, parse_math=False)
    axes.set_xlabel("accuracy on seen classes, Acc_tr (%)")
    axes.set_ylabel("accuracy on unseen classes, Acc_ts (%)")
    axes.legend(loc="lower left", fontsize=8, framealpha=0.9)
    return figure


def _equal_means(axes: Axes, right: float, top: float) -> None:
    x, y = np.meshgrid(np.linspace(0, right, 120), np.linspace(0, top, 120))
    lines = axes.contour(
        x, y, harmonic_mean(x, y), levels=range(10, 100, 10), colors="#cccccc", linewidths=0.6, zorder=1
    )
    axes.clabel(lines, fmt="H %d", fontsize=6, colors="#999999")


def plot_gates(results: Sequence[GateResult], *, title: str = "") -> Figure:
    """Draw, for each gate, how its scores on test are spread over samples of seen and unseen classes.

    Horizontal: the share of all samples with a lower score, so that gates on different scales compare.
    """
    columns = min(3, len(results))
    rows = -(-len(results) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.4 * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    bins = np.linspace(0, 100, 26)
    for one, place in zip(results, axes, strict=False):
        share = 100 * (rankdata(one.scores) - 0.5) / len(one.scores)
        for seen, colour, hatch, label in (
            (True, _COLOURS[5], "", "seen classes"),
            (False, _COLOURS[6], "//", "unseen classes"),
        ):
            part = share[one.is_seen == seen]
            place.hist(part, bins, density=True, histtype="step", color=colour, linewidth=1.4, label=label)
            place.hist(part, bins, density=True, color=colour, alpha=0.25, hatch=hatch)
        place.set_title(f"{one.name}: AUC {one.measures['test_auc']:.1f}", fontsize=9)
        place.set_yticks([])
    for place in axes[len(results) :]:
        place.set_visible(False)
    axes[0].legend(fontsize=7, loc="upper left")
    figure.supxlabel("rank of the gate's score on test (%), right = looks seen", fontsize=9)
    figure.supylabel("samples of each kind", fontsize=9)
    figure.suptitle(title, parse_math=False)
    return figure
