"""What the end of a Parquet file says about its columns.

Arrow knows it, too, but asked about columns whose statistics contradict the schema it ends the process.
"""

from __future__ import annotations

import os
from typing import IO, NamedTuple

from cosmo.data._thrift import structure

__all__ = ["Chunk", "column_chunks"]

_TAIL = 8  # bytes at the end: the size of what is before them, and a mark
_GROUPS, _COLUMNS, _ABOUT = 4, 1, 3  # fields of the file, of a group of rows, of a column in it
_VALUES, _UNPACKED, _PACKED, _DATA, _DICTIONARY = 5, 6, 7, 9, 11  # fields of what is said about a column
_WANTED = {_GROUPS: {_COLUMNS: {_ABOUT: dict.fromkeys((_VALUES, _UNPACKED, _PACKED, _DATA, _DICTIONARY))}}}


class Chunk(NamedTuple):
    """A column within a group of rows: how many values, their bytes, and where its pages are."""

    n_values: int
    unpacked: int
    packed: int
    start: int


def column_chunks(file: IO[bytes]) -> list[list[Chunk]]:
    """Return the columns of each group of rows, in the order of the schema.

    Parameters
    ----------
    file : binary file

    Raises
    ------
    ValueError
        If the file does not end like one of Parquet.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> with tempfile.TemporaryFile() as file:
    ...     pd.DataFrame({"a": range(5)}).to_parquet(file)
    ...     [[chunk]] = column_chunks(file)
    >>> chunk.n_values, chunk.start
    (5, 4)
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL))
    length = int.from_bytes(file.read(_TAIL)[:4], "little")
    if length + _TAIL > size:
        raise ValueError("the end of the file is cut short")
    file.seek(size - _TAIL - length)
    try:
        fields, _ = structure(file.read(length), _WANTED)
        return [[_chunk(column[_ABOUT]) for column in group[_COLUMNS]] for group in fields[_GROUPS]]
    except (EOFError, LookupError, ValueError) as error:
        raise ValueError(f"the end of the file is damaged ({error})") from error


def _chunk(about: dict[int, int]) -> Chunk:
    # Offsets are 0, or missing, where there is no dictionary, or are no rows.
    start = min((about[field] for field in (_DICTIONARY, _DATA) if about.get(field)), default=0)
    return Chunk(about[_VALUES], about[_UNPACKED], about[_PACKED], start)
