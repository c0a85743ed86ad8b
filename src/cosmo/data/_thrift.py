"""Thrift's compact protocol, in which Parquet files speak of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["Wanted", "structure"]

Wanted = Mapping[int, Any]
"""Numbers of fields: None for whole numbers; for a structure, or a list of such, what is wanted of it."""

_NUMBER, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = (4, 5, 6), 1, 2, 3, 7, 8, 9, 10, 12
_DEEPEST = 16  # structures and lists within each other; Parquet has nine


def structure(content: bytes, wanted: Wanted, place: int = 0) -> tuple[dict[int, Any], int]:
    """Return some fields of a structure by their numbers, and where it ends.

    Parameters
    ----------
    content : bytes
    wanted : Wanted
        The others are passed over.
    place : int
        Where the structure begins.

    Raises
    ------
    EOFError
        If the content ends before the structure.
    ValueError
        If it is none, or a field is not what is wanted.

    Examples
    --------
    >>> structure(bytes([0x15, 20, 0x18, 2, 97, 98, 0]), {1: None})  # a number, twice what it is, and a text
    ({1: 10}, 7)
    """
    try:
        return _structure(content, place, wanted, 0)
    except IndexError as error:
        raise EOFError("cut short") from error


def _structure(content: bytes, place: int, wanted: Wanted, depth: int) -> tuple[dict[int, Any], int]:
    found: dict[int, Any] = {}
    field = 0
    while head := content[place]:
        place += 1
        kind = head & 15
        if head > 15:
            field += head >> 4
        else:
            field, place = _signed(content, place)
        if field not in wanted:
            place = _past(content, place, kind, depth)
        elif wanted[field] is None and kind in _NUMBER:
            found[field], place = _signed(content, place)
        elif wanted[field] is not None and kind == _STRUCT:
            found[field], place = _structure(content, place, wanted[field], depth + 1)
        elif wanted[field] is not None and kind == _LIST:
            size, kind, place = _list(content, place)
            if size and kind != _STRUCT:
                raise ValueError(f"field {field} is a list of something else")
            found[field] = []
            for _ in range(size):
                one, place = _structure(content, place, wanted[field], depth + 1)
                found[field].append(one)
        else:
            raise ValueError(f"field {field} is something else")
    return found, place + 1


def _past(content: bytes, place: int, kind: int, depth: int) -> int:
    """Return where a value of a structure ends."""
    if kind in _NUMBER:
        while content[place] > 127:
            place += 1
        return place + 1
    if kind in (_TRUE, _FALSE):  # which say it all
        return place
    if kind == _BINARY:
        size, place = _number(content, place)
        if place + size > len(content):
            raise IndexError(size)
        return place + size
    if depth > _DEEPEST:
        raise ValueError("structures within structures without end")
    if kind == _STRUCT:
        while head := content[place]:
            place += 1
            if head < 16:
                _, place = _number(content, place)
            place = _past(content, place, head & 15, depth + 1)
        return place + 1
    if kind in (_LIST, _SET):
        size, kind, place = _list(content, place)
        for _ in range(size):  # each takes a byte at least
            place = _past(content, place, _BYTE if kind in (_TRUE, _FALSE) else kind, depth + 1)
        return place
    if kind in (_BYTE, _DOUBLE):
        place += 1 if kind == _BYTE else 8
        content[place - 1]  # is there
        return place
    raise ValueError(f"no such kind of value: {kind}")


def _list(content: bytes, place: int) -> tuple[int, int, int]:
    """Return how many there are, of which kind, and where they begin."""
    size, kind = content[place] >> 4, content[place] & 15
    if size < 15:
        return size, kind, place + 1
    size, place = _number(content, place + 1)
    return size, kind, place


def _number(content: bytes, place: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, the lowest first, and where it ends."""
    value = shift = 0
    while (byte := content[place]) > 127:
        value |= (byte & 127) << shift
        shift += 7
        place += 1
        if shift > 63:
            raise ValueError("a number without end")
    return value | byte << shift, place + 1


def _signed(content: bytes, place: int) -> tuple[int, int]:
    """Return a number whose lowest bit is the sign, and where it ends."""
    value, place = _number(content, place)
    return value >> 1 ^ -(value & 1), place
