"""The paper's tables: their trials, and our figures beside the published ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import pandas as pd

from cosmo._core import MissingExtra
from cosmo.evaluation.compare import published_numbers
from cosmo.paper.runner import Runner
from cosmo.paper.trials import CONTENT, Missing, Search, Source, Trial

_COLUMNS = [
    *("table", "dataset", "expert", "row", "source", "search", "metric"),
    *("value", "low", "high", "published", "difference", "note", "missing"),
]


@dataclass(frozen=True)
class Row:
    """A row of a table.

    `rule` is a key of `cosmo.classifier.ways.WAYS`; `expert` is None for the one that the table is made for.
    A row applies to some `sources`: the paper's f-CLSWGAN* exists only as published predictions. `search` is
    that of the trial, where the row is about it.
    """

    name: str
    rule: str
    expert: str | None = None
    sources: Sequence[Source] = ("predictions", "features", "scores")
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
    sources: Sequence[Source] = ("predictions", "features")
    experts: Sequence[str] = ()


TABLES = {
    name: PaperTable(**{**entry, "rows": tuple(Row(**row) for row in entry["rows"])})
    for name, entry in CONTENT["tables"].items()
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
    figures = []
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
            low, high = (result.get(f"{measure}_{bound}", nan) for bound in ("low", "high"))
            who = name, trial.dataset, trial.expert, row.name, trial.source, trial.search, metric
            note = theirs.get("note", "")
            figures.append((*who, value, low, high, theirs_value, value - theirs_value, note, missing))
    return pd.DataFrame(figures, columns=_COLUMNS)
