"""Figures as matplotlib `Figure` objects: colours, line styles, short names and files."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import matplotlib
from matplotlib.figure import Figure

from cosmo._core.files import write_atomic

SEEN, UNSEEN = "#0072B2", "#D55E00"
"""Colours of the two domains, by Okabe and Ito: distinct for readers with any colour vision."""


class Line(NamedTuple):
    """Style of a curve; the dashes distinguish curves without colour."""

    colour: str
    dashes: str | tuple[float, tuple[float, ...]]
    width: float


LINES = (
    Line("#0072B2", "-", 2.2),
    Line("#E69F00", (0, (5, 1.5)), 1.8),
    Line("#009E73", (0, (5, 1.5, 1, 1.5)), 1.6),
    Line("#CC79A7", (0, (1, 1.2)), 1.8),
    Line("#56B4E9", (0, (9, 2)), 1.6),
    Line("#D55E00", (0, (3, 1.2, 1, 1.2, 1, 1.2)), 1.6),
    Line("#000000", "-", 1.0),
    Line("#999999", (0, (2.5, 1.5)), 1.6),
)
"""Line styles, the strongest first."""


@contextmanager
def ignore_missing_glyphs() -> Iterator[None]:
    """Context manager that silences matplotlib's warning about characters that its font lacks."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        yield


def shorten(name: object, width: int = 24) -> str:
    """Return a name on one line, its middle omitted beyond `width` characters."""
    text = " ".join(str(name).split())
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write a figure as `path` + ".png" and `path` + ".svg", the same bytes each time; return both paths."""
    target = Path(path)
    files = target.with_name(f"{target.name}.png"), target.with_name(f"{target.name}.svg")
    png, svg = io.BytesIO(), io.BytesIO()
    with ignore_missing_glyphs(), matplotlib.rc_context({"svg.hashsalt": "cosmo"}):
        figure.savefig(png, format="png", dpi=150, metadata={"Software": None})
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
    for file, content in zip(files, (png, svg), strict=True):
        write_atomic(file, content.getvalue())
    return files
