"""What the pages of a Parquet file say about themselves; Arrow takes as much memory as they ask for.

Each page begins with a header in Thrift's compact protocol, of which only the sizes matter here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import IO

__all__ = ["page_sizes"]

_STOP, _TRUE, _FALSE, _BINARY, _STRUCT = 0, 1, 2, 8, 12
_WHOLE = (4, 5, 6)  # numbers of 16, 32 and 64 bits
_UNPACKED, _PACKED = 2, 3  # fields of a page's header: its sizes
_DEEPEST = 8  # structures within each other; a header has three


def page_sizes(file: IO[bytes], start: int, stop: int) -> Iterator[int]:
    """Yield how many bytes each page of a column claims to unpack to.

    Parameters
    ----------
    file : binary file
    start, stop : int
        Where the column's pages are, the dictionary first.

    Raises
    ------
    ValueError
        If there are no pages there.

    Examples
    --------
    >>> import io
    >>> header = bytes([0x15, 0, 0x15, 20, 0x15, 8, 0])  # fields 1 to 3, whole numbers, twice what they are
    >>> list(page_sizes(io.BytesIO(header + b"page"), 0, 11))
    [10]
    """
    while start < stop:
        file.seek(start)
        fields = _structure(file)
        unpacked, packed = fields.get(_UNPACKED, -1), fields.get(_PACKED, -1)
        if min(unpacked, packed) < 0:
            raise ValueError("a page has an impossible header")
        yield unpacked
        start = file.tell() + packed


def _structure(file: IO[bytes], depth: int = 0) -> dict[int, int]:
    """Return the whole numbers among the fields of a structure, and pass over the others."""
    if depth > _DEEPEST:
        raise ValueError("a page has an impossible header")
    found: dict[int, int] = {}
    field = 0
    while (head := _byte(file)) != _STOP:
        step, kind = divmod(head, 16)
        field = field + step if step else _signed(file)
        if kind in _WHOLE:
            found[field] = _signed(file)
        elif kind == _BINARY:
            file.seek(_number(file), os.SEEK_CUR)
        elif kind == _STRUCT:
            _structure(file, depth + 1)
        elif kind not in (_TRUE, _FALSE):  # which have no content
            raise ValueError("a page has an impossible header")
    return found


def _byte(file: IO[bytes]) -> int:
    content = file.read(1)
    if not content:
        raise ValueError("a page is cut short")
    return content[0]


def _number(file: IO[bytes]) -> int:
    """Return a number of seven bits a byte, the lowest first."""
    value = shift = 0
    while shift < 64:
        byte = _byte(file)
        value |= (byte & 127) << shift
        if byte < 128:
            return value
        shift += 7
    raise ValueError("a page has an impossible header")


def _signed(file: IO[bytes]) -> int:
    """Return a number whose lowest bit is the sign."""
    value = _number(file)
    return value >> 1 ^ -(value & 1)
