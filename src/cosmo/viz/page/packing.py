"""Views as text: arrays in JSON, compressed, in letters that any file can carry."""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cosmo.data import DataError

__all__ = ["FORMAT", "KINDS", "Arrays", "compress", "decompress", "plain", "unpack"]

FORMAT = 1
KINDS = ("run", "evaluation", "comparison", "paper", "studio")
_MOST_BYTES = 200_000_000  # of a view, decompressed
_TYPES = {name: np.dtype(f"<{name}") for name in ("f8", "f4", "u1", "u2", "u4", "i4")}


class Arrays:
    """The arrays of a view; what is equal is stored once.

    Examples
    --------
    >>> arrays = Arrays()
    >>> arrays.add([0.5, 1.0], "f8"), arrays.add([1, 2], "u2"), arrays.add([0.5, 1.0], "f8")
    (0, 1, 0)
    >>> arrays.entries[1]
    {'type': 'u2', 'shape': [2], 'data': 'AQACAA=='}
    """

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self._places: dict[tuple[str, tuple[int, ...], bytes], int] = {}

    def add(self, values: ArrayLike, kind: str) -> int:
        """Return the number under which an array is stored.

        Parameters
        ----------
        values : array of any shape
        kind : {"f8", "f4", "u1", "u2", "u4", "i4"}
            What its numbers are stored as. Whole numbers must fit.
        """
        given = np.asarray(values)
        stored = np.ascontiguousarray(given, dtype=_TYPES[kind])
        if kind[0] != "f" and not np.array_equal(stored, given):
            raise ValueError(f"numbers from {given.min()} to {given.max()} cannot be stored as {kind}")
        key = kind, stored.shape, stored.tobytes()
        if key not in self._places:
            self._places[key] = len(self.entries)
            data = base64.b64encode(key[2]).decode()
            self.entries.append({"type": kind, "shape": list(stored.shape), "data": data})
        return self._places[key]


def unpack(entry: Mapping[str, Any]) -> NDArray[Any]:
    """Return a stored array.

    Examples
    --------
    >>> unpack({"type": "u2", "shape": [2], "data": "AQACAA=="})
    array([1, 2], dtype=uint16)
    """
    try:
        kind, shape = _TYPES[entry["type"]], tuple(int(size) for size in entry["shape"])
        content = base64.b64decode(entry["data"], validate=True)
        if min(shape, default=0) < 0 or len(content) != math.prod(shape) * kind.itemsize:
            raise ValueError(f"{len(content)} bytes for the shape {shape}")
        return np.frombuffer(content, dtype=kind).reshape(shape)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"a damaged array in the view: {error}") from error


def plain(value: Any) -> Any:
    """Return a value as JSON has it: Python's own numbers, and None for those that are not finite.

    Examples
    --------
    >>> plain({"acc": np.float32(0.5), "none": [float("nan"), np.int64(3), "text"]})
    {'acc': 0.5, 'none': [None, 3, 'text']}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return None if value is None else str(value)


def compress(view: Mapping[str, Any]) -> str:
    """Return a view as base64 of zlib of JSON.

    Examples
    --------
    >>> decompress(compress({"format": 1, "kind": "run", "arrays": [], "sets": []}))["kind"]
    'run'
    """
    content = json.dumps(view, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A name may hold half of a surrogate pair, which UTF-8 has no bytes for.
    return base64.b64encode(zlib.compress(content.encode("utf-8", "replace"), 9)).decode()


def decompress(text: str, *, most_bytes: int = _MOST_BYTES) -> dict[str, Any]:
    """Return the view that `compress` made a text of.

    Raises
    ------
    DataError
        For anything else: damaged, cut off, larger than `most_bytes`, or of another format.
    """
    try:
        packed = base64.b64decode("".join(text.split()), validate=True)
        reader = zlib.decompressobj()
        content = reader.decompress(packed, most_bytes)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise DataError(f"the view cannot be unpacked: {error}") from error
    if reader.unconsumed_tail:
        raise DataError(f"the view is larger than {most_bytes} bytes, more than any report has")
    if not reader.eof or reader.unused_data:
        raise DataError("the view is cut off or has something after its end; write the report again")
    try:
        view = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the view is not what a report carries: {type(error).__name__}") from error
    if not isinstance(view, dict) or view.get("format") != FORMAT:
        raise DataError(f"the view is not of format {FORMAT}, which this version of cosmo reads")
    if view.get("kind") not in KINDS or not all(
        isinstance(view.get(part), list) and all(isinstance(one, dict) for one in view[part])
        for part in ("arrays", "sets")
    ):
        raise DataError("the view lacks its kind, arrays or sets")
    return view
