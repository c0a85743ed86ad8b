"""Files of a run: results, curves, figure and the report page."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from cosmo._core.files import write_atomic
from cosmo.evaluation.run import Evaluation, Experiment
from cosmo.viz.page import experiment_view, render_page
from cosmo.viz.plots import plot_plane
from cosmo.viz.plots.style import ignore_missing_glyphs

__all__ = ["write_report"]


def write_report(
    experiment: Experiment,
    folder: str | os.PathLike[str],
    *,
    summary: pd.DataFrame | None = None,
    extra: dict[str, Any] | None = None,
) -> Path:
    """Write `results.json`, `curves.csv`, `plane.png` and `report.html`.

    Each file is replaced atomically.

    Parameters
    ----------
    experiment : Experiment
    folder : path
        Created if it does not exist.
    summary : DataFrame, optional
        Summary of repetitions for the page, from `cosmo.evaluation.run.summarise`.
    extra : dict, optional
        Further entries of `results.json`.

    Returns
    -------
    path : Path
        Path of `report.html`.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    figure = plot_plane(experiment.evaluations, title=f"{experiment.dataset.name}: seen-unseen plane")
    png = io.BytesIO()
    with ignore_missing_glyphs():
        figure.savefig(png, format="png", dpi=150)
    page = render_page(experiment_view(experiment, summary))
    results = {**experiment.to_dict(), **(extra or {})}
    write_atomic(target / "results.json", json.dumps(results, indent=2).encode())
    write_atomic(target / "curves.csv", _curves(experiment.evaluations).encode())
    write_atomic(target / "plane.png", png.getvalue())
    write_atomic(target / "report.html", page.encode())
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
