"""The paper's tables, filled, and the reproduction as Markdown and as one HTML page."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

import cosmo
from cosmo._core import MissingExtra
from cosmo.evaluation.compare import published_numbers
from cosmo.paper.runner import Runner
from cosmo.paper.trials import CONTENT, SOURCES, Missing, Search, Source, Trial
from cosmo.viz.text import TextTable, fill_template

_METRICS, SOURCE_NAMES = CONTENT["metrics"], CONTENT["source_names"]
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


@dataclass(frozen=True)
class Picture:
    """A figure on disk, without its suffix."""

    path: Path
    caption: str


@dataclass(frozen=True, eq=False)
class Section:
    """A part of the document; `missing` lists absent inputs."""

    name: str
    title: str
    text: str
    tables: Sequence[TextTable] = ()
    pictures: list[Picture] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def text_tables(frame: pd.DataFrame) -> tuple[list[TextTable], list[str]]:
    """Return the figures of `fill` as text, and the missing inputs.

    One table for each data set, source and, where rows do not name it, expert.
    """
    tables = []
    is_named = not TABLES[frame["table"].iloc[0]].experts
    keys = ["dataset", "source"] if is_named else ["dataset", "expert", "source"]
    for key, part in frame[frame["missing"] == ""].groupby(keys, sort=False):
        *names, source = map(str, key)
        notes = [
            f"{row}: {'; '.join(dict.fromkeys('; '.join(text).split('; ')))}"
            for row, text in part[part["note"] != ""].groupby("row", sort=False)["note"]
        ]
        cells = _cells(part)
        title = f"{', '.join(names)}, from {SOURCE_NAMES[source]}"
        tables.append(TextTable(title, [*map(str, cells)], cells.to_numpy().tolist(), notes))
    return tables, [need for need in frame["missing"].unique() if need]


def _cells(part: pd.DataFrame) -> pd.DataFrame:
    rows = []
    published = {metric for metric, group in part.groupby("metric") if group["published"].notna().any()}
    for name, group in part.groupby("row", sort=False):
        cells = {"": str(name)}
        for one in group.to_dict("records"):
            title = _METRICS[one["metric"]]
            interval = "" if pd.isna(one["low"]) else f" ({one['low']:.1f}–{one['high']:.1f})"
            known = one["metric"] in published
            if known:
                cells[f"{title} published"] = _figure(one["published"])
            cells[title] = _figure(one["value"]) + interval
            if known:
                cells[f"Δ {title}"] = _figure(one["difference"], "+z.1f").replace("+0.0", "0.0")
        rows.append(cells)
    return pd.DataFrame(rows).fillna("")


def _figure(value: float | None, form: str = ".1f") -> str:
    return "" if pd.isna(value) else format(value, form)


def as_markdown(sections: Sequence[Section], command: str, *, pictures: Path | None = None) -> str:
    """Return the document; `pictures` is the folder of figures as seen from it, None for no figures."""
    folder = None if pictures is None else pictures.as_posix()
    return _render("paper.md", sections, command, pictures=folder)


def as_html(sections: Sequence[Section], command: str) -> str:
    """Return one self-contained page."""
    return _render("paper.html", sections, command)


def _render(template: str, sections: Sequence[Section], command: str, **more: Any) -> str:
    values = {
        "sections": sections,
        "command": command,
        "emphasis": _emphasis,
        "data_uri": _data_uri,
        "sources": {SOURCE_NAMES[name]: text for name, text in SOURCES.items()},
        "introduction": CONTENT["introduction"],
        "version": cosmo.__version__,
    }
    return fill_template(files("cosmo.paper").joinpath(template), **values, **more)


def _emphasis(text: str) -> Markup:
    """Return escaped text with Markdown's emphasis as HTML."""
    return Markup(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", str(escape(text))))


def _data_uri(picture: Picture) -> str:
    content = picture.path.with_name(f"{picture.path.name}.svg").read_bytes()
    return f"data:image/svg+xml;base64,{base64.b64encode(content).decode()}"
