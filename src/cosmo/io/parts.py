"""A file that is written in parts, so that a run which was killed can go on."""

from __future__ import annotations

import json
import os
import shutil
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

try:
    import fcntl
except ImportError:  # Windows: two runs at once are not noticed there
    fcntl = None  # type: ignore[assignment]

from cosmo._core.files import draft_of, sync, write_whole
from cosmo.data.batches.base import Columns
from cosmo.data.dataset import DataError
from cosmo.io.writers import Writer

__all__ = ["Parts"]

_MANIFEST, _LOCK = "manifest.json", "lock"


class Parts:
    r"""The finished parts of a file, in a folder beside it, until all are there.

    Every change on disk is whole or not at all, so at any moment the folder says how far the work is: a
    manifest (what the parts depend on), the parts in order, then the file itself, then nothing. Another
    process that wants to write the same file meanwhile is refused.

    Parameters
    ----------
    path : path
        The file; the folder is called like it, with `.parts` added.
    bound : dict
        What the parts depend on, in plain values; parts of a run with others are refused. Of
        `bound["settings"]["skip"]` it is enough that it was not true while it is now.
    writer : Writer
    restart : bool
        Forget parts that are there.

    Attributes
    ----------
    finished : int or None
        Rows of the file, if an earlier run wrote it and did not come to remove the parts.

    Examples
    --------
    >>> import tempfile
    >>> from cosmo.io.writers import CsvWriter
    >>> bound, frame = {"settings": {"skip": False}}, pd.DataFrame({"label": ["cat"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Parts(Path(folder, "out.csv"), bound, CsvWriter()).add(0, {"row": [1]}, frame)
    ...     later = Parts(Path(folder, "out.csv"), bound, CsvWriter())
    ...     print(later.first_missing())
    ...     later.add(1, {"row": [2]}, frame)
    ...     later.join(["row", "label"])
    ...     later.remove()
    ...     Path(folder, "out.csv").read_text()
    1
    'row,label\n1,cat\n2,cat\n'
    """

    def __init__(self, path: Path, bound: dict[str, Any], writer: Writer, *, restart: bool = False) -> None:
        self.path, self.bound, self._writer = path, bound, writer
        self._folder = path.with_name(f"{path.name}.parts")
        self._manifest = self._folder / _MANIFEST
        if path.is_dir() or not path.parent.is_dir():
            raise DataError(
                f"{path}: " + ("a folder, not a file" if path.is_dir() else "there is no such folder")
            )
        if self._folder.exists() and not self._manifest.exists():
            known = (f".{_MANIFEST}", _LOCK)
            if any(not one.name.startswith(known) for one in self._folder.iterdir()):
                raise DataError(
                    f"{self._folder} is in the way: move it, or choose another name for {path.name}"
                )
        self._lock()
        self.finished: int | None = None
        if self._manifest.exists():
            self.finished = None if restart else self._check()
            if restart or (self.finished is None and not self._files()):
                self._clear()
        self._note()

    def _lock(self) -> None:
        """Make the folder this process's own; the system takes that back when the process ends, however."""
        lock = self._folder / _LOCK
        while True:
            self._folder.mkdir(exist_ok=True)
            with suppress(FileNotFoundError):  # another run has just removed the folder
                handle = os.open(lock, os.O_RDWR | os.O_CREAT)
                weakref.finalize(self, os.close, handle)
                if fcntl is not None:
                    try:
                        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except OSError as error:
                        raise DataError(
                            f"{self.path}: another run is writing it; wait for it, or choose another name"
                        ) from error
                if os.path.samestat(os.fstat(handle), lock.stat()):
                    return

    def _note(self) -> None:
        write_whole(self._manifest, json.dumps({**self.bound, "finished": self.finished}, indent=1).encode())

    def _check(self) -> int | None:
        """Return the rows of an earlier run if all but tidying up was done; refuse one of other things."""
        try:
            earlier = json.loads(self._manifest.read_bytes())
            # Parts of a run that skipped nothing because it was not allowed to are good for one that may.
            earlier["settings"]["skip"] |= self.bound["settings"]["skip"]
            changed = [name for name, value in self.bound.items() if earlier[name] != value]
            finished: int | None = earlier["finished"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise DataError(f"{self._manifest} is damaged: run again with --restart") from error
        if changed and (finished is not None or not self._files()):  # nothing to lose
            self._clear()
            return None
        if changed:
            raise DataError(
                f"{self._folder} has predictions of an unfinished run with other {' and '.join(changed)}: "
                "run again with --restart to begin anew, or restore what it was started with"
            )
        return finished if self.path.is_file() else None

    def _files(self) -> list[Path]:
        """Return the parts from the first to before one that is missing."""
        found = sorted(self._folder.glob("*.part"))
        return [path for number, path in enumerate(found) if int(path.stem.split("-")[0]) == number]

    def first_missing(self) -> int:
        """Return how many parts there are; they are written in order."""
        return len(self._files())

    def rows_before(self, number: int) -> int:
        """Return how many rows the parts before one have, as their names say."""
        return sum(int(path.stem.split("-")[1]) for path in self._files()[:number])

    def add(self, number: int, kept: Columns, frame: pd.DataFrame) -> None:
        """Write a part."""
        content = self._writer.rows(kept, frame)
        write_whole(self._folder / f"{number:010}-{len(frame)}.part", content)

    def join(self, columns: Sequence[str]) -> None:
        """Write the file from all parts; it gets its name when it is complete."""
        draft = draft_of(self._folder / "joined")
        try:
            self._writer.join(self._files(), columns, draft)
            sync(draft)
            os.replace(draft, self.path)
        finally:
            draft.unlink(missing_ok=True)
        self.finished = self.rows_before(self.first_missing())
        self._note()

    def remove(self) -> None:
        """Remove what is no longer needed, the manifest last."""
        self._clear()
        with suppress(OSError):  # another run has begun
            shutil.rmtree(self._folder)

    def _clear(self) -> None:
        """Remove parts from the last to the first, so that those which are there are the first ones."""
        kept = (self._manifest, self._folder / _LOCK)
        for path in sorted(self._folder.iterdir(), reverse=True):
            if path not in kept:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
