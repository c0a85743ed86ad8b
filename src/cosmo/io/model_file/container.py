"""The file: one safetensors container, whose metadata holds one JSON document.

The document lists type, shape and SHA-256 of every array, and begins with the SHA-256 of the rest of itself,
so that not a bit of the file can change unnoticed. That guards against damage, not against somebody who
computes the sums anew; against those, reading runs nothing that the file brings along.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from cosmo._core.files import write_whole

__all__ = ["FORMAT_VERSION", "ModelError", "read_arrays", "read_document", "write"]

FORMAT_VERSION = 1

_KEY = "cosmo"
_HEAD, _MIDDLE, _TAIL = '{"sha256":"', '","content":', "}"
_START = len(_HEAD) + 64 + len(_MIDDLE)
_LONGEST_HEADER = 100_000_000  # the container's own limit
_TYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}
PLAIN = frozenset(_TYPES.values())

Document = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


class ModelError(ValueError):
    """A model file cannot be read, or a model cannot be written; the message says why."""


def write(path: Path, content: Document, arrays: Arrays) -> None:
    """Write arrays and the document about them, as one file; `content["arrays"]` is filled in here.

    The same content gives the same bytes.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "numbers.cosmo")
    ...     write(path, {"format_version": 1, "name": "three"}, {"x": np.arange(3.0)})
    ...     content = read_document(path)
    ...     content["name"], read_arrays(path, content)
    ('three', {'x': array([0., 1., 2.])})
    """
    listed = {
        name: {"dtype": values.dtype.name, "shape": list(values.shape), "sha256": digest(values)}
        for name, values in sorted(arrays.items())
    }
    try:
        text = json.dumps({**content, "arrays": listed}, allow_nan=False, separators=(",", ":"))
    except RecursionError:
        raise ModelError("the model is nested too deeply to be written") from None
    text = _HEAD + _sha256(text.encode()) + _MIDDLE + text + _TAIL
    if len(text) > _LONGEST_HEADER // 2:  # quotes are escaped once more
        raise ModelError(f"the model's document has {len(text)} characters, more than a file takes")
    write_whole(path, to_bytes(arrays, {_KEY: text}))


def read_document(path: Path) -> Document:
    """Return the document of a file, after checking that it is whole, ours, unaltered and not too new."""
    header = _header(path)
    metadata = header.get("__metadata__")
    if not isinstance(metadata, dict) or not isinstance(metadata.get(_KEY), str):
        raise ModelError("not a model of cosmo: a safetensors file, but without a model's document")
    _check_size(path, header)
    text = metadata[_KEY]
    sum_, body = text[len(_HEAD) : len(_HEAD) + 64], text[_START : -len(_TAIL)]
    if text != _HEAD + sum_ + _MIDDLE + body + _TAIL or _sha256(body.encode()) != sum_:
        raise ModelError("damaged or altered: the document does not have the SHA-256 it had when written")
    content = _parse(body)
    version = content.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise ModelError("damaged or altered: the document has no format version")
    if version > FORMAT_VERSION:
        raise ModelError(
            f"format version {version}, written by cosmo {content.get('package')}; this one reads versions "
            f"up to {FORMAT_VERSION}: upgrade with pip install --upgrade cosmo-gzsl"
        )
    listed = content.get("arrays")
    if not isinstance(listed, dict):
        raise ModelError("damaged or altered: the document lists no arrays")
    held = {
        name: {"dtype": _TYPES.get(entry["dtype"]), "shape": entry["shape"]}
        for name, entry in header.items()
        if name != "__metadata__"
    }
    for name in listed.keys() | held.keys():
        if name not in held or name not in listed:
            raise ModelError(f"damaged or altered: array {name!r} is not in both document and file")
        expected = {key: value for key, value in listed[name].items() if key != "sha256"}
        if expected != held[name]:
            raise ModelError(
                f"damaged or altered: array {name!r} should be {expected}, but the file has {held[name]}"
            )
    return content


def read_arrays(path: Path, content: Document) -> Arrays:
    """Return all arrays of a file, after comparing each with its sum in the document."""
    arrays: Arrays = {}
    try:
        with safe_open(path, framework="np") as file:
            for name, entry in content["arrays"].items():
                arrays[name] = file.get_tensor(name)
                if digest(arrays[name]) != entry["sha256"]:
                    raise ModelError(f"damaged or altered: array {name!r} does not have its SHA-256")
    except SafetensorError as error:
        raise ModelError(f"damaged or altered: {error}") from error
    return arrays


def digest(values: NDArray[Any]) -> str:
    """Return the SHA-256 of an array's bytes."""
    return _sha256(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)


def _sha256(content: bytes | memoryview) -> str:
    return hashlib.sha256(content).hexdigest()


def _header(path: Path) -> Document:
    """Return the container's header; no more is read than the file has, whatever it claims."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or length < 2:
            raise ModelError(f"not a model of cosmo: {size} bytes that are not a safetensors file")
        if length > _LONGEST_HEADER:
            raise ModelError("not a model of cosmo, or damaged: it does not begin as a safetensors file")
        if length > size - 8:
            raise ModelError(f"truncated, or not a model of cosmo: it ends inside its header ({size} bytes)")
        raw = file.read(length)
    if not raw.startswith(b"{"):
        raise ModelError("not a model of cosmo: not a safetensors file")
    header = _parse(raw)
    for name, entry in header.items():
        if name != "__metadata__" and not (isinstance(entry, dict) and {"dtype", "shape"} <= entry.keys()):
            raise ModelError(f"damaged or altered: the header's entry {name!r} is not that of an array")
    return header


def _check_size(path: Path, header: Document) -> None:
    """Say that a file is cut off, or too long, before the container's own check says so less clearly."""
    try:
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        expected = max(ends, default=0)
    except (KeyError, IndexError, TypeError) as error:
        raise ModelError("damaged or altered: the header does not say where the arrays are") from error
    with path.open("rb") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        found = os.fstat(file.fileno()).st_size - start
    if found != expected:
        what = "truncated" if found < expected else "damaged or altered"
        raise ModelError(f"{what}: {found} bytes of arrays instead of {expected}")


def _parse(raw: str | bytes) -> Document:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    try:
        content = json.loads(raw, parse_constant=refuse)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise ModelError(f"not a model of cosmo, or damaged: its header cannot be read ({error})") from error
    if not isinstance(content, dict):
        raise ModelError("not a model of cosmo: its header is not a JSON object")
    return content
