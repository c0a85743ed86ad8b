"""A report in a real browser: what it shows is what `cosmo.metrics.accuracy` and the model itself say."""

from __future__ import annotations

import re
from collections import Counter
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chromium import (
    Visitor,
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
)

from cosmo.evaluation.run import Experiment
from cosmo.metrics.accuracy import fpr_at_tpr, gate_auc, gzsl_scores
from cosmo.mixture.curve import SeenUnseenCurve
from cosmo.mixture.smoothing import combine

VERDICTS = {
    "correct": "right",
    "corrected by smoothing": "fixed",
    "wrong by smoothing": "broke",
    "gate wrong": "gate",
    "expert wrong": "expert",
}


def choose_curve(page: Any, name: str) -> None:
    page.get_by_label("curve to operate on").select_option(name)
    settled(page)


def test_chosen_point_is_that_of_the_model(visitor: Visitor, report: Path, experiment: Experiment) -> None:
    """Accuracies from the model's own predictions of the test rows, by the names of the classes."""
    page, data = visitor.open(report), experiment.dataset
    rows = np.concatenate([data.split.test_seen, data.split.test_unseen])
    predicted = experiment.model.predict(data.features[rows])
    scores = gzsl_scores(data.labels[rows], predicted, data.seen_classes, data.unseen_classes)
    bar = operating(page)
    assert (bar["accTs"], bar["accTr"], bar["accH"]) == pytest.approx(
        tuple(100 * value for value in scores), abs=0.0501
    )
    table = experiment.table()
    for name in table.index:
        choose_curve(page, name)
        shown_right(page, experiment.test, experiment.fitted[name])
    lines = page.locator(".legend tbody tr")
    for line, (name, row) in zip(lines.all(), table.iterrows(), strict=True):
        cells = line.locator("td").all_text_contents()[2:]
        assert line.locator("th").text_content() == name
        assert [number(cell) for cell in cells] == pytest.approx(
            list(row[["Acc_ts", "Acc_tr", "Acc_H", "AUSUC"]]), abs=0.0501
        )


@pytest.mark.parametrize("name", ["COSMO", "CS + ESZSL"])
def test_drag_along_the_curve(visitor: Visitor, report: Path, experiment: Experiment, name: str) -> None:
    page = visitor.open(report, f"#plane/{name.replace(' ', '%20').replace('+', '%2B')}/0")
    shown_right(page, experiment.test, experiment.fitted[name])
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
        shown_right(page, experiment.test, experiment.fitted[name])
        seen.append(operating(page)["accTr"])
    page.mouse.up()
    assert seen[-1] > seen[0]
    assert seen == sorted(seen)
    at = exact_threshold(page)
    page.mouse.move(x - 60, y - 60)
    settled(page)
    assert exact_threshold(page) == at, "the point follows although nothing holds it"


def test_keys_and_buttons_move_the_point(visitor: Visitor, report: Path, experiment: Experiment) -> None:
    page, curve = visitor.open(report), experiment.evaluations[-1].curve
    k = int(np.searchsorted(curve.corners, experiment.evaluations[-1].point.threshold))
    page.locator(".handle").focus()
    last = len(curve.thresholds) - 1
    for key, to in {"ArrowLeft": k + 1, "ArrowRight": k, "ArrowDown": k - 1, "Home": last, "End": 0}.items():
        page.keyboard.press(key)
        settled(page)
        assert exact_threshold(page) == pytest.approx(curve.thresholds[to], abs=1e-12)
        shown_right(page, experiment.test, experiment.fitted["COSMO"])
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
    assert exact_threshold(page) == experiment.evaluations[-1].point.threshold
    slider = page.get_by_label("operating point, from all unseen to all seen")
    slider.focus()
    page.keyboard.press("ArrowRight")
    settled(page)
    assert exact_threshold(page) == pytest.approx(curve.thresholds[k - 1], abs=1e-12)
    shown_right(page, experiment.test, experiment.fitted["COSMO"])


def test_gate(visitor: Visitor, report: Path, experiment: Experiment) -> None:
    page, outputs = visitor.open(report, "#gate"), experiment.test
    numbers_shown = page.locator("#panel-gate dl.numbers dd")
    for shown, rule in (("confidence", "COSMO"), ("max softmax", "Independent-Hard")):
        page.locator("#panel-gate select").select_option(shown)
        settled(page)
        score = experiment.fitted[rule].gate_.score(outputs)  # type: ignore[attr-defined]
        wanted = 100 * gate_auc(outputs.is_seen, score), 100 * fpr_at_tpr(outputs.is_seen, score)
        assert tuple(map(number, numbers_shown.all_text_contents()[:2])) == pytest.approx(wanted, abs=0.0501)
    page.locator("#panel-gate select").select_option("confidence")
    settled(page)
    line = page.get_by_role("slider", name="threshold of the gate")
    line.focus()
    for key in ("ArrowRight", "PageDown", "Home"):
        page.keyboard.press(key)
        settled(page)
        threshold = exact_threshold(page)
        assert float(line.get_attribute("aria-valuenow")) == threshold
        taken = experiment.fitted["COSMO"].gate_.score(outputs) >= threshold  # type: ignore[attr-defined]
        shares = [100 * taken[outputs.is_seen == side].mean() for side in (True, False)]
        assert list(map(number, numbers_shown.all_text_contents()[3:])) == pytest.approx(shares, abs=0.0501)
    # The threshold of the gate is that of the curve: the other views have moved with it.
    page.get_by_role("tab", name="Plane").click()
    settled(page)
    shown_right(page, experiment.test, experiment.fitted["COSMO"])


def test_ties_and_infinities(visitor: Visitor, report: Path) -> None:
    """What the page computes from scores that few data sets have, and what Python does."""
    page, random = visitor.open(report), np.random.default_rng(0)
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


def test_class_table(visitor: Visitor, report: Path, experiment: Experiment) -> None:
    page, outputs = visitor.open(report, "#classes"), experiment.test
    page.get_by_label("operating point, from all unseen to all seen").focus()
    page.keyboard.press("PageUp")  # not at the chosen point
    page.wait_for_timeout(300)
    rule = moved(experiment.fitted["COSMO"], exact_threshold(page))
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


def verdicts(experiment: Experiment, threshold: float) -> list[str]:
    """What became of every sample at a threshold, from the mixture itself."""
    outputs, rule = experiment.test, moved(experiment.fitted["COSMO"], threshold)
    after = rule.scores(outputs).argmax(axis=1)
    before = combine(
        outputs.seen, outputs.unseen, rule.belief(outputs), smoothing="none", dtype=np.float64
    ).argmax(axis=1)

    def one(truth: int, answer: int, unsmoothed: int) -> str:
        if answer == truth:
            return "correct" if unsmoothed == truth else "corrected by smoothing"
        if unsmoothed == truth:
            return "wrong by smoothing"
        return "expert wrong" if (answer < outputs.n_seen) == (truth < outputs.n_seen) else "gate wrong"

    return [one(*row) for row in zip(outputs.labels, after, before, strict=True)]


def test_walk_filters(visitor: Visitor, report: Path, experiment: Experiment) -> None:
    page = visitor.open(report, "#walk")
    chooser = page.get_by_label("samples to walk through")
    for press in (None, "PageUp", "Home"):
        if press:
            page.get_by_label("operating point, from all unseen to all seen").focus()
            page.keyboard.press(press)
            settled(page)
        counts = Counter(verdicts(experiment, exact_threshold(page)))
        wrong = len(experiment.test) - counts["correct"] - counts["corrected by smoothing"]
        wanted = {"all samples": len(experiment.test), "errors": wrong, **counts}
        for text in chooser.locator("option").all_text_contents():
            name, count = re.fullmatch(r"(.+) \(([\d,]+)\)", text).groups()  # type: ignore[union-attr]
            assert number(count) == wanted.get(name, 0), (name, press)
    page.get_by_role("tab", name="Plane").click()
    page.get_by_role("button", name="Back to the chosen point").click()
    page.get_by_role("tab", name="Walk-through").click()
    settled(page)
    found = verdicts(experiment, exact_threshold(page))
    for kind in sorted({*found}):
        chooser.select_option(VERDICTS[kind])
        settled(page)
        wanted = [i for i, verdict in enumerate(found) if verdict == kind]
        place = int(page.get_by_label("sample number").input_value()) - 1
        assert place in wanted
        assert page.locator("#panel-walk .sample .tag").last.text_content() == kind
        later = [i for i in wanted if i > place]
        page.get_by_role("button", name="next sample").click()
        settled(page)
        assert int(page.get_by_label("sample number").input_value()) - 1 == (later or [place])[0]


def test_walk_from_error_to_error(visitor: Visitor, report: Path, experiment: Experiment) -> None:
    found = verdicts(experiment, experiment.evaluations[-1].point.threshold)
    errors = [i for i, one in enumerate(found) if one not in ("correct", "corrected by smoothing")]
    at, path = found.index("corrected by smoothing", 1) - 1, []  # what smoothing fixed is no error
    page = visitor.open(report, f"#walk/COSMO/{at}")
    where = page.get_by_label("sample number")
    for _ in range(4):
        page.get_by_role("button", name="next error").click()
        settled(page)
        at = next(i for i in errors if i > at)
        assert where.input_value() == str(at + 1)
        path.append(at)
    page.get_by_role("button", name="previous error").click()
    settled(page)
    assert where.input_value() == str(path[-2] + 1)
    page.keyboard.press("j")
    settled(page)
    assert where.input_value() == str(path[-2] + 2)
    page.keyboard.press("k")
    settled(page)
    assert where.input_value() == str(path[-2] + 1)


@pytest.mark.parametrize("sample", [0, 199])
def test_walk_is_the_explanation(visitor: Visitor, report: Path, experiment: Experiment, sample: int) -> None:
    """At the chosen point and at another: what `Cosmo.explain` says of the sample's features."""
    page, data = visitor.open(report, f"#walk/COSMO/{sample}"), experiment.dataset
    rows = np.concatenate([np.sort(data.split.test_seen), np.sort(data.split.test_unseen)])
    assert page.get_by_label("sample number").input_value() == str(sample + 1)
    head = page.locator("#panel-walk .sample")
    assert data.labels[rows[sample]] in head.locator("dd").nth(1).text_content()
    for move in (False, True):
        if move:
            page.get_by_label("operating point, from all unseen to all seen").focus()
            page.keyboard.press("PageDown")
            settled(page)
        model = copy(experiment.model)
        model.combination_ = moved(model.combination_, exact_threshold(page))
        steps = model.explain(data.features[rows[[sample]]])
        outputs = model.outputs(data.features[rows[[sample]]])
        before = combine(outputs.seen, outputs.unseen, steps.p_unseen, smoothing="none", dtype=np.float64)[0]
        result = rows_of(saved(page, page.get_by_label('"Result before and after smoothing" as CSV')))
        assert len(result) == 1 + 5 + 5
        for name, domain, unsmoothed, smoothed in result[1:]:
            code = steps.classes.get_loc(name)
            assert domain == ("seen" if code < outputs.n_seen else "unseen")
            assert float(unsmoothed) == pytest.approx(before[code], abs=1e-5)
            assert float(smoothed) == pytest.approx(steps.proba[0, code], abs=1e-5)
        answer = steps.prediction[0]
        assert head.locator("strong").text_content() == str(answer)
        assert f"{100 * steps.proba[0].max():.1f} %" in head.text_content()
        gate = rows_of(saved(page, page.get_by_label('"Gate: p(S) and p(U)" as CSV')))[1]
        assert list(map(float, gate)) == pytest.approx(
            [steps.gate_score[0], exact_threshold(page), steps.p_unseen[0]], abs=1e-5
        )
        for side, proba in (("Seen", steps.seen), ("Unseen", steps.unseen)):
            drawing = page.locator(f'#panel-walk [role=img][aria-label^="{side} expert"]')
            for entry in drawing.get_attribute("aria-label").split(": ", 2)[2].split("; "):
                name, value = entry.rsplit(" ", 1)
                column = (steps.seen_classes if side == "Seen" else steps.unseen_classes).get_loc(name)
                assert float(value.removeprefix("<")) == pytest.approx(proba[0, column], abs=1.1e-3)


def test_address_leads_to_view_curve_and_sample(
    visitor: Visitor, report: Path, experiment: Experiment
) -> None:
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
