"""LAGO's training against plain mini-batch Adam, by CPU time to equal accuracy on held-out classes.

The baseline is the published way: features scaled but not turned, biases from zero, Adam with a constant step
on batches of 64, no averaging, and, where groups are learned, an epoch for the detectors, then one for the
groups. Both use the same loss and gradients (`experts/_and_or.py`) and are measured after the same epochs.
For each variant prints the best accuracy of both on Unseen-Val with the CPU seconds until then, and how soon
LAGO got as far as the best the baseline reached within its epochs. Time to score Unseen-Val is not counted.
Memory is the peak of arrays beyond the rows in one epoch, which is run once more for it.

Data: CUB below the folder that COSMO_DATA names (xlsa17/CUB, groups/CUB_attributes.txt), else drawn glyphs.

    COSMO_DATA=data python benchmarks/lago.py --variants semantic-hard --epochs 40
    COSMO_DATA=data python benchmarks/lago.py --full      the other variants, two minutes
"""

from __future__ import annotations

import argparse
import os
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import plotting
from cosmo.data import load_glyphs, read_xlsa17
from cosmo.data.splits import Protocol
from cosmo.experts import LAGO
from cosmo.experts._and_or import Loss, Weights
from cosmo.experts._linear import Adam
from cosmo.metrics.accuracy import zsl_accuracy

# The published step of Adam for CUB, 1e-4 on raw features, is about 0.08 in these units. The penalties, for
# features of mean absolute value 1, and the step for Γ were tuned for this training on semantic-hard only.
STEP, GROUP_STEP = 0.1, 0.01
PENALTIES = {"weight_decay": 1e-4, "class_decay": 2e-3, "group_prior": 1e-2}
BATCH = 64
VARIANTS, OTHERS = ("semantic-soft", "semantic-hard"), ("singletons", "k-soft")
OURS = 6  # epochs of LAGO, which is at its best before


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
        yield expert.epochs, expert
        if expert.epochs >= epochs:
            return


def follow(training: Iterator[tuple[int, LAGO]], task: Task) -> list[Stop]:
    stops, spent, start = [], 0.0, time.process_time()
    for epoch, expert in training:
        spent += time.process_time() - start
        stops.append(Stop(epoch, spent, accuracy(expert, task)))
        start = time.process_time()
    return stops


def peak(training: Iterator[tuple[int, LAGO]]) -> float:
    """Return the peak megabytes of an epoch."""
    tracemalloc.start()
    next(training)
    most = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return most


def draw(runs: dict[str, dict[str, list[Stop]]], file: Path) -> None:
    """Draw accuracy on Unseen-Val against CPU time, for each variant."""
    figure, (axes,) = plotting.panels(1, len(runs), height=2.8, sharey=True)
    for panel, (variant, trainings) in zip(axes, runs.items(), strict=True):
        for k, (name, stops) in enumerate(reversed(trainings.items())):
            _, seconds, accuracies = np.array(stops).T
            panel.semilogx(seconds, 100 * accuracies, label=name, **plotting.line(k))
        panel.set(title=variant, xlabel="CPU seconds")
        plotting.plain_ticks(panel.xaxis)
    axes[0].set_ylabel("accuracy on Unseen-Val, %")
    plotting.legend_below(figure, axes[0])
    plotting.save(figure, file)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = (*VARIANTS, *OTHERS)
    parser.add_argument("--variants", nargs="+", choices=known, default=VARIANTS, metavar="VARIANT")
    parser.add_argument("--full", dest="variants", action="store_const", const=OTHERS, help="the others")
    parser.add_argument("--epochs", type=int, default=25, help="of the baseline (default: 25)")
    parser.add_argument("--seed", type=int, default=1002, help="draws the hold-out (default: 1002)")
    plotting.add_option(parser)
    arguments = parser.parse_args()
    task = load(arguments.seed)
    table = Table(title=f"{task.name}: {len(task.X)} rows, {len(task.table)} classes to learn from")
    names = ("best", "epochs", "CPU s", "to plain's best", "times faster", "peak MB", "times plain's")
    for column in ("variant", "training", *names):
        table.add_column(column, justify="left" if column in ("variant", "training") else "right")
    runs = {}
    for variant in arguments.variants:
        with threadpool_limits(1):  # CPU seconds of idle threads say nothing about the work
            baseline = follow(plain(task, variant, arguments.epochs), task)
            mine = follow(ours(task, variant, OURS), task)
            memory = {"plain Adam": peak(plain(task, variant, 1)), "LAGO": peak(ours(task, variant, 1))}
        runs[variant] = {"plain Adam": baseline, "LAGO": mine}
        goal = max(baseline, key=lambda stop: stop.accuracy)
        for training, stops in runs[variant].items():
            best = max(stops, key=lambda stop: stop.accuracy)
            cells = [f"{100 * best.accuracy:.1f}", str(best.epochs), f"{best.seconds:.1f}"]
            reached = next((stop.seconds for stop in stops if stop.accuracy >= goal.accuracy), None)
            cells += ["never", ""] if reached is None else [f"{reached:.1f}", f"{goal.seconds / reached:.1f}"]
            cells += [f"{memory[training]:.0f}", f"{memory[training] / memory['plain Adam']:.1f}"]
            table.add_row(variant, training, *cells)
        table.add_section()
    Console(width=110).print(table)
    if arguments.plot:
        draw(runs, arguments.plot)


if __name__ == "__main__":
    main()
