"""LAGO's training against plain mini-batch Adam, by CPU time to equal accuracy on held-out classes.

The baseline is the published way: features scaled but not turned, biases from zero, Adam with a constant step
on batches of 64, no averaging, and, where groups are learned, an epoch for the detectors, then one for the
groups. Both use the same loss and gradients (`cosmo.experts.and_or`) and are looked at after the same epochs.
For each variant prints the best accuracy of both on Unseen-Val with the CPU seconds until then, and how soon
LAGO got as far as the best the baseline reached within its epochs. Time to score Unseen-Val is not counted.

Data: CUB below the folder that COSMO_DATA names (xlsa17/CUB, groups/CUB_attributes.txt), else drawn glyphs.
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
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from cosmo.data import load_glyphs, read_xlsa17
from cosmo.experts import LAGO
from cosmo.experts.and_or import Loss, Weights
from cosmo.metrics import zsl_accuracy
from cosmo.optimisers import Adam
from cosmo.protocol import Protocol

# The published step of Adam for CUB, 1e-4 on raw features, is about 0.08 in these units. The penalties, for
# features of mean absolute value 1, and the step for Γ were tuned for this training on semantic-hard only.
STEP, GROUP_STEP = 0.1, 0.01
PENALTIES = {"weight_decay": 1e-4, "class_decay": 2e-3, "group_prior": 1e-2}
BATCH = 64
VARIANTS = ("semantic-soft", "semantic-hard", "singletons", "k-soft")


class Task(NamedTuple):
    """Seen-Train and Unseen-Val; codes are rows of the tables."""

    name: str
    X: np.ndarray
    codes: np.ndarray
    table: pd.DataFrame
    X_unseen: np.ndarray
    codes_unseen: np.ndarray
    table_unseen: pd.DataFrame


class Stop(NamedTuple):
    """A training after some epochs."""

    epochs: int
    seconds: float
    accuracy: float


def load(seed: int) -> Task:
    folder = os.environ.get("COSMO_DATA")
    if folder and (cub := Path(folder, "xlsa17", "CUB")).is_dir():
        groups = Path(folder, "groups", "CUB_attributes.txt")
        name, dataset = "CUB", read_xlsa17(cub, features="res50", original=True, attributes=groups)
    else:
        name, dataset = "glyphs", load_glyphs()
    protocol = Protocol(dataset, seed=seed)
    held = protocol.hold_out
    parts = []
    for rows in (held.seen_train, held.unseen_val):
        X, y, _ = protocol.samples(rows)
        table = dataset.descriptions[dataset.descriptions.index.isin(y)]
        parts += [X, table.index.get_indexer(y), table]
    return Task(name, *parts)


def accuracy(expert: LAGO, task: Task) -> float:
    scores = expert.scores(task.X_unseen, task.table_unseen)
    return zsl_accuracy(task.codes_unseen, scores, np.arange(len(task.table_unseen)))


def plain(task: Task, variant: str, epochs: int) -> Iterator[tuple[int, LAGO]]:
    """Yield the baseline after each number of epochs."""
    expert = LAGO(variant)
    expert.columns_, expert.decided_ = task.table.columns, {}
    expert.percent_ = bool(task.table.to_numpy().max() > 1)
    u = expert._probabilities_of(task.table.to_numpy())
    target = expert._semantic_gamma() if variant == "semantic-soft" else None
    loss = Loss(u, gain=expert.gain, target=target, **PENALTIES)
    scale = np.abs(task.X).mean()
    rng = np.random.default_rng(0)
    weights = expert._start(task.X.shape[1], rng)
    step = STEP / task.X.shape[1]
    detectors = [Adam(weights.W, step), Adam(weights.b, step)]
    grouping = [] if weights.V is None else [Adam(weights.V, GROUP_STEP)]

    def batches() -> list[np.ndarray]:
        return np.split(rng.permutation(len(task.X)), range(BATCH, len(task.X), BATCH))

    for epoch in range(1, epochs + 1):
        gates = expert._gates(u, weights)
        for rows in batches():
            _, *gradients = loss.detectors(task.X[rows] / scale, task.codes[rows], gates, weights)
            for adam, gradient in zip(detectors, gradients, strict=True):
                adam.update(gradient)
        for adam in grouping:
            for rows in batches():
                Q = weights.detect(task.X[rows] / scale)
                adam.update(loss.grouping(Q, task.codes[rows], adam.weights)[1])
        if epoch in LAGO.grid["epochs"]:
            expert.weights_ = Weights(weights.W / scale, weights.b, weights.V)
            yield epoch, expert


def ours(task: Task, variant: str, epochs: int) -> Iterator[tuple[int, LAGO]]:
    """Yield `LAGO` after each number of epochs, without its own early stopping."""
    for expert in LAGO(variant)._candidates(task.X, task.codes, task.table):
        if expert.epochs > epochs:
            return
        yield expert.epochs, expert


def follow(training: Iterator[tuple[int, LAGO]], task: Task) -> list[Stop]:
    stops, spent, start = [], 0.0, time.process_time()
    for epoch, expert in training:
        spent += time.process_time() - start
        stops.append(Stop(epoch, spent, accuracy(expert, task)))
        start = time.process_time()
    return stops


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: COSMO_DATA=data python benchmarks/lago.py --variants semantic-hard --epochs 40",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS, metavar="VARIANT")
    parser.add_argument("--epochs", type=int, default=25, help="of the baseline (default: 25)")
    parser.add_argument("--seed", type=int, default=1002, help="draws the hold-out (default: 1002)")
    arguments = parser.parse_args()
    task = load(arguments.seed)
    table = Table(title=f"{task.name}: {len(task.X)} rows, {len(task.table)} classes to learn from")
    for column in ("variant", "training", "best", "epochs", "CPU s", "CPU s to plain's best", "ratio"):
        table.add_column(column, justify="left" if column in ("variant", "training") else "right")
    for variant in arguments.variants:
        with threadpool_limits(1):  # CPU seconds of idle threads say nothing about the work
            baseline = follow(plain(task, variant, arguments.epochs), task)
            mine = follow(ours(task, variant, 10), task)
        goal = max(baseline, key=lambda stop: stop.accuracy)
        for training, stops in (("plain Adam", baseline), ("LAGO", mine)):
            best = max(stops, key=lambda stop: stop.accuracy)
            cells = [f"{100 * best.accuracy:.1f}", str(best.epochs), f"{best.seconds:.1f}"]
            reached = next((stop.seconds for stop in stops if stop.accuracy >= goal.accuracy), None)
            cells += ["never", ""] if reached is None else [f"{reached:.1f}", f"{goal.seconds / reached:.1f}"]
            table.add_row(variant, training, *cells)
        table.add_section()
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
