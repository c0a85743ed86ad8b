"""Writing files so that nobody ever finds one half written."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

__all__ = ["draft_of", "mark_drafts", "remove_drafts", "sync", "write_whole"]

_mark = ""  # that the drafts of this process bear


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
    return path.with_name(f".{path.name}.{_mark}{secrets.token_hex(4)}")


def mark_drafts(mark: str) -> None:
    """Have the drafts of this process bear a mark, by which whoever kills it can remove them."""
    global _mark
    _mark = mark


def remove_drafts(folder: Path, mark: str) -> None:
    """Remove the drafts with a mark, of processes that have been killed, from a folder and those in it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mark_drafts("worker-1-")
    ...     draft_of(Path(folder, "table.csv")).touch()
    ...     mark_drafts("")
    ...     remove_drafts(Path(folder), "worker-1-")
    ...     os.listdir(folder)
    []
    """
    for draft in folder.rglob(f".*.{mark}*"):
        draft.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file is on disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
