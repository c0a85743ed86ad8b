"""A check of MATLAB version 5 files before scipy reads them.

`scipy.io.loadmat` trusts the types and dimensions that a file declares, so that a damaged file can end the
process instead of raising an error (https://github.com/scipy/scipy/pull/25829).
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Container, Iterator
from itertools import islice

__all__ = ["check_v5"]

# Types of elements; a plain element holds numbers or text.
_MATRIX, _COMPRESSED = 14, 15
_PLAIN = (1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 17, 18)

# Classes of matrices, and how many plain elements follow the flags: dimensions, name and what the class adds.
_CELL, _STRUCT, _OBJECT, _TEXT, _SPARSE, _FUNCTION, _OPAQUE = 1, 2, 3, 4, 5, 16, 17
_NUMBERS = range(6, 16)
_N_PLAIN = {_CELL: 2, _STRUCT: 4, _OBJECT: 5, _TEXT: 3, _SPARSE: 5, _FUNCTION: 2, _OPAQUE: 3}
_N_PLAIN |= dict.fromkeys(_NUMBERS, 3)


def check_v5(content: bytes, fields: Container[str]) -> None:
    """Check that elements fit into each other and have the types that their places ask for.

    Parameters
    ----------
    content : bytes
        The whole file.
    fields : container of str
        The variables to be read. Of the others only the head is checked, as scipy reads no more of them.

    Raises
    ------
    ValueError, struct.error, zlib.error
        If the file is damaged or cut short.

    Examples
    --------
    >>> import io
    >>> from scipy.io import savemat
    >>> file = io.BytesIO()
    >>> savemat(file, {"x": 1.0})
    >>> check_v5(file.getvalue(), ["x"])
    >>> check_v5(file.getvalue()[:-1], ["x"])
    Traceback (most recent call last):
    ValueError: an element of 56 bytes does not fit in its place
    """
    order = "<" if content[126:128] == b"IM" else ">"
    for kind, body in _elements(memoryview(content)[128:], order, align=1):
        head = _inflate(body, most=1024)[8:] if kind == _COMPRESSED else body
        if not any(name in fields for name in _names(head, order)):
            continue
        if kind == _COMPRESSED:
            ((kind, body),) = _elements(_inflate(body), order)
        _check_matrix(kind, body, order)


def _inflate(body: memoryview, most: int = 0) -> memoryview:
    return memoryview(zlib.decompressobj().decompress(body, most))


def _names(head: memoryview, order: str) -> list[str]:
    """Return the texts among which is the name of a variable: an opaque one has no dimensions before it."""
    first, second = islice(_elements(head[16:], order), 2)
    return [bytes(part).decode("latin1") for _, part in (first, second)]


def _elements(body: memoryview, order: str, *, align: int = 8) -> Iterator[tuple[int, memoryview]]:
    """Yield type and content of each of the elements that fill `body`."""
    place = 0
    while place < len(body):
        kind, size = struct.unpack_from(f"{order}II", body, place)
        if kind >> 16:  # the short form: size, type and content in eight bytes
            kind, size, start, end = kind & 0xFFFF, kind >> 16, place + 4, place + 8
        else:
            start = place + 8
            end = start + size + -size % align
        if start + size > end or end > len(body):
            raise ValueError(f"an element of {size} bytes does not fit in its place")
        yield kind, body[start : start + size]
        place = end


def _check_matrix(kind: int, body: memoryview, order: str) -> None:
    if kind != _MATRIX:
        raise ValueError(f"an element of type {kind} stands in the place of a matrix")
    if not body:
        return
    (_, head), *elements = _elements(body, order)
    flags, _ = struct.unpack(f"{order}II", head)
    what, is_complex = flags & 0xFF, flags >> 11 & 1
    n_plain = _N_PLAIN.get(what, 0) + (is_complex if what == _SPARSE or what in _NUMBERS else 0)
    plain, inner = elements[:n_plain], elements[n_plain:]
    if not plain or len(plain) < n_plain or any(kind not in _PLAIN for kind, _ in plain):
        raise ValueError(f"a matrix of class {what} lacks one of its parts")
    if what != _OPAQUE:
        _check_dimensions(what, plain[0][1], order, n_bytes=len(body), n_inner=len(inner))
    for kind, part in inner:
        _check_matrix(kind, part, order)


def _check_dimensions(what: int, dimensions: memoryview, order: str, *, n_bytes: int, n_inner: int) -> None:
    if len(dimensions) < 8:
        raise ValueError("a matrix has less than two dimensions")
    n_items = math.prod(struct.unpack(f"{order}{len(dimensions) // 4}I", dimensions))
    if what == _CELL and n_items != n_inner:
        raise ValueError(f"a cell array of {n_items} cells has {n_inner}")
    if what != _SPARSE and n_items > n_bytes:
        raise ValueError(f"a matrix of {n_items} items has {n_bytes} bytes")
