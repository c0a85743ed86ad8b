"""Writing files so that nobody ever finds one half written."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

__all__ = ["draft_of", "sync", "write_whole"]


def write_whole(path: Path, content: bytes) -> None:
    """Write a file, or leave what was there: a draft takes the name only when it is complete on disk.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder, "note.txt"), b"done")
    ...     os.listdir(folder)
    ['note.txt']
    """
    draft = draft_of(path)
    try:
        draft.write_bytes(content)
        sync(draft)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def draft_of(path: Path) -> Path:
    """Return a name beside a file for what is to become it: hidden, and nobody else's.

    Examples
    --------
    >>> draft_of(Path("table.csv")).name.startswith(".table.csv.")
    True
    """
    # Not the process number: on a shared disk two machines may have the same.
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def sync(path: Path) -> None:
    """Wait until a file is on disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
