"""Views as text."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np
import pytest
from view_arrays import unpack

from cosmo.data import DataError
from cosmo.viz.page import render
from cosmo.viz.page.render import Arrays, compress, decompress, to_json_value

VIEW: dict[str, Any] = {"format": 1, "kind": "run", "title": "Vögel 🐦", "arrays": [], "sets": []}


def packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content)).decode()


class TestArrays:
    @pytest.mark.parametrize("kind", ["f8", "f4", "u1", "u2", "u4", "i4"])
    def test_round_trip(self, kind: str):
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
    def test_round_trip(self):
        assert decompress(compress(VIEW)) == VIEW
        assert compress(VIEW) == compress(dict(VIEW))

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
    def test_foreign(self, text: str, message: str):
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

    def test_a_bomb(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(render, "_MAX_VIEW_BYTES", 1_000_000)
        bomb = packed(b" " * 3_000_000)
        assert len(bomb) < 10_000
        with pytest.raises(DataError, match="larger than 1000000 bytes"):
            decompress(bomb)
