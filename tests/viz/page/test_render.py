"""The page as one file."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from cosmo.data import DataError
from cosmo.viz.page import read_view, render_page

SCRIPT = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
VIEW: dict[str, Any] = {
    "format": 1,
    "kind": "run",
    "title": f'On {SCRIPT} & "birds"',
    "lead": SCRIPT,
    "version": "0",
    "arrays": [],
    "sets": [],
}


class Page(HTMLParser):
    """Elements with their attributes, and what is in scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.content: dict[str, list[str]] = {"script": [], "style": []}
        self.inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = tag
        if tag in self.content:
            self.content[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside in self.content:
            self.content[self.inside][-1] += data


@pytest.fixture(scope="module")
def page() -> str:
    return render_page(VIEW)


def policy(page: Page) -> str:
    (found,) = (a["content"] for tag, a in page.tags if tag == "meta" and "http-equiv" in a)
    assert found is not None
    return found


def test_the_view_comes_back(page: str):
    assert read_view(page) == VIEW


def test_titles_are_text(page: str):
    assert SCRIPT not in page
    assert html.escape(SCRIPT, quote=False) in page
    found = Page(page)
    assert not any(tag == "img" for tag, _ in found.tags)
    assert len(found.content["script"]) == 3
    assert [a.get("id") for tag, a in found.tags if tag == "script"] == ["view", "live", None]


def test_policy_lets_only_its_own_script_and_style_run(page: str):
    found = Page(page)
    rules = policy(found)
    (style,) = found.content["style"]
    script = found.content["script"][2]
    for content, rule in ((script, "script-src"), (style, "style-src")):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}'" in rules
    assert rules.startswith("default-src 'none'")
    assert "unsafe" not in rules
    assert "connect-src" not in rules


def test_nothing_from_elsewhere(page: str):
    found = Page(page)
    for tag, attributes in found.tags:
        assert tag not in ("link", "iframe", "object", "embed", "base")
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name != "style", tag
            if name in ("src", "href", "action"):
                assert str(value).startswith(("#", "data:")), (tag, value)
    text = "".join(found.content["style"] + found.content["script"][2:])
    assert len(found.content["style"]) == 1
    assert "@import" not in text
    assert not re.search(r"\beval\(|new Function\(|innerHTML|document\.write", text)
    # Namespaces are names, not addresses.
    assert {*re.findall(r"https?://[\w./]*", text)} <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xhtml",
    }


def test_live():
    live = {"api": "/api", "attributes": ["</script><b>", "a&b"]}
    found = Page(render_page(VIEW, live=live))
    assert json.loads(found.content["script"][1]) == live
    assert "<" not in found.content["script"][1]
    assert "connect-src 'self'" in policy(found)
    assert Page(render_page(VIEW)).content["script"][1] == "null"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html></html>",
        '<script id="view">',
        '<script id="view">AAAA',
        '<script id="views">AAAA</script>',
        "<script>" + 'id="view" ' * 100_000,
        '<script id="view" ' * 20_000,
    ],
)
def test_foreign_pages(text: str):
    with pytest.raises(DataError, match="not a report of cosmo"):
        read_view(text)
