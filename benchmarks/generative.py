"""What the parts of the generative experts buy, on held-out training classes.

Each setting is trained on Seen-Train and looked at several times, until the CPU seconds given by --budget are
spent. Of the look with the best T1 on Unseen-Val the table has the accuracies of the expert alone on GZSL-Val
(the best Acc_H of its curve, and the area), after how many epochs and seconds it came, and T1 at the end.
Time to train the last classifier is not counted.

Data: CUB below the folder that COSMO_DATA names (xlsa17/CUB), else drawn glyphs.

    python benchmarks/generative.py                              f-CLSWGAN and cycle-WGAN, three minutes
    python benchmarks/generative.py --full                       all settings but full width
    python benchmarks/generative.py --settings "SE-GZSL" "SE-GZSL, no feedback"
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from rich.console import Console
from rich.table import Table

from cosmo.classifier.ways import CalibratedStacking
from cosmo.data import load_glyphs, read_xlsa17
from cosmo.data.splits import Protocol
from cosmo.experts import FCLSWGAN, SEGZSL, CycleUWGAN, CycleWGAN
from cosmo.experts._generative import GenerativeExpert
from cosmo.metrics.accuracy import zsl_accuracy
from cosmo.mixture.outputs import ExpertOutputs

_PUBLISHED = {**FCLSWGAN.presets["CUB"], "epochs": None}
SETTINGS = {
    "f-CLSWGAN": FCLSWGAN(),
    "cycle-WGAN": CycleWGAN(),
    "f-CLSWGAN, no classification loss": FCLSWGAN(weight=0.0),
    "cycle-WGAN, no classification loss": CycleWGAN(weight=0.0),
    "cycle-(U)WGAN": CycleUWGAN(),
    "SE-GZSL": SEGZSL(),
    "SE-GZSL, no feedback": SEGZSL(feedback=0.0),
    "f-CLSWGAN, five critic steps": FCLSWGAN(critic_steps=5),
    "f-CLSWGAN, 1024 hidden units": FCLSWGAN(hidden=1024),
    "f-CLSWGAN, published, 256 hidden units": FCLSWGAN(**{**_PUBLISHED, "hidden": 256}),
    "f-CLSWGAN, published": FCLSWGAN(**_PUBLISHED),
}


class Task(NamedTuple):
    """Rows to learn from and held-out rows; codes are rows of the tables, `both` has seen classes first."""

    name: str
    X: np.ndarray
    codes: np.ndarray
    known: pd.DataFrame
    X_val: np.ndarray
    target: np.ndarray
    both: pd.DataFrame


class Look(NamedTuple):
    """An expert after some epochs; accuracies in percent."""

    epochs: int
    seconds: float
    t1: float
    best_h: float
    area: float


def load(seed: int) -> Task:
    folder = os.environ.get("COSMO_DATA")
    if folder and (cub := Path(folder, "xlsa17", "CUB")).is_dir():
        name, dataset = "CUB", read_xlsa17(cub, features="res50")
    else:
        name, dataset = "glyphs", load_glyphs()
    protocol = Protocol(dataset, seed=seed)
    X, y, _ = protocol.samples(protocol.hold_out.seen_train)
    X_val, y_val, _ = protocol.samples(protocol.hold_out.gzsl_val)
    table = dataset.descriptions
    known = table[table.index.isin(y)]
    both = pd.concat([known, table[table.index.isin(y_val) & ~table.index.isin(y)]])
    return Task(name, X, known.index.get_indexer(y), known, X_val, both.index.get_indexer(y_val), both)


def look(expert: GenerativeExpert, task: Task, seconds: float) -> Look:
    scores, n_seen = expert.scores(task.X_val, task.both), len(task.known)
    joint, classes = np.exp(scores), pd.RangeIndex(len(task.both))
    seen = joint[:, :n_seen] / joint[:, :n_seen].sum(axis=1, keepdims=True)
    outputs = ExpertOutputs.from_joint(seen, joint, classes[:n_seen], classes[n_seen:], target=task.target)
    curve = CalibratedStacking(0.0).fit(outputs).curve(outputs)
    t1 = zsl_accuracy(task.target, joint[:, n_seen:], np.arange(n_seen, len(task.both)))
    accuracies = t1, curve.best().acc_h, curve.area
    return Look(expert.decided_["epochs"], seconds, *(100 * value for value in accuracies))


def looks(expert: GenerativeExpert, task: Task, budget: float, n_looks: int) -> Iterator[Look]:
    """Train until the CPU seconds are spent; no early stopping."""
    kind = type(type(expert).__name__, (type(expert),), {"patience": 2000})
    kind.grid = {"epochs": tuple(range(1, 2000))}
    trainer = kind(**expert.get_params())
    if kind.reads_unseen:
        trainer.others_ = task.both.iloc[len(task.known) :].to_numpy()
    n_done, spent, start = 0, 0.0, time.process_time()
    for candidate in trainer._candidates(task.X, task.codes, task.known):
        spent += time.process_time() - start
        if spent >= (n_done + 1) * budget / n_looks:
            n_done += 1
            yield look(candidate, task, spent)
        if spent >= budget:
            break
        start = time.process_time()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog='example: COSMO_DATA=data python benchmarks/generative.py --settings "f-CLSWGAN" --budget 60',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--full", action="store_true", help="all settings but full width")
    parser.add_argument(
        "--settings", nargs="+", choices=SETTINGS, metavar="NAME", help="of: " + "; ".join(SETTINGS)
    )
    parser.add_argument("--budget", type=float, default=60, help="CPU seconds a training (default: 60)")
    parser.add_argument("--looks", type=int, default=6, help="at a training, at most (default: 6)")
    parser.add_argument("--seed", type=int, default=1002, help="draws the hold-out (default: 1002)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # CPU seconds of idle threads say nothing about the work
    task = load(arguments.seed)
    table = Table(title=f"{task.name}: {len(task.X)} rows, {len(task.known)} classes to learn from")
    table.add_column("setting")
    for name in ("T1", "best Acc_H", "AUSUC", "after epochs", "CPU s", "last T1", "epochs"):
        table.add_column(name, justify="right")
    for name in arguments.settings or list(SETTINGS)[: -1 if arguments.full else 2]:
        found = list(looks(SETTINGS[name], task, arguments.budget, arguments.looks))
        best, last = max(found, key=lambda one: one.t1), found[-1]
        accuracies = (f"{value:.1f}" for value in (best.t1, best.best_h, best.area))
        end = f"{best.seconds:.0f}", f"{last.t1:.1f}", str(last.epochs)
        table.add_row(name, *accuracies, str(best.epochs), *end)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
