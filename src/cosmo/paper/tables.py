"""The paper's tables: their trials, and our figures beside the published ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, get_args

import pandas as pd

from cosmo._core import MissingExtra
from cosmo.evaluation.compare import published_numbers
from cosmo.evaluation.run import CALIBRATED
from cosmo.paper.runner import EXPERTS, Runner
from cosmo.paper.trials import Missing, Search, Source, Trial


@dataclass(frozen=True)
class Row:
    """A row of a table.

    `expert` is None for the one that the table is made for; `rule` is a key of `cosmo.classifier.ways.WAYS`.
    A row applies to some `sources`: the paper's f-CLSWGAN* exists only as published predictions. `search` is
    that of the trial, where the row is about it.
    """

    name: str
    expert: str | None
    rule: str
    sources: tuple[Source, ...] = ("predictions", "features", "scores")
    search: Search | None = None


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper.

    `metrics` maps names in the published figures to names among a trial's measures. `experts` are those that
    the table is made for by default; empty where rows name them.
    """

    title: str
    caption: str
    rows: tuple[Row, ...]
    metrics: dict[str, str]
    sources: tuple[Source, ...] = ("predictions", "features")
    experts: tuple[str, ...] = ()


_ACCURACIES = {"acc_ts": "acc_ts", "acc_tr": "acc_tr", "acc_h": "acc_h"}
_ABLATED = ("LAGO", "f-CLSWGAN")


def _row(name: str, expert: str, rule: str) -> Row:
    """Return a row of the main table; predictions were published for two methods."""
    published = expert in _ABLATED and name != "f-CLSWGAN"
    return Row(name, expert, rule, ("predictions", "features") if published else ("features",))


def _both(row: Row) -> tuple[Row, Row]:
    """Return a row of COSMO and that of the calibrated method, which has no search."""
    return row, replace(row, name=f"{row.name}, calibrated", rule=CALIBRATED, search="exact")


_BEFORE = ("ESZSL", "SJE", "DeViSE", "SynC", "ALE", "DEM", "Kernel", "ICINESS", "TRIPLE", "RN", "SE-GZSL")

TABLES = {
    "main": PaperTable(
        "Main table",
        "Accuracy on unseen classes, on seen classes and their harmonic mean, on test (paper, table 1). "
        "COSMO with the other experts is not in the paper; nor is the calibrated method.",
        (
            *(_row(name, name, "alone") for name in _BEFORE),
            _row("f-CLSWGAN", "f-CLSWGAN", "alone"),
            Row("f-CLSWGAN*", "f-CLSWGAN", "alone", ("predictions",)),
            _row("cycle-(U)WGAN", "cycle-(U)WGAN", "alone"),
            _row("CMT*", "CMT", "own gate"),
            _row("DCN", "DCN", "alone"),
            _row("LAGO", "LAGO", "alone"),
            _row("CS + LAGO", "LAGO", "CS"),
            *(
                row
                for name in (*(name for name in EXPERTS if name not in _ABLATED), "f-CLSWGAN", "LAGO")
                for row in _both(_row(f"COSMO + {name}", name, "COSMO"))
            ),
        ),
        _ACCURACIES,
    ),
    "ausuc": PaperTable(
        "Area under the seen-unseen curve",
        "On test, times 100 (paper, table 2); of an expert alone, the curve of calibrated stacking.",
        (
            Row("ESZSL", "ESZSL", "CS", ("features",)),
            Row("LAGO", "LAGO", "CS"),
            Row("f-CLSWGAN", "f-CLSWGAN", "CS"),
            Row("cycle-(U)WGAN", "cycle-(U)WGAN", "CS", ("features",)),
            *_both(Row("COSMO + f-CLSWGAN", "f-CLSWGAN", "COSMO")),
            *_both(Row("COSMO + LAGO", "LAGO", "COSMO")),
        ),
        {"ausuc": "ausuc"},
    ),
    "gating": PaperTable(
        "Gates",
        "Without smoothing: Acc_H on GZSL-Val, AUC and FPR at 95 % TPR on Gating-Val (paper, table 3); of "
        "the calibrated method on all its held-out rows, to which its gate is fitted.",
        (
            *(
                Row(name, None, name)
                for name in (
                    "Max-Softmax-1",
                    "Max-Softmax-3",
                    "CB-Gating-3 (w/o p^ZS)",
                    "CB-Gating-1",
                    "CB-Gating-3",
                )
            ),
            _both(Row("COSMO", None, "COSMO"))[1],
        ),
        {"acc_h": "val_acc_h", "auc": "auc", "fpr": "fpr"},
        experts=_ABLATED,
    ),
    "smoothing": PaperTable(
        "Smoothing",
        "With the Max-Softmax-1 gate: Acc_H on GZSL-Val (paper, table 4).",
        (
            Row("No-Smoothing", None, "Max-Softmax-1"),
            Row("Const-Smoothing", None, "Const-Smoothing"),
            Row("Adaptive-Smoothing", None, "Adaptive-Smoothing"),
        ),
        {"acc_h": "val_acc_h"},
        experts=_ABLATED,
    ),
    "combination": PaperTable(
        "Gate and smoothing together",
        "Acc_H on test (paper, table 5).",
        (
            Row("Independent-Hard", None, "Independent-Hard"),
            Row("Independent-Soft", None, "Max-Softmax-1"),
            Row("CB-Gating", None, "CB-Gating-3"),
            Row("Adaptive-Smoothing", None, "Adaptive-Smoothing"),
            *_both(Row("COSMO", None, "COSMO")),
        ),
        {"acc_h": "acc_h"},
        experts=_ABLATED,
    ),
    "scores": PaperTable(
        "Score level: the published predictions alone",
        "Without features: the seen expert is replaced by the published predictions for the seen classes. "
        "This is not the paper's setting, and no figures were published for it. The f-CLSWGAN "
        "predictions on AWA1 are hardly better than chance on its validation classes, so operating points "
        "chosen there mean nothing; AUSUC needs none.",
        (
            *(
                Row(name, None, rule)
                for name, rule in (
                    ("alone", "alone"),
                    ("CS", "CS"),
                    ("Independent-Hard", "Independent-Hard"),
                    ("Independent-Soft (Max-Softmax-1)", "Max-Softmax-1"),
                    ("Max-Softmax-3", "Max-Softmax-3"),
                    ("CB-Gating-3 (w/o p^ZS)", "CB-Gating-3 (w/o p^ZS)"),
                    ("CB-Gating-1", "CB-Gating-1"),
                    ("CB-Gating-3", "CB-Gating-3"),
                    ("Const-Smoothing", "Const-Smoothing"),
                    ("Adaptive-Smoothing", "Adaptive-Smoothing"),
                )
            ),
            *_both(Row("COSMO", None, "COSMO")),
        ),
        {"val_acc_h": "val_acc_h", "acc_h": "acc_h", "ausuc": "ausuc", "auc": "auc"},
        ("scores",),
        experts=_ABLATED,
    ),
    "search": PaperTable(
        "Method or search",
        "The same rows with the operating point found in three ways. *exact*: every threshold. "
        "*authors*: the authors' grids, coarse then fine, AUSUC from the points of the fine one. *textbook*: "
        "every threshold, with the probability of the gate's regression as its score (the authors' library "
        "halved the log-odds).",
        tuple(
            Row(f"{name}, {search}", None, rule, search=search)
            for name, rule in (
                ("CS", "CS"),
                ("Independent-Soft", "Max-Softmax-1"),
                ("Const-Smoothing", "Const-Smoothing"),
                ("Adaptive-Smoothing", "Adaptive-Smoothing"),
                ("CB-Gating", "CB-Gating-3"),
                ("COSMO", "COSMO"),
            )
            for search in get_args(Search)
            if search != "textbook" or name in ("CB-Gating", "COSMO")
        ),
        {"val_acc_h": "val_acc_h", "acc_h": "acc_h", "ausuc": "ausuc"},
        ("predictions",),
        experts=_ABLATED,
    ),
}
"""The paper's tables, and two that explain them."""


@dataclass(frozen=True)
class Selection:
    """Which trials are made: data sets, experts and sources (None: those of each table), and the search."""

    datasets: Sequence[str]
    experts: Sequence[str] | None = None
    sources: Sequence[Source] | None = None
    search: Search = "exact"


def _rows(name: str, selected: Selection) -> Iterator[tuple[Row, Trial]]:
    """Yield every row of a table with its trial."""
    experts, sources = selected.experts, selected.sources
    table = TABLES[name]
    for dataset, default in product(
        selected.datasets, (experts or table.experts) if table.experts else ("",)
    ):
        for row in table.rows:
            expert = row.expert or default
            if experts is not None and expert not in experts:
                continue
            for source in table.sources:
                if source in row.sources and (sources is None or source in sources):
                    yield row, Trial(dataset, expert, source, row.rule, row.search or selected.search)


def trials(name: str, selected: Selection) -> list[Trial]:
    """Return the trials of a table."""
    return [trial for _, trial in _rows(name, selected)]


def fill(name: str, runner: Runner, selected: Selection) -> pd.DataFrame:
    """Return the figures of a table, one per row, ours beside the published ones.

    Figures are in percent, `low` and `high` the 95 % interval; `published` is corrected where the paper has a
    misprint; `note` is on the published figure; `missing` states inputs that ours lacks.
    """
    table = TABLES[name]
    published = published_numbers().query("table == @name").set_index(["method", "dataset", "metric"])
    published["value"] = published["corrected"].fillna(published["value"])
    known = published.to_dict("index")
    nan = float("nan")
    figures: list[dict[str, Any]] = []
    for row, trial in _rows(name, selected):
        missing, result = "", {}
        try:
            result = runner.result(trial)
        except (Missing, MissingExtra) as error:
            missing = str(error)
        # The paper's ablations are made with LAGO.
        is_published = not table.experts or trial.expert == table.experts[0]
        for metric, measure in table.metrics.items():
            key = (row.name, runner.holdings[trial.dataset].published_name, metric)
            theirs = known.get(key, {}) if is_published else {}
            value, theirs_value = result.get(measure, nan), theirs.get("value", nan)
            figures.append(
                {
                    "table": name,
                    "dataset": trial.dataset,
                    "expert": trial.expert,
                    "row": row.name,
                    "source": trial.source,
                    "search": trial.search,
                    "metric": metric,
                    "value": value,
                    "low": result.get(f"{measure}_low", nan),
                    "high": result.get(f"{measure}_high", nan),
                    "published": theirs_value,
                    "difference": value - theirs_value,
                    "note": theirs.get("note", ""),
                    "missing": missing,
                }
            )
    return pd.DataFrame(figures)
