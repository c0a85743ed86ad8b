"""Thrift's compact protocol: what a structure holds, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmo.data._thrift import structure

WANTED = {1: None, 3: None, 5: {2: None}, 10: None}


@pytest.mark.parametrize(
    ("content", "fields"),
    [
        (b"\0", {}),
        (b"\x15\x03\0", {1: -2}),
        (b"\x16\x80\x01\0", {1: 64}),
        (b"\x21\x22\x25\x02\0", {}),  # field 6 is nobody's
        (b"\x21\x15\x02\0", {3: 1}),  # after one that is but true
        (b"\x05\x14\x02\0", {10: 1}),  # the number of the field by itself
        (b"\x28\x02ab\x15\x02\0", {3: 1}),
        (b"\x2c\x15\x02\x05\x60\x04\0\x15\x06\0", {3: 3}),  # a structure to be passed over
        (b"\x29\x25\x02\x80\x01\x15\x02\0", {3: 1}),  # lists of numbers, of texts, of truths
        (b"\x29\x18\x01a\x15\x02\0", {3: 1}),
        (b"\x2a\x21\x01\x02\x15\x02\0", {3: 1}),
        (b"\x29\xf5\x0f" + bytes(15) + b"\x15\x02\0", {3: 1}),
        (b"\x27" + bytes(8) + b"\x15\x02\0", {3: 1}),
        (b"\x23\x07\x15\x02\0", {3: 1}),
        (b"\x5c\x15\x08\x15\x02\0\0", {5: {2: 1}}),
        (b"\x59\x2c\x25\x02\0\0\0", {5: [{2: 1}, {}]}),
        (b"\x59\x05\0", {5: []}),
    ],
)
def test_values(content: bytes, fields: dict[int, object]):
    assert structure(content, WANTED) == (fields, len(content))
    assert structure(b"xy" + content + b"more", WANTED, 2) == (fields, 2 + len(content))
    for cut in range(len(content)):
        with pytest.raises(EOFError):
            structure(content[:cut], WANTED)


@pytest.mark.parametrize(
    "content",
    [
        b"\x2c" * 50,
        b"\x29" + b"\x19" * 50,
        b"\x15" + b"\xff" * 20,
        b"\x2b\0",
        b"\x2f",
        b"\x18\x01a\0",  # a text, a number and a list of numbers where others are wanted
        b"\x55\x02\0",
        b"\x59\x15\x02\0",
    ],
)
def test_what_is_none(content: bytes):
    with pytest.raises(ValueError, match="without end|no such kind|something else"):
        structure(content, WANTED)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(content: bytes):
    try:
        _, end = structure(content, WANTED)
        assert 0 < end <= len(content)
    except (EOFError, ValueError):
        pass
