"""Functions that worker processes of the tests run; a module of its own, which they can import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info


class LoadCounter:
    """Adds a line to a file whenever a process loads it."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        with self.log.open("a") as file:
            file.write(f"{os.getpid()}\n")


def sleep(seconds: float, task: int) -> tuple[int, int]:
    time.sleep(seconds)
    return task, os.getpid()


def log_attempt(folder: Path, task: int) -> int:
    """Create an empty file for each attempt."""
    (folder / f"{task}-{time.monotonic_ns()}").touch()
    time.sleep(0.3)
    return task


def process_id(counter: LoadCounter, task: int) -> int:
    return os.getpid()


def threads(common: None, task: int) -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info()]


def fail(bad: int, task: int) -> int:
    if task == bad:
        raise LookupError(f"task {task} cannot be done")
    return task


def die(bad: int, task: int) -> int:
    if task == bad:
        os._exit(9)
    return task


class FragileResult:
    """A result that kills the first two processes that send it."""

    def __init__(self, log: Path, task: int) -> None:
        self.log, self.task = log, task

    def __reduce__(self) -> tuple[type, tuple[int]]:
        if len(list(self.log.iterdir())) < 2:
            (self.log / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return int, (self.task,)


def fragile(log: Path, task: int) -> FragileResult:
    time.sleep(0.2)
    return FragileResult(log, task)
