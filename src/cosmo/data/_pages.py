"""What the pages of a Parquet file say about themselves; Arrow takes as much memory as they ask for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from cosmo.data._thrift import structure

__all__ = ["page_sizes"]

_UNPACKED, _PACKED = 2, 3  # fields of a page's header: its sizes
_WANTED = {_UNPACKED: None, _PACKED: None}
_USUAL, _LONGEST = 256, 1 << 24  # bytes of a header, which may hold the largest and the least value


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
        fields, length = _header(file, start)
        unpacked, packed = fields.get(_UNPACKED, -1), fields.get(_PACKED, -1)
        if min(unpacked, packed) < 0:
            raise ValueError("a page has an impossible header")
        yield unpacked
        start += length + packed


def _header(file: IO[bytes], start: int) -> tuple[dict[int, int], int]:
    size = _USUAL
    while True:
        file.seek(start)
        content = file.read(size)
        try:
            return structure(content, _WANTED)
        except EOFError as error:
            if len(content) < size or size >= _LONGEST:
                raise ValueError("a page is cut short") from error
            size *= 16
        except ValueError as error:
            raise ValueError(f"a page has an impossible header ({error})") from error
