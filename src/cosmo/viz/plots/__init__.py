"""Figures as matplotlib `Figure` objects; the same data give the same file."""

from cosmo.viz.plots.plane import PlanePanel, PublishedPoint, plot_plane, plot_planes, published_points
from cosmo.viz.plots.splits import plot_hold_out, plot_splits
from cosmo.viz.plots.style import save_figure
from cosmo.viz.plots.walkthrough import plot_gates, plot_walkthrough

__all__ = [
    "PlanePanel",
    "PublishedPoint",
    "plot_gates",
    "plot_hold_out",
    "plot_plane",
    "plot_planes",
    "plot_splits",
    "plot_walkthrough",
    "published_points",
    "save_figure",
]
