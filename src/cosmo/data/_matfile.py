"""Fields of MATLAB files: read from versions 5 to 7.3, written in version 5."""

from __future__ import annotations

import math
import os
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import h5py
import numpy as np
from numpy.typing import NDArray
from scipy.io import savemat

from cosmo._core.files import replace_files
from cosmo.data._tablefile import max_unpacked_bytes
from cosmo.data.dataset import DataError

_V5_LIMIT = 2**31  # bytes of a field
_KINDS = {"O": "a cell array", "U": "text", "V": "a struct or sparse matrix", "c": "complex numbers"}

# Types of elements and classes of matrices in version 5; matrices of other classes are not read.
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_ENCODINGS = {1: "latin1", 2: "latin1", 4: "utf-16-le", 16: "utf-8", 17: "utf-16-le", 18: "utf-32-le"}
_MATRIX, _COMPRESSED = 14, 15
_CELL, _TEXT, _NUMBERS = 1, 4, range(6, 16)
_START = 1024  # bytes that hold the name of a variable

_Element: TypeAlias = tuple[int, memoryview]  # type, content


def read_mat(path: Path, fields: Sequence[str]) -> MatFile:
    """Read those of the fields that a MATLAB file has, or raise DataError."""
    try:
        values = _load_hdf5(path, fields) if h5py.is_hdf5(path) else _load(path, fields)
    except Exception as error:  # depends on where the file is damaged
        raise DataError(
            f"{path}: cannot be read as a MATLAB file ({error}); it is damaged, truncated or of another kind"
        ) from error
    return MatFile(path, values)


@dataclass(frozen=True)
class MatFile:
    """Fields of a MATLAB file as arrays, with typed access."""

    path: Path
    fields: dict[str, Any]

    def __contains__(self, field: str) -> bool:
        return field in self.fields

    def numbers(self, field: str) -> NDArray[Any]:
        """Return a dense matrix of real numbers."""
        values = self._value(field)
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiu":
            raise self.error(field, f"must be a full matrix of real numbers, got {_kind(values)}; convert it")
        return values

    def matrix(self, field: str, n_columns: int, entries: str) -> NDArray[Any]:
        """Return a matrix with a column for each entry of another field."""
        values = self.numbers(field)
        if values.ndim != 2 or values.shape[1] != n_columns:
            transposed = values.ndim == 2 and values.shape[0] == n_columns
            raise self.error(
                field,
                f"must have {n_columns} columns, one per entry of {entries}, got shape {values.shape}; "
                + ("save its transpose" if transposed else "take both from the same data set"),
            )
        return values

    def positions(self, field: str, largest: int, noun: str) -> NDArray[np.intp]:
        """Return 1-based positions as 0-based ones."""
        values = self.numbers(field)
        if values.size == 0:
            return np.empty(0, dtype=np.intp)
        if max(values.shape, default=1) != values.size:
            raise self.error(field, f"must be a vector, got shape {values.shape}; save it as one column")
        values = values.ravel()
        fractional = values[values != np.floor(values)]
        if fractional.size:
            raise self.error(field, f"must hold whole numbers, got {fractional[0]}; round or drop it")
        if values.min() < 1:
            raise self.error(field, f"has the index {values.min():g}; indices are 1-based: add 1 to all")
        if values.max() > largest:
            raise self.error(
                field, f"points to {noun} {values.max():.0f} of {largest}; is it of this data set?"
            )
        return values.astype(np.intp) - 1

    def texts(self, field: str) -> list[str]:
        """Return the strings of a cell array, or the rows of a character matrix."""
        cells = self._value(field)
        if isinstance(cells, np.ndarray) and cells.dtype.kind == "U":
            return [text.rstrip() for text in cells.ravel().tolist()]
        if not isinstance(cells, np.ndarray) or cells.dtype != object:
            raise self.error(
                field, f"must be a cell array of character vectors, got {_kind(cells)}; use cellstr"
            )
        texts = [_text(cell) for cell in cells.ravel(order="F")]
        if None in texts:
            place = texts.index(None) + 1
            raise self.error(
                field, f"must hold character vectors only, entry {place} is not one; use cellstr"
            )
        return [text for text in texts if text is not None]

    def error(self, field: str, problem: str) -> DataError:
        """Return an error that names the file and the field."""
        return DataError(f"{self.path}: {field} {problem}")

    def _value(self, field: str) -> Any:
        if field not in self.fields:
            present = ", ".join(self.fields) or "none"
            raise self.error(field, f"is missing; of the known fields, the file has {present}")
        return self.fields[field]


def write_mat_files(
    folder: str | os.PathLike[str],
    files: Mapping[str, Mapping[str, NDArray[Any]]],
    texts: Mapping[str, str] | None = None,
) -> None:
    """Write MATLAB (version 5) and text files by name: all of them, or none if there is an error."""
    for file, fields in files.items():
        for field, values in fields.items():
            if values.nbytes >= _V5_LIMIT:
                raise DataError(f"{file}: {field} has {values.nbytes} bytes, the limit is {_V5_LIMIT}")
    with replace_files(Path(folder)) as draft:
        for file, fields in files.items():
            savemat(draft / file, fields, appendmat=False)
        for file, text in (texts or {}).items():
            (draft / file).write_text(text, encoding="utf-8")


def cell_array(texts: Sequence[object]) -> NDArray[np.object_]:
    """Return texts as a column of cells."""
    cells = np.empty((len(texts), 1), dtype=object)
    cells[:, 0] = [storable(str(text)) for text in texts]
    return cells


def storable(text: str) -> str:
    """Return the text, or raise DataError if a MATLAB file cannot hold it."""
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise DataError(f"the name {text!r} has characters that the files cannot hold; rename it")
    return text


def _load(path: Path, fields: Sequence[str]) -> dict[str, Any]:
    """Return variables of a version 5 file.

    `scipy.io.loadmat` trusts the types and sizes that a file declares: on some damaged files it ends the
    process or takes all memory. An example (scipy 1.17.1): `savemat` writes the cell array of "cat" and "dog"
    in 288 bytes; with 5 (sparse) instead of 1 (cells) in byte 144, `loadmat` crashes.
    """
    content = memoryview(path.read_bytes())
    if bytes(content[124:128]) != b"\x00\x01IM":
        raise ValueError("it is not of version 5 or 7.3; save it with -v7")
    values: dict[str, Any] = {}
    for kind, body in _elements(content[128:], align=1):
        start = _inflate(body, _START) if kind == _COMPRESSED else (kind, body)
        name = _variable_name(start[1])
        if name in values:
            raise ValueError(f"it has the variable {name} twice")
        if name in fields:
            values[name] = _read_matrix(_inflate(body) if kind == _COMPRESSED else start)
    return {field: values[field] for field in fields if field in values}


def _elements(body: memoryview, *, align: int = 8) -> Iterator[_Element]:
    """Yield types and contents of elements."""
    place = 0
    while place < len(body):
        kind, n_bytes = struct.unpack_from("<II", body, place)
        if kind >> 16:  # the short form: size, type and content in eight bytes
            kind, n_bytes, start, end = kind & 0xFFFF, kind >> 16, place + 4, place + 8
        else:
            start = place + 8
            end = start + n_bytes + -n_bytes % align
        if start + n_bytes > end or end > len(body):
            raise ValueError(f"an element of {n_bytes} bytes does not fit in its place")
        yield kind, body[start : start + n_bytes]
        place = end


def _inflate(packed: memoryview, most: int | None = None) -> _Element:
    """Return a compressed element, or `most` bytes of it."""
    limit = max_unpacked_bytes(len(packed))
    inflated = zlib.decompressobj().decompress(packed, most or limit)
    kind, size = struct.unpack_from("<II", inflated)
    if size > limit or (most is None and size > len(inflated) - 8):
        raise ValueError(f"an element of {size} bytes is not in the {len(packed)} bytes that are there")
    return kind, memoryview(inflated)[8 : 8 + size]


def _variable_name(body: memoryview) -> str:
    *_, (_, name) = islice(_elements(body), 3)  # after flags and dimensions
    return bytes(name).decode("latin1")


def _read_matrix(element: _Element) -> Any:
    """Return numbers, rows of text or cells as arrays; of other classes, nothing but a dtype."""
    kind, body = element
    if kind != _MATRIX:
        raise ValueError(f"an element of type {kind} stands in the place of a matrix")
    if not body:
        return np.empty((0, 0))
    (_, flags), (_, dimensions), _, *parts = _elements(body)
    (flag,) = struct.unpack_from("<I", flags)
    shape = struct.unpack(f"<{len(dimensions) // 4}i", dimensions)
    category, n_items = flag & 0xFF, math.prod(shape)
    if category == _CELL:
        if n_items != len(parts):
            raise ValueError(f"a cell array of {n_items} cells has {len(parts)}")
        cells = np.empty(n_items, dtype=object)
        for place, part in enumerate(parts):
            cells[place] = _read_matrix(part)
        return cells.reshape(shape, order="F")
    if category == _TEXT:
        return _read_text(parts[0], shape)
    if category in _NUMBERS:
        real, *imaginary = (np.frombuffer(part, f"<{_TYPES[kind]}") for kind, part in parts)
        values = real + 1j * imaginary[0] if flag >> 11 & 1 else real
        return values.copy().reshape(shape, order="F")
    return np.empty((), dtype=np.void)


def _read_text(part: _Element, shape: tuple[int, ...]) -> NDArray[np.str_]:
    """Return the rows of a character matrix."""
    kind, content = part
    text = bytes(content).decode(_ENCODINGS[kind])
    if shape[0] <= 1 or not text:
        return np.array([text])
    letters = np.array(list(text), dtype="U1").reshape(shape, order="F")
    return np.array(["".join(row) for row in letters])


def _load_hdf5(path: Path, fields: Sequence[str]) -> dict[str, Any]:
    limit = max_unpacked_bytes(path.stat().st_size)
    with h5py.File(path, "r") as file:
        for field in fields:
            if isinstance(file.get(field, getlink=True), h5py.ExternalLink):
                raise ValueError(f"{field} is a link to another file")
        return {field: _from_hdf5(file, file[field], limit) for field in fields if field in file}


def _from_hdf5(file: Any, node: Any, limit: int) -> Any:
    """Return a variable of a version 7.3 file: transposed, text decoded."""
    if not isinstance(node, h5py.Dataset):
        return np.empty((), dtype=np.void)
    _check_hdf5(node, limit)
    rows = _hdf5_text(node)
    if rows is not None:
        return np.array(rows)
    if node.attrs.get("MATLAB_empty", 0):
        return np.empty((0, 0))
    values = np.asarray(node[()]).T
    if h5py.check_ref_dtype(node.dtype) is None:
        return values
    cells = np.empty(values.shape, dtype=object)
    for place, reference in np.ndenumerate(values):
        if reference and isinstance(file[reference], h5py.Dataset):
            _check_hdf5(file[reference], limit)
        rows = _hdf5_text(file[reference], untyped=True) if reference else None
        cells[place] = rows[0] if rows is not None and len(rows) == 1 else None
    return cells


def _check_hdf5(node: Any, limit: int) -> None:
    """Raise if data lies in another file, or claims more bytes than the file can hold."""
    if node.external is not None or node.is_virtual:
        raise ValueError(f"{node.name} lies in another file")
    chunk = math.prod(node.chunks or ()) * node.dtype.itemsize
    if max(node.nbytes, chunk) > limit:
        raise ValueError(f"{node.name} claims {node.nbytes} bytes, which the file cannot hold")


def _hdf5_text(node: Any, *, untyped: bool = False) -> list[str] | None:
    """Return the rows of a character matrix; with `untyped`, also of 16-bit numbers without a class."""
    if not isinstance(node, h5py.Dataset) or node.dtype.kind != "u":
        return None
    kind = node.attrs.get("MATLAB_class")
    if kind not in (b"char", "char") and not (untyped and kind is None and node.dtype.itemsize == 2):
        return None
    if node.attrs.get("MATLAB_empty", 0):
        return [""]
    letters = np.atleast_2d(np.asarray(node[()], dtype="<u2").T)
    return [row.tobytes().decode("utf-16-le") for row in letters]


def _text(cell: object) -> str | None:
    if isinstance(cell, np.ndarray) and cell.dtype.kind == "U" and cell.size <= 1:
        return "".join(cell.ravel().tolist())
    return cell if isinstance(cell, str) else None


def _kind(values: object) -> str:
    if not isinstance(values, np.ndarray):
        return f"a {type(values).__name__}"
    return _KINDS.get(values.dtype.kind, "numbers")
