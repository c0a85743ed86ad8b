"""Pages in a real Chromium, driven by Playwright, for tests that need one."""

import csv
import io
import re
import shutil
from collections import Counter
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from scipy.special import expit

from cosmo import Cosmo
from cosmo.classifier.combinations import GatedMixture
from cosmo.evaluation.run import CALIBRATED, Experiment
from cosmo.metrics.accuracy import gzsl_scores
from cosmo.mixture.outputs import ExpertOutputs

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
QUIET += ["--disable-background-networking", "--disable-component-update"]
ROLES = {
    "button", "checkbox", "combobox", "image", "img", "link", "radio", "searchbox", "slider", "spinbutton",
    "tab", "tabpanel", "textbox",
}  # fmt: skip


@contextmanager
def chromium():
    """A running browser; skips where there is none.

    Playwright keeps an event loop in its thread while it runs, which `asyncio.run` of other tests does not
    bear: let no fixture of this outlive its module.
    """
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("there is no Chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=QUIET)
        try:
            yield browser
        finally:
            browser.close()


class Visitor:
    """Opens pages, each in a context of its own, and notes whatever they should not do."""

    def __init__(self, browser):
        self.complaints = []
        self._browser = browser
        self._contexts = []

    def open(self, address, part="", *, wait=True, **options):
        """Open an address or a file, at the `#part` of it; `options` are those of the context."""
        home = address.as_uri() if isinstance(address, Path) else address
        context = self._browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **options})
        context.set_default_timeout(15_000)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: message.type in ("error", "warning") and self._note(message.text))
        page.on("pageerror", lambda error: self._note(f"uncaught: {error}"))
        page.on("request", lambda request: self._check(request.url, home))
        page.goto(home + part)
        if wait:
            page.evaluate("cosmoPage.ready")
            settled(page)
        return page

    def _note(self, complaint):
        self.complaints.append(complaint)

    def _check(self, url, home):
        there, here = urlsplit(url), urlsplit(home)
        own = (there.scheme, there.netloc) == (here.scheme, here.netloc)
        if there.scheme == "file":
            own = own and there.path == here.path
        if not own and there.scheme not in ("data", "blob"):
            self._note(f"request to {url}")

    def forgive(self, pattern):
        """Take back the complaints that a test provokes; there must be one."""
        kept = [complaint for complaint in self.complaints if not re.search(pattern, complaint)]
        assert len(kept) < len(self.complaints), f"nothing like {pattern!r} in {self.complaints}"
        self.complaints = kept

    def leave(self):
        """Close everything; nothing may be left to complain about."""
        for context in self._contexts:
            context.close()
        assert self.complaints == []


def settled(page):
    """Wait for the next frame: a page redraws once per frame."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def until(page, expression):
    """Wait until an expression holds; Playwright's own waiting needs `eval`, which the page forbids."""
    for _ in range(300):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(20)
    raise AssertionError(f"this never came true: {expression}")


def operating(page):
    """What the bar above the views says: accuracies in percent, and the threshold or share."""
    shown = page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll(".operating dl > div")].map(
            (one) => [one.className, one.querySelector("dd").textContent]))"""
    )
    return {key: number(text) for key, text in shown.items()}


def exact_threshold(page):
    """The threshold of the current curve, of which the page shows three digits."""
    return float(page.evaluate("cosmoPage.state.set.curves[cosmoPage.state.curve].now"))


def number(text):
    """A number as the page writes it."""
    return float(text.replace("−", "-").replace(",", "").removesuffix("%").strip(" <>"))


def moved(rule, threshold):
    """The same rule at another threshold."""
    rule = copy(rule)
    rule.operating_point_ = rule.operating_point_._replace(threshold=threshold)
    return rule


class Shown(NamedTuple):
    """A report, and what it shows when it opens."""

    report: Path
    experiment: Experiment
    name: str
    model: Cosmo
    outputs: ExpertOutputs


def way_of(experiment, name):
    """The outputs and the rule of a curve of a report."""
    if name != CALIBRATED:
        return experiment.test, experiment.fitted[name]
    return experiment.calibrated_test, experiment.calibrated.combination_


def shown_right(page, outputs, rule):
    """What the plane shows of the current curve is what its predictions give, where it is operated now."""
    threshold, bar, classes = exact_threshold(page), operating(page), outputs.classes
    if isinstance(rule, GatedMixture) and rule.unseen_share is not None:
        share = min(99.9, max(0.1, 100 * expit(threshold)))  # Beyond these it shows "<" or ">".
        assert bar["threshold"] == pytest.approx(share, abs=0.0501)
    else:
        assert bar["threshold"] == pytest.approx(threshold, abs=5.1e-4, rel=5.1e-4)
    rule = moved(rule, threshold)
    scores = gzsl_scores(
        classes[outputs.labels], classes[rule.predict(outputs)], outputs.seen_classes, outputs.unseen_classes
    )
    assert (bar["accTs"], bar["accTr"], bar["accH"]) == pytest.approx(
        tuple(100 * value for value in scores), abs=0.0501
    )
    assert rule.curve(outputs).at(threshold) == pytest.approx(scores)
    unseen, is_seen = rule.takes_for_unseen(outputs), outputs.is_seen
    counts = [int((unseen == to)[is_seen == of].sum()) for of in (True, False) for to in (False, True)]
    cells = page.locator(".confusion td").all_text_contents()
    assert [number(cell.partition("(")[0]) for cell in cells] == counts


def class_table(page):
    found = page.evaluate(
        """() => [...document.querySelectorAll("table.classes tbody tr")].map(
            (row) => [...row.cells].map((cell) => cell.textContent.trim()))"""
    )
    return found


def check_names(page, view):
    """Check that every control and image has a name for screen readers."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", "").strip())
        for node in nodes
        if not node["ignored"] and node.get("role", {}).get("value") in ROLES
    ]
    roles = Counter(role for role, _ in named)
    assert roles["tab"] >= 4
    assert roles["button"] >= 2, view
    assert [role for role, name in named if not name] == [], view
    assert page.evaluate("[...document.images].filter((one) => !one.alt).length") == 0


def saved(page, button):
    """The file that a button offers."""
    from playwright.sync_api import TimeoutError as NoDownload

    # Headless Chromium drops a download now and then.
    for timeout in (15_000, 60_000):
        try:
            with page.expect_download(timeout=timeout) as download:
                button.click()
            return Path(download.value.path()).read_bytes()
        except NoDownload:
            pass
    raise AssertionError("no file was offered")


def rows_of(content):
    """The rows of a CSV file."""
    return list(csv.reader(io.StringIO(content.decode(), newline="")))
