"""Commands on full and read-only disks, and two processes that write one output."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from soak.commands import COMMANDS, Workplace, start, workplace
from soak.tally import Tally


def run_trials(minutes: float, seed: int) -> Iterator[Tally]:
    """Disturb three commands in three ways."""
    rng = random.Random(f"disk {seed}")
    kinds = {"full disk": _full, "read-only folder": _read_only, "two processes": _two_processes}
    commands = [COMMANDS[name] for name in ("predict to CSV", "fit", "predict to Parquet")]
    commands = [command for command in commands if command.installed]
    tallies = {kind: Tally(kind) for kind in kinds}
    seconds = 60 * minutes / len(kinds) / len(commands)
    for command in commands:
        with workplace(command) as place:
            for kind, disturb in kinds.items():
                tally, end = tallies[kind], time.monotonic() + seconds
                with tally.timed():
                    before = tally.tried
                    while time.monotonic() < end or tally.tried == before:
                        place.reset()
                        disturb(place, tally, rng)
    yield from tallies.values()


def _check_next_run(place: Workplace, tally: Tally) -> None:
    status, messages = place.run()
    same = status == 0 and place.command.result(place.work) == place.expected
    tally.check(same, f"the next run: {status} {messages}")


def _full(place: Workplace, tally: Tally, rng: random.Random) -> None:
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


def _read_only(place: Workplace, tally: Tally, rng: random.Random) -> None:
    """Forbid writing to the folder; for root, who may write anyway, by a read-only mount."""
    bound = False
    if os.geteuid() == 0:
        folder = str(place.work)
        for options in (["--bind"], ["-o", "remount,ro,bind"]):
            done = subprocess.run(["mount", *options, folder, folder], capture_output=True)
            if done.returncode:
                break
            bound = True
    else:
        place.work.chmod(0o555)
    try:
        if bound or os.geteuid() != 0:
            status, messages = place.run()
            named = "ead-only" in messages or "ermission" in messages
            tally.check(status == 2 and named and "Traceback" not in messages, f"{status} {messages}")
    finally:
        if bound:
            subprocess.run(["umount", "-l", str(place.work)], check=True, capture_output=True)
        place.work.chmod(0o755)
    _check_next_run(place, tally)


def _two_processes(place: Workplace, tally: Tally, rng: random.Random) -> None:
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
