"""A report in the hands of its readers: on a phone, without a mouse, in the dark, saved, and attacked."""

import io
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from chromium import (
    check_names,
    class_table,
    exact_threshold,
    rows_of,
    saved,
    settled,
    shown_right,
    until,
    way_of,
)
from PIL import Image

from cosmo.data import GZSLDataset
from cosmo.evaluation.run import CALIBRATED
from cosmo.viz.page import experiment_view, render_page

VIEWS = ("answers", "plane", "gate", "classes", "walk", "calibration")
PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}


def open_views(visitor, report, **options):
    """Yield the page once for each view."""
    page = visitor.open(report, **options)
    for view in VIEWS:
        page.locator(f"#tab-{view}").click()
        settled(page)
        settled(page)
        yield view, page


def test_phone(visitor, report, experiment):
    """Nothing wider than the screen, and a tap moves the point."""
    for view, page in open_views(visitor, report, **PHONE):
        wide = page.evaluate(
            """() => [document.documentElement.scrollWidth - innerWidth,
                ...[...document.querySelectorAll("[role=tabpanel]:not([hidden]) .drawing svg")].map(
                    (one) => one.getBoundingClientRect().right - innerWidth)]"""
        )
        assert max(wide) <= 0, view
    page.locator("#tab-plane").tap()
    settled(page)
    before = exact_threshold(page)
    plane = page.locator("svg.plane").first
    plane.scroll_into_view_if_needed()
    box = plane.bounding_box()
    page.touchscreen.tap(box["x"] + 0.8 * box["width"], box["y"] + 0.6 * box["height"])
    settled(page)
    assert exact_threshold(page) != before
    shown_right(page, *way_of(experiment, CALIBRATED))


CONTRASTS = """() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const parse = (text) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = text;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
    const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
        .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const ground = (node) => {
        const own = parse(getComputedStyle(node).backgroundColor);
        return own[3] === 1 || !node.parentElement ? own : over(own, ground(node.parentElement));
    };
    const found = [];
    for (const node of document.querySelectorAll("#page *")) {
        const written = [...node.childNodes].some((one) => one.nodeType === 3 && one.data.trim());
        const hidden = !node.checkVisibility() || node.closest("title, option, .only-file, .unseeable");
        if (!written || hidden) continue;
        const style = getComputedStyle(node), back = ground(node);
        const ink = over(parse(node instanceof SVGElement ? style.fill : style.color), back);
        const [a, b] = [light(ink), light(back)].sort((x, y) => y - x);
        found.push([(a + 0.05) / (b + 0.05), node.textContent.slice(0, 40)]);
    }
    return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(visitor, report, scheme):
    for view, page in open_views(visitor, report, color_scheme=scheme):
        found = page.evaluate(CONTRASTS)
        assert len(found) > 50, view
        assert [one for one in found if one[0] < 4.5] == [], view
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    channels = list(map(int, re.findall(r"\d+", ground)))
    assert (min(channels) > 200) if scheme == "light" else (max(channels) < 60)


def test_everything_has_a_name(visitor, report):
    """Every control and image of every view has a name for screen readers."""
    for view, page in open_views(visitor, report):
        check_names(page, view)


def test_without_a_mouse(visitor, report):
    page = visitor.open(report, "#plane")

    def tab_to(selector):
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("(wanted) => document.activeElement.matches(wanted)", selector):
                return
        raise AssertionError(f"the Tab key does not lead to {selector}")

    tab_to("[role=tab]")
    for key, view in (("ArrowRight", "gate"), ("End", "calibration"), ("ArrowRight", "answers"),
                      ("ArrowLeft", "calibration"), ("ArrowLeft", "walk"), ("Home", "answers"),
                      ("ArrowRight", "plane")):  # fmt: skip
        page.keyboard.press(key)
        settled(page)
        assert page.locator(f"#panel-{view}").is_visible()
        assert page.locator("[role=tabpanel]:visible").count() == 1
        assert page.evaluate("document.activeElement.id") == f"tab-{view}"
        assert page.locator(f"#tab-{view}").get_attribute("aria-selected") == "true"
    before = exact_threshold(page)
    tab_to(".operating input[type=range]")
    page.keyboard.press("ArrowRight")
    settled(page)
    second = exact_threshold(page)
    assert second < before
    tab_to(".handle")
    outline = page.evaluate("getComputedStyle(document.activeElement.querySelector('.reach')).stroke")
    assert outline != "none", "keyboard focus must be visible"
    page.keyboard.press("ArrowUp")
    settled(page)
    assert exact_threshold(page) > second
    tab_to(".legend input[type=radio]")
    page.keyboard.press("ArrowUp")
    settled(page)
    assert page.locator(".operating select").input_value() == "COSMO"
    spoken = "document.querySelector('[aria-live].unseeable').textContent"
    until(page, f"{spoken}.startsWith('COSMO, threshold')")
    page.keyboard.press("ArrowDown")
    until(page, f"{spoken}.startsWith('COSMO, calibrated, share of unseen samples')")


def test_figures_can_be_saved(visitor, report, experiment, tmp_path):
    """Every figure as SVG and PNG, and its data as CSV."""
    figures = 0
    for view, page in open_views(visitor, report):
        for figure in page.locator("[role=tabpanel]:visible figure:visible").all():
            figures += 1
            size = figure.locator(".drawing svg").bounding_box()
            drawing = ET.fromstring(saved(page, figure.get_by_role("button", name="SVG")))
            assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
            assert "class" not in drawing.attrib
            assert float(drawing.attrib["width"]) == pytest.approx(size["width"], abs=1)
            inks = {node.get(part) for node in drawing.iter() for part in ("fill", "stroke")}
            assert len(inks - {None, "none"}) >= 3, "a file has no style sheet: its colours are written in"
            picture = Image.open(io.BytesIO(saved(page, figure.get_by_role("button", name="PNG"))))
            assert picture.size == pytest.approx((2 * size["width"], 2 * size["height"]), abs=2)
            assert len(picture.convert("RGB").getcolors(1 << 20)) > 10, "it is empty"
            rows = rows_of(saved(page, figure.get_by_role("button", name="CSV")))
            assert len(rows) > 1
            assert {len(row) for row in rows} == {len(rows[0])}
            assert page.locator(f"#panel-{view}").is_visible()
    assert figures == 1 + 3 + 4 + 2


def test_numbers_of_the_files(visitor, report, experiment):
    page = visitor.open(report, "#plane")
    content = saved(page, page.get_by_label('"The seen-unseen plane" as CSV'))
    plane = pd.read_csv(io.BytesIO(content))
    wanted = pd.read_csv(report.with_name("curves.csv"))
    assert list(plane["method"]) == list(wanted["method"])
    np.testing.assert_allclose(plane.iloc[:, 1:], wanted.iloc[:, 1:], atol=1e-12)
    content = saved(page, page.get_by_label('"glyphs: test accuracy in percent" as CSV'))
    table = pd.read_csv(io.BytesIO(content), index_col=0)
    np.testing.assert_allclose(table["Acc_H"], experiment.table()["Acc_H"], atol=1e-5)
    page.locator("#tab-classes").click()
    settled(page)
    classes = pd.read_csv(io.BytesIO(saved(page, page.get_by_label("classes as CSV"))), keep_default_na=False)
    outputs, rule = way_of(experiment, CALIBRATED)
    guess = rule.predict(outputs)
    right = pd.Series(guess == outputs.labels).groupby(outputs.labels).mean()
    np.testing.assert_allclose(classes["accuracy"], right, atol=1e-12)
    assert list(classes["class"]) == list(outputs.classes[right.index])


HOSTILE = [
    "<img src=x onerror=document.title='stolen'>",
    "</script><script>document.title='stolen'</script>",
    "=cmd|' /C calc'!A0",
    "\"><svg onload=document.title='stolen'>",
    "javascript:document.title='stolen'",
    "${document.title='stolen'}{{7*7}}",
    "a\u202egnp.exe\u0000",
    "__proto__",
]


def test_hostile_names_are_only_names(visitor, experiment, tmp_path):
    data, test = experiment.dataset, experiment.test
    renamed = dict(zip(test.classes, HOSTILE + list(test.classes[len(HOSTILE) :]), strict=True))
    hostile = replace(
        experiment,
        dataset=GZSLDataset(
            data.features,
            data.labels,
            data.descriptions,
            data.split,
            texts=["half a pair: \ud800" + HOSTILE[i % len(HOSTILE)] for i in range(len(data))],
            sample_names=[HOSTILE[i % len(HOSTILE)] for i in range(len(data))],
            name=HOSTILE[1],
        ),
        test=replace(
            test,
            seen_classes=pd.Index([renamed[label] for label in test.seen_classes]),
            unseen_classes=pd.Index([renamed[label] for label in test.unseen_classes]),
        ),
        fitted={
            (HOSTILE[i % 6] if i < 6 else name): rule
            for i, (name, rule) in enumerate(experiment.fitted.items())
        },
    )
    path = tmp_path / "hostile.html"
    path.write_text(render_page(experiment_view(hostile)), encoding="utf-8")
    for view, page in open_views(visitor, path):
        assert page.title().startswith("Generalized zero-shot learning on </script>")
        active = page.locator("#page img, #page script, #page iframe, #page [onerror], #page [onload]")
        assert active.count() == 0
        assert page.evaluate("Object.prototype.polluted === undefined")
        if view == "classes":
            shown = {row[0] for row in class_table(page)}
            assert {*HOSTILE[:6]} <= shown
            page.locator("table.classes").get_by_role("button", name="<img src=x").click()
            content = rows_of(saved(page, page.get_by_label("classes as CSV")))
            assert not any(cell.startswith(("=", "+", "-", "@")) for row in content for cell in row)
            assert "'" + HOSTILE[2] in {row[0] for row in content}
        if view == "walk":
            assert page.locator(".sample .quoted").text_content().startswith("half a pair: ?")
        if view == "plane":
            ET.fromstring(saved(page, page.get_by_label('plane" as SVG')))
    check_names(page, "walk")


def test_a_damaged_report_says_so(visitor, report, tmp_path):
    text = report.read_text(encoding="utf-8")
    place = text.index('id="view">') + 200
    (tmp_path / "cut.html").write_text(text[:place] + text[place + 400 :], encoding="utf-8")
    page = visitor.open(tmp_path / "cut.html", wait=False)
    page.evaluate("cosmoPage.ready")
    assert "cannot be read" in page.locator("#opening").text_content()
    visitor.forgive("damaged or truncated")


def test_a_report_of_an_earlier_version(visitor, experiment, tmp_path):
    """A view without shares, reliability and inputs of the gate: the studio shows such reports."""
    paper = replace(
        experiment, evaluations=experiment.evaluations[:-1], calibrated=None, calibrated_test=None
    )
    view = experiment_view(paper)
    one = view["sets"][0]
    del one["calibration"]
    for part in (*one["curves"], *one["gates"]):
        del part["share"]
    for part in ("seen", "inputs"):
        del one["gates"][0]["weights"][part]
    (tmp_path / "old.html").write_text(render_page(view), encoding="utf-8")
    page = visitor.open(tmp_path / "old.html", "#gate")
    assert page.get_by_role("tab").all_text_contents() == [
        "Answers",
        "Plane",
        "Gate",
        "Classes",
        "Walk-through",
    ]
    assert page.get_by_text("Inputs are the sorted outputs of each expert.").is_visible()
    page.locator("#tab-plane").click()
    settled(page)
    shown_right(page, *way_of(experiment, "COSMO"))


def test_several_sets(visitor, experiment, tmp_path):
    view = experiment_view(experiment)
    first = view["sets"][0]
    other = {**first, "name": "other/ü", "curves": first["curves"][:2], "gates": [], "walk": None}
    other["calibration"] = None
    (tmp_path / "two.html").write_text(render_page({**view, "sets": [first, other]}))
    page = visitor.open(tmp_path / "two.html", "#walk/COSMO/5")
    page.get_by_label("Data set").select_option("other/ü")
    settled(page)
    assert page.get_by_role("tab").all_text_contents() == ["Plane", "Classes"]
    until(page, "location.hash.endsWith('/0/other%2F%C3%BC')")
    again = visitor.open(tmp_path / "two.html", page.evaluate("location.hash"))
    assert again.locator(".legend tbody tr").count() == 2
    shown_right(again, experiment.test, experiment.fitted["ESZSL alone"])
