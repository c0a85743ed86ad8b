"""Commands whose process group is killed at random times; the next run continues with the same result."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress

from soak.commands import COMMANDS, Command, Workplace, start, workplace
from soak.tally import Tally

_IN_A_ROW = 3  # kills before a run may finish


def run_trials(minutes: float, seed: int) -> Iterator[Tally]:
    """Kill every command again and again."""
    commands = {name: command for name, command in COMMANDS.items() if command.installed}
    for name, command in commands.items():
        yield _kill_command(name, command, 60 * minutes / len(commands), seed)


def _kill_command(name: str, command: Command, seconds: float, seed: int) -> Tally:
    tally, rng = Tally(f"kill: {name}"), random.Random(f"{name} {seed}")
    end = time.monotonic() + seconds
    with tally.timed(), workplace(command) as place:
        while time.monotonic() < end or tally.tried == 0:
            place.reset()
            for number in range(_IN_A_ROW):
                # The first third of a run is imports.
                _kill_after(rng.uniform(0.3, 1.0) * place.seconds, place)
                problem = place.broken()
                tally.check(not problem, f"after kill {number + 1}: {problem}")
                if time.monotonic() > end:
                    break
            status, messages = place.run()
            tally.check(status == 0, f"the next run failed: {messages}")
            if status == 0:
                tally.check(command.result(place.work) == place.expected, "the result differs")
    return tally


def _kill_after(seconds: float, place: Workplace) -> None:
    process = start(place.command.arguments, place.work, place.log)
    with suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    with suppress(ProcessLookupError):  # all of them have ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
