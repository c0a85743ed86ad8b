"""What the workers of the tests do; in a file of its own, which their processes can import."""

from __future__ import annotations

import os
import signal
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from cosmo._core.files import draft_of
from cosmo.encoders import Encoder, ItemError


class Traveller:
    """Leaves a line in a file whenever it arrives in a process."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        with self.log.open("a") as file:
            file.write(f"{os.getpid()}\n")


def slow(seconds: float, task: int) -> tuple[int, int]:
    time.sleep(seconds)
    return task, os.getpid()


def half_written(folder: Path, task: int) -> int:
    """Be in the midst of writing a file, all but the first."""
    if task:
        draft_of(folder / "inner" / f"{task}.npz").write_bytes(b"half")
        time.sleep(60)
    return task


_KEPT: list[np.ndarray] = []


def keeps_memory(common: None, task: int) -> int:
    """Hold on to 400 MB from the second task of a process on; joblib then replaces the process.

    It compares with the memory after the first, whichever task that was.
    """
    _KEPT.append(np.ones(50_000_000 if len(_KEPT) == 1 else 1))
    time.sleep(0.6)
    return os.getpid()


def noted(log: Path, task: int) -> int:
    """Leave an empty file for each attempt."""
    (log / f"{task}-{time.monotonic_ns()}").touch()
    time.sleep(0.3)
    return task


def greet(traveller: Traveller, task: int) -> int:
    return os.getpid()


def threads(common: None, task: int) -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info()]


def fails(bad: int, task: int) -> int:
    if task == bad:
        raise LookupError(f"task {task} cannot be done")
    return task


def dies(bad: int, task: int) -> int:
    if task == bad:
        os._exit(9)
    return task


class Letters(Encoder):
    """Counts letters."""

    name, kind, n_features, identity = "letters", "text", 26, "letters-1"  # type: ignore[misc]

    def content(self, item: Any) -> bytes:
        return str(item).encode()

    def read(self, item: Any) -> Any:
        if not item:
            raise ItemError("the text is empty")
        return item

    def encode_batch(self, batch: Any) -> Any:
        counts = [[text.count(chr(97 + k)) for k in range(26)] for text in batch]
        return np.log1p(np.array(counts, dtype=np.float32))


class Fragile:
    """A result that ends the first two processes that hand it out: they had it, and nobody else will."""

    def __init__(self, log: Path, task: int) -> None:
        self.log, self.task = log, task

    def __reduce__(self) -> tuple[type, tuple[int]]:
        if len(list(self.log.iterdir())) < 2:
            (self.log / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return int, (self.task,)


def fragile(log: Path, task: int) -> Fragile:
    time.sleep(0.2)  # so that somebody who looks from time to time sees who is at work
    return Fragile(log, task)


def arrow_threads(common: None, task: int) -> int:
    """Import a library with threads of its own, which was not there before."""
    return int(import_module("pyarrow").cpu_count())
