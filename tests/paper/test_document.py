from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from cosmo.paper.document import (
    Picture,
    Section,
    TableOfText,
    as_html,
    as_latex,
    as_markdown,
    shown,
)
from cosmo.paper.runner import Runner
from cosmo.paper.tables import fill
from cosmo.viz.plots import save_figure


class Page(HTMLParser):
    """Tags, cells and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.cells: list[list[str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1].append("")

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.tags and self.tags[-1][0] in ("td", "th") and self.get_starttag_text():
            self.cells[-1][-1] += data.strip("\n")


@pytest.fixture(scope="module")
def frame(runner: Runner) -> pd.DataFrame:
    return fill("main", runner, ["CUB", "AWA1"], experts=["LAGO"], sources=["predictions"])


class TestShown:
    def test_one_table_for_each_data_set_and_source(self, frame: pd.DataFrame):
        tables, missing = shown(frame)
        assert [table.heading for table in tables] == [
            "CUB, from the authors' predictions",
            "AWA1, from the authors' predictions",
        ]
        assert missing == ["features of AWA1: xlsa17/AWA1/res101.mat"]
        assert list(tables[1].cells[""]) == ["LAGO", "CS + LAGO"]

    def test_numbers(self, frame: pd.DataFrame):
        cells = shown(frame)[0][0].cells.set_index("")
        names = {"acc_ts": "ts", "acc_tr": "tr", "acc_h": "H"}
        for one in frame[frame["dataset"] == "CUB"].itertuples():
            title = names[one.metric]
            row = cells.loc[one.row]
            assert row[title] == f"{one.value:.1f} ({one.low:.1f}–{one.high:.1f})"
            assert row[f"{title} printed"] == f"{one.published:.1f}"
            assert row[f"Δ {title}"] == f"{one.value - one.published:+.1f}"

    @pytest.mark.parametrize("experts", [["LAGO"], ["LAGO", "f-CLSWGAN"]])
    def test_an_ablation_names_its_expert(self, runner: Runner, experts: list[str]):
        frame = fill("smoothing", runner, ["CUB"], experts=experts, sources=["predictions"])
        assert [table.heading for table in shown(frame)[0]] == ["CUB, LAGO, from the authors' predictions"]

    def test_notes(self, frame: pd.DataFrame):
        noted = frame.assign(note=["because" if row == "CS + LAGO" else "" for row in frame["row"]])
        assert shown(noted)[0][0].notes == ["CS + LAGO: because"]

    def test_nothing_printed_gives_no_empty_columns(self, frame: pd.DataFrame):
        bare = frame.assign(published=float("nan"), difference=float("nan"))
        assert list(shown(bare)[0][0].cells.columns) == ["", "ts", "tr", "H"]

    def test_some_printed(self, frame: pd.DataFrame):
        some = frame.copy()
        some.loc[some["row"] == "LAGO", ["published", "difference"]] = float("nan")
        cells = shown(some)[0][0].cells.set_index("")
        assert cells.loc["LAGO", "H printed"] == cells.loc["LAGO", "Δ H"] == ""
        assert cells.loc["CS + LAGO", "H printed"] == "47.9"


@pytest.fixture
def section(tmp_path: Path) -> Section:
    figure = Figure()
    figure.add_subplot().set_title("<b>a & b</b>")
    save_figure(figure, tmp_path / "one")
    cells = pd.DataFrame({"": ["<script>alert(1)</script>", 'a|b "&'], "Δ H": ["+1.0", "-2.0 (–)"]})
    table = TableOfText("heading <i>", cells, ["a note & more"])
    return Section(
        "part", "Title <1>", "Text & more.", [table], [Picture(tmp_path / "one", "<img>")], ["x < y"]
    )


class TestHtml:
    def test_names_are_escaped(self, section: Section):
        page = Page(as_html([section], "cosmo paper <all>"))
        assert {tag for tag, _ in page.tags} & {"script", "i", "b"} == set()
        for text in ("<script>alert(1)</script>", "Title <1>", "heading <i>", "x < y", "cosmo paper <all>"):
            assert text in page.text

    def test_needs_no_other_file(self, section: Section):
        text = as_html([section], "cosmo paper all")
        page = Page(text)
        assert not re.search(r"https?:|url\(|@import|<link|<script", text)
        for _, attributes in page.tags:
            assert not attributes.keys() & {"srcset", "data", "background"}
            assert (attributes.get("src") or "data:").startswith("data:")
            assert (attributes.get("href") or "#").startswith("#")

    def test_emphasis(self):
        text = as_html([Section("part", "Title", "*one* < two, *three*: 4 * 5")], "")
        assert "<p><em>one</em> &lt; two, <em>three</em>: 4 * 5</p>" in text

    def test_pictures_are_inside(self, section: Section, tmp_path: Path):
        (attributes,) = [found for tag, found in Page(as_html([section], "")).tags if tag == "img"]
        source = attributes["src"]
        assert source is not None
        content = base64.b64decode(source.removeprefix("data:image/svg+xml;base64,"))
        assert content == (tmp_path / "one.svg").read_bytes()
        ElementTree.fromstring(content)
        assert attributes["alt"] == "<img>"

    def test_links_lead_somewhere(self, section: Section):
        page = Page(as_html([section], ""))
        ids = {found["id"] for _, found in page.tags if "id" in found}
        links = [found["href"] for tag, found in page.tags if tag == "a"]
        assert links == ["#part"]
        assert {link.removeprefix("#") for link in links if link} <= ids


class TestMarkdown:
    def test_table(self, section: Section):
        text = as_markdown([section], "cosmo paper all", pictures=Path("figures"))
        lines = text.splitlines()
        (start,) = [number for number, line in enumerate(lines) if line == "|---|---:|"]
        assert lines[start - 1] == "|  | Δ H |"
        assert lines[start + 2] == '| a\\|b "& | -2.0 (–) |'
        assert "![<img>](figures/one.png)" in lines
        assert "- x < y" in lines
        assert text.endswith("\n")
        assert not text.endswith("\n\n")

    def test_without_pictures(self, section: Section):
        assert "![" not in as_markdown([section], "")

    def test_headings_stand_apart(self, section: Section):
        lines = as_markdown([section, section], "").splitlines()
        for number, line in enumerate(lines):
            if line.startswith("#"):
                assert lines[number + 1] == ""
                assert number == 0 or lines[number - 1] == ""


class TestLatex:
    def test_special_characters(self):
        cells = pd.DataFrame({"": ["50 % & $1_a #b {c} \\d ~e ^f"], "Δ H": ["30.0–31.0"]})
        text = as_latex(TableOfText("CUB", cells))
        assert r"50 \% \& \$1\_a \#b \{c\} \textbackslash d \textasciitilde e \textasciicircum f" in text
        assert r"$\Delta$ H \\" in text
        assert "30.0--31.0" in text
        assert text.isascii()

    def test_as_many_columns_as_there_are(self, frame: pd.DataFrame):
        (table, _), _ = shown(frame)
        text = as_latex(table)
        (columns,) = re.findall(r"\\begin\{tabular\}\{(l+r*)\}", text)
        rows = [line for line in text.splitlines() if line.endswith(r"\\")]
        assert len(rows) == 1 + len(table.cells)
        assert {line.count("&") for line in rows} == {len(columns) - 1}
