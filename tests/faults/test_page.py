"""The page of the documentation is the table of the tests."""

from __future__ import annotations

from pathlib import Path

from page import page

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_up_to_date():
    told = "run: python tests/faults/page.py > docs/bad-input.md"
    assert (DOCS / "bad-input.md").read_text(encoding="utf-8") == page(), told
