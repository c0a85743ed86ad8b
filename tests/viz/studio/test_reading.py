"""What a request may bring."""

from __future__ import annotations

import io
import json
import struct
import zlib

import pytest
from PIL import Image

from cosmo.viz.studio.limits import Refusal
from cosmo.viz.studio.reading import check_keys, check_picture, numbers_of, read_json, words_of


def picture(kind: str = "PNG", size: tuple[int, int] = (8, 6)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, "red").save(file, kind)
    return file.getvalue()


def bomb(side: int) -> bytes:
    """A PNG of a few bytes that claims to have side * side pixels."""

    def chunk(name: bytes, content: bytes) -> bytes:
        body = name + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 10_000))
        + chunk(b"IEND", b"")
    )


class TestJSON:
    def test_numbers_become_floats(self):
        assert read_json(b'{"a": [1, 2.5, -3e2]}') == {"a": [1.0, 2.5, -300.0]}

    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            (b'{"a": NaN}', "NaN is no number"),
            (b'{"a": [-Infinity]}', "-Infinity is no number"),
            (b"{", "not JSON"),
            (b"", "not JSON"),
            (b"\xff\xfe\x00", "not JSON"),
            (b"[1, 2]", "must be a JSON object with named fields, got a list"),
            (b'"text"', "got text"),
            (b"null", "got null"),
            (b"[" * 50_000, "nested too deep"),
            (b'{"a":' * 20_000 + b"1" + b"}" * 20_000, "nested too deep"),
        ],
        ids=["nan", "infinity", "cut", "empty", "bytes", "list", "text", "null", "deep list", "deep object"],
    )
    def test_what_is_refused(self, body: bytes, reason: str):
        with pytest.raises(Refusal, match=reason) as caught:
            read_json(body)
        assert caught.value.status == 400

    def test_unknown_fields_are_named(self):
        check_keys({"text": ""}, "text", "features")
        with pytest.raises(Refusal, match="unknown field 'path'; known are text, features"):
            check_keys({"path": "/etc/passwd"}, "text", "features")


class TestNumbers:
    def test_by_name_in_any_order(self):
        assert numbers_of({"b": 2.0, "a": 1.0}, "values", ["a", "b"]) == [1.0, 2.0]

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            ("[1]", "values must be 2 numbers, got 1"),
            ("[1, 2, 3]", "values must be 2 numbers, got 3"),
            ("[1, 1e999]", "number 2 is too large"),
            (f"[{'9' * 6000}, 1]", "number 1 is too large"),
            ("[1, 1e39]", "number 2 is too large"),
            ("[1, true]", "number 2 is true or false"),
            ('[1, "2"]', "number 2 is text"),
            ("[1, null]", "number 2 is null"),
            ("[[1], [2]]", "number 1 is a list"),
            ('"12"', "must be a list of 2 numbers, got text"),
            ("null", "must be a list of 2 numbers, got null"),
            ('{"a": 1}', "the attribute 'b' is missing"),
            ('{"a": 1, "b": 2, "c": 3}', "no attribute 'c'"),
        ],
    )
    def test_what_is_refused(self, content: str, reason: str):
        value = json.loads(content, parse_int=float)
        with pytest.raises(Refusal, match=reason) as caught:
            numbers_of(value, "values", ["a", "b"])
        assert caught.value.status == 422

    def test_features_have_no_names(self):
        with pytest.raises(Refusal, match="must be a list of 2 numbers, got an object"):
            numbers_of({"a": 1.0}, "features", 2)


class TestWords:
    @pytest.mark.parametrize("name", ["okapi", "Ärger 7", "<script>1</script>", "../../etc/passwd", "👩‍🔬"])
    def test_names_that_are_taken(self, name: str):
        assert words_of(f" {name} ", "the name", 200, one_line=True) == name

    def test_the_same_letters_are_the_same_name(self):
        assert words_of("e\u0301", "the name", 200) == "\u00e9"

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("", "is empty"),
            (" \t ", "is empty"),
            ("a\nb", r"has the control character U\+000A"),
            ("a\0b", r"has the control character U\+0000"),
            ("a\x1b[31mb", r"has the control character U\+001B"),
            ("half \ud800 pair", r"has the control character U\+D800"),
            ("a\u202eb", r"has the invisible character U\+202E"),
            ("x" * 201, "has 201 characters; shorten it to 200"),
            (7.0, "must be text, got a number"),
            (None, "must be text, got null"),
            (["a"], "must be text, got a list"),
        ],
    )
    def test_names_that_are_refused(self, name: object, reason: str):
        with pytest.raises(Refusal, match=f"the name {reason}"):
            words_of(name, "the name", 200, one_line=True)

    def test_descriptions_may_have_lines(self):
        assert words_of("one\ntwo", "the description", 100) == "one\ntwo"
        with pytest.raises(Refusal, match=r"U\+D800"):
            words_of("one\ud800", "the description", 100)


class TestPictures:
    @pytest.mark.parametrize(("kind", "name"), [("PNG", "png"), ("JPEG", "jpeg"), ("WEBP", "webp")])
    def test_the_three_kinds(self, kind: str, name: str):
        check_picture(picture(kind), f"image/{name}", 48)
        with pytest.raises(Refusal, match="more than 47 pixels") as caught:
            check_picture(picture(kind), f"image/{name}", 47)
        assert caught.value.status == 413

    @pytest.mark.parametrize("kind", ["GIF", "BMP", "TIFF", "JPEG"])
    def test_other_decoders_never_run(self, kind: str):
        with pytest.raises(Refusal, match="not a PNG file") as caught:
            check_picture(picture(kind), "image/png", 1000)
        assert caught.value.status == 422

    @pytest.mark.parametrize("content", [b"", b"GIF89a", b"<svg/>", picture()[:20], b"\x89PNG\r\n\x1a\n"])
    def test_what_is_no_picture(self, content: bytes):
        with pytest.raises(Refusal, match="not a PNG file that can be read"):
            check_picture(content, "image/png", 1000)

    @pytest.mark.parametrize("side", [8_000, 11_000, 60_000])
    def test_bombs(self, side: int):
        with pytest.raises(Refusal, match="more than 50,000,000 pixels"):
            check_picture(bomb(side), "image/png", 50_000_000)
