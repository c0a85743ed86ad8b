"""A report in a real browser: what it shows is what `cosmo.metrics.accuracy` and the model itself say."""

from collections import Counter
from itertools import pairwise
from urllib.parse import quote

import numpy as np
import pytest
from chromium import (
    class_table,
    exact_threshold,
    moved,
    number,
    operating,
    rows_of,
    saved,
    settled,
    shown_right,
    until,
    way_of,
)
from scipy.special import expit

from cosmo.evaluation.run import CALIBRATED
from cosmo.metrics.accuracy import fpr_at_tpr, gate_auc, gzsl_scores
from cosmo.mixture.curve import SeenUnseenCurve
from cosmo.viz.page.sets import reliability


def choose_curve(page, name):
    page.get_by_label("curve to operate on").select_option(name)
    settled(page)


def test_chosen_point_is_that_of_the_model(visitor, report, experiment):
    """Accuracies from the model's own predictions of the test rows, by the names of the classes."""
    page, data = visitor.open(report, "#plane"), experiment.dataset
    rows = np.concatenate([data.split.test_seen, data.split.test_unseen])
    predicted = experiment.calibrated.predict(data.features[rows])
    scores = gzsl_scores(data.labels[rows], predicted, data.seen_classes, data.unseen_classes)
    bar = operating(page)
    assert (bar["accTs"], bar["accTr"], bar["accH"]) == pytest.approx(
        tuple(100 * value for value in scores), abs=0.0501
    )
    table = experiment.table()
    for name in table.index:
        choose_curve(page, name)
        shown_right(page, *way_of(experiment, name))
    lines = page.locator(".legend tbody tr")
    for line, (name, row) in zip(lines.all(), table.iterrows(), strict=True):
        cells = line.locator("td").all_text_contents()[2:]
        assert line.locator("th").text_content() == name
        assert [number(cell) for cell in cells] == pytest.approx(
            list(row[["Acc_ts", "Acc_tr", "Acc_H", "AUSUC"]]), abs=0.0501
        )


@pytest.mark.parametrize("name", ["COSMO, calibrated", "COSMO", "CS + ESZSL"])
def test_drag_along_the_curve(visitor, report, experiment, name):
    page = visitor.open(report, f"#plane/{quote(name)}/0")
    shown_right(page, *way_of(experiment, name))
    handle = page.locator(".handle")
    handle.scroll_into_view_if_needed()
    box = handle.locator("circle").nth(1).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    seen = []
    for step in range(1, 5):
        page.mouse.move(x + 25 * step, y + 30 * step, steps=3)
        settled(page)
        shown_right(page, *way_of(experiment, name))
        seen.append(operating(page)["accTr"])
    page.mouse.up()
    assert seen[-1] > seen[0]
    assert seen == sorted(seen)
    at = exact_threshold(page)
    page.mouse.move(x - 60, y - 60)
    settled(page)
    assert exact_threshold(page) == at, "the point follows although nothing holds it"


def test_keys_and_buttons_move_the_point(visitor, shown):
    evaluation, rule = shown.experiment.evaluations[-1], shown.model.combination_
    page, curve = visitor.open(shown.report, "#plane"), evaluation.curve
    k = int(np.searchsorted(curve.corners, evaluation.point.threshold))
    page.locator(".handle").focus()
    last = len(curve.thresholds) - 1
    for key, to in {"ArrowLeft": k + 1, "ArrowRight": k, "ArrowDown": k - 1, "Home": last, "End": 0}.items():
        page.keyboard.press(key)
        settled(page)
        assert exact_threshold(page) == pytest.approx(curve.thresholds[to], abs=1e-12)
        shown_right(page, shown.outputs, rule)
    page.get_by_role("button", name="Best Acc_H").click()
    settled(page)
    best = curve.best()
    assert exact_threshold(page) == pytest.approx(best.threshold, abs=1e-12)
    assert operating(page)["accH"] == pytest.approx(100 * best.acc_h, abs=0.0501)
    page.get_by_label("least Acc_tr in percent").fill("60")
    page.get_by_role("button", name="At least").click()
    settled(page)
    assert exact_threshold(page) == pytest.approx(curve.best(min_seen=0.6).threshold, abs=1e-12)
    page.get_by_label("least Acc_tr in percent").fill("99")
    page.keyboard.press("Enter")
    assert page.get_by_text(f"its largest is {100 * curve.acc_tr.max():.1f} %").is_visible()
    page.get_by_role("button", name="Back to the chosen point").click()
    settled(page)
    assert exact_threshold(page) == evaluation.point.threshold
    slider = page.get_by_label("operating point, from all unseen to all seen")
    slider.focus()
    page.keyboard.press("ArrowRight")
    settled(page)
    assert exact_threshold(page) == pytest.approx(curve.thresholds[k - 1], abs=1e-12)
    shown_right(page, shown.outputs, rule)


def test_gate(visitor, shown):
    page, outputs, gate = visitor.open(shown.report, "#gate"), shown.outputs, shown.model.combination_.gate_
    numbers_shown = page.locator("#panel-gate dl.numbers dd")
    ways = {"confidence": "COSMO", "max softmax": "Independent-Hard"}
    if gate.log_odds:
        # A gate has the threshold of the first way that uses it, after the main one.
        ways = {"calibrated": shown.name, **ways, "confidence": "CB-Gating"}
    for name, way in ways.items():
        page.locator("#panel-gate select").select_option(name)
        settled(page)
        test, rule = way_of(shown.experiment, way)
        score = rule.gate_.score(test)
        wanted = 100 * gate_auc(outputs.is_seen, score), 100 * fpr_at_tpr(outputs.is_seen, score)
        assert tuple(map(number, numbers_shown.all_text_contents()[:2])) == pytest.approx(wanted, abs=0.0501)
        text = numbers_shown.nth(2).text_content()
        threshold = rule.operating_point_.threshold
        if way == "COSMO, calibrated":
            assert text == f"{100 * expit(threshold):.1f} %"
        else:
            assert number(text) == pytest.approx(threshold, abs=5.1e-4)
    page.locator("#panel-gate select").select_option(next(iter(ways)))
    settled(page)
    called = "expected share of unseen samples" if gate.log_odds else "threshold of the gate"
    line = page.get_by_role("slider", name=called)
    line.focus()
    for key in ("ArrowRight", "PageDown", "Home"):
        page.keyboard.press(key)
        settled(page)
        threshold = exact_threshold(page)
        assert float(line.get_attribute("aria-valuenow")) == threshold
        spoken = line.get_attribute("aria-valuetext")
        if gate.log_odds:
            share = number(spoken.removeprefix("share of unseen samples "))
            assert share == pytest.approx(100 * expit(threshold), abs=0.0501)
        else:
            assert number(spoken.removeprefix("threshold ")) == pytest.approx(threshold, abs=5.1e-4)
        taken = gate.score(outputs) >= threshold
        shares = [100 * taken[outputs.is_seen == side].mean() for side in (True, False)]
        assert list(map(number, numbers_shown.all_text_contents()[3:])) == pytest.approx(shares, abs=0.0501)
    # The threshold of the gate is that of the curve: the other views have moved with it.
    page.get_by_role("tab", name="Plane").click()
    settled(page)
    shown_right(page, outputs, shown.model.combination_)


def test_calibration(visitor, shown):
    """The curves and errors of `reliability`, and the shares behind them."""
    page, mixture = visitor.open(shown.report, "#calibration"), shown.model.combination_
    terms = dict(
        zip(
            page.locator("#panel-calibration dl.numbers dt").all_text_contents(),
            page.locator("#panel-calibration dl.numbers dd").all_text_contents(),
            strict=True,
        )
    )
    assert terms["method"] == shown.name
    assert number(terms["samples"]) == len(shown.outputs)
    assert number(terms["actual share"]) == pytest.approx(100 * (~shown.outputs.is_seen).mean(), abs=0.0501)
    assert ("expected share of unseen samples" in terms) == (mixture.unseen_share is not None)
    for name, curve in reliability(mixture, shown.outputs).items():
        assert number(terms[f"ECE of {name}"]) == pytest.approx(100 * curve.error, abs=0.0501)
        drawn = page.get_by_label(f"Reliability diagram of {name}:")
        assert f"about {100 * curve.chance:.1f} % by chance" in drawn.get_attribute("aria-label")
        assert drawn.locator("circle").count() == len(curve.samples)
        table = rows_of(saved(page, page.get_by_label(f'"{name}:').and_(page.get_by_label("as CSV"))))
        written = np.array(table[1:], dtype=float).T
        for column, wanted in zip(written, (curve.probability, curve.frequency, curve.samples), strict=True):
            np.testing.assert_allclose(column, wanted)
    notice = page.get_by_text("not the current one")
    assert notice.count() == 0
    page.get_by_label("operating point, from all unseen to all seen").focus()
    page.keyboard.press("PageUp")
    settled(page)
    assert notice.is_visible()


def test_ties_and_infinities(visitor, report):
    """What the page computes from scores that few data sets have, and what Python does."""
    page, random = visitor.open(report, "#plane"), np.random.default_rng(0)
    for _ in range(20):
        scores, is_seen = random.integers(0, 6, 40).astype(float), random.random(40) < 0.5
        auc, fpr = page.evaluate(
            """([scores, isSeen]) => {
                const roc = cosmoPage.rocOf(Float64Array.from(scores), (i) => isSeen[i]);
                return [cosmoPage.aucOf(roc), cosmoPage.fprAt(roc)];
            }""",
            [scores.tolist(), is_seen.tolist()],
        )
        assert (auc, fpr) == pytest.approx((gate_auc(is_seen, scores), fpr_at_tpr(is_seen, scores)))
        scores[:2] = random.choice([-np.inf, np.inf], 2)
        target, seen, unseen = random.integers(0, 4, 40), random.integers(0, 2, 40), random.integers(2, 4, 40)
        target[:4] = range(4)
        gain = 1 / (2 * np.bincount(target)[target])
        curve = SeenUnseenCurve(scores, gain * (seen == target), gain * (unseen == target))
        found = page.evaluate(
            """([flips, target, seen, unseen]) => {
                flips = Float64Array.from(flips, Number);
                const curve = cosmoPage.makeCurve({ flips, target, seen, unseen, nSeen: 2, counted: [2, 2] });
                return [[...curve.thresholds], [...curve.accTs], [...curve.accTr], curve.area];
            }""",
            [
                [str(score).replace("inf", "Infinity") for score in scores],
                *(x.tolist() for x in (target, seen, unseen)),
            ],
        )
        for shown, wanted in zip(
            found, (curve.thresholds, curve.acc_ts, curve.acc_tr, curve.area), strict=True
        ):
            np.testing.assert_allclose(shown, wanted, atol=1e-12)


def test_class_table(visitor, report, experiment):
    page, (outputs, rule) = visitor.open(report, "#classes"), way_of(experiment, "COSMO, calibrated")
    page.get_by_label("operating point, from all unseen to all seen").focus()
    page.keyboard.press("PageUp")  # not at the chosen point
    page.wait_for_timeout(300)
    rule = moved(rule, exact_threshold(page))
    names, truth, guess = outputs.classes.astype(str), outputs.labels, rule.predict(outputs)
    found = class_table(page)
    assert len(found) == len({*truth})
    for name, domain, samples, accuracy, wrong, times in found:
        code = names.get_loc(name)
        rows = truth == code
        assert domain == ("seen" if code < outputs.n_seen else "unseen")
        assert int(samples) == rows.sum()
        assert number(accuracy) == pytest.approx(100 * (guess[rows] == code).mean(), abs=0.0501)
        mistakes = Counter(names[guess[rows & (guess != truth)]])
        assert int(times) == max(mistakes.values(), default=0)
        assert mistakes[wrong] == int(times)
    shown = [number(row[3]) for row in found]
    assert shown == sorted(shown), "the worst classes come first"
    mean = {side: np.mean([number(r[3]) for r in found if r[1] == side]) for side in ("seen", "unseen")}
    assert operating(page)["accTr"] == pytest.approx(mean["seen"], abs=0.1)
    assert operating(page)["accTs"] == pytest.approx(mean["unseen"], abs=0.1)
    for title, place, kind in (("samples", 2, int), ("class", 0, str.lower)):
        page.get_by_role("button", name=title, exact=True).click()
        column = [kind(row[place]) for row in class_table(page)]
        assert column == sorted(column, reverse=title == "samples")
        page.get_by_role("button", name=title, exact=True).click()
        assert [kind(row[place]) for row in class_table(page)] == sorted(column, reverse=title != "samples")
    page.get_by_label("domain").select_option("unseen")
    assert {row[1] for row in class_table(page)} == {"unseen"}
    assert len(class_table(page)) == outputs.n_unseen
    name = names[outputs.n_seen]
    page.locator("table.classes").get_by_role("button", name=name, exact=True).click()
    cards = page.locator("#panel-classes ul.samples li")
    assert cards.count() == (truth == outputs.n_seen).sum()
    cards.nth(3).get_by_role("link").click()
    settled(page)
    sample = int(np.flatnonzero(truth == outputs.n_seen)[3])
    assert page.locator("#panel-walk").is_visible()
    assert page.get_by_label("sample number").input_value() == str(sample + 1)
    assert page.locator("#panel-walk .sample").bounding_box()["y"] < 600, "a link leads to what it names"


def test_answers_are_the_first_view(visitor, report, experiment):
    page, outputs, rule = visitor.open(report), *way_of(experiment, CALIBRATED)
    proba = rule.scores(outputs)
    answer, confidence = proba.argmax(axis=1), proba.max(axis=1) / proba.sum(axis=1)
    right = answer == outputs.target
    bands = page.locator("#panel-answers .card:nth-child(2) tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent))"
    )
    for (low, high), (times, correct) in zip(pairwise([0, 0.5, 0.7, 0.9, 0.99, 1]), bands[::-1], strict=True):
        within = (confidence > low) & (confidence <= high)
        assert int(times) == within.sum()
        share = f"{100 * right[within].mean() + 1e-7:.0f} %" if within.any() else "–"
        assert correct == share
    rows = page.locator("#panel-answers .answers-table tbody tr")
    shown = rows.locator("td:nth-child(3)").all_text_contents()
    expected = np.sort(confidence[~right])[::-1][: len(shown)]
    assert len(shown) == 30
    assert [number(text) for text in shown] == pytest.approx(100 * expected, abs=0.06)
    page.get_by_label("answers to list").select_option("all")
    settled(page)
    names = experiment.dataset.descriptions.index
    for cell, row in ((4, outputs.target[:30]), (2, answer[:30])):
        texts = rows.locator(f"td:nth-child({cell})").all_text_contents()
        assert [text.split()[cell == 2] for text in texts] == [str(outputs.classes[code]) for code in row]
    assert len(names) == len(outputs.classes)
    rows.nth(16).locator("a").click()
    until(page, "location.hash.startsWith('#walk/')")
    again = visitor.open(report, "#sample=17")
    for one in (page, again):
        settled(one)
        assert one.get_by_label("sample number").input_value() == "17"
        assert one.locator("#panel-walk").is_visible()


def test_address_leads_to_view_curve_and_sample(visitor, report, experiment):
    page = visitor.open(report, "#walk/COSMO/17")
    assert page.locator("#panel-walk").is_visible()
    assert page.get_by_label("sample number").input_value() == "18"
    assert page.locator("#panel-walk .sample").bounding_box()["y"] < 400
    page.get_by_role("button", name="next sample").click()
    until(page, "location.hash === '#walk/COSMO/18'")
    page.evaluate("location.hash = '#classes/CB-Gating/3'")
    until(page, "!document.getElementById('panel-classes').hidden")
    settled(page)
    assert page.get_by_role("heading", name="Classes under CB-Gating").is_visible()
    shown_right(visitor.open(report, "#plane/CB-Gating/3"), experiment.test, experiment.fitted["CB-Gating"])
    page = visitor.open(report, "#nowhere/nobody/999999")
    for nonsense in ("", "#walk/%E0%A4%A/-1", "#////", "#walk/__proto__/1e3"):
        page.evaluate("(part) => { location.hash = part; }", nonsense)
        settled(page)
        assert page.locator("[role=tabpanel]:visible").count() == 1
