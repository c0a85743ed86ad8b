"""The seen-unseen plane: accuracy on seen classes across, accuracy on unseen classes up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike, NDArray

from cosmo.evaluation.compare import published_numbers
from cosmo.evaluation.run import Evaluation
from cosmo.metrics.accuracy import GZSLScores, harmonic_mean
from cosmo.mixture.curve import CurvePoint, SeenUnseenCurve
from cosmo.viz.plots import LINES, Line, ignore_missing_glyphs, shorten

Kind = Literal["non-generative", "generative"]
"""Groups of published methods, as in the column `kind` of `published_numbers`."""

_MARKS: dict[Kind, dict[str, Any]] = {
    "non-generative": {"marker": "^", "color": "#BBBBBB", "markeredgecolor": "#222222", "markersize": 6.5},
    "generative": {"marker": "X", "color": "#CC79A7", "markeredgecolor": "#222222", "markersize": 7},
}
_ACROSS, _UP = "accuracy on seen classes, Acc_tr (%)", "accuracy on unseen classes, Acc_ts (%)"
_CELL = 5e-4  # thinned curves stay within a twentieth of a percent of the exact ones
_ITERATIONS = 200  # of adjustText; a limit of iterations, not of time, gives the same file on any machine
_MARKER = 3.5  # half the size of a marker, in points
_SPACING = 3.0  # percent between points of a curve that labels keep clear of


class PublishedPoint(NamedTuple):
    """Place of a published method on the plane; accuracies in 0..1."""

    name: str
    acc_ts: float
    acc_tr: float
    kind: Kind = "non-generative"


@dataclass(frozen=True, eq=False)
class PlanePanel:
    """Content of one panel, for one data set. All accuracies are in 0..1.

    `curves` are on test, by name; the first has the strongest line. `chosen` has the test accuracies at the
    operating points chosen on GZSL-Val; a name without a curve is a method with a single point.
    """

    title: str
    curves: Mapping[str, SeenUnseenCurve | tuple[ArrayLike, ArrayLike]] = field(default_factory=dict)
    chosen: Mapping[str, GZSLScores | CurvePoint] = field(default_factory=dict)
    published: Sequence[PublishedPoint] = ()


def published_points(dataset: str, *, leave_out: Iterable[str] = ()) -> list[PublishedPoint]:
    """Return the earlier methods of the paper's main table, misprints corrected; AWA1 is "AWA".

    Methods with a printed Acc_H only are missing.
    """
    name = "AWA" if dataset == "AWA1" else dataset
    numbers = published_numbers()
    numbers = numbers[(numbers["table"] == "main") & (numbers["dataset"] == name)]
    numbers = numbers[numbers["kind"].isin(get_args(Kind)) & ~numbers["method"].isin(list(leave_out))]
    numbers["value"] = (numbers["corrected"].fillna(numbers["value"]) / 100).round(6)
    keys = ["method", "kind"]
    wide = numbers.pivot_table(index=keys, columns="metric", values="value", sort=False)
    known = wide.reindex(columns=["acc_ts", "acc_tr"]).dropna().reset_index()
    return [PublishedPoint(*one) for one in known[["method", "acc_ts", "acc_tr", "kind"]].to_numpy()]


def plot_planes(panels: Sequence[PlanePanel]) -> Figure:
    """Draw the seen-unseen plane of each data set: curves, operating points, published methods.

    Across: Acc_tr, up: Acc_ts, in percent, from zero. Lines are exact curves, squares the points chosen on
    GZSL-Val; published methods are triangles (non-generative) and crosses (generative). Thin lines join
    points of equal Acc_H. A method has the same colour and dashes in all panels. The same panels give the
    same figure.
    """
    columns = 1 if len(panels) == 1 else 2
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(6.4 if columns == 1 else 11.0, 4.9 * rows + 0.7), layout="constrained")
    places = figure.subplots(rows, columns, squeeze=False).ravel()
    fullest_first = sorted(panels, key=lambda panel: -len(panel.curves))
    names = dict.fromkeys(name for panel in fullest_first for name in (*panel.curves, *panel.chosen))
    lines = {name: LINES[i % len(LINES)] for i, name in enumerate(names)}
    curves = [_draw_panel(axes, panel, lines) for axes, panel in zip(places, panels, strict=False)]
    handles = _legend_entries(panels, lines)
    if len(panels) < len(places):  # The legend takes the empty place of an odd number of panels.
        places[-1].axis("off")
        places[-1].legend(handles=handles, loc="center", fontsize=9, frameon=False)
    elif handles:
        figure.legend(
            handles=handles, loc="outside lower center", ncols=1 + columns, fontsize=8, frameon=False
        )
    # Drawn once, so that pixel positions of the names stay valid.
    FigureCanvasAgg(figure)
    with ignore_missing_glyphs():
        figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axes, panel, drawn in zip(places, panels, curves, strict=False):
        _label_published(axes, panel, drawn)
    return figure


def plot_plane(evaluations: Sequence[Evaluation], *, title: str = "") -> Figure:
    """Draw the exact curves of several combinations and their operating points.

    The last one has the strongest line. The first of several is an expert alone, which has no threshold to
    choose: only its point is drawn. The legend has Acc_H at the operating point, and AUSUC.
    """
    named = {
        f"{one.name}: H {100 * one.scores.acc_h:.1f}, AUSUC {100 * one.ausuc:.1f}": one
        for one in reversed(evaluations)
    }
    alone = evaluations[0] if len(evaluations) > 1 else None
    curves = {name: one.curve for name, one in named.items() if one is not alone}
    return plot_planes([PlanePanel(title, curves, {name: one.scores for name, one in named.items()})])


def _draw_panel(axes: Axes, panel: PlanePanel, lines: Mapping[str, Line]) -> list[NDArray[np.float64]]:
    """Draw all but the names; return the drawn curves in percent."""
    curves = {name: 100 * _thin(_points(curve)) for name, curve in panel.curves.items()}
    marks = [_place(mark) for mark in (*panel.chosen.values(), *panel.published)]
    # Room beyond the outermost point for its marker and name; limits are multiples of five.
    furthest = np.concatenate([[[1, 1]], *curves.values(), *([mark] for mark in marks)]).max(axis=0)
    room = [0.18, 0.06] if panel.published else [0.05, 0.03]
    right, top = 5 * np.ceil(furthest * (1 + np.array(room)) / 5)
    axes.set(xlim=(0, right), ylim=(0, top), xlabel=_ACROSS, ylabel=_UP)
    axes.set_title(panel.title, parse_math=False)
    axes.spines[["right", "top"]].set_visible(False)
    _draw_equal_means(axes, right, top)
    for i, (name, curve) in enumerate(curves.items()):
        line = lines[name]
        axes.plot(
            *curve.T, color=line.colour, linestyle=line.dashes, linewidth=line.width, zorder=3 - i / 100
        )
    for i, (name, at) in enumerate(panel.chosen.items()):
        axes.plot(*_place(at), **_square(lines[name].colour), zorder=5 - i / 100, clip_on=False)
    for point in panel.published:
        axes.plot(*_place(point), linestyle="none", zorder=4, clip_on=False, **_MARKS[point.kind])
    return list(curves.values())


def _place(mark: GZSLScores | CurvePoint | PublishedPoint) -> tuple[float, float]:
    return 100 * mark.acc_tr, 100 * mark.acc_ts


def _points(curve: SeenUnseenCurve | tuple[ArrayLike, ArrayLike]) -> NDArray[np.float64]:
    """Return (Acc_tr, Acc_ts) of a curve's points, shape (n, 2)."""
    if isinstance(curve, SeenUnseenCurve):
        return np.column_stack([curve.acc_tr, curve.acc_ts])
    return np.column_stack([np.asarray(values, dtype=np.float64) for values in curve])


def _thin(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the points that enter a new cell of a fine grid, and the last."""
    cells = np.floor(points / _CELL)
    entered = np.concatenate([[True], (np.diff(cells, axis=0) != 0).any(axis=1)])
    entered[-1] = True
    return points[entered]


def _square(colour: str) -> dict[str, Any]:
    return {"marker": "s", "linestyle": "none", "color": colour, "markeredgecolor": "black", "markersize": 8}


def _draw_equal_means(axes: Axes, right: float, top: float) -> None:
    """Draw lines of equal Acc_H, each with its value at the right end."""
    lines = []
    for mean in np.arange(10, harmonic_mean(right, top), 10):
        x = np.geomspace(mean * top / (2 * top - mean), right, 200)
        lines.append(np.column_stack([x, mean * x / (2 * x - mean)]))
        look: dict[str, Any] = {"va": "center", "fontsize": 6.5, "color": "#777777", "xytext": (2, 0)}
        end = lines[-1][-1]
        axes.annotate(f"H {mean:.0f}", end, textcoords="offset points", annotation_clip=False, **look)
    axes.add_collection(LineCollection(lines, colors="#DDDDDD", linewidths=0.7, zorder=1), autolim=False)


def _legend_entries(panels: Sequence[PlanePanel], lines: Mapping[str, Line]) -> list[Artist]:
    curves = {name for panel in panels for name in panel.curves}
    chosen = {name for panel in panels for name in panel.chosen}
    entries: list[Artist] = []
    for name, line in lines.items():
        look = _square(line.colour) if name in chosen else {"color": line.colour}
        if name in curves:
            look |= {"linestyle": line.dashes, "linewidth": line.width}
        entries.append(Line2D([], [], **look, label=shorten(name, 48)))
    if chosen:
        entries.append(Line2D([], [], **_square("white"), label="square: point chosen on GZSL-Val"))
    for kind in get_args(Kind):
        if any(point.kind == kind for panel in panels for point in panel.published):
            entries.append(Line2D([], [], linestyle="none", **_MARKS[kind], label=f"published, {kind}"))
    return entries


def _label_published(axes: Axes, panel: PlanePanel, curves: Sequence[NDArray[np.float64]]) -> None:
    """Write the names of published methods, clear of each other, of markers and of curves."""
    if not panel.published:
        return
    from adjustText import adjust_text  # It imports pyplot, which most callers never need.

    to_pixels, to_data = axes.transData.transform, axes.transData.inverted().transform
    half = _MARKER * axes.figure.dpi / 72
    targets = np.array([_place(point) for point in panel.published])
    starts = to_data(to_pixels(targets) + 1.4 * half)
    texts = [
        axes.text(
            start[0], start[1], shorten(point.name, 26), fontsize=7, va="bottom", zorder=6, parse_math=False
        )
        for start, point in zip(starts, panel.published, strict=True)
    ]
    marks = to_pixels(np.concatenate([targets, [_place(at) for at in panel.chosen.values()] or targets[:0]]))
    corners = half * np.array([[-1, -1], [-1, 1], [1, -1], [1, 1], [0, 0]])
    spaced = [curve[np.unique(curve.sum(axis=1) // _SPACING, return_index=True)[1]] for curve in curves]
    x, y = np.concatenate([to_data((marks[:, None] + corners).reshape(-1, 2)), *spaced]).T
    adjust_text(
        texts,
        x=x,
        y=y,
        target_x=targets[:, 0],
        target_y=targets[:, 1],
        ax=axes,
        avoid_self=False,
        prevent_crossings=False,
        force_static=(0.6, 0.8),
        force_text=(0.3, 0.5),
        iter_lim=_ITERATIONS,
        arrowprops={"arrowstyle": "-", "color": "#777777", "linewidth": 0.5, "shrinkB": 2.5},
    )
