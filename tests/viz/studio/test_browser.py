"""The studio in a real browser: the address opens it, and nothing that the page does is forbidden to it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmo.viz.studio.live import Samples

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ENVIRONMENT = {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")}


@pytest.fixture(scope="module")
def address(model_file: Path, samples: Samples, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    test = tmp_path_factory.mktemp("samples") / "test.npz"
    np.savez(test, X=samples.rows, y=np.asarray(samples.labels, dtype=str))
    command = [sys.executable, "-m", "cosmo", "studio", str(model_file), str(test)]
    with subprocess.Popen(
        [*command, "--port", "0", "--no-browser", "-q"], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        try:
            assert found is not None
            yield found[0]
        finally:
            process.kill()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield running
        finally:
            running.close()


@pytest.fixture
def tab(chromium: Any) -> Iterator[Any]:
    """A tab that shares nothing with other tabs: `new_page` makes a context of its own."""
    page = chromium.new_page()
    yield page
    page.close()


def test_open_ask_and_add(address: str, tab: Any, samples: Samples, new_class: list[float]):
    complaints: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.goto(address)
    assert "token" not in tab.url
    assert tab.evaluate("document.cookie") == ""
    tab.get_by_role("tab", name="Try it").click()
    tab.get_by_label("a row of features").fill(", ".join(map(str, samples.rows[0].tolist())))
    with tab.expect_response("**/api/predict") as answer:
        tab.get_by_role("button", name="Classify").click()
    assert answer.value.status == 200
    tab.get_by_role("tab", name="Add a class").click()
    tab.get_by_label("name of the class").fill("<b>neu</b>")
    tab.get_by_label("attribute values").fill(", ".join(map(str, new_class)))
    tab.get_by_role("button", name="See what changes").click()
    with tab.expect_response("**/api/view") as view:
        tab.get_by_role("button", name="Keep it").click()
    assert view.value.status == 200
    with tab.expect_download() as download:
        tab.get_by_text("Download the model").click()
    assert download.value.suggested_filename == "model.cosmo"
    assert complaints == []


def test_other_sites_get_nothing(address: str, tab: Any):
    """A page of another origin, in the same browser, after the studio was opened in it."""
    tab.goto(address)
    base = address.partition("?")[0]
    other = base.replace("127.0.0.1", "localhost")  # another site, as far as cookies know
    tab.goto("about:blank")
    tab.set_content("<p>elsewhere</p>")
    ask = """async ([url, options]) => {
        try { return (await fetch(url, options)).status } catch (error) { return error.name }
    }"""
    for url in (base, other):
        simple = {"method": "POST", "body": "{}", "mode": "no-cors", "credentials": "include"}
        assert tab.evaluate(ask, [f"{url}api/classes/undo", {"credentials": "include"}]) == "TypeError"
        assert tab.evaluate(ask, [f"{url}api/classes/undo", simple]) in (
            0,
            "TypeError",
        )  # opaque, and refused
        assert tab.evaluate(ask, [f"{url}api/health", {"headers": {"X-Cosmo": "1"}}]) == "TypeError"
    tab.set_content(f'<iframe src="{base}"></iframe>')
    tab.wait_for_timeout(500)
    frame = tab.frames[-1]
    assert "Plane" not in (frame.content() if frame is not tab.main_frame else "")
