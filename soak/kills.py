"""Commands that are killed, run out of disk space, or run twice at once; then they continue."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from soak.commands import COMMANDS, Workplace, start, workplace
from soak.tally import Tally


def run_trials(minutes: float, seed: int) -> Iterator[Tally]:
    """Disturb every command in three ways."""
    rng = random.Random(f"commands {seed}")
    ways = {"killed": _kill, "full disk": _fill_disk, "two processes": _run_twice}
    seconds = 60 * minutes / len(COMMANDS) / len(ways)
    for name, command in COMMANDS.items():
        with workplace(command) as place:
            for way, disturb in ways.items():
                tally, end = Tally(f"{way}: {name}"), time.monotonic() + seconds
                with tally.timed():
                    while time.monotonic() < end or tally.tried == 0:
                        place.reset()
                        disturb(place, tally, rng)
                yield tally


def _check_next_run(place: Workplace, tally: Tally) -> None:
    status, messages = place.run()
    same = status == 0 and place.command.result(place.work) == place.expected
    tally.check(same, f"the next run: {status} {messages}")


def _kill(place: Workplace, tally: Tally, rng: random.Random) -> None:
    """Kill the process group three times, then let it finish."""
    for number in range(3):
        process = start(place.command.arguments, place.work, place.log)
        with suppress(subprocess.TimeoutExpired):
            process.wait(rng.uniform(0.3, 1.0) * place.seconds)  # the first third is imports
        with suppress(ProcessLookupError):  # all of them have ended
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        problem = place.broken()
        tally.check(not problem, f"after kill {number + 1}: {problem}")
    _check_next_run(place, tally)


def _fill_disk(place: Workplace, tally: Tally, rng: random.Random) -> None:
    """Bound the size of the disk or, without the right to mount one, of each file."""
    size = sum(path.stat().st_size for path in place.work.rglob("*") if path.is_file())
    with _small_disk(place.work, size + rng.randrange(1, 3_000_000)) as mounted:
        status, messages = place.run(None if mounted else rng.randrange(1, 200_000))
        problem = place.broken()
        clean = status == 0 or (status == 2 and "Traceback" not in messages)
        tally.check(clean and not problem, problem or f"{status} {messages}")
    _check_next_run(place, tally)


@contextmanager
def _small_disk(folder: Path, size: int) -> Iterator[bool]:
    """Mount a disk of `size` bytes at a folder, with its content; yield whether that is permitted."""
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


def _run_twice(place: Workplace, tally: Tally, rng: random.Random) -> None:
    """Run a command twice at once: both succeed, or one is refused because of the other."""
    logs = [place.log, place.log.with_name("log2")]
    processes = []
    for log in logs:
        processes.append(start(place.command.arguments, place.work, log))
        time.sleep(rng.uniform(0, 0.5))
    statuses = [process.wait() for process in processes]
    messages = [log.read_text(errors="replace")[-300:] for log in logs]
    clean = all(
        status == 0 or (status == 2 and "another" in text)
        for status, text in zip(statuses, messages, strict=True)
    )
    tally.check(clean and 0 in statuses, f"{statuses} {messages}")
    tally.check(not place.broken(), place.broken())
