"""ESZSL's fit and its choice of regularisers, against the speed at which this machine multiplies matrices.

On rows of CUB's shape (training rows of the validation stage, 2048 features, 312 attributes, 100 classes)
prints CPU seconds of the steps: one fit for given regularisers; the path (an eigendecomposition of each
side), after which every pair of regularisers costs two small products; the whole choice among all pairs on
held-out classes; and the same with a fit of its own for each pair, from a few of them. Floating-point
operations per second are given as a share of those of a large product of the same precision in the same run.
What LAGO costs until its best accuracy on held-out classes is printed by benchmarks/lago.py.

Run: python benchmarks/experts.py
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from cosmo.data.splits import hold_out
from cosmo.experts import ESZSL
from cosmo.experts.base import select
from cosmo.experts.eszsl import _Path, _solve

N_ROWS, N_FEATURES, N_ATTRIBUTES, N_CLASSES = 7057, 2048, 312, 150


def draw(seed: int = 0) -> tuple[np.ndarray, pd.Index, pd.DataFrame]:
    """Return rows, labels and descriptions of CUB's shape."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.random((N_CLASSES, N_ATTRIBUTES), dtype=np.float32))
    codes = rng.permutation(np.arange(N_ROWS) % N_CLASSES)
    centres = (table.to_numpy() - 0.5) @ rng.normal(size=(N_ATTRIBUTES, N_FEATURES)).astype(np.float32) / 8
    return (
        centres[codes] + rng.standard_normal((N_ROWS, N_FEATURES), dtype=np.float32),
        table.index[codes],
        table,
    )


def cpu(job: Callable[[], Any], repeats: int = 1) -> float:
    """Return CPU seconds, the best of some runs."""
    spent = []
    for _ in range(repeats):
        start = time.process_time()
        job()
        spent.append(time.process_time() - start)
    return min(spent)


def product_speed(dtype: type) -> float:
    """Return operations per second of a large matrix product."""
    n = 2048
    A = np.ones((n, n), dtype)
    return 2 * n**3 / cpu(lambda: A @ A, 4)


def tables() -> list[Table]:
    """Return all that is measured here."""
    with threadpool_limits(limits=1):
        return [_eszsl()]


def _eszsl() -> Table:
    X, y, table = draw()
    held = hold_out(y, seed=0)
    train, codes = X[held.seen_train], np.unique(y[held.seen_train], return_inverse=True)[1]
    A = table.to_numpy()[np.unique(y[held.seen_train])]
    n, d, a, c = len(train), N_FEATURES, N_ATTRIBUTES, len(A)
    pairs = len(ESZSL.grid["gamma"]) * len(ESZSL.grid["lam"])
    path = _Path(train, codes, A)
    left = path.left(1.0)
    tracemalloc.start()
    select(ESZSL(temperature=1.0), X, y, table, held)
    memory = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    fit = cpu(lambda: _solve(train, codes, A, 1.0, 1.0), 2)
    steps = {
        # Gram matrix (one half of it) in single precision, Cholesky factor and solutions in double.
        "fit": (
            fit,
            {np.float32: n * d * d, np.float64: d**3 / 3 + 2 * d * d * min(a, c) + 2 * d * c * a},
        ),
        # Reduction to tridiagonal form, its eigenvectors by divide and conquer, their transformation back.
        "path: two eigendecompositions": (
            cpu(lambda: _Path(train, codes, A)),
            {np.float32: n * d * d, np.float64: (4 / 3 + 4 / 3 + 2) * d**3},
        ),
        "another γ": (cpu(lambda: path.left(1.0), 5), {np.float64: 2 * d * d * min(a, c)}),
        "another λ": (cpu(lambda: path.solve(left, 1.0), 5), {np.float64: 2 * d * a * min(a, c)}),
        f"choice among {pairs} pairs": (cpu(lambda: select(ESZSL(temperature=1.0), X, y, table, held)), None),
        f"{pairs} fits, one for each pair": (pairs * fit, None),
    }
    peak = {dtype: product_speed(dtype) for dtype in (np.float32, np.float64)}
    shown = Table(
        title=f"ESZSL, {n} x {d} rows of {c} classes, {a} attributes, one thread; peak of the choice "
        f"{memory:.0f} MB beyond its input ({X.nbytes / 1e6:.0f} MB)"
    )
    for name in ("step", "CPU s", "times fit", "share of the speed of products"):
        shown.add_column(name, justify="left" if name == "step" else "right")
    for name, (cost, work) in steps.items():
        # What the operations would take at the speed of a product, against what they took.
        share = "" if work is None else f"{100 * sum(w / peak[t] for t, w in work.items()) / cost:.0f} %"
        shown.add_row(name, f"{cost:.3f}", f"{cost / fit:.2f}", share)
    shown.caption = ", ".join(f"{np.dtype(t).name} products: {v / 1e9:.0f} GFlop/s" for t, v in peak.items())
    return shown


def main() -> None:
    console = Console(width=110)
    for table in tables():
        console.print(table)


if __name__ == "__main__":
    main()
