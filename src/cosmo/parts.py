"""A file that is written in parts, so that a run which was killed can go on."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from cosmo.data.batches.base import Columns
from cosmo.data.dataset import DataError
from cosmo.files import write_whole
from cosmo.tabulating import Writer

__all__ = ["Parts"]

_MANIFEST = "manifest.json"


class Parts:
    r"""The finished parts of a file, in a folder beside it, until all are there.

    Every change on disk is whole or not at all, so at any moment the folder says how far the work is: a
    manifest (what the parts depend on), the parts in order, then the file itself, then nothing.

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
    >>> from cosmo.tabulating import CsvWriter
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
            strange = [one.name for one in self._folder.iterdir() if not one.name.startswith(f".{_MANIFEST}")]
            if strange:
                raise DataError(
                    f"{self._folder} is in the way: move it, or choose another name for {path.name}"
                )
        elif self._folder.exists() and not restart:
            self.finished: int | None = self._check()
            if self.finished is not None or self._files():
                self._note()
                return
        if self._folder.exists():
            shutil.rmtree(self._folder)
        self._folder.mkdir()
        self.finished = None
        self._note()

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
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(f"{self._manifest} is damaged: run again with --restart") from error
        if changed and not self._files():  # nothing to lose
            return None
        if changed:
            raise DataError(
                f"{self._folder} has predictions of an unfinished run with other {' and '.join(changed)}: "
                "run again with --restart to begin anew, or restore what it was started with"
            )
        return finished if self.path.is_file() else None

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob("*.part"))

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
        draft = self._folder / "joined"
        self._writer.join(self._files(), columns, draft)
        with draft.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(draft, self.path)
        self.finished = self.rows_before(self.first_missing())
        self._note()

    def remove(self) -> None:
        """Remove what is no longer needed, the manifest last."""
        for path in self._folder.iterdir():
            if path != self._manifest:
                path.unlink()
        shutil.rmtree(self._folder)
