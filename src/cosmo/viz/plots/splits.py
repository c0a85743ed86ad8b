"""Cross-validation splits, drawn to scale: classes downwards, samples across."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from numpy.typing import NDArray

from cosmo._core.validation import as_class_index
from cosmo.data.dataset import Split
from cosmo.data.splits import HoldOut
from cosmo.viz.plots import freeze_layout

__all__ = ["plot_hold_out"]

_COLOURS = {
    "Seen-Train": "#9BCFEF",
    "Seen-Val": "#F0CFE0",
    "Unseen-Val": "#D995BB",
    "Test, seen": "#DDDDDD",
    "Test, unseen": "#F2C063",
}
_EDGE: dict[str, Any] = {"edgecolor": "#444444", "linewidth": 0.8}
_HATCH = "//"  # of Gating-Val
_MIN_HEIGHT = 0.07  # of the figure, so that the name of a band with few classes fits


class _Part(NamedTuple):
    """Number of rows of one split within a band of classes; `gating_val` of them are in Gating-Val."""

    name: str
    n_rows: int
    gating_val: int = 0


class _Band(NamedTuple):
    kind: str
    n_classes: int
    parts: list[_Part]


def plot_hold_out(labels: Iterable[Hashable], split: Split, hold_out: HoldOut, *, title: str = "") -> Figure:
    """Draw splits as rectangles of classes by samples, with their numbers of rows and classes.

    The height of a band is its number of classes, the width of a rectangle its rows per class, so areas are
    proportional to numbers of rows; only very thin bands are higher, for their name. GZSL-Val, in pink, is
    Seen-Val and Unseen-Val; the hatched end of each is in Gating-Val, the rest in Gating-Train.

    Parameters
    ----------
    labels : sequence of length n_samples
    split : Split
    hold_out : HoldOut
        Rows of the validation stage.
    title : str, default=""

    Returns
    -------
    figure : Figure
    """
    index = as_class_index(labels)
    hold_out.check(index)
    codes, _ = pd.factorize(index)
    bands = _bands(codes, split, hold_out)
    figure = Figure(figsize=(9.0, 4.8), layout="constrained")
    axes = figure.add_subplot()
    heights = np.array([band.n_classes for band in bands], dtype=float)
    heights = np.maximum(heights, _MIN_HEIGHT * heights.sum())
    tops = np.concatenate([[0.0], np.cumsum(heights)])
    drawn = [
        piece
        for band, top, height in zip(bands, tops, heights, strict=False)
        for piece in _draw_band(axes, band, top, height)
    ]
    axes.set_yticks(
        (tops[:-1] + tops[1:]) / 2, [_count(band.n_classes, f"{band.kind} class") for band in bands]
    )
    axes.tick_params(axis="y", length=0, labelsize=9)
    axes.set_ylim(tops[-1], 0)
    axes.set_xlim(0, 1.004 * max(rectangle.get_x() + rectangle.get_width() for rectangle, _ in drawn))
    axes.set_xlabel("samples per class, on average")
    axes.set_title(title, parse_math=False)
    axes.spines[["right", "top"]].set_visible(False)
    figure.legend(
        handles=_legend_entries(codes, split, hold_out),
        loc="outside lower center",
        ncols=2,
        fontsize=8.5,
        frameon=False,
        handlelength=2.4,
        handleheight=1.2,
    )
    _write_names(axes, drawn, freeze_layout(figure))
    return figure


def _bands(codes: NDArray[np.intp], split: Split, hold_out: HoldOut) -> list[_Band]:
    trained, held = np.unique(codes[hold_out.seen_train]), np.unique(codes[hold_out.unseen_val])
    n_held = int(np.isin(codes[split.test_seen], held).sum())
    in_gating_val = np.isin(hold_out.gzsl_val, hold_out.gating_val)
    n_seen_val, n_unseen_val = len(hold_out.seen_val), len(hold_out.unseen_val)
    training = [
        _Part("Seen-Train", len(hold_out.seen_train)),
        _Part("Seen-Val", n_seen_val, int(in_gating_val[:n_seen_val].sum())),
        _Part("Test, seen", len(split.test_seen) - n_held),
    ]
    validation = [
        _Part("Unseen-Val", n_unseen_val, int(in_gating_val[n_seen_val:].sum())),
        _Part("Test, seen", n_held),
    ]
    unseen = len(np.unique(codes[split.test_unseen]))
    return [
        _Band("training", len(trained), training),
        _Band("validation", len(held), validation),
        _Band("unseen", unseen, [_Part("Test, unseen", len(split.test_unseen))]),
    ]


def _draw_band(axes: Axes, band: _Band, top: float, height: float) -> list[tuple[Rectangle, list[str]]]:
    """Draw the rectangles of a band; return each with its possible labels, the longest first."""
    drawn, left = [], 0.0
    for part in band.parts:
        plain = part.n_rows - part.gating_val
        pieces = [(part.name, plain, "")]
        if part.gating_val:
            pieces = [(f"{part.name}:\nGating-Train", plain, ""), ("Gating-Val", part.gating_val, _HATCH)]
        for name, rows, hatch in pieces:
            if rows == 0:
                continue
            width = rows / band.n_classes
            look = {**_EDGE, "facecolor": _COLOURS[part.name], "hatch": hatch}
            rectangle = Rectangle((left, top), width, height, **look)
            axes.add_patch(rectangle)
            one_line = name.replace("\n", " ")
            count = _count(rows, "row")
            broken = name.replace("-", "-\n")
            texts = [f"{name}\n{count}", f"{one_line}, {count}", f"{broken}\n{rows:,}", one_line, f"{rows:,}"]
            drawn.append((rectangle, texts))
            left += width
    return drawn


def _write_names(axes: Axes, drawn: list[tuple[Rectangle, list[str]]], renderer: RendererBase) -> None:
    """Write the longest label that fits into each rectangle; the legend has all of them."""
    for rectangle, texts in drawn:
        room = rectangle.get_window_extent(renderer)
        x, y = rectangle.get_center()
        white = {"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 1}
        text = axes.text(x, y, "", ha="center", va="center", fontsize=8.5)
        if rectangle.get_hatch():
            text.set_bbox(white)
        for words in texts:
            text.set_text(words)
            needed = text.get_window_extent(renderer)
            if needed.width + 8 <= room.width and needed.height + 6 <= room.height:
                break
        else:
            text.remove()


def _legend_entries(codes: NDArray[np.intp], split: Split, hold_out: HoldOut) -> list[Patch]:
    def entry(name: str, rows: NDArray[np.intp], **look: Any) -> Patch:
        n_classes = len(np.unique(codes[rows]))
        label = f"{name}: {_count(len(rows), 'row')} of {_count(n_classes, 'class')}"
        return Patch(label=label, **_EDGE, **look)

    rows = {
        "Seen-Train": hold_out.seen_train,
        "Seen-Val": hold_out.seen_val,
        "Unseen-Val": hold_out.unseen_val,
        "Test, seen": split.test_seen,
        "Test, unseen": split.test_unseen,
    }
    parts = [
        entry(name, rows[name], facecolor=colour) for name, colour in _COLOURS.items() if len(rows[name])
    ]
    gating = {"facecolor": "#E5B2CE"}
    return [
        *parts,
        entry("GZSL-Val = Seen-Val + Unseen-Val", hold_out.gzsl_val, **gating),
        entry("Gating-Train, plain", hold_out.gating_train, **gating),
        entry("Gating-Val, hatched", hold_out.gating_val, hatch=_HATCH, **gating),
    ]


def _count(n: int, what: str) -> str:
    plural = what if n == 1 else f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{n:,} {plural}"
