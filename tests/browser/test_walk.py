"""The walk-through in a real browser: the steps that `Cosmo.explain` returns."""

import re
from collections import Counter
from copy import copy
from urllib.parse import quote

import numpy as np
import pytest
from chromium import exact_threshold, moved, number, rows_of, saved, settled

from cosmo.mixture.smoothing import combine

VERDICTS = {
    "correct": "right",
    "corrected by smoothing": "fixed",
    "wrong by smoothing": "broke",
    "gate wrong": "gate",
    "expert wrong": "expert",
}


def verdicts(shown, threshold):
    """What became of every sample at a threshold, from the mixture itself."""
    outputs, rule = shown.outputs, moved(shown.model.combination_, threshold)
    after = rule.scores(outputs).argmax(axis=1)
    before = combine(
        outputs.seen, outputs.unseen, rule.belief(outputs), smoothing="none", dtype=np.float64
    ).argmax(axis=1)

    def one(truth, answer, unsmoothed):
        if answer == truth:
            return "correct" if unsmoothed == truth else "corrected by smoothing"
        if unsmoothed == truth:
            return "wrong by smoothing"
        return "expert wrong" if (answer < outputs.n_seen) == (truth < outputs.n_seen) else "gate wrong"

    return [one(*row) for row in zip(outputs.labels, after, before, strict=True)]


def test_walk_filters(visitor, shown):
    page, smoothed = visitor.open(shown.report, "#walk"), shown.model.combination_.smoothing != "none"
    chooser = page.get_by_label("samples to walk through")
    for press in (None, "PageUp", "Home"):
        if press:
            page.get_by_label("operating point, from all unseen to all seen").focus()
            page.keyboard.press(press)
            settled(page)
        counts = Counter(verdicts(shown, exact_threshold(page)))
        wrong = len(shown.outputs) - counts["correct"] - counts["corrected by smoothing"]
        wanted = {"all samples": len(shown.outputs), "errors": wrong, **counts}
        options = chooser.locator("option").all_text_contents()
        assert len(options) == (7 if smoothed else 5)
        assert smoothed == any("smoothing" in text for text in options)
        for text in options:
            name, count = re.fullmatch(r"(.+) \(([\d,]+)\)", text).groups()
            assert number(count) == wanted.get(name, 0), (name, press)
    page.get_by_role("tab", name="Plane").click()
    page.get_by_role("button", name="Back to the chosen point").click()
    page.get_by_role("tab", name="Walk-through").click()
    settled(page)
    found = verdicts(shown, exact_threshold(page))
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


def test_walk_from_error_to_error(visitor, shown):
    found = verdicts(shown, shown.experiment.evaluations[-1].point.threshold)
    errors = [i for i, one in enumerate(found) if one not in ("correct", "corrected by smoothing")]
    right = "corrected by smoothing" if "corrected by smoothing" in found else "correct"
    at, path = found.index(right, 1) - 1, []  # what smoothing fixed is no error
    page = visitor.open(shown.report, f"#walk/{quote(shown.name)}/{at}")
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
def test_walk_is_the_explanation(visitor, shown, sample):
    """At the chosen point and at another: what `Cosmo.explain` says of the sample's features."""
    page = visitor.open(shown.report, f"#walk/{quote(shown.name)}/{sample}")
    data, smoothed = shown.experiment.dataset, shown.model.combination_.smoothing != "none"
    title = "Result before and after smoothing" if smoothed else "Result: p(y)"
    rows = np.concatenate([np.sort(data.split.test_seen), np.sort(data.split.test_unseen)])
    assert page.get_by_label("sample number").input_value() == str(sample + 1)
    head = page.locator("#panel-walk .sample")
    assert data.labels[rows[sample]] in head.locator("dd").nth(1).text_content()
    for move in (False, True):
        if move:
            page.get_by_label("operating point, from all unseen to all seen").focus()
            page.keyboard.press("PageDown")
            settled(page)
        model = copy(shown.model)
        model.combination_ = moved(model.combination_, exact_threshold(page))
        steps = model.explain(data.features[rows[[sample]]])
        outputs = model.outputs(data.features[rows[[sample]]])
        before = combine(outputs.seen, outputs.unseen, steps.p_unseen, smoothing="none", dtype=np.float64)[0]
        result = rows_of(saved(page, page.get_by_label(f'"{title}" as CSV')))
        assert len(result) == 1 + 5 + 5
        for name, domain, *stages in result[1:]:
            code = steps.classes.get_loc(name)
            assert domain == ("seen" if code < outputs.n_seen else "unseen")
            wanted = [before[code], steps.proba[0, code]] if smoothed else [steps.proba[0, code]]
            assert list(map(float, stages)) == pytest.approx(wanted, abs=1e-5)
            assert all(0 <= float(stage) <= 1 for stage in stages)
        answer = steps.prediction[0]
        assert head.locator("strong").text_content() == str(answer)
        assert f"{100 * steps.proba[0].max():.1f} %" in head.text_content()
        gate = rows_of(saved(page, page.get_by_label('"Gate: known or new class, p(S) and p(U)" as CSV')))[1]
        assert list(map(float, gate)) == pytest.approx(
            [steps.gate_score[0], exact_threshold(page), steps.p_unseen[0]], abs=1e-5
        )
        for side, proba in (("known", steps.seen), ("new", steps.unseen)):
            drawing = page.locator(f'#panel-walk [role=img][aria-label^="Expert for {side} classes"]')
            for entry in drawing.get_attribute("aria-label").split(": ", 2)[2].split("; "):
                name, value = entry.removesuffix(" %").rsplit(" ", 1)
                column = (steps.seen_classes if side == "known" else steps.unseen_classes).get_loc(name)
                wanted = proba[0, column] if smoothed else 100 * proba[0, column]
                assert number(value) == pytest.approx(wanted, abs=1.1e-3 if smoothed else 0.11)
        if not smoothed:  # What is shown multiplies out.
            final = {row[0]: float(row[2]) for row in result[1:]}
            p_unseen = float(gate[2])
            for letter, own in (("S", 1 - p_unseen), ("U", p_unseen)):
                button = page.get_by_label(f'p(y | {letter})" as CSV')
                for name, value in rows_of(saved(page, button))[1:]:
                    assert float(value) * own == pytest.approx(final[name], abs=1e-9)
