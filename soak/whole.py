"""Whether every file that has its name is complete."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from cosmo.io.model_file.container import read_arrays, read_document

__all__ = ["broken", "contents"]


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder but hidden ones, by their paths in it."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    inside = {path.relative_to(folder): path for path in found}
    return {
        str(name): path.read_bytes()
        for name, path in inside.items()
        if not any(part.startswith(".") for part in name.parts)
    }


def broken(folder: Path, allowed: Mapping[str, Collection[bytes]]) -> str:
    """Return what is wrong with a file of a folder, or nothing.

    Parameters
    ----------
    folder : Path
        Where a process was that has ended somehow.
    allowed : mapping of str to collection of bytes
        Files that must be absent or one of these. The others, by the ends of their names, must be readable:
        entries of caches, models, checkpoints, parts.
    """
    for name in contents(folder):
        path = folder / name
        if name in allowed:
            if path.read_bytes() not in allowed[name]:
                return f"{name} is there, but not as it should be"
            continue
        try:
            _read(path)
        except Exception as error:
            return f"{name} is there, but cannot be read: {type(error).__name__}: {error}"
    return ""


def _read(path: Path) -> None:
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            dict(file)
    elif path.suffix == ".json":
        json.loads(path.read_bytes())
    elif path.suffix == ".cosmo":
        read_arrays(path, read_document(path))
    elif path.suffix == ".pt":
        import torch

        torch.load(path, weights_only=True)
    elif path.suffix == ".part":
        content, n_rows = path.read_bytes(), int(path.stem.split("-")[1])
        if content.startswith(b"ARROW1"):
            if not content.endswith(b"ARROW1"):
                raise ValueError("cut short")
        elif content.count(b"\n") != n_rows:
            raise ValueError(f"{content.count(bytes([10]))} lines instead of {n_rows}")
