"""What width, critic steps and batches of f-CLSWGAN buy, by CPU time and accuracy among held-out classes.

The first table takes one step of the critic apart: the gradient penalty in closed form, as `FCLSWGAN` has it,
against differentiating the critic and then its gradient; and a product of matrices of the generator's size
in float32 against bfloat16.

The second trains f-CLSWGAN on Seen-Train at several sizes, up to the published setting, and looks at it
several times until the CPU seconds given by --budget are spent: T1 on Unseen-Val when it is best, after how
many epochs and seconds, and how many times sooner it is as good as the last setting ever gets. Time to train
the last classifier is not counted.

Data: CUB below the folder that COSMO_DATA names (xlsa17/CUB), else drawn glyphs.

    python benchmarks/generative.py             the default against the published training, three minutes
    python benchmarks/generative.py --full      more settings, at length
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from rich.console import Console
from rich.table import Table

from cosmo.data import load_glyphs, read_xlsa17
from cosmo.data.splits import Protocol
from cosmo.experts import FCLSWGAN
from cosmo.experts.generators import gradient_penalty
from cosmo.metrics.accuracy import zsl_accuracy

_PUBLISHED = FCLSWGAN.presets["CUB"]
SETTINGS = {
    "fast": {},
    "fast, five critic steps": {"critic_steps": 5},
    "fast, 1024 hidden units": {"hidden": 1024},
    "published, 256 hidden units": {**_PUBLISHED, "hidden": 256},
    "published, 4096 hidden units": _PUBLISHED,
}


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
        name, dataset = "CUB", read_xlsa17(cub, features="res50")
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


def accuracy(expert: FCLSWGAN, task: Task) -> float:
    scores = expert.scores(task.X_unseen, task.table_unseen)
    return zsl_accuracy(task.codes_unseen, scores, np.arange(len(task.table_unseen)))


def follow(expert: FCLSWGAN, task: Task, budget: float, looks: int) -> list[Stop]:
    """Train until the CPU seconds are spent; no early stopping."""
    stops, spent, start = [], 0.0, time.process_time()
    for candidate in expert._candidates(task.X, task.codes, task.table):
        spent += time.process_time() - start
        if spent >= (len(stops) + 1) * budget / looks:
            stops.append(Stop(candidate.epochs, spent, accuracy(candidate, task)))
        if spent >= budget:
            break
        start = time.process_time()
    return stops


def milliseconds(work: Callable[[], object], least: float = 0.5) -> float:
    """Return the CPU time of a call, after one that is not counted."""
    work()
    start, repeats = time.process_time(), 0
    while time.process_time() - start < least:
        work()
        repeats += 1
    return (time.process_time() - start) / repeats * 1000


def penalties(n_features: int, n_attributes: int, hidden: int) -> tuple[list[float], list[float]]:
    """Return values and milliseconds of the penalty with its gradients: closed form, then two passes."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) / np.sqrt(shape[0])

    weights = {
        "D.features": draw(n_features, hidden),
        "D.description": draw(n_attributes, hidden),
        "D.bias": draw(hidden),
        "D.last": draw(hidden),
    }
    for tensor in weights.values():
        tensor.requires_grad_()
    moved = [weights["D.features"], weights["D.last"]]
    X, A = draw(64, n_features).requires_grad_(), draw(64, n_attributes)

    def hidden_layer() -> torch.Tensor:
        return X @ weights["D.features"] + A @ weights["D.description"] + weights["D.bias"]

    def closed() -> torch.Tensor:
        return gradient_penalty(weights, hidden_layer())

    def twice() -> torch.Tensor:
        value = torch.nn.functional.leaky_relu(hidden_layer(), 0.2) @ weights["D.last"]
        (slope,) = torch.autograd.grad(value.sum(), X, create_graph=True)
        return (slope.norm(dim=1) - 1).square().mean()

    ways = (closed, twice)
    return [way().item() for way in ways], [
        milliseconds(lambda way=way: torch.autograd.grad(way(), moved)) for way in ways
    ]


def products(n_features: int, hidden: int) -> list[float]:
    """Return milliseconds of a layer's product, in float32 and in bfloat16."""
    generator = torch.Generator().manual_seed(0)
    one, two = (torch.randn(*shape, generator=generator) for shape in ((64, hidden), (hidden, n_features)))
    return [milliseconds(lambda: one @ two), milliseconds(lambda: one.bfloat16() @ two.bfloat16())]


def sizes(task: Task, settings: Sequence[str], budget: float, looks: int) -> Table:
    """Return how good each setting gets, and how soon it is as good as the last one gets."""
    FCLSWGAN.grid = {"epochs": tuple(range(1, 2000))}
    FCLSWGAN.patience = 2000  # the budget ends a training
    table = Table(title=f"{task.name}: {len(task.X)} rows, {len(task.table)} classes to learn from")
    for column in (
        "setting",
        "best T1",
        "after epochs",
        "CPU s",
        "last T1",
        "epochs",
        "CPU s an epoch",
        "as good as the last setting after",
        "sooner",
    ):
        table.add_column(column, justify="left" if column == "setting" else "right")
    followed = {
        name: follow(FCLSWGAN(**{**SETTINGS[name], "epochs": None}), task, budget, looks) for name in settings
    }
    best = {name: max(stops, key=lambda stop: stop.accuracy) for name, stops in followed.items()}
    target = best[settings[-1]]
    for name, stops in followed.items():
        there = next((stop.seconds for stop in stops if stop.accuracy >= target.accuracy), None)
        table.add_row(
            name,
            f"{100 * best[name].accuracy:.1f}",
            str(best[name].epochs),
            f"{best[name].seconds:.0f}",
            f"{100 * stops[-1].accuracy:.1f}",
            str(stops[-1].epochs),
            f"{stops[-1].seconds / stops[-1].epochs:.2f}",
            *("never", "") if there is None else (f"{there:.0f} s", f"{target.seconds / there:.1f} x"),
        )
    return table


def step(task: Task) -> Table:
    table = Table(title="one mini-batch of 64, CPU ms")
    for column in ("", "hidden units", "first", "second", "ratio"):
        table.add_column(column, justify="right" if column else "left")
    n_features, n_attributes = task.X.shape[1], task.table.shape[1]
    for hidden in (256, 4096):
        values, times = penalties(n_features, n_attributes, hidden)
        assert np.isclose(*values, rtol=1e-4), values
        for name, (one, two) in (
            ("penalty and gradients: closed form, differentiated twice", times),
            ("product of matrices: float32, bfloat16", products(n_features, hidden)),
        ):
            table.add_row(name, str(hidden), f"{one:.1f}", f"{two:.1f}", f"{two / one:.1f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: COSMO_DATA=data python benchmarks/generative.py --settings fast --budget 60",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--full", action="store_true", help="all settings but full width, 150 CPU seconds each"
    )
    parser.add_argument(
        "--settings", nargs="+", choices=SETTINGS, metavar="NAME", help="of: " + "; ".join(SETTINGS)
    )
    parser.add_argument("--budget", type=float, help="CPU seconds a training (default: 60, or 150)")
    parser.add_argument("--looks", type=int, help="at a training, at most (default: 6, or 10)")
    parser.add_argument("--seed", type=int, default=1002, help="draws the hold-out (default: 1002)")
    arguments = parser.parse_args()
    settings = list(SETTINGS)[:-1] if arguments.full else ["fast", "published, 256 hidden units"]
    budget, looks = (150, 10) if arguments.full else (60, 6)
    torch.set_num_threads(1)  # CPU seconds of idle threads say nothing about the work
    task = load(arguments.seed)
    console = Console(width=110)
    console.print(step(task))
    console.print(
        sizes(
            task,
            arguments.settings or settings,
            arguments.budget or budget,
            arguments.looks or looks,
        )
    )


if __name__ == "__main__":
    main()
