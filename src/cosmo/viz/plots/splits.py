"""Cross-validation splits, drawn to scale: classes downwards, samples across."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray

from cosmo._core.validation import as_class_index
from cosmo.data.dataset import Split
from cosmo.data.splits import HoldOut

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


def plot_hold_out(labels: Iterable[Hashable], split: Split, hold_out: HoldOut, *, title: str = "") -> Figure:
    """Draw splits as rectangles of classes by samples; the legend has their numbers of rows and classes.

    The height of a band is its number of classes, the width of a rectangle its rows per class, so areas are
    proportional to numbers of rows; only very thin bands are higher, for their name. GZSL-Val, in pink, is
    Seen-Val and Unseen-Val; the hatched end of each is in Gating-Val, the rest in Gating-Train.
    """
    index = as_class_index(labels)
    hold_out.check(index)
    codes, _ = pd.factorize(index)
    figure = Figure(figsize=(9.0, 4.8), layout="constrained")
    axes = figure.add_subplot()
    n_classes = {
        "training": len(np.unique(codes[hold_out.seen_train])),
        "validation": len(np.unique(codes[hold_out.unseen_val])),
        "unseen": len(np.unique(codes[split.test_unseen])),
    }
    heights = np.array([*n_classes.values()], dtype=float)
    heights = np.maximum(heights, _MIN_HEIGHT * heights.sum())
    middles = np.cumsum(heights) - heights / 2
    left = dict.fromkeys(n_classes, 0.0)
    for band, name, n_rows, hatch in _pieces(codes, split, hold_out):
        place, width = [*n_classes].index(band), n_rows / n_classes[band]
        look = {**_EDGE, "color": _COLOURS[name], "hatch": hatch}
        if n_rows:
            axes.barh(middles[place], width, heights[place], left[band], **look)
        left[band] += width
    axes.set_yticks(middles, [_count(n, f"{band} class") for band, n in n_classes.items()])
    axes.tick_params(axis="y", length=0, labelsize=9)
    axes.set(xlim=(0, 1.004 * max(left.values())), ylim=(heights.sum(), 0))
    axes.set_xlabel("samples per class, on average")
    axes.set_title(title, parse_math=False)
    axes.spines[["right", "top"]].set_visible(False)
    entries, look = _legend_entries(codes, split, hold_out), {"handlelength": 2.4, "handleheight": 1.2}
    figure.legend(handles=entries, loc="outside lower center", ncols=2, fontsize=8.5, frameon=False, **look)
    return figure


def _pieces(
    codes: NDArray[np.intp], split: Split, hold_out: HoldOut
) -> list[tuple[str, str, int, str | None]]:
    """Return band, split, number of rows and hatch of each rectangle, from left to right."""
    n_seen_val, n_unseen_val = len(hold_out.seen_val), len(hold_out.unseen_val)
    n_held = int(np.isin(codes[split.test_seen], codes[hold_out.unseen_val]).sum())
    gating_val = np.isin(hold_out.gzsl_val, hold_out.gating_val)
    seen_gating, unseen_gating = int(gating_val[:n_seen_val].sum()), int(gating_val[n_seen_val:].sum())
    return [
        ("training", "Seen-Train", len(hold_out.seen_train), None),
        ("training", "Seen-Val", n_seen_val - seen_gating, None),
        ("training", "Seen-Val", seen_gating, _HATCH),
        ("training", "Test, seen", len(split.test_seen) - n_held, None),
        ("validation", "Unseen-Val", n_unseen_val - unseen_gating, None),
        ("validation", "Unseen-Val", unseen_gating, _HATCH),
        ("validation", "Test, seen", n_held, None),
        ("unseen", "Test, unseen", len(split.test_unseen), None),
    ]


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
    gating = {"facecolor": "#E5B2CE"}
    return [
        *(entry(name, rows[name], facecolor=look) for name, look in _COLOURS.items() if len(rows[name])),
        entry("GZSL-Val = Seen-Val + Unseen-Val", hold_out.gzsl_val, **gating),
        entry("Gating-Train, plain", hold_out.gating_train, **gating),
        entry("Gating-Val, hatched", hold_out.gating_val, hatch=_HATCH, **gating),
    ]


def _count(n: int, what: str) -> str:
    plural = what if n == 1 else f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{n:,} {plural}"
