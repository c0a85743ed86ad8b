"""Container of a model file: safetensors, with one JSON document in its metadata.

The document lists type, shape and SHA-256 of every array, and begins with the SHA-256 of the rest of itself.
The checksums detect damage, not a forgery with new checksums; reading executes nothing from the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from cosmo._core.files import write_atomic

FORMAT_VERSION = 1
DTYPES = frozenset(["bool", *(f"float{bits}" for bits in (16, 32, 64)),
                    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))])  # fmt: skip

_KEY = "cosmo"
_HEAD, _MIDDLE, _TAIL = '{"sha256":"', '","content":', "}"
_START = len(_HEAD) + 64 + len(_MIDDLE)
_LONGEST_HEADER = 100_000_000  # limit of safetensors

Document = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


class ModelError(ValueError):
    """A model file cannot be read, or a model cannot be written."""


def write(path: Path, content: Document, arrays: Arrays) -> None:
    """Write arrays and a document as one file; equal content gives equal bytes."""
    table = {name: {**_form(values), "sha256": digest(values)} for name, values in sorted(arrays.items())}
    text = json.dumps({**content, "arrays": table}, allow_nan=False, separators=(",", ":"))
    text = _HEAD + _sha256(text.encode()) + _MIDDLE + text + _TAIL
    if len(text) > _LONGEST_HEADER // 2:  # escaped quotes take two characters
        raise ModelError(f"the document of the model has {len(text)} characters, too many for a file")
    write_atomic(path, to_bytes(arrays, {_KEY: text}))


def read_document(path: Path) -> Document:
    """Return the document of a file after all checks that do not need the arrays."""
    with _open(path) as file:
        text, names = (file.metadata() or {}).get(_KEY), set(file.keys())
    if text is None:
        raise ModelError("not a model of cosmo: a safetensors file, but without a model's document")
    checksum, body = text[len(_HEAD) : len(_HEAD) + 64], text[_START : -len(_TAIL)]
    if text != _HEAD + checksum + _MIDDLE + body + _TAIL or _sha256(body.encode()) != checksum:
        raise ModelError("damaged or altered: the document does not have its SHA-256")
    try:
        content: Document = json.loads(body)
        version, table = content.get("format_version"), content.get("arrays")
    except (ValueError, AttributeError, RecursionError) as error:
        raise ModelError(f"damaged or altered: the document is not a JSON object ({error})") from error
    if not isinstance(version, int) or version < 1:
        raise ModelError("damaged or altered: the document has no format version")
    if version > FORMAT_VERSION:
        raise ModelError(
            f"format version {version}, written by cosmo {content.get('package')}; this one reads versions "
            f"up to {FORMAT_VERSION}: upgrade with pip install --upgrade cosmo-gzsl"
        )
    if not isinstance(table, dict) or table.keys() != names:
        raise ModelError("damaged or altered: the document lists other arrays than the file has")
    return content


def read_arrays(path: Path, content: Document) -> Arrays:
    """Return all arrays of a file after comparing each with its entry in the document."""
    arrays: Arrays = {}
    with _open(path) as file:
        for name, expected in content["arrays"].items():
            values = arrays[name] = file.get_tensor(name)
            if {**_form(values), "sha256": digest(values)} != expected:
                raise ModelError(f"damaged or altered: array {name!r} is not the one that was written")
    return arrays


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """Open a safetensors file; errors of its format become ModelError."""
    path.open("rb").close()  # OSError of Python, with the name of the file
    try:
        with safe_open(path, framework="np") as file:
            yield file
    except (SafetensorError, TypeError) as error:
        raise ModelError(f"not a model of cosmo, truncated or damaged: {error}") from error


def digest(values: NDArray[Any]) -> str:
    """Return the SHA-256 of the bytes of an array."""
    return _sha256(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)


def _form(values: NDArray[Any]) -> Document:
    return {"dtype": values.dtype.name, "shape": list(values.shape)}


def _sha256(content: bytes | memoryview) -> str:
    return hashlib.sha256(content).hexdigest()
