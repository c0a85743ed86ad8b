"""Hostile files: changed at random, and read in processes with bounds of memory and time."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from soak.readers import READERS
from soak.tally import LOST, SURVIVED, Tally
from soak.worker import Place, read_changed

__all__ = ["fuzz", "fuzz_reader"]

_PATIENCE = 20.0  # seconds for one file
_START = 120.0  # seconds to come to the first one
_CONTEXT = get_context("forkserver")  # everything is imported once
_CONTEXT.set_forkserver_preload(["soak.worker", "pyarrow.parquet", "torch"])


def fuzz(minutes: float, seed: int, report: Callable[[str], None], jobs: int = 2) -> Iterator[Tally]:
    """Give every reader its share of the time."""
    names = [name for name, reader in READERS.items() if reader.here]
    for name in READERS.keys() - set(names):
        report(f"{name}: left out, {READERS[name].needs} is not here")
    seconds = 60 * minutes * jobs / len(names)
    warm = _CONTEXT.Process(target=int)  # so that imports are not on the first reader's time
    warm.start()
    warm.join()
    with ThreadPoolExecutor(jobs) as pool:
        tasks = {name: pool.submit(fuzz_reader, name, seconds, seed) for name in names}
        for name, task in tasks.items():
            tally = task.result()
            report(f"{name}: {tally.tried} changed files, {len(tally.findings)} not survived")
            yield tally


def fuzz_reader(name: str, seconds: float, seed: int) -> Tally:
    """Have one reader read changed files for some seconds; a process that dies is followed by another."""
    tally = Tally(f"file: {name}")
    first = 0
    with tally.timed():
        end = time.monotonic() + seconds
        while first == 0 or time.monotonic() < end:
            with tempfile.TemporaryDirectory(prefix="soak-") as folder:
                first = _one_process(name, seed, first, end, Path(folder), tally)
    return tally


def _one_process(name: str, seed: int, first: int, end: float, folder: Path, tally: Tally) -> int:
    """Run a process to its end; return the number of the next file."""
    place = Place(folder / "at")
    place.set(first, 0)
    _lay_traps(folder)
    process = _CONTEXT.Process(target=read_changed, args=(name, seed, first, end, folder))
    process.start()
    hung = _watch(process, place)
    at, done = place.get()
    said = folder / "said"
    outcomes = [json.loads(line) for line in said.read_text().splitlines()] if said.exists() else []
    for number, outcome, what in outcomes:
        tally.add(outcome, f"{what} [{seed}/{number}]")
    for _ in range(done - len(outcomes)):
        tally.add(SURVIVED)
    if process.exitcode == 0 and not hung:
        return at
    errors = (folder / "errors").read_text(errors="replace").strip().splitlines()
    why = "no end" if hung else f"the process ended with {process.exitcode} {' '.join(errors[-1:])}"
    tally.add(LOST, f"{why} [{seed}/{at}]")
    return at + 1


def _watch(process: Any, place: Place) -> bool:
    """Wait for a process; end it if it stays too long at one file, and say so."""
    at, since, patience = None, time.monotonic(), _START
    while process.is_alive():
        process.join(0.1)
        now = place.get()[1]
        if now != at:
            at, since = now, time.monotonic()
            patience = _START if now == 0 else _PATIENCE
        elif time.monotonic() - since > patience:
            process.kill()
            process.join()
            return True
    return False


def _lay_traps(folder: Path) -> None:
    """Put programs where a library would find one to run, that tell if they are."""
    (folder / "programs").mkdir()
    for name in ("gs", "ffmpeg", "xdg-open", "display"):
        trap = folder / "programs" / name
        trap.write_text(f"#!/bin/sh\ntouch '{folder}/ran'\n")
        trap.chmod(0o755)
