"""Actions that are killed, or run out of disk space, before their n-th change to the file system."""

from __future__ import annotations

import copy
import errno
import json
import math
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cosmo._core.cache import Cache
from cosmo.cli import main as cosmo_command
from cosmo.data._matfile import write_mat_files
from soak.commands import contents, unreadable_file
from soak.samples import N_FEATURES, fruit_model
from soak.tally import LOST, Tally

_CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_KILLED, _FAILED, _DONE, _BUG = "killed", "failed", "done", "bug"


@dataclass(frozen=True)
class Action:
    """Something that writes files: how its folder begins, what it does, files that differ between runs."""

    prepare: Callable[[Path], object]
    act: Callable[[Path], object]
    ignored: tuple[str, ...] = ()


def run_trials(minutes: float, seed: int) -> Iterator[Tally]:
    """Stop every action in both ways."""
    cases = [(way, name) for way in ("kill", "full disk") for name in ACTIONS]
    for way, name in cases:
        yield at_every_step(name, way, seconds=60 * minutes / len(cases))


def at_every_step(name: str, way: str, *, stride: int = 1, seconds: float = math.inf) -> Tally:
    """Stop an action at each step, check what is left, run it again, and compare.

    `way` is "kill" or "full disk". A `stride` of 2 tries every second step; `seconds` may increase it.
    """
    action, tally = ACTIONS[name], Tally(f"{way} at each step: {name}")
    with tally.timed(), tempfile.TemporaryDirectory(prefix="soak-") as home:
        start, folder, log = Path(home, "start"), Path(home, "work"), Path(home, "log")
        start.mkdir()
        action.prepare(start)
        fruit_model()  # cached, so that not every process fits it
        shutil.copytree(start, folder)
        began = time.monotonic()
        end, n_steps, message = _run_to(lambda: action.act(folder), 0, way, log)
        if end != _DONE:
            tally.add(LOST, f"undisturbed: {end} {message}")
        # Each trial runs the action to the step, then to its end.
        stride = max(stride, math.ceil(3 * n_steps * (time.monotonic() - began) / seconds))
        before, after = contents(start), _compared(folder, action)
        for step in range(1, n_steps + 1, stride):
            shutil.rmtree(folder)
            shutil.copytree(start, folder)
            end, _, message = _run_to(lambda: action.act(folder), step, way, log)
            problem = f"bug: {message}" if end == _BUG else ""
            left = _compared(folder, action)
            mixed = [
                key for key in left.keys() & after.keys() if left[key] not in (before.get(key), after[key])
            ]
            problem = problem or (f"neither old nor new: {mixed}" if mixed else unreadable_file(folder))
            end, _, message = _run_to(lambda: action.act(folder), 0, way, log)
            left = _compared(folder, action)
            if end != _DONE:
                problem = problem or f"the next run failed: {message}"
            elif left != after:
                differing = sorted(key for key in left | after if left.get(key) != after.get(key))
                problem = problem or f"other files after the next run: {differing}"
            tally.check(not problem, f"{problem} [step {step} of {n_steps}]")
    return tally


def _compared(folder: Path, action: Action) -> dict[str, bytes]:
    return {name: content for name, content in contents(folder).items() if name not in action.ignored}


def _run_to(action: Callable[[], object], step: int, way: str, log: Path) -> tuple[str, int, str]:
    """Run an action in a child that stops before a step (0: never); return end, steps, message."""
    child = os.fork()
    if child == 0:
        _act(action, step, way, log)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return (_KILLED if os.WTERMSIG(status) == signal.SIGKILL else _BUG), 0, f"status {status}"
    end, n_steps, message = json.loads(log.read_text())
    return end, n_steps, message


def _act(action: Callable[[], object], step: int, way: str, log: Path) -> None:
    """Run the action in the child, write how it ended, and exit."""
    count = 0

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal count
        change = event in _CHANGES or (event == "open" and isinstance(args[2], int) and args[2] & _WRITING)
        if not change or (event == "open" and args[0] == os.devnull):
            return
        count += 1
        if count == step and way == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif count == step:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sys.addaudithook(hook)
    end, message = _DONE, ""
    try:
        action()
    except (ValueError, OSError) as error:
        end, message = _FAILED, str(error)
    except BaseException as error:
        end, message = _BUG, f"{type(error).__name__}: {error}"
    log.write_text(json.dumps([end, count, message]))
    os._exit(0)


def _save(folder: Path) -> None:
    fruit_model().save(folder / "model.cosmo")


def _save_older(folder: Path) -> None:
    older = copy.deepcopy(fruit_model())
    older.cosmo.operate_at(threshold=0.25)
    older.save(folder / "model.cosmo")


def _write_rows(folder: Path) -> None:
    _save(folder)
    np.save(folder / "new.npy", np.random.default_rng(0).random((90, N_FEATURES), dtype=np.float32))


def _predict(folder: Path) -> None:
    inputs, options = ["model.cosmo", "new.npy"], ["--batch", "20", "-q", "--out", str(folder / "out.csv")]
    if cosmo_command(["predict", *(str(folder / name) for name in inputs), *options]):
        raise ValueError("exit status 2")


def _write_cache(folder: Path) -> None:
    for number in range(3):
        Cache(folder).arrays("squares", str(number), lambda number=number: {"x": np.arange(9.0) ** number})
        Cache(folder).write("choice", str(number), {"value": number})


def _write_mat_files(folder: Path) -> None:
    values = np.arange(12.0).reshape(3, 4)
    write_mat_files(folder, {"a.mat": {"x": values}, "b.mat": {"y": values.T}}, {"c.txt": "note"})


ACTIONS = {
    "replace a model": Action(_save_older, _save),
    "predict to CSV": Action(_write_rows, _predict),
    "write to the cache": Action(lambda folder: None, _write_cache),
    # MATLAB files begin with the time at which they were written.
    "write MATLAB files": Action(lambda folder: None, _write_mat_files, ("a.mat", "b.mat")),
}
