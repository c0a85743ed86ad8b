"""The reproduction as Markdown and as one HTML page."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup, escape

import cosmo
from cosmo.paper.tables import TABLES
from cosmo.paper.trials import CONTENT, SOURCES
from cosmo.viz.text import TextTable, fill_template

_METRICS, SOURCE_NAMES = CONTENT["metrics"], CONTENT["source_names"]


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
    """Return the figures of `cosmo.paper.tables.fill` as text, and the missing inputs.

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
