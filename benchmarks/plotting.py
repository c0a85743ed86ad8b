"""Figures of the benchmarks, drawn from their printed tables.

Matplotlib is imported with the first figure, so that processes which measure memory do not load it.
"""

from __future__ import annotations

import argparse
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from cosmo._core.files import write_atomic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

MARKERS = "osD^v"
STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.markersize": 5,
    "font.sans-serif": ["DejaVu Sans", "Arial"],
    "svg.hashsalt": "cosmo",
    "svg.fonttype": "none",  # a third of the size of letters as curves
}


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option --plot."""
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw the results (.svg, .png)")


def panels(rows: int, columns: int, *, height: float, **shared: Any) -> tuple[Figure, np.ndarray]:
    """Return a figure as wide as a page, and its axes, of shape (rows, columns)."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams.update(STYLE)
    figure = Figure(figsize=(8.0, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def line(k: int) -> dict[str, Any]:
    """Return the style of the k-th line, which differs from others even without colour."""
    from cosmo.viz.plots import LINES

    return {"color": LINES[k].colour, "linestyle": LINES[k].dashes, "marker": MARKERS[k]}


def dots(axes: Axes, groups: Sequence[str], ways: Sequence[str], values: np.ndarray, *, unit: str) -> None:
    """Show one number for each group and way, on a logarithmic scale; `values` has a row for each group."""
    lines = np.arange(len(groups))
    for k, way in enumerate(ways):
        place = lines + 0.22 * (k - (len(ways) - 1) / 2)
        axes.semilogx(values[:, k], place, **{**line(k), "linestyle": "none"}, label=way)
    axes.set(xlabel=unit, yticks=lines, yticklabels=groups, ylim=(len(groups) - 0.5, -0.5))
    plain_ticks(axes.xaxis)


def plain_ticks(axis: Axis) -> None:
    """Label a logarithmic axis with as many numbers as there is room for; call it last."""
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = axis.get_view_interval()
    decades = np.log10(high / low)
    steps = (1, 2, 5) if decades < 1.2 else (1, 3) if decades < 2.2 else (1,)
    wide = steps == (1,) and (high > 1e5 or low < 1e-3)
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(_power if wide else "{x:,.9g}")


def _power(value: float, _: object) -> str:
    """Return a power of ten in Unicode, which needs no font for formulas."""
    return "10" + str(round(np.log10(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def legend_below(figure: Figure, axes: Axes) -> None:
    """Put the names of the lines of one panel below all of them."""
    handles, names = axes.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names))


def save(figure: Figure, file: Path) -> None:
    """Write a figure, the same bytes each time."""
    content, kind = io.BytesIO(), file.suffix.removeprefix(".")
    unchanging = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
    figure.savefig(content, format=kind, dpi=130, metadata=unchanging.get(kind))
    file.parent.mkdir(parents=True, exist_ok=True)
    written = content.getvalue()
    write_atomic(file, re.sub(rb"\n +", b"\n", written) if kind == "svg" else written)  # without indentation


def cells(table: Table, name: str) -> list[str]:
    """Return a column of a table as it is printed; of several with this name, the first."""
    column = next(column for column in table.columns if column.header == name)
    return [str(cell) for cell in column.cells]


def numbers(table: Table, name: str) -> np.ndarray:
    """Return a column as numbers; an empty cell is NaN."""
    return np.array([float(cell.replace(",", "") or "nan") for cell in cells(table, name)])
