"""Objects of classes outside of the registry, as archives of skops (extra "skops").

They are JSON and arrays, too, but name classes by import path. Of the types in an archive, skops trusts some
by itself; it is loaded if the caller trusts the others.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from typing import Any
from zipfile import ZipFile, ZipInfo

import numpy as np

from cosmo._core import MissingExtra, require


class ModelError(ValueError):
    """A model file cannot be read, or a model cannot be written."""


def dump(value: Any, path: str) -> tuple[bytes, list[str]]:
    """Return an archive of an object, and the types that must be trusted to load it.

    `path` is the place of the object in the model. Equal objects give equal archives.
    """
    what = f"{path} is a {type(value).__name__}"
    try:
        sio = require("skops.io")
    except MissingExtra as error:
        raise MissingExtra(f"{what}, which model files hold by skops; {error}") from error
    try:
        data = _canonical(sio.dumps(value))
        types = sio.get_untrusted_types(data=data)
        load(data, types)
    except Exception as error:  # a class of the user may raise anything
        raise ModelError(f"{what}, which a model file cannot hold: {error}") from error
    local = [name for name in types if name.startswith("__main__.")]
    if local:
        raise ModelError(f"{what}, which cannot be stored: move {local[0]} from the script to a module")
    return data, types


def load(data: bytes, trusted: Iterable[str]) -> Any:
    """Return the object of an archive; raise ModelError if it has types that are not trusted."""
    sio, trusted = require("skops.io"), list(trusted)
    try:
        with ZipFile(io.BytesIO(data)) as archive:
            if any(entry.compress_type for entry in archive.infolist()):
                raise ModelError("an archive of skops is compressed, as none that was written here")
        check_trusted(sio.get_untrusted_types(data=data), trusted)
        return sio.loads(data, trusted=trusted)
    except ModelError:
        raise
    except ImportError as error:
        raise ModelError(f"{error}: make the module importable, for example by PYTHONPATH") from error
    except Exception as error:  # as above
        raise ModelError(f"damaged or altered: {type(error).__name__}: {error}") from error


def check_trusted(types: Iterable[str], trusted: Iterable[str]) -> None:
    """Raise ModelError if some types are not trusted."""
    missing = sorted({*types} - {*trusted})
    if missing:
        raise ModelError(
            f"has objects of {', '.join(missing)}; to load them may run code. If you trust its source: "
            f"--trust {' '.join(missing)}, or trusted={missing} in Python"
        )


def _canonical(data: bytes) -> bytes:
    """Return an archive with counters instead of memory addresses, and without times."""
    numbers: dict[str, int] = {}

    def renamed(node: Any, key: str = "") -> Any:
        if isinstance(node, dict):
            # The identity of a plain value depends on the interpreter, and does not matter.
            dropped = "__id__" if node.get("__loader__") == "JsonNode" else None
            return {name: renamed(one, name) for name, one in node.items() if name != dropped}
        if isinstance(node, list):
            return [renamed(one) for one in node]
        if key == "__id__":
            return numbers.setdefault(str(node), len(numbers) + 1)
        if key == "file" and isinstance(node, str):
            stem, _, suffix = node.partition(".")
            files[node] = f"{numbers.setdefault(stem, len(numbers) + 1)}.{suffix}"
            return files[node]
        return node

    files: dict[str, str] = {}
    written = io.BytesIO()
    with ZipFile(io.BytesIO(data)) as source, ZipFile(written, "w") as target:
        schema = renamed(json.loads(source.read("schema.json")))
        for old, new in files.items():
            content = source.read(old)
            target.writestr(ZipInfo(new), _without_gaps(content) if new.endswith(".npy") else content)
        target.writestr(ZipInfo("schema.json"), json.dumps(schema, separators=(",", ":")))
    return written.getvalue()


def _without_gaps(data: bytes) -> bytes:
    """Return an array of records, as trees are, with zeros between the fields."""
    values = np.load(io.BytesIO(data), allow_pickle=False)
    if values.dtype.names is None:
        return data
    clean = np.frombuffer(bytearray(values.nbytes), values.dtype).reshape(values.shape)
    written = io.BytesIO()
    for name in values.dtype.names:
        clean[name] = values[name]
    np.lib.format.write_array_header_1_0(written, np.lib.format.header_data_from_array_1_0(clean))
    return written.getvalue() + clean.tobytes()  # np.save would copy the fields only
