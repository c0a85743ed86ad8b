"""A process that ends, or meets a full disk, just before its n-th change to the file system; for every n."""

from __future__ import annotations

import errno
import math
import os
import shutil
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import cosmo
from cosmo._core.cache import Cache
from cosmo.data._matfile import write_mat_files
from cosmo.data.download import unpack
from cosmo.encoders import extract
from cosmo.io.parts import Parts
from cosmo.io.streaming import predict_stream
from cosmo.io.writers import make_writer
from soak.kept import Letters
from soak.readers import READERS, fruit
from soak.tally import LOST, Tally
from soak.whole import broken, contents

__all__ = ["ACTIONS", "at_every_step", "run_to"]

_CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.link")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_KILLED, _FAILED, _DONE, _BUG = "killed", "failed", "done", "bug"


@dataclass(frozen=True)
class Action:
    """Something that writes: files it starts from, what it does, and whether twice is the same as once."""

    prepare: Callable[[Path], None]
    do: Callable[[Path], object]
    ignored: tuple[str, ...] = field(default=())


def run_to(action: Callable[[], object], step: int, way: str) -> tuple[str, int, str]:
    """Run something in a process of its own; it is killed, or fails, before a step (0: never).

    Returns
    -------
    how it ended, the number of steps it took, what it said
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _act(action, step, way, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return (
            (_KILLED if os.WTERMSIG(status) == signal.SIGKILL else _BUG),
            0,
            f"signal {os.WTERMSIG(status)}",
        )
    code, n_steps = struct.unpack_from("<II", said)
    return (_DONE, _BUG, _FAILED)[code], n_steps, said[8:].decode(errors="replace")


def _act(action: Callable[[], object], step: int, way: str, pipe: int) -> None:
    """Be that process; never return."""
    count = 0

    def hook(event: str, args: tuple[Any, ...]) -> None:
        nonlocal count
        change = event in _CHANGES or (event == "open" and isinstance(args[2], int) and args[2] & _WRITING)
        if not change or (event == "open" and args[0] == os.devnull):
            return
        count += 1
        if count != step:
            return
        if way == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    sys.addaudithook(hook)
    code, said = 0, ""
    try:
        action()
    except (ValueError, OSError) as error:
        code, said = 2, str(error)
    except BaseException as error:
        code, said = 1, f"{type(error).__name__}: {error}"
    os.write(pipe, struct.pack("<II", code, count) + said.encode()[:500])
    os._exit(0)


def at_every_step(name: str, way: str, *, stride: int = 1, seconds: float = math.inf) -> Tally:
    """Kill an action, or let it fail, at every step; look at what is left, finish it, and compare.

    Parameters
    ----------
    name : str
        Of `ACTIONS`.
    way : {"kill", "full disk"}
    stride : int
        2 tries every second step, and so on.
    seconds : float
        If all steps would take longer than this, fewer are tried, evenly spread.
    """
    action = ACTIONS[name]
    tally = Tally(f"{way} at each step: {name}")
    with tally.timed(), tempfile.TemporaryDirectory(prefix="soak-") as home:
        start, folder = Path(home, "start"), Path(home, "work")
        start.mkdir()
        action.prepare(start)
        fruit()  # once, and not in every process
        shutil.copytree(start, folder)
        began = time.monotonic()
        how, n_steps, said = run_to(lambda: action.do(folder), 0, way)
        if how != _DONE:
            tally.add(LOST, f"undisturbed: {how} {said}")
        # Each trial is a run to the step, one to the end, and some copying.
        stride = max(stride, math.ceil(3 * n_steps * (time.monotonic() - began) / seconds))
        before = contents(start)
        after = {key: value for key, value in contents(folder).items() if key not in action.ignored}
        allowed = {key: [one[key] for one in (before, after) if key in one] for key in after}
        for step in range(1, n_steps + 1, stride):
            shutil.rmtree(folder)
            shutil.copytree(start, folder)
            how, _, said = run_to(lambda: action.do(folder), step, way)
            wrong = "" if how in (_KILLED, _FAILED, _DONE) else f"{how}: {said}"
            wrong = wrong or broken(folder, allowed)
            how, _, said = run_to(lambda: action.do(folder), 0, way)
            left = {key: value for key, value in contents(folder).items() if key not in action.ignored}
            if how != _DONE:
                wrong = wrong or f"it did not go on: {said}"
            elif left != after:
                wrong = (
                    wrong or f"other files: {sorted(k for k in left | after if left.get(k) != after.get(k))}"
                )
            tally.check(not wrong, f"{wrong} [step {step} of {n_steps}]")
    return tally


def steps(minutes: float, seed: int, report: Callable[[str], None]) -> Iterator[Tally]:
    """Give every action both ways to end."""
    cases = [(way, name) for way in ("kill", "full disk") for name in ACTIONS]
    for way, name in cases:
        tally = at_every_step(name, way, seconds=60 * minutes / len(cases))
        report(f"{tally.kind}: {tally.tried} trials, {len(tally.findings)} not survived")
        yield tally


# What is done.


def _nothing(folder: Path) -> None:
    pass


def _rows(folder: Path) -> None:
    np.save(folder / "new.npy", np.random.default_rng(0).random((90, 7), dtype=np.float32))


def _predict(suffix: str, **options: bool) -> Callable[[Path], object]:
    def do(folder: Path) -> object:
        return predict_stream(fruit(), folder / "new.npy", folder / f"out{suffix}", batch_size=20, **options)

    return do


def _half_done(folder: Path) -> None:
    """Leave parts as a killed run does, whose manifest is of another model."""
    _rows(folder)
    bound = {"model": "another", "input": "", "settings": {"skip": False}, "versions": {}}
    parts = Parts(folder / "out.csv", bound, make_writer(folder / "out.csv"))
    for number in range(4):
        parts.add(number, {"row": [number]}, pd.DataFrame({"label": ["cat"]}))


def _older_model(folder: Path) -> None:
    (folder / "model.cosmo").write_bytes(b"an older one")


def _squares(folder: Path) -> None:
    for number in range(3):
        Cache(folder).arrays("squares", str(number), lambda number=number: {"x": np.arange(9.0) ** number})
        Cache(folder).write("choice", str(number), {"value": number})


def _words(folder: Path) -> object:
    return extract(Letters(), [f"robin {number}" for number in range(600)], cache=folder)


def _archive(folder: Path) -> None:
    READERS["archives"].prepare(folder)


def _unpack(folder: Path) -> None:
    if not (folder / "birds").exists():
        unpack(folder / "c.tgz", folder / "birds")


def _mat_files(folder: Path) -> None:
    values = np.arange(12.0).reshape(3, 4)
    write_mat_files(folder, {"a.mat": {"x": values}, "b.mat": {"y": values.T}}, {"c.txt": "note"})


#: By name. MATLAB files begin with the time they were written.
ACTIONS: dict[str, Action] = {
    "save a model": Action(
        _nothing, lambda folder: cosmo.io.model_file.save(fruit(), folder / "model.cosmo")
    ),
    "replace a model": Action(
        _older_model, lambda folder: cosmo.io.model_file.save(fruit(), folder / "model.cosmo")
    ),
    "predict to CSV": Action(_rows, _predict(".csv")),
    "predict to JSON lines": Action(_rows, _predict(".jsonl")),
    "predict, begun anew": Action(_half_done, _predict(".csv", restart=True)),
    "keep in the cache": Action(_nothing, _squares),
    "extract features": Action(_nothing, _words),
    "unpack an archive": Action(_archive, _unpack),
    "write MATLAB files": Action(_nothing, _mat_files, ("a.mat", "b.mat")),
}
