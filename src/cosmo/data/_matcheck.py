"""Validation of MATLAB version 4 and 5 files before scipy reads them.

`scipy.io.loadmat` trusts the types and sizes that a file declares: on some damaged files it ends the process
or takes all memory instead of raising an error. A case of our own (scipy 1.17.1): `savemat` writes the 2 x 1
cell array of "cat" and "dog" in 288 bytes; with 5 instead of 1 in byte 144 (a sparse matrix instead of cells)
`loadmat` ends with a segmentation fault, and so it does for 27 other of 988 changes of one byte.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Container, Iterator
from itertools import islice
from typing import TypeAlias

from cosmo.data._tablefile import max_unpacked_bytes

_V4_BYTES = (8, 4, 4, 2, 2, 1)  # of a number, by its type

# Types of elements; a plain element holds numbers or text.
_MATRIX, _COMPRESSED = 14, 15
_PLAIN = (1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 17, 18)

# Classes of matrices, and how many plain elements follow the flags: dimensions, name and what the class adds.
_CELL, _STRUCT, _OBJECT, _TEXT, _SPARSE, _FUNCTION, _OPAQUE = 1, 2, 3, 4, 5, 16, 17
_NUMBERS = range(6, 16)
_N_PLAIN = {_CELL: 2, _STRUCT: 4, _OBJECT: 5, _TEXT: 3, _SPARSE: 5, _FUNCTION: 2, _OPAQUE: 3}
_N_PLAIN |= dict.fromkeys(_NUMBERS, 3)

_Element: TypeAlias = tuple[int, int, memoryview]  # type, size, content


def check_v4(content: bytes) -> None:
    """Raise ValueError or struct.error if matrices of a version 4 file do not fit into it."""
    (kind,) = struct.unpack_from("<i", content)
    order = "<" if 0 <= kind < 5000 else ">"
    place = 0
    while place < len(content):
        kind, n_rows, n_columns, imaginary, n_name = struct.unpack_from(f"{order}5i", content, place)
        item = kind // 10 % 10
        if min(n_rows, n_columns, n_name) < 0 or item >= len(_V4_BYTES):
            raise ValueError("a matrix has an impossible header")
        size = n_rows * n_columns * _V4_BYTES[item] * (2 if imaginary == 1 else 1)
        place += 20 + n_name + size
        if place > len(content):
            raise ValueError(f"a matrix of {size} bytes does not fit in its place")


def check_v5(content: bytes, fields: Container[str]) -> None:
    """Raise if elements of a version 5 file do not fit into each other or have wrong types.

    Only variables named in `fields` are checked completely; scipy reads no others. The error is a
    ValueError, struct.error, zlib.error or RecursionError.
    """
    order = "<" if content[126:128] == b"IM" else ">"
    for kind, size, body in _elements(memoryview(content)[128:], len(content) - 128, order, align=1):
        if kind == _COMPRESSED:
            kind, size, body = _inflate(body, order)
        if any(name in fields for name in _possible_names(body, size, order)):
            _check_matrix(kind, size, body, order)


def _elements(body: memoryview, size: int, order: str, *, align: int = 8) -> Iterator[_Element]:
    """Yield the elements in `size` bytes; `body` may be truncated after the last tag."""
    place = 0
    while place < size:
        kind, n_bytes = struct.unpack_from(f"{order}II", body, place)
        if kind >> 16:  # the short form: size, type and content in eight bytes
            kind, n_bytes, start, end = kind & 0xFFFF, kind >> 16, place + 4, place + 8
        else:
            start = place + 8
            end = start + n_bytes + -n_bytes % align
        if start + n_bytes > end or end > size:
            raise ValueError(f"an element of {n_bytes} bytes does not fit in its place")
        yield kind, n_bytes, body[start : start + n_bytes]
        place = end


def _inflate(packed: memoryview, order: str) -> _Element:
    """Return a compressed element; for real numbers only its start, which has all tags."""
    most = max_unpacked_bytes(len(packed))
    inflated = zlib.decompressobj().decompress(packed, 1024)
    category, n_imaginary = _category(memoryview(inflated)[8:], order)
    if n_imaginary or category not in _NUMBERS:
        inflated = zlib.decompressobj().decompress(packed, most)
    kind, size = struct.unpack_from(f"{order}II", inflated)
    if size > most:
        raise ValueError(f"an element of {size} bytes is compressed to {len(packed)}: not plausible")
    return kind, size, memoryview(inflated)[8:]


def _possible_names(body: memoryview, size: int, order: str) -> list[str]:
    """Return the two elements after the flags: dimensions and name, or (opaque) the name and another text."""
    first, second = islice(_elements(body[16:], size - 16, order), 2)
    return [bytes(content).decode("latin1") for *_, content in (first, second)]


def _category(body: memoryview, order: str) -> tuple[int, int]:
    """Return the class of a matrix, and 1 if it has an imaginary part or else 0."""
    (flags,) = struct.unpack_from(f"{order}I", body, 8)
    category = flags & 0xFF
    return category, flags >> 11 & 1 if category in (_SPARSE, *_NUMBERS) else 0


def _check_matrix(kind: int, size: int, body: memoryview, order: str) -> None:
    if kind != _MATRIX:
        raise ValueError(f"an element of type {kind} stands in the place of a matrix")
    if size == 0:
        return
    (_, n_flags, _), *elements = _elements(body, size, order)
    category, n_imaginary = _category(body, order)
    n_plain = _N_PLAIN.get(category, 0) + n_imaginary
    plain, inner = elements[:n_plain], elements[n_plain:]
    if n_flags != 8 or not plain or len(plain) < n_plain or any(kind not in _PLAIN for kind, *_ in plain):
        raise ValueError(f"a matrix of class {category} lacks one of its parts")
    if category != _OPAQUE:
        n_items = _n_items(plain[0][2], order)
        if category == _CELL and n_items != len(inner):
            raise ValueError(f"a cell array of {n_items} cells has {len(inner)}")
        if category != _SPARSE and n_items > size:
            raise ValueError(f"a matrix of {n_items} items has {size} bytes")
    for element in inner:
        _check_matrix(*element, order)


def _n_items(dimensions: memoryview, order: str) -> int:
    if len(dimensions) < 8:
        raise ValueError("a matrix has less than two dimensions")
    return math.prod(struct.unpack(f"{order}{len(dimensions) // 4}I", dimensions))
