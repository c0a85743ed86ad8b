"""Files with random damage, read in processes with limited memory and time."""

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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from soak.formats import FORMATS
from soak.guard import Guard, limit_memory
from soak.tally import LOST, SURVIVED, Tally

_MEMORY = 1 << 30  # bytes that reading a file of some kilobytes may take
_PATIENCE = 20.0  # seconds for one file
_START = 120.0  # seconds until the first one
_JOBS = 2
_CONTEXT = get_context("forkserver")  # libraries are imported once
_CONTEXT.set_forkserver_preload(["soak.files", "torch"])


def run_trials(minutes: float, seed: int) -> Iterator[Tally]:
    """Read damaged files of every format."""
    names = [name for name, format_ in FORMATS.items() if format_.installed]
    seconds = 60 * minutes * _JOBS / len(names)
    warm_up = _CONTEXT.Process(target=int)
    warm_up.start()
    warm_up.join()
    with ThreadPoolExecutor(_JOBS) as pool:
        yield from pool.map(lambda name: read_damaged(name, seconds, seed), names)


def read_damaged(name: str, seconds: float, seed: int) -> Tally:
    """Read damaged files of one format; a process that dies is replaced."""
    tally, first = Tally(f"file: {name}"), 0
    with tally.timed():
        end = time.monotonic() + seconds
        while first == 0 or time.monotonic() < end:
            with tempfile.TemporaryDirectory(prefix="soak-") as folder:
                first = _one_process(name, seed, first, end, Path(folder), tally)
    return tally


def _one_process(name: str, seed: int, first: int, end: float, folder: Path, tally: Tally) -> int:
    """Run a process to its end; return the number of the next file."""
    progress = _Progress(folder / "progress")
    progress.set(first, 0)
    _write_traps(folder)
    process = _CONTEXT.Process(target=_work, args=(name, seed, first, end, folder))
    process.start()
    hung = _watch(process, progress)
    current, done = progress.get()
    log = folder / "findings"
    findings = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    for number, outcome, reason in findings:
        tally.add(outcome, f"{reason} [{seed}/{number}]")
    for _ in range(done - len(findings)):
        tally.add(SURVIVED)
    if process.exitcode == 0 and not hung:
        return current
    errors = (folder / "errors").read_text(errors="replace").strip().splitlines()
    reason = "no end" if hung else f"the process ended with {process.exitcode} {' '.join(errors[-1:])}"
    tally.add(LOST, f"{reason} [{seed}/{current}]")
    return current + 1


def _watch(process: Any, progress: _Progress) -> bool:
    """Wait for a process; kill it if one file takes too long, and return whether it did."""
    last, since, patience = None, time.monotonic(), _START
    while process.is_alive():
        process.join(0.1)
        done = progress.get()[1]
        if done != last:
            last, since = done, time.monotonic()
            patience = _START if done == 0 else _PATIENCE
        elif time.monotonic() - since > patience:
            process.kill()
            process.join()
            return True
    return False


def _write_traps(folder: Path) -> None:
    """Put programs that a library might run on the PATH; they leave a file `ran`."""
    (folder / "programs").mkdir()
    for name in ("gs", "ffmpeg", "xdg-open", "display"):
        trap = folder / "programs" / name
        trap.write_text(f"#!/bin/sh\ntouch '{folder}/ran'\n")
        trap.chmod(0o755)


class _Progress:
    """Two numbers that survive the process: the current file, and how many are done."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(16))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 16)

    def set(self, current: int, done: int) -> None:
        self._map[:] = struct.pack("<QQ", current, done)

    def get(self) -> tuple[int, int]:
        current, done = struct.unpack("<QQ", self._map[:])
        return current, done


def _work(name: str, seed: int, first: int, end: float, folder: Path) -> None:
    """Read damaged files until a time; write a line of JSON for each that was not survived."""
    os.dup2(os.open(folder / "errors", os.O_WRONLY | os.O_CREAT), 2)
    os.environ["PATH"] = f"{folder / 'programs'}{os.pathsep}{os.environ.get('PATH', '')}"
    logging.disable()
    warnings.simplefilter("ignore")
    home, temporary = folder / "home", folder / "tmp"
    home.mkdir()
    temporary.mkdir()
    tempfile.tempdir = str(temporary)
    format_ = FORMATS[name]
    files = {file: (home / file).read_bytes() for file in format_.prepare(home)}
    guard = Guard(home, temporary, writes=format_.writes)
    for file in files:  # undamaged, so that late imports happen now
        with suppress(Exception):
            format_.read(home, file)
    progress = _Progress(folder / "progress")
    limit_memory(_MEMORY)
    number = first
    with (folder / "findings").open("a") as findings:
        while time.monotonic() < end or number == first:
            progress.set(number, number - first)
            rng = random.Random(f"{name} {seed} {number}")
            file = rng.choice(list(files))
            path = home / file
            path.write_bytes(format_.damage(files[file], list(files.values()), rng))
            read = lambda file=file: format_.read(home, file)  # noqa: E731
            outcome, reason = guard.judge(read, [path.name, str(home)], folder / "ran")
            path.write_bytes(files[file])
            if outcome != SURVIVED:
                print(json.dumps([number, outcome, f"{file}: {reason}"]), file=findings, flush=True)
            number += 1
    progress.set(number, number - first)
