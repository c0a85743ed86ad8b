"""Files with random damage, read in processes with limited memory and time."""

from __future__ import annotations

import logging
import os
import random
import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from soak.formats import FORMATS
from soak.guard import Guard, limit_memory
from soak.tally import LOST, Tally

_MEMORY = 1 << 30  # bytes that reading a file of some kilobytes may take
_PATIENCE = 20.0  # seconds for one file
_START = 120.0  # seconds until the first one
_JOBS = 2
_CONTEXT = get_context("forkserver")  # libraries are imported once
_CONTEXT.set_forkserver_preload(["soak.files", "torch"])


def run_trials(minutes: float, seed: int) -> Iterator[Tally]:
    """Read damaged files of every format."""
    seconds = 60 * minutes * _JOBS / len(FORMATS)
    warm_up = _CONTEXT.Process(target=int)
    warm_up.start()
    warm_up.join()
    with ThreadPoolExecutor(_JOBS) as pool:
        yield from pool.map(lambda name: _read_damaged(name, seconds, seed), FORMATS)


def _read_damaged(name: str, seconds: float, seed: int) -> Tally:
    """Read damaged files of one format; a process that dies or hangs is replaced."""
    tally = Tally(f"file: {name}")
    with tally.timed():
        end = time.monotonic() + seconds
        while tally.tried == 0 or time.monotonic() < end:
            with tempfile.TemporaryDirectory(prefix="soak-") as folder:
                _one_process(name, seed, end, Path(folder), tally)
    return tally


def _one_process(name: str, seed: int, end: float, folder: Path, tally: Tally) -> None:
    """Count the outcomes that a process sends, and its death."""
    _write_traps(folder)
    receiver, sender = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_work, args=(name, seed, tally.tried, end, folder, sender))
    process.start()
    sender.close()
    patience, hung = _START, False
    with suppress(EOFError):
        while not (hung := not receiver.poll(patience)):
            tally.add(*receiver.recv())
            patience = _PATIENCE
    if hung:
        process.kill()
    process.join()
    if hung or process.exitcode:
        errors = (folder / "errors").read_text(errors="replace").strip().splitlines()
        reason = "no end" if hung else f"the process ended with {process.exitcode} {' '.join(errors[-1:])}"
        tally.add(LOST, f"{reason} [{seed}/{tally.tried}]")


def _write_traps(folder: Path) -> None:
    """Put programs that a library might run on the PATH; they leave a file `ran`."""
    (folder / "programs").mkdir()
    for name in ("gs", "ffmpeg", "xdg-open", "display"):
        trap = folder / "programs" / name
        trap.write_text(f"#!/bin/sh\ntouch '{folder}/ran'\n")
        trap.chmod(0o755)


def _work(name: str, seed: int, number: int, end: float, folder: Path, sender: Connection) -> None:
    """Read damaged files until a time, and send the outcome of each."""
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
    limit_memory(_MEMORY)
    first = number
    while time.monotonic() < end or number == first:
        rng = random.Random(f"{name} {seed} {number}")
        file = rng.choice(list(files))
        path = home / file
        path.write_bytes(format_.damage(files[file], list(files.values()), rng))
        read = lambda file=file: format_.read(home, file)  # noqa: E731
        outcome, reason = guard.judge(read, [path.name, str(home)], folder / "ran")
        path.write_bytes(files[file])
        sender.send((outcome, f"{file}: {reason} [{seed}/{number}]"))
        number += 1
