"""Disks that are full or read-only, caches that two processes share, and clocks that jump."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from soak.tally import Tally
from soak.verbs import VERBS, Verb, run, start
from soak.whole import broken

__all__ = ["disk"]

_YEAR = 365 * 86_400.0


def disk(minutes: float, seed: int, report: Callable[[str], None]) -> Iterator[Tally]:
    """Run each kind of trial; how many depends on the time."""
    rng = random.Random(f"disk {seed}")
    kinds = {"full disk": (_full, 0.4), "read-only folder": (_read_only, 0.15), "two processes": (_two, 0.2)}
    kinds["clock jumps"] = (_clock, 0.25)
    verbs = ("predict to CSV", "fit", "predict to Parquet")
    # By time go the lines on progress, and the checkpoints of a training.
    of_clocks = ("predict to CSV", "fit, with a network", "compare")
    for kind, (trial, share) in kinds.items():
        tally = Tally(kind)
        names = [name for name in (of_clocks if trial is _clock else verbs) if VERBS[name].here]
        with tally.timed():
            end = time.monotonic() + 60 * minutes * share
            for name in names:
                if tally.tried == 0 or time.monotonic() < end:
                    with _undisturbed(VERBS[name]) as (begin, work, log, expected, allowed):
                        first = True
                        while first or time.monotonic() < end - (len(names) - 1 - names.index(name)) * 10:
                            first = False
                            shutil.rmtree(work)
                            shutil.copytree(begin, work)
                            trial(VERBS[name], work, log, expected, allowed, tally, rng)
        report(f"{kind}: {tally.tried} trials, {len(tally.findings)} not survived")
        yield tally


@contextmanager
def _undisturbed(verb: Verb) -> Iterator[tuple[Path, Path, Path, object, dict[str, list[bytes]]]]:
    with tempfile.TemporaryDirectory(prefix="soak-") as home:
        begin, work, log = Path(home, "begin"), Path(home, "work"), Path(home, "log")
        begin.mkdir()
        verb.prepare(begin)
        shutil.copytree(begin, work)
        run(verb.arguments, work, log)
        yield begin, work, log, verb.result(work), {file: [(work / file).read_bytes()] for file in verb.files}


def _goes_on(
    verb: Verb, work: Path, log: Path, expected: object, tally: Tally, clock: int | None = None
) -> None:
    status, said = run(verb.arguments, work, log, clock=clock)
    tally.check(status == 0 and verb.result(work) == expected, f"afterwards: {status} {said}")


def _full(
    verb: Verb,
    work: Path,
    log: Path,
    expected: object,
    allowed: dict[str, list[bytes]],
    tally: Tally,
    rng: random.Random,
) -> None:
    """Let files grow to some size only, or the disk have so much room only, where one may be mounted."""
    size = sum(path.stat().st_size for path in work.rglob("*") if path.is_file())
    with _small_disk(work, size + rng.randrange(1, 3_000_000)) as mounted:
        limit = None if mounted else rng.randrange(1, 200_000)
        status, said = run(verb.arguments, work, log, limit)
        wrong = broken(work, allowed)
        clean = status == 0 or (status == 2 and "Traceback" not in said)
        tally.check(clean and not wrong, f"{wrong or status} {'' if wrong else said}")
    _goes_on(verb, work, log, expected, tally)


@contextmanager
def _small_disk(folder: Path, size: int) -> Iterator[bool]:
    """Put a disk of so many bytes under a folder, with what is in it; yield whether that is permitted."""
    aside = folder.with_name("aside")
    folder.rename(aside)
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = shutil.which("mount") is not None and subprocess.run(mount, capture_output=True).returncode == 0
    if not mounted:
        folder.rmdir()
        aside.rename(folder)
        yield False
        return
    shutil.copytree(aside, folder, dirs_exist_ok=True)
    shutil.rmtree(aside)
    try:
        yield True
        shutil.copytree(folder, aside)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)
    folder.rmdir()
    aside.rename(folder)


def _read_only(
    verb: Verb,
    work: Path,
    log: Path,
    expected: object,
    allowed: dict[str, list[bytes]],
    tally: Tally,
    rng: random.Random,
) -> None:
    """Let nothing be written to the folder; who may write anyway mounts it so that nobody may."""
    bound = False
    if os.geteuid() == 0:
        for options in (["--bind"], ["-o", "remount,ro,bind"]):
            done = subprocess.run(["mount", *options, str(work), str(work)], capture_output=True).returncode
            bound = bound or (options == ["--bind"] and done == 0)
    else:
        work.chmod(0o555)
    try:
        status, said = run(verb.arguments, work, log)
        clean = status == 2 and "Traceback" not in said and ("ead-only" in said or "ermission" in said)
        tally.check(clean, f"{status} {said}")
    finally:
        if bound:
            subprocess.run(["umount", "-l", str(work)], check=True, capture_output=True)
        work.chmod(0o755)
    _goes_on(verb, work, log, expected, tally)


def _two(
    verb: Verb,
    work: Path,
    log: Path,
    expected: object,
    allowed: dict[str, list[bytes]],
    tally: Tally,
    rng: random.Random,
) -> None:
    """Run the same command twice at once: both are right, or one is refused and says why."""
    logs = [log, log.with_name("log2")]
    processes = []
    for one in logs:
        processes.append(start(verb.arguments, work, one))
        time.sleep(rng.uniform(0, 0.5))
    statuses = [process.wait() for process in processes]
    said = [one.read_text(errors="replace")[-300:] for one in logs]
    clean = all(
        status == 0 or (status == 2 and "another run" in text)
        for status, text in zip(statuses, said, strict=True)
    )
    tally.check(clean and 0 in statuses, f"{statuses} {said}")
    tally.check(verb.result(work) == expected and not broken(work, allowed), "the result is another one")


def _clock(
    verb: Verb,
    work: Path,
    log: Path,
    expected: object,
    allowed: dict[str, list[bytes]],
    tally: Tally,
    rng: random.Random,
) -> None:
    """Kill a run whose clock jumps, date what it left years before or ahead, and go on; it jumps still."""
    process = start(verb.arguments, work, log, clock=rng.randrange(10**6))
    with suppress(subprocess.TimeoutExpired):
        process.wait(rng.uniform(1.5, 6.0))
    process.kill()
    process.wait()
    wrong = broken(work, allowed)
    tally.check(not wrong, wrong)
    inputs = {path for path in work.iterdir() if path.is_file()}
    for path in sorted(work.rglob("*")):
        if path not in inputs:  # an input that is dated anew is another one, and refused
            moment = time.time() + rng.uniform(-20, 20) * _YEAR
            os.utime(path, (moment, moment))
    _goes_on(verb, work, log, expected, tally, clock=rng.randrange(10**6))
