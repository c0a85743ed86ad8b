"""Atomic writes of files, and their checksums."""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file atomically: readers see the old content or the new one, never a part."""
    draft = draft_of(path)
    try:
        draft.write_bytes(content)
        sync(draft)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def replace_files(folder: Path) -> Iterator[Path]:
    """Yield a draft folder whose files then replace those of `folder`; none if there is an error."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".draft-") as draft:
        yield Path(draft)
        paths = sorted(Path(draft).iterdir())
        for path in paths:
            sync(path)
        for path in paths:
            os.replace(path, folder / path.name)


def draft_of(path: Path) -> Path:
    """Return a unique hidden name beside a file, for a draft of it."""
    # Process numbers are not unique: machines may share the disk.
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def sync(path: Path) -> None:
    """Flush a file to disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def digest(values: NDArray[Any]) -> str:
    """Return the SHA-256 of the bytes of an array."""
    return sha256(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)


def sha256(content: bytes | memoryview) -> str:
    """Return the SHA-256 of bytes, as hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()
