"""What `Cosmo.predict` costs beyond its experts' matrix products, from one sample to a large batch.

A model of CUB's size (2048 features, 150 classes with samples, 50 with descriptions only; ESZSL and logistic
regression) is fitted on drawn rows. Beside each batch stand, in the same run, the two matrix products that
both experts are made of; those and one exponential per class and expert, below which no soft-max can go; and
the parts of a prediction. Latency is that of single samples on the wall clock, one call after the other, and
beside it that of the products alone, which tells how quiet the machine is. The rate at which a large batch is
read is compared with that of copying it. Last, rows are asked about in batches of other sizes, on one thread
and on two: are the answers the same to the last bit?

    python benchmarks/inference.py --plot inference.svg
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import plotting
from cosmo import ESZSL, Cosmo

N_FEATURES, N_ATTRIBUTES, N_SEEN, N_UNSEEN = 2048, 312, 150, 50
BATCHES = (1, 256, 8192)
OTHERS, SOME = (1, 7, 256, 1500), 2000
CALLS = 2000


def make_model(seed: int = 0) -> tuple[Cosmo, np.ndarray]:
    """Return a fitted model, and as many rows as the largest batch has."""
    rng = np.random.default_rng(seed)
    n_classes = N_SEEN + N_UNSEEN
    table = pd.DataFrame(rng.random((n_classes, N_ATTRIBUTES), dtype=np.float32))
    centres = (
        (table.to_numpy() - 0.5) @ rng.normal(size=(N_ATTRIBUTES, N_FEATURES)).astype(np.float32) / 24
    )  # as unlike as those of CUB

    def rows(codes: np.ndarray) -> np.ndarray:
        return centres[codes] + rng.standard_normal((len(codes), N_FEATURES), dtype=np.float32)

    codes = np.repeat(np.arange(N_SEEN), 8)
    # How well the experts learn does not change what it costs to ask them.
    seen, unseen = LogisticRegression(max_iter=20), ESZSL(gamma=100.0, lam=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = Cosmo(table, seen=seen, unseen=unseen).fit(rows(codes), codes)
    return model, rows(rng.integers(n_classes, size=max(BATCHES)))


def cpu(*jobs: Callable[[], Any], repeats: int = 30, least: float = 0.05) -> list[float]:
    """Return CPU seconds of jobs, the best of some runs; they take turns, as others may use the machine."""
    times, best = [], []
    for job in jobs:  # short jobs are run many times in a row
        start = time.process_time()
        job()
        times.append(max(1, int(least / max(time.process_time() - start, 1e-6))))
        best.append(np.inf)
    for _ in range(repeats):
        for i, job in enumerate(jobs):
            start = time.process_time()
            for _ in range(times[i]):
                job()
            best[i] = min(best[i], (time.process_time() - start) / times[i])
    return best


def peak(job: Callable[[], Any]) -> float:
    """Return the most memory that a job holds at once beyond what was there, in MB."""
    tracemalloc.start()
    job()
    most = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return most


def batches(model: Cosmo, X: np.ndarray) -> Table:
    """Return the cost of batches against that of the experts' products."""
    seen = np.ascontiguousarray(model.experts_.seen.coef_.T.astype(np.float32))
    unseen = 1e-2 * np.random.default_rng(0).normal(size=(N_FEATURES, N_SEEN + N_UNSEEN)).astype(np.float32)
    seen *= 1e-2  # far from overflow, where exponentials would cost less
    table = Table(
        title=f"CPU ms of a batch, {N_FEATURES} features, {N_SEEN} + {N_UNSEEN} classes, one thread"
    )
    for name in (
        "rows",
        "products",
        "+ exponentials",
        "predict",
        "times products",
        "predict_proba",
        "peak MB",
    ):
        table.add_column(name, justify="right")
    for size in BATCHES:
        rows = X[:size]

        def products(rows: np.ndarray = rows) -> tuple[np.ndarray, np.ndarray]:
            return rows @ seen, rows @ unseen

        def floor(products: Callable[[], Any] = products) -> None:
            for logits in products():
                np.exp(logits, out=logits)

        ask = lambda rows=rows: model.predict(rows)  # noqa: E731
        costs = cpu(products, floor, ask, lambda rows=rows: model.predict_proba(rows))
        least, with_exp, predict, proba = (f"{1e3 * cost:.3f}" for cost in costs)
        ratio = f"{costs[2] / costs[0]:.2f}"
        memory = f"{peak(ask):.2f}"
        table.add_row(f"{size:,}", least, with_exp, predict, ratio, proba, memory)
    return table


def latency(model: Cosmo, X: np.ndarray) -> Table:
    """Return how long single samples take, one after the other, on the wall clock."""
    table = Table(title=f"one sample at a time, {CALLS} calls, wall clock in ms")
    for name in ("call", "best", "p50", "p99"):
        table.add_column(name, justify="left" if name == "call" else "right")
    single = model.experts_._both_weights
    double = single.astype(np.float64)
    jobs = {
        "a product": lambda row: row @ single,
        "predict": model.predict,
        "a product, float64": lambda row: row.astype(np.float64) @ double,
        "predict_proba": model.predict_proba,
    }
    for name, job in jobs.items():
        job(X[:1])
        taken = []
        for i in range(CALLS):
            row = X[i % len(X)][None]
            start = time.perf_counter()
            job(row)
            taken.append(time.perf_counter() - start)
        table.add_row(name, *(f"{1e3 * value:.3f}" for value in np.quantile(taken, [0, 0.5, 0.99])))
    return table


def throughput(model: Cosmo, X: np.ndarray) -> Table:
    """Return how fast a large batch is read, against a copy of it."""
    target = np.empty_like(X)
    seen, unseen = model.experts_.seen.coef_.T, np.ones((N_FEATURES, N_SEEN + N_UNSEEN), np.float32)
    copied, multiplied, predicted = cpu(
        lambda: np.copyto(target, X), lambda: (X @ seen, X @ unseen), lambda: model.predict(X)
    )
    table = Table(title=f"reading {len(X):,} rows ({X.nbytes / 1e6:.0f} MB)")
    for name in ("way", "rows per CPU s", "GB per CPU s", "share of a copy"):
        table.add_column(name, justify="left" if name == "way" else "right")
    for name, cost in (("copy", copied), ("products", multiplied), ("predict", predicted)):
        table.add_row(
            name, f"{len(X) / cost:,.0f}", f"{X.nbytes / cost / 1e9:.2f}", f"{100 * copied / cost:.1f} %"
        )
    return table


def equality(model: Cosmo, X: np.ndarray) -> Table:
    """Return the share of rows whose answers are the same, bit by bit, in batches of other sizes."""
    weights = model.experts_.seen.coef_.T
    asked = {
        "predict": model.predict,
        "predict_proba": model.predict_proba,
        "a product": lambda X: X @ weights,
    }
    whole = {name: ask(X)[:SOME] for name, ask in asked.items()}
    table = Table(
        title=f"of {SOME:,} rows, those with the same answer as in a batch of {len(X):,} on one thread"
    )
    for name in ("rows", "threads", *asked):
        table.add_column(name, justify="right")
    for threads in (1, 2):
        with threadpool_limits(limits=threads):
            for size in OTHERS:
                cells = []
                for name, ask in asked.items():
                    parts = [ask(X[first : first + size]) for first in range(0, SOME, size)]
                    same = (np.concatenate(parts)[:SOME] == whole[name]).reshape(SOME, -1).all(axis=1)
                    cells.append(f"{100 * same.mean():.2f} %")
                table.add_row(f"{size:,}", str(threads), *cells)
    return table


def tables() -> list[Table]:
    """Return all that is measured here."""
    with threadpool_limits(limits=1):  # CPU time of one thread is compared
        model, X = make_model()
        return [batches(model, X), latency(model, X), throughput(model, X), equality(model, X)]


def draw(table: Table, file: Path) -> None:
    """Draw what a row of a batch costs, and how many times its products."""
    rows, least = plotting.numbers(table, "rows"), plotting.numbers(table, "products")
    figure, (axes,) = plotting.panels(1, 2, height=2.8)
    for k, name in enumerate(("predict", "predict_proba", "+ exponentials", "products")):
        cost, style = plotting.numbers(table, name), plotting.line(k)
        axes[0].loglog(rows, 1e3 * cost / rows, label=name.replace("+", "products and"), **style)
        axes[1].loglog(rows, cost / least, **style)
    axes[0].set_ylabel("CPU µs a row")
    plotting.plain_ticks(axes[0].yaxis)
    axes[1].set_ylabel("times products")
    plotting.plain_ticks(axes[1].yaxis)
    for panel in axes:
        panel.set_xlabel("rows in a batch")
        plotting.plain_ticks(panel.xaxis)
    plotting.legend_below(figure, axes[0])
    plotting.save(figure, file)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    plotting.add_option(parser)
    arguments = parser.parse_args()
    console, found = Console(width=110), tables()
    for table in found:
        console.print(table)
    if arguments.plot:
        draw(found[0], arguments.plot)


if __name__ == "__main__":
    main()
