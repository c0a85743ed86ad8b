"""Measure `Cosmo.predict` against the matrix products of its experts, from one sample to a large batch.

A model of the size of CUB (2048 features, 150 seen and 50 unseen classes; ESZSL, the default seen expert) is
fitted on generated rows. Each batch is compared, in the same run, with the two products of the experts,
and with these products and one exponential per class and expert, a lower bound for any soft-max. Latency is
that of single samples on the wall clock, beside that of the products alone, which shows how quiet the machine
is. The throughput of a large batch is compared with that of copying it. Targets for 8,192 rows: `predict` at
most 1.1 times the products, `predict_proba` at most 1.3 times.

    python benchmarks/inference.py --plot inference.svg
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import plotting
from cosmo import ESZSL, Cosmo
from cosmo.experts import SoftmaxRegression

N_FEATURES, N_ATTRIBUTES, N_SEEN, N_UNSEEN = 2048, 312, 150, 50
BATCHES = (1, 256, 8192)
CALLS = 2000


def make_model(seed: int = 0) -> tuple[Cosmo, np.ndarray]:
    """Return a fitted model, and as many rows as the largest batch has."""
    rng = np.random.default_rng(seed)
    n_classes = N_SEEN + N_UNSEEN
    table = pd.DataFrame(rng.random((n_classes, N_ATTRIBUTES), dtype=np.float32))
    centres = (
        (table.to_numpy() - 0.5) @ rng.normal(size=(N_ATTRIBUTES, N_FEATURES)).astype(np.float32) / 24
    )  # with distances as in CUB

    def rows(codes: np.ndarray) -> np.ndarray:
        return centres[codes] + rng.standard_normal((len(codes), N_FEATURES), dtype=np.float32)

    codes = np.repeat(np.arange(N_SEEN), 8)
    # The accuracy of the experts does not change the cost of a prediction.
    seen, unseen = SoftmaxRegression(tol=1e-2), ESZSL(gamma=100.0, lam=1.0)
    model = Cosmo(table, seen=seen, unseen=unseen).fit(rows(codes), codes)
    return model, rows(rng.integers(n_classes, size=max(BATCHES)))


def cpu(*jobs: Callable[[], Any], repeats: int = 30, least: float = 0.05) -> list[float]:
    """Return CPU seconds of jobs: the minimum of some runs, in turns, since the machine may be busy."""
    times, best = [], []
    for job in jobs:  # short jobs are repeated within a run
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
    """Return the peak of the memory that a job allocates, in MB."""
    tracemalloc.start()
    job()
    most = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return most


def batches(model: Cosmo, X: np.ndarray) -> Table:
    """Return the cost of batches relative to the products of the experts."""
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
        "proba, times products",
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

        predict = partial(model.predict, rows)
        costs = cpu(products, floor, predict, partial(model.predict_proba, rows))
        least, with_exp, labels, proba = (f"{1e3 * cost:.3f}" for cost in costs)
        ratios = [f"{cost / costs[0]:.2f}" for cost in costs[2:]]
        table.add_row(
            f"{size:,}", least, with_exp, labels, ratios[0], proba, ratios[1], f"{peak(predict):.2f}"
        )
    return table


def latency(model: Cosmo, X: np.ndarray) -> Table:
    """Return the latency of single samples on the wall clock."""
    table = Table(title=f"one sample at a time, {CALLS} calls, wall clock in ms")
    for name in ("call", "best", "p50", "p99"):
        table.add_column(name, justify="left" if name == "call" else "right")
    weights = np.ones((N_FEATURES, 2 * N_SEEN + N_UNSEEN), np.float32)
    jobs = {
        "products": lambda row: row @ weights,
        "predict": model.predict,
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
    """Return the throughput of a large batch, relative to copying it."""
    target = np.empty_like(X)
    seen, unseen = model.experts_.seen.coef_.T, np.ones((N_FEATURES, N_SEEN + N_UNSEEN), np.float32)
    copied, multiplied, predicted = cpu(
        lambda: np.copyto(target, X), lambda: (X @ seen, X @ unseen), lambda: model.predict(X)
    )
    table = Table(title=f"throughput, {len(X):,} rows ({X.nbytes / 1e6:.0f} MB)")
    for name in ("way", "rows per CPU s", "GB per CPU s", "share of a copy"):
        table.add_column(name, justify="left" if name == "way" else "right")
    for name, cost in (("copy", copied), ("products", multiplied), ("predict", predicted)):
        table.add_row(
            name, f"{len(X) / cost:,.0f}", f"{X.nbytes / cost / 1e9:.2f}", f"{100 * copied / cost:.1f} %"
        )
    return table


def tables() -> list[Table]:
    """Return the tables of this benchmark."""
    with threadpool_limits(limits=1):  # CPU time of one thread is compared
        model, X = make_model()
        return [batches(model, X), latency(model, X), throughput(model, X)]


def draw(table: Table, file: Path) -> None:
    """Draw the cost of a row, in CPU time and relative to the products."""
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
