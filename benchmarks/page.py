"""Speed of a report in Chromium: opening it, and dragging the operating point.

Opening is the wall time until the figures are drawn, the best of a few in a running browser; work is the time
of the main thread. Dragging is the work per move of the mouse on the plane, and per step of the slider in the
other views: below 16 ms no frame is late.

    python benchmarks/page.py cosmo-runs/CUB/report.html
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.table import Table

TIMES = 5
STEPS = 60
DRAWN = """() => new Promise((done) => {
    const look = () => (document.querySelector(".drawing svg") ? requestAnimationFrame(done)
        : requestAnimationFrame(look));
    cosmoPage.ready.then(look);
})"""
SETTLED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


class Page:
    """An open report with the timer of its main thread."""

    def __init__(self, browser: Any, report: Path) -> None:
        self._context = browser.new_context(viewport={"width": 1200, "height": 800})
        self.page = self._context.new_page()
        self._session = self._context.new_cdp_session(self.page)
        self._session.send("Performance.enable")
        begin = time.perf_counter()
        self.page.goto(report.resolve().as_uri(), wait_until="domcontentloaded")
        self.page.evaluate(DRAWN)
        self.seconds = time.perf_counter() - begin
        self.opening = self.work()

    def work(self) -> float:
        """Milliseconds that the main thread has worked so far."""
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        return 1000 * next(one["value"] for one in metrics if one["name"] == "TaskDuration")

    def drag(self) -> float:
        """Milliseconds of work for each move of the mouse along the curve."""
        handle = self.page.locator(".handle")
        handle.scroll_into_view_if_needed()
        box = handle.locator("circle").nth(1).bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        before = self.work()
        for step in range(STEPS):
            self.page.mouse.move(x + step, y + step)
            self.page.evaluate(SETTLED)
        found = (self.work() - before) / STEPS
        self.page.mouse.up()
        return found

    def step(self, view: str) -> float:
        """Milliseconds of work for each step of the slider while a view is shown."""
        self.page.locator(f"#tab-{view}").click()
        self.page.locator(".operating input[type=range]").focus()
        self.page.evaluate(SETTLED)
        before = self.work()
        for _ in range(STEPS):
            self.page.keyboard.press("ArrowRight")
            self.page.evaluate(SETTLED)
        return (self.work() - before) / STEPS

    def close(self) -> None:
        self._context.close()


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("reports", nargs="+", type=Path, metavar="REPORT")
    args = options.parse_args()
    views = ("gate", "classes", "walk")
    table = Table(
        "report", "MB", "opening, s", "its work, ms", "drag, ms", *(f"{view}, ms" for view in views)
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"), args=["--no-sandbox"]
        )
        for report in args.reports:
            pages = []
            for _ in range(TIMES):
                pages.append(Page(browser, report))
                if len(pages) < TIMES:
                    pages[-1].close()
            last = pages[-1]
            there = [view for view in views if last.page.locator(f"#tab-{view}").count()]
            dragging = last.drag()
            steps = [f"{last.step(view):.1f}" if view in there else "" for view in views]
            last.close()
            table.add_row(
                str(report),
                f"{report.stat().st_size / 1e6:.1f}",
                f"{min(page.seconds for page in pages):.2f}",
                f"{min(page.opening for page in pages):.0f}",
                f"{dragging:.1f}",
                *steps,
            )
        browser.close()
    Console().print(table)


if __name__ == "__main__":
    main()
