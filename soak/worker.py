"""A process that reads changed files until its time is over, or dies of one."""

from __future__ import annotations

import json
import logging
import mmap
import os
import random
import struct
import tempfile
import time
import warnings
from contextlib import suppress
from pathlib import Path

from soak.guard import Guard, limit_memory
from soak.readers import READERS
from soak.tally import SURVIVED

__all__ = ["Place", "Trial", "changed_file", "read_changed"]

_MEMORY = 1 << 30  # bytes that reading a file of some kilobytes may take


class Place:
    """Two numbers that outlive their process: the file that it was at, and how many were done."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(16))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 16)

    def set(self, at: int, done: int) -> None:
        """Write both numbers."""
        self._map[:] = struct.pack("<QQ", at, done)

    def get(self) -> tuple[int, int]:
        """Read both."""
        at, done = struct.unpack("<QQ", self._map[:])
        return at, done


class Trial:
    """A reader in a folder of its own, under guard.

    Parameters
    ----------
    name : str
        Of the reader.
    folder : Path
        Gets `home`, where the files are, and `tmp`, for what libraries put aside.

    Attributes
    ----------
    files : dict of str to bytes
        The files that are changed, as they should be.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.reader, self._home = READERS[name], folder / "home"
        self._home.mkdir()
        (folder / "tmp").mkdir()
        tempfile.tempdir = str(folder / "tmp")
        logging.disable()
        warnings.simplefilter("ignore")
        self.files = {file: (self._home / file).read_bytes() for file in self.reader.prepare(self._home)}
        self._guard = Guard(self._home, folder / "tmp", writes=self.reader.writes)
        self._ran = folder / "ran"
        for file in self.files:  # as they are, so that what is imported late is here then
            with suppress(Exception):  # some are refused, as they should be
                self.reader.read(self._home, file)

    def judge(self, file: str, content: bytes) -> tuple[str, str]:
        """Return what came of reading a changed file."""
        path = self._home / file
        path.write_bytes(content)
        outcome = self._guard.judge(
            lambda: self.reader.read(self._home, file), [path.name, str(self._home)], self._ran
        )
        path.write_bytes(self.files[file])
        return outcome


def changed_file(name: str, files: dict[str, bytes], seed: int, number: int) -> tuple[str, bytes]:
    """Return which file a trial changes, and into what: the same for the same seed and number."""
    rng = random.Random(f"{name} {seed} {number}")
    file = rng.choice(list(files))
    return file, READERS[name].change(files[file], list(files.values()), rng)


def read_changed(name: str, seed: int, first: int, end: float, folder: Path) -> None:
    """Read changed files, by number, until a time; write a line of JSON for each that was not survived."""
    os.dup2(os.open(folder / "errors", os.O_WRONLY | os.O_CREAT), 2)
    os.environ["PATH"] = f"{folder / 'programs'}{os.pathsep}{os.environ.get('PATH', '')}"
    trial = Trial(name, folder)
    place = Place(folder / "at")
    limit_memory(_MEMORY)
    number = first
    with (folder / "said").open("a") as said:
        while time.monotonic() < end or number == first:
            place.set(number, number - first)
            file, content = changed_file(name, trial.files, seed, number)
            outcome, what = trial.judge(file, content)
            if outcome != SURVIVED:
                print(json.dumps([number, outcome, f"{file}: {what}"]), file=said, flush=True)
            number += 1
    place.set(number, number - first)
