"""The page of CUB in a real browser: all 4,731 test samples, from the predictions that were published."""

import time

import pytest
from chromium import Visitor, chromium, number, operating, settled, shown_right
from test_published_predictions import outputs

from cosmo.classifier.combinations import GatedMixture
from cosmo.classifier.ways import CalibratedStacking
from cosmo.gates import ConfidenceGate, MaxSoftmaxGate
from cosmo.metrics.accuracy import fpr_at_tpr, gate_auc
from cosmo.viz.page import _view, render_page
from cosmo.viz.page.render import Arrays
from cosmo.viz.page.sets import Way, set_view


@pytest.fixture(scope="module")
def test(data_folder):
    return outputs(data_folder / "predictions" / "fCLSWGAN" / "CUB", "test")


@pytest.fixture(scope="module")
def fitted(data_folder):
    validation = outputs(data_folder / "predictions" / "fCLSWGAN" / "CUB", "val")
    return {
        "f-CLSWGAN": CalibratedStacking(0.0).fit(validation),
        "CS": CalibratedStacking().fit(validation),
        "Independent-Soft": GatedMixture(MaxSoftmaxGate(), smoothing="none").fit(validation),
        "COSMO": GatedMixture(ConfidenceGate(), smoothing="adaptive").fit(validation),
    }


@pytest.fixture(scope="module")
def report(test, fitted, tmp_path_factory):
    ways = [Way(name, rule, test) for name, rule in fitted.items()]
    arrays = Arrays()
    view = _view("comparison", "CUB", "", arrays, [set_view(arrays, "CUB", ways, test.classes)])
    path = tmp_path_factory.mktemp("cub") / "report.html"
    path.write_text(render_page(view), encoding="utf-8")
    return path


@pytest.fixture
def visitor():
    with chromium() as browser:
        one = Visitor(browser)
        yield one
        one.leave()


def test_cub(visitor, report, test, fitted):
    assert report.stat().st_size < 5e6
    begin = time.perf_counter()
    page = visitor.open(report, "#plane/COSMO/0")
    print(f"opened in {time.perf_counter() - begin:.2f} s")
    for name, rule in fitted.items():
        page.get_by_label("curve to operate on").select_option(name)
        settled(page)
        shown_right(page, test, rule)
        assert page.locator(".legend tr", has=page.locator(":checked[type=radio]")).locator(
            "td"
        ).last.text_content() == (f"{100 * rule.curve(test).area:.1f}")
    page.get_by_label("curve to operate on").select_option("f-CLSWGAN")
    settled(page)
    assert [operating(page)[key] for key in ("accTs", "accTr", "accH")] == [45.1, 55.5, 49.8], "as printed"

    page.get_by_label("curve to operate on").select_option("COSMO")
    settled(page)  # which draws the handle anew
    handle = page.locator(".handle")
    handle.scroll_into_view_if_needed()
    box = handle.locator("circle").nth(1).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(1, 6):
        page.mouse.move(x + 15 * step, y + 12 * step, steps=4)
        settled(page)
        shown_right(page, test, fitted["COSMO"])
    page.mouse.up()

    page.get_by_role("tab", name="Gate").click()
    settled(page)
    score = fitted["COSMO"].gate_.score(test)
    told = page.locator("#panel-gate dl.numbers dd").all_text_contents()
    wanted = 100 * gate_auc(test.is_seen, score), 100 * fpr_at_tpr(test.is_seen, score)
    assert (number(told[0]), number(told[1])) == pytest.approx(wanted, abs=0.0501)

    page.get_by_role("tab", name="Classes").click()
    settled(page)
    assert page.locator("table.classes tbody tr").count() == 200
    page.get_by_role("tab", name="Walk-through").click()
    settled(page)
    counts = page.get_by_label("samples to walk through").locator("option").all_text_contents()
    found = [number(text.rpartition("(")[2].removesuffix(")")) for text in counts]
    assert found[0] == sum(found[2:]) == len(test) == 4731
