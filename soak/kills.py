"""kill -9 at random times, to whole process groups; the next run must go on, and end as if nothing was."""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from soak.tally import LOST, Tally
from soak.verbs import VERBS, Verb, run, start
from soak.whole import broken

__all__ = ["kill_verb", "kills"]

_IN_A_ROW = 3  # kills before a run may finish


def kills(minutes: float, seed: int, report: Callable[[str], None]) -> Iterator[Tally]:
    """Give every command its share of the time."""
    verbs = {name: verb for name, verb in VERBS.items() if verb.here}
    for name in VERBS.keys() - verbs.keys():
        report(f"{name}: left out, {VERBS[name].needs} is not here")
    for name, verb in verbs.items():
        tally = kill_verb(name, verb, 60 * minutes / len(verbs), seed)
        report(f"{tally.kind}: {tally.tried} trials, {len(tally.findings)} not survived")
        yield tally


def kill_verb(name: str, verb: Verb, seconds: float, seed: int) -> Tally:
    """Kill a command again and again; every kill, and every run that could finish then, is a trial."""
    tally = Tally(f"kill: {name}")
    rng = random.Random(f"{name} {seed}")
    with tally.timed(), tempfile.TemporaryDirectory(prefix="soak-") as home:
        begin, work, log = Path(home, "begin"), Path(home, "work"), Path(home, "log")
        begin.mkdir()
        verb.prepare(begin)
        shutil.copytree(begin, work)
        began = time.monotonic()
        status, said = run(verb.arguments, work, log)
        full = time.monotonic() - began
        if status:
            tally.add(LOST, f"undisturbed: {status} {said}")
            return tally
        expected = verb.result(work)
        allowed = {file: [(work / file).read_bytes()] for file in verb.files}
        end = began + seconds
        while time.monotonic() < end or tally.tried == 0:
            shutil.rmtree(work)
            shutil.copytree(begin, work)
            for number in range(_IN_A_ROW):
                # A later run finds part of its work done; the first third of a run is imports.
                _kill_after(rng.uniform(0.3, 1.0) * full, verb, work, log)
                wrong = broken(work, allowed)
                tally.check(not wrong, f"after kill {number + 1}: {wrong}")
                if time.monotonic() > end:
                    break
            status, said = run(verb.arguments, work, log)
            tally.check(status == 0, f"it did not go on: {said}")
            if status == 0:
                tally.check(verb.result(work) == expected, "the result is another one")
    return tally


def _kill_after(seconds: float, verb: Verb, folder: Path, log: Path) -> None:
    process = start(verb.arguments, folder, log)
    with suppress(Exception):
        process.wait(seconds)
    with suppress(ProcessLookupError):  # all of them have ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
