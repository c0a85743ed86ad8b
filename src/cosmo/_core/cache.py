"""Results on disk, found again by what they were computed from.

The name of an entry is a fingerprint of everything that went into it: data, parameters and the code that
did the work. Nothing is ever out of date; what no longer fits is simply not found.
"""

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

from cosmo._core.files import write_whole

__all__ = ["Cache", "code_of", "fingerprint"]

logger = logging.getLogger(__name__)

Entry = dict[str, Any]
_SEAL = 16  # bytes at the end of a file of arrays, by which damage to the others shows


def fingerprint(*parts: Any) -> str:
    """Return a name for these values: the same for equal values, on any machine, in any order of runs.

    Takes numbers, strings, arrays, tables, estimators (class, parameters and the code behind them),
    dataclasses, and lists and dicts of those.

    Examples
    --------
    >>> fingerprint("a", 1) == fingerprint("a", 1), fingerprint("a", 1) == fingerprint("a", 1.0)
    (True, False)
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        for piece in _pieces(part):
            digest.update(len(piece).to_bytes(8, "little"))
            digest.update(piece)
    return digest.hexdigest()


def _pieces(value: Any) -> Iterator[bytes | memoryview]:
    """Yield a value as bytes; what is of another type or shape never gives the same."""
    yield type(value).__name__.encode()
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        yield repr(value).encode()
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
        kept = {name: v for name, v in value.get_params(deep=False).items() if name != "checkpoints"}
        yield from _pieces(kept)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _pieces(getattr(value, field.name))
    elif isinstance(value, Path):
        yield str(value).encode()
    elif isinstance(value, Sequence | pd.Index | np.ndarray):
        yield str(len(value)).encode()
        for item in value:
            yield from _pieces(item)
    else:
        raise TypeError(f"cannot take the fingerprint of a {type(value).__name__}")


def code_of(kind: type) -> str:
    """Return a fingerprint of the code behind a class.

    That is the modules of this package that it reaches, and the class itself where it is somebody else's.
    """
    return _code(kind.__mro__)


@cache
def _code(classes: tuple[type, ...]) -> str:
    package = __name__.partition(".")[0]
    reached: dict[str, str] = {}

    def visit(name: str) -> None:
        if name.partition(".")[0] != package or name in reached:
            return
        module = sys.modules[name]
        # Comments and layout do not count.
        reached[name] = ast.dump(ast.parse(inspect.getsource(module)))
        for value in vars(module).values():
            # Not modules as such: which ones a package shows depends on what else was imported.
            visit(getattr(value, "__module__", None) or "")

    for one in classes:
        home = one.__module__.partition(".")[0]
        if home == package:
            visit(one.__module__)
        elif home not in ("sklearn", "builtins", "abc"):
            reached[f"{one.__module__}.{one.__qualname__}"] = _source(one)
    return fingerprint(sklearn.__version__, reached)


def _source(one: type) -> str:
    try:
        return ast.dump(ast.parse(textwrap.dedent(inspect.getsource(one))))
    except (OSError, TypeError, SyntaxError):  # typed in at a prompt, or compiled
        return ""


class Cache:
    """A folder of arrays and JSON documents.

    Entries are written whole or not at all, so several processes can share a folder, and what a stopped
    run had finished is found by the next one. An entry that cannot be read is computed again.

    Parameters
    ----------
    folder : path
        Made at once if it does not exist.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = Cache(folder)
    ...     one = cache.arrays("squares", fingerprint(3), lambda: {"x": np.arange(3) ** 2})
    ...     two = cache.arrays("squares", fingerprint(3), lambda: 1 / 0)  # not asked
    >>> two["x"]
    array([0, 1, 4])
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def arrays(
        self, kind: str, key: str, compute: Callable[[], Mapping[str, NDArray[Any]]]
    ) -> dict[str, NDArray[Any]]:
        """Return arrays by name, computed if they are not there."""
        path = self._path(kind, key, "npz")
        try:
            whole = path.read_bytes()
            if _seal(whole[:-_SEAL]) != whole[-_SEAL:]:
                raise ValueError("its content is not what was written")
            with np.load(io.BytesIO(whole), allow_pickle=False) as file:
                return dict(file)
        except FileNotFoundError:
            pass
        except Exception as error:  # what a damaged file raises depends on where it is damaged
            self._unreadable(path, error)
        found = {name: np.asarray(value) for name, value in compute().items()}
        for name, value in found.items():
            if value.dtype.hasobject:
                raise TypeError(f"{name} is an array of objects, which cannot be kept safely")
        content = io.BytesIO()
        np.savez(content, **found)  # type: ignore[arg-type]  # names of arrays, not options
        write_whole(path, content.getvalue() + _seal(content.getvalue()))
        return found

    def has(self, kind: str, key: str) -> bool:
        """Tell whether there are arrays of that name."""
        return self._path(kind, key, "npz").exists()

    def read(self, kind: str, key: str) -> Entry:
        """Return a JSON document; an empty one if it is not there."""
        path = self._path(kind, key, "json")
        try:
            whole = json.loads(path.read_bytes())
            entry: Entry = whole["entry"]
            if _seal(json.dumps(entry).encode()).hex() == whole["seal"]:
                return entry
            self._unreadable(path, "its content is not what was written")
        except FileNotFoundError:
            pass
        except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
            self._unreadable(path, error)
        return {}

    def write(self, kind: str, key: str, entry: Entry) -> None:
        """Store a JSON document."""
        whole = {"seal": _seal(json.dumps(entry).encode()).hex(), "entry": entry}
        write_whole(self._path(kind, key, "json"), json.dumps(whole, indent=1).encode())

    def _path(self, kind: str, key: str, suffix: str) -> Path:
        return self.folder / f"{kind}-{key}.{suffix}"

    def _unreadable(self, path: Path, why: object) -> None:
        logger.warning("%s cannot be read (%s); computing it again", path, why)


def _seal(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_SEAL).digest()
