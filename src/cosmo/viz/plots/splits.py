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
from cosmo.data.splits import HoldOut, Protocol
from cosmo.viz.plots import freeze_layout

__all__ = ["plot_hold_out", "plot_splits"]

_LOOKS: dict[str, dict[str, Any]] = {
    "Seen-Train": {"facecolor": "#9BCFEF"},
    "Seen-Val": {"facecolor": "#F0CFE0"},
    "Unseen-Val": {"facecolor": "#D995BB"},
    "Test, seen": {"facecolor": "#DDDDDD"},
    "Test, unseen": {"facecolor": "#F2C063"},
}
_HATCH = "//"  # of Gating-Val
_MIN_HEIGHT = 0.07  # of the figure, so that the name of a band with few classes fits


class _Part(NamedTuple):
    """Rows of one split within a band of classes; `gating_val` of them are in Gating-Val."""

    name: str
    rows: NDArray[np.intp]
    gating_val: int = 0


class _Band(NamedTuple):
    kind: str
    n_classes: int
    parts: list[_Part]


def plot_splits(protocol: Protocol, *, title: str | None = None) -> Figure:
    """Draw the splits of a protocol, see `plot_hold_out`; the test set is not opened.

    Parameters
    ----------
    protocol : Protocol
    title : str, default=name of the data set

    Returns
    -------
    figure : Figure

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> figure = plot_splits(Protocol(load_glyphs(n_classes=40, samples_per_class=8)))
    >>> [text.get_text() for text in figure.legends[0].get_texts()][0]
    'Seen-Train: 64 rows of 20 classes'
    """
    data = protocol.dataset
    return plot_hold_out(
        data.labels, data.split, protocol.hold_out, title=data.name if title is None else title
    )


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

    Examples
    --------
    >>> figure = plot_hold_out(list("aaaabbbbccc"), Split([0, 1, 2, 4, 5, 6], [3, 7], [8, 9, 10]),
    ...                        HoldOut([0, 1], [2], [4, 5, 6]))
    >>> [text.get_text() for text in figure.legends[0].get_texts()][1]
    'Seen-Val: 1 row of 1 class'
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
    is_held = np.isin(codes[split.test_seen], held)
    in_gating_val = np.isin(hold_out.gzsl_val, hold_out.gating_val)
    n_seen_val = len(hold_out.seen_val)
    return [
        _Band(
            "training",
            len(trained),
            [
                _Part("Seen-Train", hold_out.seen_train),
                _Part("Seen-Val", hold_out.seen_val, int(in_gating_val[:n_seen_val].sum())),
                _Part("Test, seen", split.test_seen[~is_held]),
            ],
        ),
        _Band(
            "validation",
            len(held),
            [
                _Part("Unseen-Val", hold_out.unseen_val, int(in_gating_val[n_seen_val:].sum())),
                _Part("Test, seen", split.test_seen[is_held]),
            ],
        ),
        _Band(
            "unseen",
            len(np.unique(codes[split.test_unseen])),
            [_Part("Test, unseen", split.test_unseen)],
        ),
    ]


def _draw_band(axes: Axes, band: _Band, top: float, height: float) -> list[tuple[Rectangle, list[str]]]:
    """Draw the rectangles of a band; return each with its possible labels, the longest first."""
    drawn, left = [], 0.0
    for part in band.parts:
        n = len(part.rows)
        plain = n - part.gating_val
        pieces = [(part.name, plain, "")]
        if part.gating_val:
            pieces = [(f"{part.name}:\nGating-Train", plain, ""), ("Gating-Val", part.gating_val, _HATCH)]
        for name, rows, hatch in pieces:
            if rows == 0:
                continue
            width = rows / band.n_classes
            rectangle = Rectangle(
                (left, top),
                width,
                height,
                edgecolor="#444444",
                linewidth=0.8,
                hatch=hatch,
                **_LOOKS[part.name],
            )
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
        text = axes.text(
            x,
            y,
            "",
            ha="center",
            va="center",
            fontsize=8.5,
            bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 1}
            if rectangle.get_hatch()
            else None,
        )
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
        return Patch(label=label, edgecolor="#444444", linewidth=0.8, **look)

    rows = {
        "Seen-Train": hold_out.seen_train,
        "Seen-Val": hold_out.seen_val,
        "Unseen-Val": hold_out.unseen_val,
        "Test, seen": split.test_seen,
        "Test, unseen": split.test_unseen,
    }
    parts = [entry(name, rows[name], **look) for name, look in _LOOKS.items() if len(rows[name])]
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
