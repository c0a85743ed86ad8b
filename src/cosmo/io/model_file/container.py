"""Container of a model file: safetensors, with one JSON document in its metadata.

The document lists type, shape and SHA-256 of every array, and begins with the SHA-256 of the rest of itself.
The checksums detect damage, not a forger who computes them again; reading executes nothing from the file.
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

from cosmo._core.files import write_atomic

FORMAT_VERSION = 1

_KEY = "cosmo"
_HEAD, _MIDDLE, _TAIL = '{"sha256":"', '","content":', "}"
_START = len(_HEAD) + 64 + len(_MIDDLE)
_LONGEST_HEADER = 100_000_000  # limit of safetensors
_TYPES = {
    **{f"F{bits}": f"float{bits}" for bits in (64, 32, 16)},
    **{f"I{bits}": f"int{bits}" for bits in (64, 32, 16, 8)},
    **{f"U{bits}": f"uint{bits}" for bits in (64, 32, 16, 8)},
    "BOOL": "bool",
}
DTYPES = frozenset(_TYPES.values())

Document = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


class ModelError(ValueError):
    """A model file cannot be read, or a model cannot be written."""


def write(path: Path, content: Document, arrays: Arrays) -> None:
    """Write arrays and a document as one file; equal content gives equal bytes."""
    table = {
        name: {"dtype": values.dtype.name, "shape": list(values.shape), "sha256": digest(values)}
        for name, values in sorted(arrays.items())
    }
    try:
        text = json.dumps({**content, "arrays": table}, allow_nan=False, separators=(",", ":"))
    except RecursionError:
        raise ModelError("the model is nested too deeply to be written") from None
    text = _HEAD + _sha256(text.encode()) + _MIDDLE + text + _TAIL
    if len(text) > _LONGEST_HEADER // 2:  # escaped quotes take two characters
        raise ModelError(f"the document of the model has {len(text)} characters, too many for a file")
    write_atomic(path, to_bytes(arrays, {_KEY: text}))


def read_document(path: Path) -> Document:
    """Return the document of a file after all checks that do not need the arrays."""
    header = _read_header(path)
    metadata = header.pop("__metadata__", None)
    text = metadata.get(_KEY) if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise ModelError("not a model of cosmo: a safetensors file, but without a model's document")
    checksum, body = text[len(_HEAD) : len(_HEAD) + 64], text[_START : -len(_TAIL)]
    if text != _HEAD + checksum + _MIDDLE + body + _TAIL or _sha256(body.encode()) != checksum:
        raise ModelError("damaged or altered: the document does not have its SHA-256")
    content = _parse(body)
    version = content.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise ModelError("damaged or altered: the document has no format version")
    if version > FORMAT_VERSION:
        raise ModelError(
            f"format version {version}, written by cosmo {content.get('package')}; this one reads versions "
            f"up to {FORMAT_VERSION}: upgrade with pip install --upgrade cosmo-gzsl"
        )
    table = content.get("arrays")
    if not isinstance(table, dict) or table.keys() != header.keys():
        raise ModelError("damaged or altered: the document lists other arrays than the file has")
    for name, entry in header.items():
        found = {"dtype": _TYPES.get(entry["dtype"]), "shape": entry["shape"]}
        expected = {key: table[name].get(key) for key in found}
        if expected != found:
            raise ModelError(f"damaged or altered: array {name!r} should be {expected}, but is {found}")
    return content


def read_arrays(path: Path, content: Document) -> Arrays:
    """Return all arrays of a file after comparing each with its checksum in the document."""
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
    """Return the SHA-256 of the bytes of an array."""
    return _sha256(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)


def _sha256(content: bytes | memoryview) -> str:
    return hashlib.sha256(content).hexdigest()


def _read_header(path: Path) -> Document:
    """Return the header of the container, after comparing the size of the file with it."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 10 or not 2 <= length <= _LONGEST_HEADER:
            raise ModelError(f"not a model of cosmo: {size} bytes that are not a safetensors file")
        if length > size - 8:
            raise ModelError(f"truncated, or not a model of cosmo: it ends inside its header ({size} bytes)")
        header = _parse(file.read(length))
    try:
        entries = [(entry["dtype"], entry["shape"], entry["data_offsets"][1])
                   for name, entry in header.items() if name != "__metadata__"]  # fmt: skip
        expected = max((end for _, _, end in entries), default=0)
    except (KeyError, IndexError, TypeError) as error:
        raise ModelError("damaged or altered: the header does not describe the arrays") from error
    found = size - 8 - length
    if found != expected:
        reason = "truncated" if found < expected else "damaged or altered"
        raise ModelError(f"{reason}: {found} bytes of arrays instead of {expected}")
    return header


def _parse(text: str | bytes) -> Document:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"not a model of cosmo, or damaged: its header cannot be read ({error})") from error
    if not isinstance(content, dict):
        raise ModelError("not a model of cosmo: its header is not a JSON object")
    return content
