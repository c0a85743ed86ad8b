"""What the reproduction reads like: sections of text, tables and figures, as Markdown, LaTeX or one page."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

import jinja2
import pandas as pd
from markupsafe import Markup, escape

import cosmo
from cosmo.paper.tables import TABLES
from cosmo.paper.trials import SOURCES

__all__ = ["FROM", "Picture", "Section", "TableOfText", "as_html", "as_latex", "as_markdown", "shown"]

_METRICS = {
    "acc_ts": "ts",
    "acc_tr": "tr",
    "acc_h": "H",
    "ausuc": "AUSUC",
    "val_acc_h": "H on GZSL-Val",
    "auc": "AUC",
    "fpr": "FPR95",
    "seen_accuracy": "seen expert",
}
FROM = {"predictions": "the authors' predictions", "features": "our features", "scores": "scores alone"}


@dataclass(frozen=True, eq=False)
class TableOfText:
    """A table ready to be read: heading, cells, and what to know about single rows."""

    heading: str
    cells: pd.DataFrame
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Picture:
    """A figure on disk, without its suffix."""

    path: Path
    caption: str


@dataclass(frozen=True, eq=False)
class Section:
    """A part of the document."""

    name: str
    title: str
    text: str
    tables: list[TableOfText] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def shown(frame: pd.DataFrame) -> tuple[list[TableOfText], list[str]]:
    """Return the numbers of `cosmo.paper.tables.fill` as tables to read, and what is missing.

    A table for each data set, source and, where rows do not name it, expert; printed numbers, ours with 95 %
    intervals, and differences side by side.

    Examples
    --------
    >>> frame = pd.DataFrame([{"table": "ausuc", "dataset": "CUB", "expert": "LAGO", "row": "LAGO",
    ...     "source": "features", "search": "exact", "metric": "ausuc", "value": 31.24, "low": 30.0,
    ...     "high": 32.6, "published": 34.3, "difference": -3.06, "note": "", "missing": ""}])
    >>> shown(frame)[0][0].cells.to_dict("records")
    [{'': 'LAGO', 'AUSUC printed': '34.3', 'AUSUC': '31.2 (30.0–32.6)', 'Δ AUSUC': '-3.1'}]
    """
    tables = []
    # Rows that name their expert make one table; of the others there is one for each expert.
    named = not TABLES[frame["table"].iloc[0]].experts
    keys = ["dataset", "source"] if named else ["dataset", "expert", "source"]
    for key, part in frame.groupby(keys, sort=False):
        *about, source = map(str, key)
        heading = f"{', '.join(about)}, from {FROM[source]}"
        have = part[part["missing"] == ""]
        if len(have):
            notes = [
                f"{row}: {'; '.join(dict.fromkeys('; '.join(text).split('; ')))}"
                for row, text in have[have["note"] != ""].groupby("row", sort=False)["note"]
            ]
            tables.append(TableOfText(heading, _cells(have), notes))
    return tables, [need for need in frame["missing"].unique() if need]


def _cells(part: pd.DataFrame) -> pd.DataFrame:
    rows = []
    printed = {metric for metric, group in part.groupby("metric") if group["published"].notna().any()}
    for name, group in part.groupby("row", sort=False):
        cells = {"": str(name)}
        for one in group.to_dict("records"):
            title = _METRICS[one["metric"]]
            interval = "" if pd.isna(one["low"]) else f" ({one['low']:.1f}–{one['high']:.1f})"
            ours = {title: _number(one["value"]) + interval}
            if one["metric"] in printed:
                difference = "" if pd.isna(one["difference"]) else f"{one['difference']:+.1f}"
                difference = "0.0" if difference in ("+0.0", "-0.0") else difference
                ours = {f"{title} printed": _number(one["published"]), **ours, f"Δ {title}": difference}
            cells |= ours
        rows.append(cells)
    return pd.DataFrame(rows).fillna("")


def _number(value: float) -> str:
    return "" if pd.isna(value) else f"{value:.1f}"


def as_markdown(sections: Sequence[Section], command: str, *, pictures: Path | None = None) -> str:
    """Return the whole document; `pictures` is the folder of figures as seen from it, None for no figures."""
    return "\n\n".join(_markdown(sections, command, pictures)) + "\n"


def _markdown(sections: Sequence[Section], command: str, pictures: Path | None) -> Iterator[str]:
    yield "# The paper, reproduced"
    yield (
        f"Written by `{command}` (cosmo {cosmo.__version__}). *Printed* are the numbers of the paper, "
        "misprints corrected (the notes say which). Ours are in percent with 95 % intervals over other "
        "rows; Δ is ours minus printed. Every choice was made on held-out training data. Sources:"
    )
    yield "\n".join(f"- {FROM[name]}: {text}." for name, text in SOURCES.items())
    for section in sections:
        yield f"## {section.title}"
        yield section.text
        for table in section.tables:
            yield f"### {table.heading}"
            yield _markdown_table(table.cells)
            if table.notes:
                yield "\n".join(f"- {note}" for note in table.notes)
        if pictures is not None:
            for picture in section.pictures:
                yield f"![{picture.caption}]({(pictures / picture.path.name).as_posix()}.png)"
                yield picture.caption
        if section.missing:
            yield "Not computed, for want of:"
            yield "\n".join(f"- {need}" for need in section.missing)


def _markdown_table(cells: pd.DataFrame) -> str:
    def line(values: Sequence[str]) -> str:
        return "| " + " | ".join(value.replace("|", "\\|") for value in values) + " |"

    rule = "|---|" + "---:|" * (cells.shape[1] - 1)
    return "\n".join([line(list(cells.columns)), rule, *map(line, cells.to_numpy().tolist())])


def as_latex(table: TableOfText) -> str:
    r"""Return a `tabular`, for a paper of one's own.

    Examples
    --------
    >>> print(as_latex(TableOfText("CUB", pd.DataFrame({"": ["p^ZS"], "H": ["49.6"]}))))
    % CUB
    \begin{tabular}{lr}
    \hline
     & H \\
    \hline
    p\textasciicircum ZS & 49.6 \\
    \hline
    \end{tabular}
    """

    def line(values: Sequence[str]) -> str:
        return " & ".join(_escaped(value) for value in values) + r" \\"

    return "\n".join(
        [
            f"% {table.heading}",
            rf"\begin{{tabular}}{{l{'r' * (table.cells.shape[1] - 1)}}}",
            r"\hline",
            line(list(table.cells.columns)),
            r"\hline",
            *map(line, table.cells.to_numpy().tolist()),
            r"\hline",
            r"\end{tabular}",
        ]
    )


def _escaped(text: str) -> str:
    special = {
        "\\": r"\textbackslash ",
        "^": r"\textasciicircum ",
        "~": r"\textasciitilde ",
        "Δ": r"$\Delta$",
        "–": "--",
    }
    special |= {letter: "\\" + letter for letter in "&%$#_{}"}
    return "".join(special.get(letter, letter) for letter in text)


def as_html(sections: Sequence[Section], command: str, *, planes: str | None = None) -> str:
    """Return one page that needs no other file; `planes` is the name of the page beside it to play with."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters |= {"picture": _data_uri, "emphasised": _emphasised}
    template = environment.from_string(files("cosmo.paper").joinpath("paper.html").read_text("utf-8"))
    return template.render(
        sections=sections,
        command=command,
        sources={FROM[name]: text for name, text in SOURCES.items()},
        version=cosmo.__version__,
        planes=planes,
    )


def _emphasised(text: str) -> Markup:
    """Return a text, safe, with what Markdown would emphasise."""
    return Markup(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", str(escape(text))))


def _data_uri(picture: Picture) -> str:
    content = picture.path.with_name(f"{picture.path.name}.svg").read_bytes()
    return f"data:image/svg+xml;base64,{base64.b64encode(content).decode()}"
