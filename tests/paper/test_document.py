import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from cosmo.paper.document import Picture, Section, Selection, as_html, as_markdown, fill, text_tables
from cosmo.viz.plots import save_figure
from cosmo.viz.text import TextTable


class Page(HTMLParser):
    """Tags and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def frame(runner):
    return fill("main", runner, Selection(["CUB", "AWA1"], experts=["LAGO"], sources=["predictions"]))


def cells(table):
    return pd.DataFrame(table.rows, columns=table.columns).set_index("")


class TestTextTables:
    def test_one_for_each_data_set_and_source(self, frame):
        tables, missing = text_tables(frame)
        assert [table.title for table in tables] == [
            "CUB, from the authors' predictions",
            "AWA1, from the authors' predictions",
        ]
        assert missing == ["features of AWA1: xlsa17/AWA1/res101.mat"]
        assert list(cells(tables[1]).index) == ["LAGO", "CS + LAGO"]

    def test_figures(self, frame):
        found = cells(text_tables(frame)[0][0])
        names = {"acc_ts": "ts", "acc_tr": "tr", "acc_h": "H"}
        for one in frame[frame["dataset"] == "CUB"].itertuples():
            title = names[one.metric]
            row = found.loc[one.row]
            assert row[title] == f"{one.value:.1f} ({one.low:.1f}–{one.high:.1f})"
            if one.row.endswith("calibrated"):
                assert row[f"{title} published"] == row[f"Δ {title}"] == ""
                continue
            assert row[f"{title} published"] == f"{one.published:.1f}"
            assert row[f"Δ {title}"] == f"{one.value - one.published:+.1f}"

    def test_an_ablation_names_its_expert(self, runner):
        frame = fill(
            "smoothing", runner, Selection(["CUB"], experts=["LAGO", "f-CLSWGAN"], sources=["predictions"])
        )
        assert [table.title for table in text_tables(frame)[0]] == [
            "CUB, LAGO, from the authors' predictions"
        ]

    def test_notes(self, frame):
        noted = frame.assign(note=["because" if row == "CS + LAGO" else "" for row in frame["row"]])
        assert text_tables(noted)[0][0].notes == ["CS + LAGO: because"]

    def test_columns_of_published_figures_only_where_there_are_any(self, frame):
        none = frame.assign(published=float("nan"), difference=float("nan"))
        assert text_tables(none)[0][0].columns == ["", "ts", "tr", "H"]
        some = frame.copy()
        some.loc[some["row"] == "LAGO", ["published", "difference"]] = float("nan")
        found = cells(text_tables(some)[0][0])
        assert found.loc["LAGO", "H published"] == found.loc["LAGO", "Δ H"] == ""
        assert found.loc["CS + LAGO", "H published"] == "47.9"


@pytest.fixture
def section(tmp_path):
    figure = Figure()
    figure.add_subplot().set_title("<b>a & b</b>")
    save_figure(figure, tmp_path / "one")
    rows = [["<script>alert(1)</script>", "+1.0"], ['a|b "&', "-2.0 (–)"]]
    table = TextTable("heading <i>", ["", "Δ H"], rows, ["a note & more"])
    picture = Picture(tmp_path / "one", "<img>")
    return Section("part", "Title <1>", "Text & *more*: 4 * 5.", [table], [picture], ["x < y"])


def test_html(section, tmp_path):
    text = as_html([section], "cosmo paper <all>")
    page = Page(text)
    assert {tag for tag, _ in page.tags} & {"script", "i", "b"} == set()
    for part in ("<script>alert(1)</script>", "Title <1>", "heading <i>", "x < y", "cosmo paper <all>"):
        assert part in page.text
    assert "<p>Text &amp; <em>more</em>: 4 * 5.</p>" in text
    assert not re.search(r"https?:|url\(|@import|<link|<script", text)
    assert [found["href"] for tag, found in page.tags if tag == "a"] == ["#part"]
    assert "part" in {found.get("id") for _, found in page.tags}
    (picture,) = [found for tag, found in page.tags if tag == "img"]
    assert picture["alt"] == "<img>"
    content = base64.b64decode(picture["src"].removeprefix("data:image/svg+xml;base64,"))
    assert content == (tmp_path / "one.svg").read_bytes()


def test_markdown(section):
    text = as_markdown([section, section], "cosmo paper all", pictures=Path("figures"))
    lines = text.splitlines()
    start = lines.index("|---|---:|")
    assert lines[start - 1] == "|  | Δ H |"
    assert lines[start + 2] == '| a\\|b "& | -2.0 (–) |'
    assert "![<img>](figures/one.png)" in lines
    assert "- x < y" in lines
    for number, line in enumerate(lines):
        if line.startswith("#"):
            assert lines[number + 1] == ""
            assert number == 0 or lines[number - 1] == ""
    assert "![" not in as_markdown([section], "")


def test_latex(frame):
    table = TextTable("CUB", ["", "Δ H"], [["50 % & $1_a #b {c} \\d ~e ^f", "30.0–31.0"]])
    text = table.latex()
    assert r"50 \% \& \$1\_a \#b \{c\} \textbackslash d \textasciitilde e \textasciicircum f" in text
    assert r"$\Delta$ H \\" in text
    assert "30.0--31.0" in text
    assert text.isascii()
