"""Commands of `cosmo` as processes: their inputs, their outputs, and whether files are complete."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from cosmo.io.model_file import load
from soak.samples import N_FEATURES, fruit_model, write_fruit


@dataclass(frozen=True)
class Command:
    """A command line; its output must be absent or equal to that of an undisturbed run."""

    prepare: Callable[[Path], None]
    arguments: tuple[str, ...]
    output: str

    def result(self, folder: Path) -> bytes:
        """Return the output without the columns that differ between runs."""
        path = folder / self.output
        if path.name == "compare.csv":
            return pd.read_csv(path).drop(columns="cpu_seconds").to_csv().encode()
        return path.read_bytes()


@dataclass
class Workplace:
    """Folders of one command: `start` as it begins, `work` to run it in; result and time of a whole run."""

    command: Command
    start: Path
    work: Path
    log: Path
    expected: bytes = b""
    seconds: float = 0.0

    def reset(self) -> None:
        """Make `work` as `start` is."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.start, self.work)

    def broken(self) -> str:
        """Return the problem of a file in `work`, or nothing."""
        output = self.work / self.command.output
        if output.exists() and self.command.result(self.work) != self.expected:
            return f"{output.name} differs"
        return unreadable_file(self.work, skip=[self.command.output])

    def run(self, limit: int | None = None) -> tuple[int, str]:
        """Run the command to its end; return its exit status and the end of its messages."""
        status = start(self.command.arguments, self.work, self.log, limit).wait()
        return status, self.log.read_text(errors="replace")[-400:]


@contextmanager
def workplace(command: Command) -> Iterator[Workplace]:
    """Prepare a command, and run it once undisturbed."""
    with TemporaryDirectory(prefix="soak-") as home:
        place = Workplace(command, Path(home, "start"), Path(home, "work"), Path(home, "log"))
        place.start.mkdir()
        command.prepare(place.start)
        place.reset()
        began = time.monotonic()
        status, messages = place.run()
        place.seconds = time.monotonic() - began
        if status:
            raise RuntimeError(f"cosmo {' '.join(command.arguments)} fails undisturbed: {messages}")
        place.expected = command.result(place.work)
        yield place


def start(
    arguments: tuple[str, ...], folder: Path, log: Path, limit: int | None = None
) -> subprocess.Popen[bytes]:
    """Start a command in its own process group; `limit` bounds the size of its files."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, "-m", "cosmo", *arguments]
    if limit is not None:
        command = ["prlimit", f"--fsize={limit}", *command]
    with log.open("wb") as file:
        return subprocess.Popen(
            command,
            cwd=folder,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **threads, "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1"},
        )


def unreadable_file(folder: Path, skip: Collection[str] = ()) -> str:
    """Return the problem of a model, array, JSON file or checkpoint that cannot be read, or nothing."""
    for name in contents(folder).keys() - set(skip):
        try:
            _read(folder / name)
        except Exception as error:
            return f"{name} cannot be read: {type(error).__name__}: {error}"
    return ""


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder that are not hidden, by their relative paths."""
    files = {path.relative_to(folder): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {
        str(name): path.read_bytes()
        for name, path in files.items()
        if not any(part.startswith(".") for part in name.parts)
    }


def _read(path: Path) -> None:
    first_line, _, content = path.read_bytes().partition(b"\n")
    if first_line == hashlib.blake2b(content, digest_size=16).hexdigest().encode():
        return  # a cache entry with its checksum
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            dict(file)
    elif path.suffix == ".json":
        json.loads(path.read_bytes())
    elif path.suffix == ".cosmo":
        load(path)
    elif path.suffix == ".pt":
        import torch

        torch.load(path, weights_only=True)


def _write_table(folder: Path) -> None:
    fruit_model().save(folder / "model.cosmo")
    rows = np.random.default_rng(0).random((60_000, N_FEATURES)).round(4)
    pd.DataFrame(rows, columns=[f"f{i}" for i in range(N_FEATURES)]).to_csv(folder / "new.csv", index=False)


_PREDICT = ("predict", "model.cosmo", "new.csv", "-q", "--batch", "2000", "--out")
_FIT = ("fit", "samples.csv", "--descriptions", "descriptions.csv", "-q", "--cache", "cache")

COMMANDS = {
    "fit": Command(write_fruit, (*_FIT, "--out", "own.cosmo"), "own.cosmo"),
    "fit a network": Command(
        write_fruit,
        (*_FIT, "--unseen", "cmt:hidden=32", "--out", "own.cosmo"),
        "own.cosmo",
    ),
    "compare": Command(
        lambda folder: None,
        ("compare", "glyphs", "-q", "--methods", "eszsl", "--jobs", "2", "--cache", "cache", "--out", "out"),
        "out/compare.csv",
    ),
    "predict to CSV": Command(_write_table, (*_PREDICT, "out.csv"), "out.csv"),
    "predict to Parquet": Command(_write_table, (*_PREDICT, "out.parquet"), "out.parquet"),
}
