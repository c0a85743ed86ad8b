"""The studio in a real browser: the real command on a model of glyphs, from the first visit to Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager

import numpy as np
import pytest
from chromium import check_names, number, operating, settled, until

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from cosmo import ESZSL
from cosmo.evaluation.evaluate import evaluate_unknown
from cosmo.io.discover import discover
from cosmo.io.model import Model, fit_model
from cosmo.metrics.accuracy import gzsl_scores

ENVIRONMENT = {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")}
NEW = "<b>new & 'quoted'</b>"


@pytest.fixture(scope="module")
def test_rows(data):
    return np.concatenate([data.split.test_seen, data.split.test_unseen])


@pytest.fixture(scope="module")
def folder(data, train, test_rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("studio")
    model = fit_model(*train, data.descriptions, unseen=ESZSL(1.0, 1.0), name="glyphs")
    model.save(folder / "glyphs.cosmo")
    np.savez(folder / "test.npz", X=data.features[test_rows], y=np.asarray(data.labels[test_rows], dtype=str))
    return folder


@contextmanager
def studio(folder, *arguments):
    """The address of a studio, which is stopped as by Ctrl-C and must end cleanly."""
    command = [sys.executable, "-m", "cosmo", "studio", *arguments, "--port", "0", "--no-browser", "-q"]
    with subprocess.Popen(
        command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            found = re.search(r"http://\S+", process.stdout.readline())
            yield found[0]
            process.send_signal(signal.SIGINT)
            _, complaints = process.communicate(timeout=30)
            assert "Traceback" not in complaints
            assert process.returncode in (0, 130)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def address(browser, folder):
    with studio(folder, "glyphs.cosmo", "test.npz") as address:
        yield address


@pytest.fixture
def model(folder):
    return Model.load(folder / "glyphs.cosmo")


def make_class(data):
    """A description like that of an unseen class, but stronger, so that it takes samples from it."""
    return (1.3 * data.descriptions.loc[data.unseen_classes[4]].to_numpy(dtype=np.float64)).tolist()


def open_view(page, name):
    page.get_by_role("tab", name=name).click()
    settled(page)


def classify(page, text):
    page.get_by_label("a row of features").fill(text)
    page.get_by_role("button", name="Classify").click()
    until(page, "!document.querySelector('#panel-try button[type=submit]').disabled")
    settled(page)


def test_answers_are_those_of_the_model(visitor, address, model, data, test_rows):
    page = visitor.open(address)
    assert "token" not in page.url, "the address can be shown to others"
    assert page.evaluate("document.cookie") == ""
    predicted = model.predict(data.features[test_rows])
    scores = gzsl_scores(data.labels[test_rows], predicted, data.seen_classes, data.unseen_classes)
    assert operating(page)["accH"] == pytest.approx(100 * scores.acc_h, abs=0.0501)
    open_view(page, "Try it")
    for place in (0, 60, 199):
        row = data.features[test_rows[place]]
        classify(page, ", ".join(map(str, row.tolist())))
        head = page.locator("#panel-try .sample")
        assert head.locator("strong").text_content() == str(predicted[place])
        probability = model.cosmo.predict_proba(row[None]).max()
        assert number(head.locator("dd").nth(1).text_content()) == pytest.approx(
            100 * probability, abs=0.0501
        )


def test_errors_of_a_row(visitor, address, data):
    page = visitor.open(address)
    open_view(page, "Try it")
    n, error = data.features.shape[1], page.locator("#panel-try .error")
    for text, sentence in (
        ("1, 2, 3", f"The model takes {n} numbers, this row has 3."),
        ("1, two, 3", 'Value 2, "two", is not a number'),
        ("", f"The model takes {n} numbers, this row has 0."),
    ):
        classify(page, text)
        assert sentence in error.text_content()
        assert page.locator("#panel-try .sample").is_hidden()
    # What only the server can tell.
    classify(page, " ".join(["1e38"] * n))
    assert "features" in error.text_content()
    visitor.forgive("status of 422")
    classify(page, " ".join(["0"] * n))
    assert error.count() == 0
    assert page.locator("#panel-try .sample").is_visible()


def test_add_keep_download_undo(visitor, address, model, data, test_rows, tmp_path):
    page = visitor.open(address)
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))
    X, y, new_class = data.features[test_rows], data.labels[test_rows], make_class(data)
    before = model.predict(X)
    model.add_classes({NEW: new_class})
    after = model.predict(X)
    open_view(page, "Add a class")
    page.get_by_label("name of the class").fill(NEW)
    page.get_by_label("attribute values").fill(", ".join(map(str, new_class)))
    page.get_by_role("button", name="Preview").click()
    keep = page.get_by_role("button", name="Add the class")
    keep.wait_for()
    card = page.locator("#panel-add .card").last
    taken = after == NEW
    assert taken.sum() > 0
    assert f"{taken.sum()} evaluated sample" in card.text_content()
    for column, predicted in ((1, before), (2, after)):
        scores = gzsl_scores(y, predicted, data.seen_classes, data.unseen_classes)
        column_cells = card.locator("table").first.locator(f"tbody tr > :nth-child({column + 1})")
        cells = column_cells.all_text_contents()
        assert list(map(number, cells)) == pytest.approx([100 * value for value in scores], abs=0.0501)
    whom = {
        row.locator("th").text_content(): int(row.locator("td").text_content())
        for row in card.locator("table").nth(1).locator("tbody tr").all()
    }
    assert whom == dict(Counter(map(str, before[taken])))
    assert card.locator("ul.samples li").count() == min(20, taken.sum())
    assert page.locator("#panel-add b").count() == 0, "a name is text"
    assert NEW not in page.evaluate("cosmoPage.state.set.names"), "a preview keeps nothing"

    page.get_by_label("name of the class").fill("something else")  # what was previewed is what is kept
    with page.expect_response("**/api/view"):
        keep.click()
    page.get_by_text(f'"{NEW}" is added to the running model.').wait_for()
    assert page.evaluate("cosmoPage.state.set.names").count(NEW) == 1
    settled(page)
    scores = gzsl_scores(y, after, data.seen_classes, data.unseen_classes)
    assert operating(page)["accTs"] == pytest.approx(100 * scores.acc_ts, abs=0.0501)
    assert page.evaluate("document.activeElement.id") == "tab-add"
    open_view(page, "Try it")
    classify(page, " ".join(map(str, X[np.flatnonzero(taken)[0]].tolist())))
    assert page.locator("#panel-try .sample strong").text_content() == NEW

    open_view(page, "Add a class")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the model").click()
    download.value.save_as(tmp_path / download.value.suggested_filename)
    loaded = Model.load(tmp_path / "model.cosmo")
    assert NEW in loaded.classes.index
    np.testing.assert_array_equal(loaded.predict(X), after)

    again = visitor.open(address)  # a second visit sees the kept class
    open_view(again, "Add a class")
    assert NEW in again.get_by_text("Added so far").text_content()

    open_view(page, "Add a class")
    page.get_by_role("button", name="Undo all changes").click()
    page.get_by_text("Back to the model as it was loaded.").wait_for()
    settled(page)
    assert NEW not in page.evaluate("cosmoPage.state.set.names")
    scores = gzsl_scores(y, before, data.seen_classes, data.unseen_classes)
    assert operating(page)["accTs"] == pytest.approx(100 * scores.acc_ts, abs=0.0501)


def test_errors_of_a_class(visitor, address, data):
    page, new_class = visitor.open(address), make_class(data)
    open_view(page, "Add a class")
    error = page.locator("#panel-add .error")
    look = page.get_by_role("button", name="Preview")
    page.get_by_label("name of the class").fill("new")
    page.get_by_label("attribute values").fill("1 2 3")
    look.click()
    error.get_by_text(f"A class has {len(new_class)} attributes, here are 3 values.").wait_for()
    page.get_by_label("attribute values").fill(" ".join(map(str, new_class)))
    page.get_by_label("name of the class").fill(str(data.seen_classes[0]))
    look.click()
    page.locator("#panel-add .error", has_text="there is a class").wait_for()
    visitor.forgive("status of 422")
    assert page.get_by_role("button", name="Add the class").count() == 0
    # Attributes one by one: the table and the row of numbers follow each other.
    page.get_by_text("attributes one by one").click()
    name = "::".join(data.descriptions.columns[2])
    page.get_by_label("filter attributes").fill(name)
    page.get_by_role("spinbutton", name=name, exact=True).fill("0.25")
    assert number(page.get_by_label("attribute values").input_value().split(",")[2]) == 0.25


def test_views_are_named_and_fit_a_phone(visitor, address, data):
    page = visitor.open(address, viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
    for name in ("Try it", "Add a class"):
        open_view(page, name)
        if name == "Try it":
            classify(page, " ".join(map(str, data.features[0].tolist())))
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        check_names(page, name)


def test_other_sites_get_nothing(browser, address):
    """A page of another origin, in the same browser, after the studio was opened in it."""
    tab = browser.new_page()
    tab.goto(address)
    base = address.partition("?")[0]
    other = base.replace("127.0.0.1", "localhost")  # another site, as far as cookies know
    tab.goto("about:blank")
    tab.set_content("<p>elsewhere</p>")
    fetch = """async ([url, options]) => {
        try { return (await fetch(url, options)).status } catch (error) { return error.name }
    }"""
    for url in (base, other):
        simple = {"method": "POST", "body": "{}", "mode": "no-cors", "credentials": "include"}
        assert tab.evaluate(fetch, [f"{url}api/classes/undo", {"credentials": "include"}]) == "TypeError"
        assert tab.evaluate(fetch, [f"{url}api/classes/undo", simple]) in (0, "TypeError")  # opaque
        assert tab.evaluate(fetch, [f"{url}api/health", {"headers": {"X-Cosmo": "1"}}]) == "TypeError"
    tab.set_content(f'<iframe src="{base}"></iframe>')
    tab.wait_for_timeout(500)
    frame = tab.frames[-1]
    assert "Plane" not in (frame.content() if frame is not tab.main_frame else "")
    tab.close()


def test_without_samples(visitor, folder, model, data, test_rows):
    """The hold-out rounds that the model recorded, with the names of their classes. Then Ctrl-C."""
    with studio(folder, "glyphs.cosmo") as address:
        page = visitor.open(address)
        tabs = ["Plane", "Gate", "Classes", "Calibration", "Try it", "Add a class"]
        assert page.get_by_role("tab").all_text_contents() == tabs
        assert page.get_by_text("No labelled samples were given").is_visible()
        names = page.evaluate("cosmoPage.state.set.names")
        seen = list(map(str, data.seen_classes))
        assert names == [*seen, *(f"{name} (held out)" for name in seen)]
        open_view(page, "Try it")
        row = data.features[test_rows[100]]
        classify(page, " ".join(map(str, row.tolist())))
        assert page.locator("#panel-try .sample strong").text_content() == str(model.predict(row[None])[0])
        open_view(page, "Add a class")
        page.get_by_label("name of the class").fill(NEW)
        page.get_by_label("attribute values").fill(" ".join(["1"] * data.descriptions.shape[1]))
        page.get_by_role("button", name="Preview").click()
        page.get_by_text("There are no evaluated samples").wait_for()
        until(page, "location.hash.startsWith('#add/')")  # the address follows the views a little later
        held = page.url
    # The page stays, and says why it cannot go on.
    page.get_by_role("button", name="Add the class").click()
    page.get_by_text("Is `cosmo studio` still running?").wait_for()
    assert page.url == held
    visitor.forgive("ERR_CONNECTION_REFUSED")


def test_unknown_samples(visitor, folder, model, data, test_rows):
    noise = np.random.default_rng(0).permuted(data.features[:60], axis=1)
    X = np.concatenate([data.features[test_rows], noise])
    y = [*np.asarray(data.labels[test_rows], dtype=str), *["other"] * len(noise)]
    np.savez(folder / "mixed.npz", X=X, y=np.array(y))
    expected = evaluate_unknown(model.cosmo, X, y, "other")
    with studio(folder, "glyphs.cosmo", "mixed.npz", "--unknown", "other") as address:
        page = visitor.open(address, viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
        open_view(page, "Unknown")
        check_names(page, "Unknown")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        panel = page.locator("#panel-unknown")
        assert number(panel.locator("dd").first.text_content()) == pytest.approx(
            100 * expected.auroc, abs=0.0501
        )
        cells = [number(text) for text in panel.locator("td").all_text_contents()]
        assert cells == pytest.approx((100 * expected.table.to_numpy()).ravel().tolist(), abs=0.0501)
        with page.expect_download() as download:
            panel.get_by_role("button", name="CSV").click()
        lines = download.value.path().read_text().splitlines()
        assert lines[0] == "answered,wrong"
        assert [float(line.split(",")[1]) for line in lines[1:]] == pytest.approx(expected.curve.tolist())
        open_view(page, "Rejects")
        page.get_by_label("samples of a group, at least").fill("5")
        page.get_by_role("button", name="Group the rejected samples").click()
        page.locator("#panel-rejects .card li").first.wait_for()
        check_names(page, "Rejects")
        found = discover(model, None, rows=X, smallest=5)
        names = page.locator("#panel-rejects .card h3").all_text_contents()[1:]
        assert names == found.groups.index.tolist()
        page.get_by_role("button", name="Describe a class from it").first.click()
        settled(page)
        assert page.get_by_label("name of the class").input_value() == names[0]
        values = [number(text) for text in page.get_by_label("attribute values").input_value().split(",")]
        assert values == pytest.approx(found.descriptions.iloc[0].tolist(), abs=1e-4)
        page.get_by_role("button", name="Preview").click()
        page.get_by_text("This is a preview").wait_for()
        open_view(page, "Try it")
        classify(page, ", ".join(map(str, noise[0].tolist())))
        conformity = model.cosmo.conformity(noise[:1])[0]
        shown = page.locator("#panel-try .sample dd").nth(2).text_content()
        assert number(shown.split("%")[0]) == pytest.approx(100 * conformity, abs=0.0501)
        assert ("unknown" in shown) == (conformity <= 0.05)


def test_set_the_operating_point(visitor, address, model, data, test_rows, tmp_path):
    """The share on the page becomes that of the running model, until it is undone."""
    page = visitor.open(address, "#plane")
    before = operating(page)
    keep = page.get_by_role("button", name="Set in the model")
    assert keep.is_hidden(), "the model operates there already"
    page.get_by_label("operating point, from all unseen to all seen").focus()
    page.keyboard.press("PageUp")
    settled(page)
    share = 1 / (1 + np.exp(-page.evaluate("cosmoPage.state.set.curves[cosmoPage.state.curve].now")))
    keep.click()
    page.get_by_text("The model now operates at share of unseen samples").wait_for()
    settled(page)
    assert operating(page)["threshold"] == pytest.approx(100 * share, abs=0.0501)
    model.cosmo.operate_at(unseen_share=share)
    predicted = model.predict(data.features[test_rows])
    scores = gzsl_scores(data.labels[test_rows], predicted, data.seen_classes, data.unseen_classes)
    assert operating(page)["accH"] == pytest.approx(100 * scores.acc_h, abs=0.0501)
    open_view(page, "Calibration")
    assert page.get_by_text("not the current one").count() == 0
    open_view(page, "Add a class")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the model").click()
    download.value.save_as(tmp_path / "model.cosmo")
    loaded = Model.load(tmp_path / "model.cosmo")
    assert loaded.cosmo.combination_.unseen_share == pytest.approx(share)
    page.get_by_role("button", name="Undo all changes").click()
    page.get_by_text("Back to the model as it was loaded.").wait_for()
    settled(page)
    assert operating(page) == before
