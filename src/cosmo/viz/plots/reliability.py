"""Reliability diagrams: observed frequency against predicted probability."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from cosmo.metrics.calibration import Calibration
from cosmo.viz.plots import LINES

__all__ = ["plot_reliability"]


def plot_reliability(curves: Mapping[str, Calibration], *, title: str = "") -> Figure:
    """Draw a reliability diagram for each calibration curve.

    Each point is a bin of equally many samples. Titles state the expected calibration error (ECE) and, as
    "by chance", that of perfectly calibrated probabilities on as many samples.

    Parameters
    ----------
    curves : mapping of name to Calibration
        For example from `cosmo.viz.reliability.reliability`.
    title : str, default=""

    Returns
    -------
    figure : Figure
    """
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
