"""Cache of results on disk, keyed by a fingerprint of data, parameters and code."""

from __future__ import annotations

import ast
import hashlib
import inspect
import io
import json
import logging
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from cosmo._core.files import write_atomic

logger = logging.getLogger(__name__)


def fingerprint(*values: Any) -> str:
    """Return a hash of values, the same in every process and on every machine.

    Values are numbers, strings, paths, arrays, tables, estimators (class, parameters and code), dataclasses,
    and lists, tuples and dicts of those.
    """
    digest = hashlib.blake2b(digest_size=16)
    for value in values:
        for piece in _pieces(value):
            digest.update(len(piece).to_bytes(8, "little"))
            digest.update(piece)
    return digest.hexdigest()


def _pieces(value: Any) -> Iterator[bytes | memoryview]:
    """Yield type, size and content of a value as bytes."""
    yield type(value).__name__.encode()
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        yield repr(value).encode()
    elif isinstance(value, Path):
        yield str(value).encode()
    elif isinstance(value, np.ndarray) and value.dtype != object:
        yield f"{value.dtype.str} {value.shape}".encode()
        yield np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
    elif isinstance(value, pd.DataFrame):
        for part in (value.index, value.columns, value.to_numpy()):
            yield from _pieces(part)
    elif isinstance(value, Mapping):
        yield str(len(value)).encode()
        for key in sorted(value):
            yield from _pieces(key)
            yield from _pieces(value[key])
    elif isinstance(value, BaseEstimator):
        yield f"{type(value).__module__}.{type(value).__qualname__} {code_of(type(value))}".encode()
        parameters = value.get_params(deep=False)
        parameters.pop("checkpoints", None)  # a folder, which does not change the result
        yield from _pieces(parameters)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _pieces(getattr(value, field.name))
    elif isinstance(value, Sequence | pd.Index | np.ndarray):
        yield str(len(value)).encode()
        for item in value:
            yield from _pieces(item)
    else:
        raise TypeError(f"cannot compute the fingerprint of a {type(value).__name__}")


def code_of(kind: type) -> str:
    """Return a fingerprint of the code of a class: its modules in this package, and what these use."""
    return _code_of(kind.__mro__)


@cache
def _code_of(classes: tuple[type, ...]) -> str:
    package = __name__.partition(".")[0]
    sources: dict[str, str] = {}

    def visit(name: str) -> None:
        if name.partition(".")[0] != package or name in sources:
            return
        module = sys.modules[name]
        sources[name] = _syntax(module)
        # Classes and functions only: which submodules a package has depends on what was imported before.
        for value in vars(module).values():
            visit(getattr(value, "__module__", None) or "")

    for base in classes:
        home = base.__module__.partition(".")[0]
        if home == package:
            visit(base.__module__)
        elif home not in ("sklearn", "builtins", "abc"):
            sources[f"{base.__module__}.{base.__qualname__}"] = _syntax(base)
    return fingerprint(sklearn.__version__, sources)


@cache
def _syntax(source: Any) -> str:
    """Return the code of a module or class, without comments and layout."""
    try:
        return ast.dump(ast.parse(textwrap.dedent(inspect.getsource(source))))
    except (OSError, TypeError, SyntaxError):  # from a prompt, or compiled
        return ""


class Cache:
    """Folder of cached arrays and JSON documents, created if it does not exist.

    Files are written atomically, so processes can share a folder. A damaged file is computed again.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def arrays(
        self, kind: str, key: str, compute: Callable[[], Mapping[str, NDArray[Any]]]
    ) -> dict[str, NDArray[Any]]:
        """Return arrays by name, from the cache or else from `compute`."""
        path = self._path(kind, key, "npz")
        content = _read(path)
        if content is not None:
            with np.load(io.BytesIO(content), allow_pickle=False) as file:
                return dict(file)
        result = {name: np.asarray(value) for name, value in compute().items()}
        for name, value in result.items():
            if value.dtype.hasobject:
                raise TypeError(f"{name} is an array of Python objects, which the cache cannot store")
        buffer = io.BytesIO()
        np.savez(buffer, **result)  # type: ignore[arg-type]  # names of arrays, not options
        _write(path, buffer.getvalue())
        return result

    def read(self, kind: str, key: str) -> dict[str, Any]:
        """Return a JSON document, or an empty one if it is not in the cache."""
        content = _read(self._path(kind, key, "json"))
        return {} if content is None else json.loads(content)

    def write(self, kind: str, key: str, document: Mapping[str, Any]) -> None:
        """Store a JSON document."""
        _write(self._path(kind, key, "json"), json.dumps(document).encode())

    def _path(self, kind: str, key: str, suffix: str) -> Path:
        return self.folder / f"{kind}-{key}.{suffix}"


def _write(path: Path, content: bytes) -> None:
    """Write a line with the checksum of the content, and the content."""
    write_atomic(path, _checksum(content) + b"\n" + content)


def _read(path: Path) -> bytes | None:
    """Return the content of a file; None if it is missing or damaged."""
    try:
        checksum, _, content = path.read_bytes().partition(b"\n")
        if checksum == _checksum(content):
            return content
        reason: object = "wrong checksum"
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = error
    logger.warning("%s cannot be read (%s); computing it again", path, reason)
    return None


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).hexdigest().encode()
