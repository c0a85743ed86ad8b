"""The page as one file."""

import base64
import hashlib
import html
import json
import re
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest
from view_arrays import unpack

from cosmo.data import DataError
from cosmo.viz.page import read_view, render, render_page
from cosmo.viz.page.render import Arrays, compress, decompress, to_json_value

SCRIPT = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
VIEW = {"format": 1, "kind": "run", "title": f'On {SCRIPT} & "birds 🐦"', "lead": SCRIPT}
VIEW |= {"version": "0", "arrays": [], "sets": []}


class Page(HTMLParser):
    """Elements with their attributes, and what is in scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.content = {"script": [], "style": []}
        self.inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag
        if tag in self.content:
            self.content[tag].append("")

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside in self.content:
            self.content[self.inside][-1] += data


@pytest.fixture(scope="module")
def page():
    return render_page(VIEW)


def policy(page):
    (found,) = (a["content"] for tag, a in page.tags if tag == "meta" and "http-equiv" in a)
    return found


def test_the_view_comes_back(page):
    assert read_view(page) == VIEW


def test_titles_are_text(page):
    assert SCRIPT not in page
    assert html.escape(SCRIPT, quote=False) in page
    found = Page(page)
    assert not any(tag == "img" for tag, _ in found.tags)
    assert len(found.content["script"]) == 3
    assert [a.get("id") for tag, a in found.tags if tag == "script"] == ["view", "live", None]


def test_policy_lets_only_its_own_script_and_style_run(page):
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


def test_nothing_from_elsewhere(page):
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
def test_foreign_pages(text):
    with pytest.raises(DataError, match="not a report of cosmo"):
        read_view(text)


def packed(content):
    return base64.b64encode(zlib.compress(content)).decode()


class TestArrays:
    @pytest.mark.parametrize("kind", ["f8", "f4", "u1", "u2", "u4", "i4"])
    def test_round_trip(self, kind):
        arrays = Arrays()
        values = np.arange(12).reshape(4, 3)
        found = unpack(arrays.entries[arrays.add(values, kind)])
        np.testing.assert_array_equal(found, values)
        assert found.dtype == np.dtype(f"<{kind}")

    def test_equal_arrays_are_stored_once(self):
        arrays = Arrays()
        values = np.arange(6)
        assert arrays.add(values, "u2") == arrays.add(values[::1].copy(), "u2") == 0
        # The same bytes with another shape or type are something else.
        assert arrays.add(values.reshape(2, 3), "u2") == 1
        assert arrays.add(values, "u4") == 2
        assert len(arrays.entries) == 3


class TestPlain:
    def test_what_json_has(self):
        value = {1: (np.float32(0.5), np.int8(3), np.bool_(True), None), "b": np.array([np.inf, np.nan, 1.0])}
        assert to_json_value(value) == {"1": [0.5, 3, True, None], "b": [None, None, 1.0]}
        assert json.loads(json.dumps(to_json_value(value), allow_nan=False)) == to_json_value(value)


class TestCompress:
    def test_what_browsers_decompress(self):
        content = base64.b64decode(compress(VIEW))
        assert json.loads(zlib.decompress(content).decode("utf-8")) == VIEW  # "deflate" is zlib's format

    def test_half_a_surrogate_pair(self):
        assert decompress(compress({**VIEW, "title": "a\ud800b"}))["title"] == "a?b"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "cannot be decompressed|truncated"),
            ("!!", "cannot be decompressed"),
            (base64.b64encode(b"no zlib").decode(), "cannot be decompressed"),
            (packed(b"[1"), "not JSON"),
            (packed(b"\xff"), "not JSON"),
            (packed(b"[" * 100_000), "not JSON"),
            (packed(b"[]"), "not of format 1"),
            (packed(b'{"format": 2}'), "not of format 1"),
            (packed(b'{"format": 1, "kind": "run", "arrays": []}'), "lacks its kind, arrays or sets"),
            (packed(b'{"format": 1, "kind": "x", "arrays": [], "sets": []}'), "lacks its kind"),
            (packed(b'{"format": 1, "kind": "run", "arrays": [3], "sets": []}'), "lacks its kind"),
            (packed(b'{"format": 1, "kind": [], "arrays": [], "sets": []}'), "lacks its kind"),
        ],
    )
    def test_foreign(self, text, message):
        with pytest.raises(DataError, match=message):
            decompress(text)

    def test_cut_off_anywhere(self):
        text = compress({**VIEW, "lead": "word " * 50})
        for end in range(4, len(text) - 1, 7):
            with pytest.raises(DataError):
                decompress(text[:end])

    def test_something_behind_its_end(self):
        content = base64.b64decode(compress(VIEW)) + b"more"
        with pytest.raises(DataError, match="after its end"):
            decompress(base64.b64encode(content).decode())

    def test_a_bomb(self, monkeypatch):
        monkeypatch.setattr(render, "_MAX_VIEW_BYTES", 1_000_000)
        bomb = packed(b" " * 3_000_000)
        assert len(bomb) < 10_000
        with pytest.raises(DataError, match="larger than 1000000 bytes"):
            decompress(bomb)
