"""The seen-unseen plane: accuracy on seen classes across, accuracy on unseen classes up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike, NDArray

from cosmo.evaluation.published import published_numbers
from cosmo.evaluation.run import Evaluation
from cosmo.metrics.accuracy import GZSLScores, harmonic_mean
from cosmo.mixture.curve import CurvePoint, SeenUnseenCurve
from cosmo.viz.plots.labels import freeze_layout, place_labels
from cosmo.viz.plots.style import LINES, PALETTE, Line, shorten

__all__ = ["Kind", "PlanePanel", "PublishedPoint", "plot_plane", "plot_planes", "published_points"]

Kind = Literal["non-generative", "generative", "combination"]
"""Groups of published methods, as in the column `kind` of `published_numbers`."""

_MARKS: dict[Kind, dict[str, Any]] = {
    "non-generative": {"marker": "^", "color": "#BBBBBB", "markeredgecolor": "#222222", "markersize": 6.5},
    "generative": {"marker": "X", "color": "#CC79A7", "markeredgecolor": "#222222", "markersize": 7},
    "combination": {"marker": "D", "color": "white", "markeredgecolor": "#222222", "markersize": 5.5},
}
_SAID = {
    "non-generative": "published, non-generative",
    "generative": "published, generative",
    "combination": "published, combined experts",
}
_STYLES = ("--", "-.", ":")
_ACROSS, _UP = "accuracy on seen classes, Acc_tr (%)", "accuracy on unseen classes, Acc_ts (%)"
_CELL = 5e-4
"""Thinned curves stay within this of the exact ones on each axis: a twentieth of a percent."""


class PublishedPoint(NamedTuple):
    """Where a published method is on the plane; accuracies in 0..1."""

    name: str
    acc_ts: float
    acc_tr: float
    kind: Kind = "non-generative"


@dataclass(frozen=True, eq=False)
class PlanePanel:
    """What is drawn for one data set. All accuracies are in 0..1.

    Parameters
    ----------
    title : str
    curves : mapping of name to SeenUnseenCurve or (acc_tr, acc_ts)
        On test; the first is drawn strongest.
    chosen : mapping of name to GZSLScores
        Operating points chosen on GZSL-Val, as they are on test: squares. A name without a curve is a
        method that has one point only.
    published : sequence of PublishedPoint

    Examples
    --------
    >>> panel = PlanePanel("CUB", {"line": ([0.6, 0.0], [0.0, 0.5])}, published=published_points("CUB"))
    >>> len(panel.published)
    16
    """

    title: str
    curves: Mapping[str, SeenUnseenCurve | tuple[ArrayLike, ArrayLike]] = field(default_factory=dict)
    chosen: Mapping[str, GZSLScores | CurvePoint] = field(default_factory=dict)
    published: Sequence[PublishedPoint] = ()

    def __post_init__(self) -> None:
        for name, curve in self.curves.items():
            points = _points(curve)
            if not np.isfinite(points).all():
                raise ValueError(f"{self.title}: the curve {name!r} has values that are not finite")
            if len(points) == 0:
                raise ValueError(f"{self.title}: the curve {name!r} has no points")
        marks = [*self.chosen.items(), *((point.name, point) for point in self.published)]
        for name, mark in marks:
            if not (0 <= mark.acc_tr <= 1 and 0 <= mark.acc_ts <= 1):
                raise ValueError(f"{self.title}: the accuracies of {name!r} must be in 0..1, got {mark}")
        for point in self.published:
            if point.kind not in get_args(Kind):
                raise ValueError(
                    f"{point.name!r}: kind must be one of {', '.join(get_args(Kind))}, got {point.kind!r}"
                )


def published_points(
    dataset: str,
    *,
    kinds: Iterable[Kind] = ("non-generative", "generative"),
    leave_out: Iterable[str] = (),
) -> list[PublishedPoint]:
    """Return the operating points of the paper's main table, misprints put right.

    Parameters
    ----------
    dataset : str
        "AWA" (also "AWA1"), "SUN", "CUB" or "FLO".
    kinds : iterable of {"non-generative", "generative", "combination"}
    leave_out : iterable of str
        Methods that are drawn in another way.

    Returns
    -------
    points : list of PublishedPoint
        In the order of the table; methods of which only Acc_H was printed are missing.

    Examples
    --------
    >>> published_points("FLO", kinds=["combination"])
    [PublishedPoint(name='COSMO + f-CLSWGAN', acc_ts=0.596, acc_tr=0.814, kind='combination')]
    """
    numbers = published_numbers()
    numbers = numbers[
        (numbers["table"] == "main")
        & (numbers["dataset"] == ("AWA" if dataset == "AWA1" else dataset))
        & numbers["kind"].isin(list(kinds))
        & ~numbers["method"].isin(list(leave_out))
    ]
    right = numbers["corrected"].fillna(numbers["value"])
    found: dict[tuple[str, Kind], dict[str, float]] = {}
    for method, kind, metric, value in zip(
        numbers["method"], numbers["kind"], numbers["metric"], right, strict=True
    ):
        found.setdefault((method, kind), {})[metric] = round(value / 100, 6)
    return [
        PublishedPoint(method, values["acc_ts"], values["acc_tr"], kind)
        for (method, kind), values in found.items()
        if {"acc_ts", "acc_tr"} <= values.keys()
    ]


def plot_planes(panels: Sequence[PlanePanel], *, title: str = "") -> Figure:
    """Draw the seen-unseen plane of each data set: curves, operating points and published methods.

    Across: Acc_tr, up: Acc_ts, in percent, from zero. Lines are exact curves, squares the points chosen on
    GZSL-Val; published methods are triangles (non-generative), crosses (generative) and diamonds
    (combinations), with their names. Thin lines join places of equal Acc_H, which stands at the right. A
    curve has the same colour and dashes in all panels.

    Examples
    --------
    >>> curve = SeenUnseenCurve([0.1, 0.4, 0.6, 0.9], [0, 0.5, 0, 0.5], [0.5, 0, 0.5, 0])
    >>> panel = PlanePanel("CUB", {"COSMO": curve}, {"COSMO": curve.best()}, published_points("CUB"))
    >>> [axes.get_title() for axes in plot_planes([panel]).axes]
    ['CUB']
    """
    if not panels:
        raise ValueError("there is no panel to draw")
    columns = 1 if len(panels) == 1 else 2
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(6.4 if columns == 1 else 11.0, 4.9 * rows + 0.7), layout="constrained")
    places = figure.subplots(rows, columns, squeeze=False).ravel()
    fullest_first = sorted(panels, key=lambda panel: -len(panel.curves))  # its order is the one meant
    names = dict.fromkeys(name for panel in fullest_first for name in (*panel.curves, *panel.chosen))
    lines = {name: LINES[i % len(LINES)] for i, name in enumerate(names)}
    drawn = [_draw_panel(axes, panel, lines) for axes, panel in zip(places, panels, strict=False)]
    handles = _legend_entries(panels, lines)
    if len(panels) < len(places):  # the empty place is right for the legend
        places[-1].axis("off")
        places[-1].legend(handles=handles, loc="center", fontsize=9, frameon=False)
    elif handles:
        figure.legend(
            handles=handles, loc="outside lower center", ncols=1 + columns, fontsize=8, frameon=False
        )
    if title:
        figure.suptitle(title, parse_math=False)
    renderer = freeze_layout(figure)
    for axes, panel, curves in zip(places, panels, drawn, strict=False):
        place_labels(
            axes,
            [[100 * point.acc_tr, 100 * point.acc_ts] for point in panel.published],
            [point.name for point in panel.published],
            renderer,
            lines=curves,
            markers=[[100 * at.acc_tr, 100 * at.acc_ts] for at in panel.chosen.values()],
        )
    return figure


def _points(curve: SeenUnseenCurve | tuple[ArrayLike, ArrayLike]) -> NDArray[np.float64]:
    """Return (Acc_tr, Acc_ts) of a curve's points, shape (n, 2)."""
    if isinstance(curve, SeenUnseenCurve):
        return np.column_stack([curve.acc_tr, curve.acc_ts])
    return np.column_stack([np.asarray(values, dtype=np.float64) for values in curve])


def _thinned(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the points that enter a new cell of a fine grid, and the last: the eye sees no difference."""
    cells = np.floor(points / _CELL)
    kept = np.concatenate([[True], (np.diff(cells, axis=0) != 0).any(axis=1)])
    kept[-1] = True
    return points[kept]


def _draw_panel(axes: Axes, panel: PlanePanel, lines: Mapping[str, Line]) -> list[NDArray[np.float64]]:
    """Draw all but the names; return the drawn curves in percent."""
    curves = {name: 100 * _thinned(_points(curve)) for name, curve in panel.curves.items()}
    marks = [*panel.chosen.values(), *panel.published]
    spots = [np.array([[100 * mark.acc_tr, 100 * mark.acc_ts]]) for mark in marks]
    # Room beyond the outermost point, for its marker and name; limits at multiples of five.
    furthest = np.concatenate([[[1, 1]], *curves.values(), *spots]).max(axis=0)
    right, top = 5 * np.ceil((furthest + np.array([5, 2])) / 5)
    axes.set(xlim=(0, right), ylim=(0, top), xlabel=_ACROSS, ylabel=_UP)
    axes.set_title(panel.title, parse_math=False)
    axes.spines[["right", "top"]].set_visible(False)
    _mark_equal_means(axes, right, top)
    for i, (name, curve) in enumerate(curves.items()):
        line = lines[name]
        axes.plot(
            *curve.T, color=line.colour, linestyle=line.dashes, linewidth=line.width, zorder=3 - i / 100
        )
    for name, at in panel.chosen.items():
        axes.plot(100 * at.acc_tr, 100 * at.acc_ts, **_square(lines[name]), zorder=5, clip_on=False)
    for point in panel.published:
        axes.plot(
            100 * point.acc_tr,
            100 * point.acc_ts,
            linestyle="none",
            zorder=4,
            clip_on=False,
            **_MARKS[point.kind],
        )
    return list(curves.values())


def _square(line: Line) -> dict[str, Any]:
    return {
        "marker": "s",
        "linestyle": "none",
        "color": line.colour,
        "markeredgecolor": "black",
        "markersize": 8,
    }


def _mark_equal_means(axes: Axes, right: float, top: float) -> None:
    """Draw lines of equal Acc_H; each leaves the plane at the right, where its value stands."""
    lines = []
    for mean in np.arange(10, harmonic_mean(right, top), 10):
        x = np.geomspace(mean * top / (2 * top - mean), right, 200)
        lines.append(np.column_stack([x, mean * x / (2 * x - mean)]))
        axes.annotate(
            f"H {mean:.0f}",
            tuple(lines[-1][-1]),
            xytext=(2, 0),
            textcoords="offset points",
            va="center",
            fontsize=6.5,
            color="#777777",
            annotation_clip=False,
        )
    axes.add_collection(LineCollection(lines, colors="#DDDDDD", linewidths=0.7, zorder=1), autolim=False)


def _legend_entries(panels: Sequence[PlanePanel], lines: Mapping[str, Line]) -> list[Artist]:
    curves = {name for panel in panels for name in panel.curves}
    chosen = {name for panel in panels for name in panel.chosen}
    entries: list[Artist] = []
    for name, line in lines.items():
        look = _square(line) if name in chosen else {"color": line.colour}
        if name in curves:
            look |= {"linestyle": line.dashes, "linewidth": line.width}
        entries.append(Line2D([], [], **look, label=shorten(name, 40)))
    if chosen:
        any_line = LINES[0]._replace(colour="white")
        entries.append(Line2D([], [], **_square(any_line), label="square: point chosen on GZSL-Val"))
    for kind in get_args(Kind):
        if any(point.kind == kind for panel in panels for point in panel.published):
            entries.append(Line2D([], [], linestyle="none", **_MARKS[kind], label=_SAID[kind]))
    return entries


def plot_plane(evaluations: Sequence[Evaluation], *, title: str = "") -> Figure:
    """Draw the exact curves of some combinations and their operating points.

    Horizontal: accuracy on seen classes; vertical: accuracy on unseen classes; both in percent. Squares
    are the points chosen on validation, a triangle is a method that has no choice. Thin lines join
    places of equal Acc_H, which stands at the right.

    Parameters
    ----------
    evaluations : sequence of Evaluation
        The last one is drawn strongest.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> from cosmo.evaluation.run import run_experiment
    >>> experiment = run_experiment(load_glyphs(n_classes=40, samples_per_class=12))
    >>> figure = plot_plane(experiment.evaluations, title="glyphs")
    """
    figure = Figure(figsize=(7.2, 5.2), layout="constrained")
    axes = figure.add_subplot()
    right = 105 * max(float(e.curve.acc_tr.max()) for e in evaluations) or 1.0
    top = 105 * max(float(e.curve.acc_ts.max()) for e in evaluations) or 1.0
    _mark_equal_means(axes, right, top)
    for i, one in enumerate(evaluations):
        colour, last = PALETTE[i % len(PALETTE)], i == len(evaluations) - 1
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
    axes.set_xlabel(_ACROSS)
    axes.set_ylabel(_UP)
    axes.legend(loc="lower left", fontsize=8, framealpha=0.9)
    return figure
