"""Writes the pictures of the page that the documentation shows: `docs/images/page-*.png`.

The report is that of `make demo`; the studio runs on a model of the same rows.

    python docs/make_screenshots.py [FOLDER]
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

from cosmo import ESZSL
from cosmo._core.files import write_atomic
from cosmo.data import GZSLDataset, load_glyphs
from cosmo.evaluation.run import run_experiment
from cosmo.io.model import fit_model
from cosmo.viz.page import write_report

IMAGES = Path(__file__).parent / "images"
DESK = {"viewport": {"width": 1200, "height": 800}}
PHONE = {"viewport": {"width": 390, "height": 780}, "is_mobile": True, "device_scale_factor": 1.5}
MOST_BYTES = 80_000
SETTLED = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 300)))"
# Everything above the views scrolls away; the bar with the views stays.
TO_THE_VIEWS = "() => document.querySelector('[role=tabpanel]:not([hidden])').scrollIntoView()"


def small(png: bytes) -> bytes:
    """Return an image with as many colours as fit into 80 kB."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    for colours in (256, 128, 64, 32):
        content = io.BytesIO()
        reduced = picture.quantize(colours, Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE)
        reduced.save(content, "PNG", optimize=True)
        if len(content.getvalue()) < MOST_BYTES:
            break
    return content.getvalue()


class Camera:
    """Takes screenshots of views."""

    def __init__(self, browser: Any, folder: Path) -> None:
        self._browser, self._folder = browser, folder

    def open(self, address: str, **options: Any) -> Any:
        """Open a page and wait until it is drawn."""
        page = self._browser.new_context(**(options or DESK)).new_page()
        page.goto(address)
        page.evaluate("cosmoPage.ready")
        page.evaluate(SETTLED)
        return page

    def take(self, page: Any, name: str, *, scroll: bool = True) -> None:
        """Write a screenshot, by default from the views on."""
        if scroll:
            page.evaluate(SETTLED)
            page.evaluate(TO_THE_VIEWS)
        page.evaluate(SETTLED)
        content = small(page.screenshot())
        write_atomic(self._folder / f"page-{name}.png", content)
        print(f"page-{name}.png: {len(content) / 1000:.0f} kB")


@contextmanager
def studio(data: GZSLDataset, folder: Path) -> Iterator[str]:
    """The address of a studio on a model of the data and its test samples."""
    train, test = data.split.trainval, np.concatenate([data.split.test_seen, data.split.test_unseen])
    fit_model(
        data.features[train], data.labels[train], data.descriptions, unseen=ESZSL(1.0, 1.0), name="glyphs"
    ).save(folder / "glyphs.cosmo")
    np.savez(folder / "glyphs.npz", X=data.features[test], y=np.asarray(data.labels[test], dtype=str))
    command = [sys.executable, "-m", "cosmo", "studio", "glyphs.cosmo", "glyphs.npz", "--port", "0"]
    with subprocess.Popen(
        [*command, "--no-browser", "-q"], cwd=folder, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+", process.stdout.readline())
            assert found is not None
            yield found[0]
        finally:
            process.terminate()


def main() -> None:
    """Write all screenshots."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    folder.mkdir(parents=True, exist_ok=True)
    data = load_glyphs()
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        report = write_report(run_experiment(data), scratch).as_uri()
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"), args=["--no-sandbox"]
        )
        camera = Camera(browser, folder)
        camera.take(camera.open(report), "top", scroll=False)
        page = camera.open(report)
        camera.take(page, "answers")
        page.locator("#tab-plane").click()
        camera.take(page, "plane")
        page.locator("#tab-gate").click()
        camera.take(page, "gate")
        page.locator("#tab-classes").click()
        page.get_by_label("domain").select_option("unseen")
        page.locator("table.classes tbody button").nth(4).click()
        camera.take(page, "classes")
        page.locator("#tab-walk").click()
        page.get_by_label("samples to walk through").select_option("gate")
        page.evaluate(SETTLED)
        camera.take(page, "walk")
        page.locator("#tab-calibration").click()
        camera.take(page, "calibration")
        phone = camera.open(report + "#walk//17", **PHONE)
        camera.take(phone, "phone")
        dark = camera.open(report + "#plane", **DESK, color_scheme="dark")
        camera.take(dark, "dark")
        with studio(data, Path(scratch)) as address:
            page = camera.open(address)
            page.locator("#tab-try").click()
            row = data.features[data.split.test_unseen[7]]
            page.get_by_label("a row of features").fill(", ".join(f"{value:.4g}" for value in row))
            page.get_by_role("button", name="Classify").click()
            page.locator("#panel-try .sample dl").wait_for()
            camera.take(page, "try")
            page.locator("#tab-add").click()
            page.get_by_label("name of the class").fill("Ș")
            new = data.descriptions.loc["Ş"].copy()
            new["mark"] = 0.5 * new["mark"]  # a comma below is not quite a cedilla
            page.get_by_label("attribute values").fill(", ".join(f"{value:g}" for value in new))
            page.get_by_role("button", name="Preview").click()
            page.get_by_role("button", name="Add the class").wait_for()
            camera.take(page, "add")
        browser.close()


if __name__ == "__main__":
    main()
