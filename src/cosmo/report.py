"""Files that a run leaves behind: results, curves, figure and a page to look at."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import re
import warnings
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import matplotlib
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

import cosmo
from cosmo.data import GZSLDataset
from cosmo.experiment import Evaluation, Experiment
from cosmo.files import write_whole
from cosmo.plots import plot_plane

__all__ = ["write_report"]


def write_report(
    experiment: Experiment, folder: str | os.PathLike[str], *, extra: dict[str, Any] | None = None
) -> Path:
    """Write `results.json`, `curves.csv`, `plane.png` and `report.html`; return the page's path.

    Each file appears whole or not at all.

    Parameters
    ----------
    experiment : Experiment
    folder : path
        Made if it does not exist.
    extra : dict, optional
        More entries for `results.json`.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    run = experiment.to_dict()
    figure = plot_plane(experiment.evaluations, title=f"{experiment.dataset.name}: seen-unseen plane")
    png = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # a name in another script: drawn as boxes
        figure.savefig(png, format="png", dpi=150)
        page = _page(run, figure, experiment.dataset)
    write_whole(target / "results.json", json.dumps({**run, **(extra or {})}, indent=2).encode())
    write_whole(target / "curves.csv", _curves(experiment.evaluations).encode())
    write_whole(target / "plane.png", png.getvalue())
    write_whole(target / "report.html", page.encode())
    return target / "report.html"


def _curves(evaluations: Sequence[Evaluation]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["method", "threshold", "acc_ts", "acc_tr", "acc_h"])
    for one in evaluations:
        curve = one.curve
        for point in zip(curve.thresholds, curve.acc_ts, curve.acc_tr, curve.acc_h, strict=True):
            writer.writerow([one.name, *(float(value) for value in point)])
    return text.getvalue()


def _page(run: dict[str, Any], figure: Figure, dataset: GZSLDataset) -> str:
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters["percent"] = lambda share: "–" if share is None else f"{100 * share:.1f}"
    template = environment.from_string(files("cosmo").joinpath("report.html").read_text("utf-8"))
    return template.render(
        run=run, plane=_svg(figure), pictures=_pictures(dataset), version=cosmo.__version__
    )


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "cosmo"}):  # the same figure, the same file
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    markup = text.getvalue()
    return re.sub(r"^.*?(?=<svg)", "", markup, count=1, flags=re.DOTALL).replace(
        "<svg", '<svg role="img" aria-label="Seen-unseen curves of all methods"', 1
    )


def _pictures(dataset: GZSLDataset, most: int = 12) -> list[tuple[str, str]]:
    """Return label and data URI of one test sample of some unseen classes, where there are images."""
    if dataset.images is None:
        return []
    rows = dataset.split.test_unseen
    _, first = np.unique(dataset.codes[rows], return_index=True)
    shown = []
    for row in rows[first][:: max(1, len(first) // most)][:most]:
        png = io.BytesIO()
        _picture(np.asarray(dataset.images[row])).save(png, format="PNG")
        uri = f"data:image/png;base64,{base64.b64encode(png.getvalue()).decode()}"
        shown.append((str(dataset.labels[row]), uri))
    return shown


def _picture(pixels: NDArray[Any]) -> Image.Image:
    """Return an image of bytes, or of fractions where all values lie between 0 and 1."""
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if pixels.dtype != np.uint8:
        most = 1.0 if pixels.max() <= 1 else 255.0
        pixels = np.rint(255 / most * np.clip(pixels, 0, most)).astype(np.uint8)
    return Image.fromarray(pixels)
