"""Exact selection and curve against the authors' grid search, on the same arrays.

Three ways to choose softness and threshold on GZSL-Val and to compute the test AUSUC of COSMO:

- grid, full:   the authors' grids; every grid cell combines the full score matrices and takes the argmax,
                vectorised over samples and classes (what their code does);
- grid, maxima: the same grids, but each cell works on per-sample maxima (the strongest form of a grid);
- exact:        `GatedMixture.operate_at` and the exact curve.

All three need the gate's scores, which are computed once and given; their cost is printed beside. Prints
CPU time (all threads), peak memory of the arrays made, and the validation Acc_H reached, then how the exact
way grows with samples and classes. Run: python benchmarks/selection.py
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from scipy.special import softmax

from cosmo.combinations import GatedMixture
from cosmo.gates import ConfidenceGate, Gate
from cosmo.metrics import gzsl_scores, sampled_ausuc
from cosmo.mixture import combine, gate_belief
from cosmo.outputs import ExpertOutputs
from cosmo.sampled import AUTHORS_GRIDS, Grid, resample_thresholds, sampled_search

# rows of seen and unseen classes, numbers of classes; validation, then test
SHAPES = {
    "CUB": ((1764, 2355, 100, 50), (1764, 2967, 150, 50)),
    "AWA1": ((4958, 6372, 27, 13), (4958, 5685, 40, 10)),
    "SUN": ((2580, 1040, 580, 65), (2580, 1440, 645, 72)),
}


class GivenScores(Gate):
    """A gate whose scores are known: one array per number of samples."""

    def __init__(self, *scores: np.ndarray) -> None:
        self.by_length = {len(values): values for values in scores}

    def fit(self, outputs: ExpertOutputs) -> GivenScores:
        return self

    def score(self, outputs: ExpertOutputs) -> np.ndarray:
        return self.by_length[len(outputs)]


def draw(shape: tuple[int, int, int, int], seed: int) -> ExpertOutputs:
    """Return experts that are often right on their own classes and unsure on the others'."""
    rows_seen, rows_unseen, n_seen, n_unseen = shape
    rng = np.random.default_rng(seed)
    n = rows_seen + rows_unseen
    target = np.concatenate(
        [rng.integers(n_seen, size=rows_seen), n_seen + rng.integers(n_unseen, size=rows_unseen)]
    )
    logits = rng.normal(size=(n, n_seen + n_unseen)).astype(np.float32)
    logits[np.arange(n), target] += rng.normal(4.5, 2.0, size=n)
    logits[:, n_seen:] -= 0.8  # the usual bias towards seen classes
    seen_logits = 1.6 * rng.normal(size=(n, n_seen)).astype(np.float32)
    seen_logits[np.arange(rows_seen), target[:rows_seen]] += rng.normal(6, 3, size=rows_seen)
    return ExpertOutputs.from_joint(
        softmax(seen_logits, axis=1),
        softmax(logits, axis=1),
        pd.RangeIndex(n_seen),
        pd.RangeIndex(n_seen, n_seen + n_unseen),
        target=target,
    )


def full_grid(
    mixture: GatedMixture, validation: ExpertOutputs, test: ExpertOutputs, grid: Grid
) -> tuple[float, float]:
    """Return validation Acc_H and test AUSUC of the authors' search on full matrices."""
    gate_scores = {id(outputs): mixture.gate_.score(outputs) for outputs in (validation, test)}

    def accuracies(outputs: ExpertOutputs, softness: float, thresholds: np.ndarray) -> np.ndarray:
        classes = np.arange(outputs.n_seen + outputs.n_unseen)
        rows = []
        for threshold in thresholds:
            belief = gate_belief(gate_scores[id(outputs)], threshold, softness)
            guess = combine(outputs.seen, outputs.unseen, belief, smoothing=mixture.smoothing).argmax(axis=1)
            rows.append(
                gzsl_scores(outputs.labels, guess, classes[: outputs.n_seen], classes[outputs.n_seen :])
            )
        return np.array(rows)

    coarse = [accuracies(validation, softness, grid.thresholds)[:, 2] for softness in grid.softnesses]
    best = int(np.argmax([heights.max() for heights in coarse]))
    fine = resample_thresholds(grid.thresholds, coarse[best])
    on_validation = accuracies(validation, grid.softnesses[best], fine)
    on_test = accuracies(test, grid.softnesses[best], fine)
    return float(on_validation[:, 2].max()), sampled_ausuc(on_test[:, 1], on_test[:, 0])


def maxima_grid(
    mixture: GatedMixture, validation: ExpertOutputs, test: ExpertOutputs, grid: Grid
) -> tuple[float, float]:
    result = sampled_search(mixture, validation, test, grid)
    return result.validation.acc_h, result.ausuc


def exact(mixture: GatedMixture, validation: ExpertOutputs, test: ExpertOutputs) -> tuple[float, float]:
    mixture.operate_at(validation)
    return mixture.validation_point_.acc_h, mixture.curve(test).area


def measure(job: Callable[[], tuple[float, float]]) -> tuple[float, float, float, float]:
    """Return CPU seconds, peak megabytes, and the job's two numbers; memory in a run of its own."""
    repeats, spent = 0, 0.0
    while spent < 0.2:  # short jobs are repeated, so that the clock can tell them apart
        start = time.process_time()
        value, area = job()
        spent += time.process_time() - start
        repeats += 1
    tracemalloc.start()
    job()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return spent / repeats, peak / 1e6, value, area


def fresh(outputs: ExpertOutputs) -> ExpertOutputs:
    """Return the same outputs without anything computed before."""
    return outputs[slice(None)]


def compare(console: Console) -> None:
    table = Table(title="choosing the operating point on GZSL-Val and computing the test AUSUC")
    for name in ("shape", "way", "CPU s", "times exact", "peak MB", "val Acc_H", "test AUSUC"):
        table.add_column(name, justify="left" if name in ("shape", "way") else "right")
    for dataset, (val_shape, test_shape) in SHAPES.items():
        validation, test = draw(val_shape, 0), draw(test_shape, 1)
        gate = ConfidenceGate().fit(validation)
        scores = [gate.score(part) for part in (validation, test)]
        mixture = GatedMixture(smoothing="adaptive")
        mixture.gate_ = GivenScores(*scores)
        grid = AUTHORS_GRIDS[dataset]
        shared = measure(lambda g=gate, v=validation, t=test: (g.score(v)[0], g.score(t)[0]))[0]
        ways = {
            "grid, full": lambda m=mixture, v=validation, t=test, g=grid: full_grid(m, v, t, g),
            "grid, maxima": lambda m=mixture, v=validation, t=test, g=grid: maxima_grid(
                m, fresh(v), fresh(t), g
            ),
            "exact": lambda m=mixture, v=validation, t=test: exact(m, fresh(v), fresh(t)),
        }
        measured = {way: measure(job) for way, job in ways.items()}
        for way, (cpu, memory, value, area) in measured.items():
            ratio = cpu / measured["exact"][0]
            cells = (f"{cpu:.4f}", f"{ratio:.1f}", f"{memory:.1f}", f"{100 * value:.2f}", f"{100 * area:.2f}")
            table.add_row(dataset, way, *cells)
        table.add_row(dataset, "(gate scores)", f"{shared:.4f}", f"{shared / measured['exact'][0]:.1f}")
        table.add_section()
    console.print(table)


def growth(console: Console) -> None:
    """Print the cost of the exact way against samples and classes, with the fitted exponent."""
    for title, shapes, size in (
        ("samples", [(n // 2, n // 2, 40, 10) for n in (4_000, 16_000, 64_000, 256_000)], 0),
        ("classes", [(2_000, 2_000, c // 2, c // 2) for c in (50, 200, 800, 3_200)], 2),
    ):
        table = Table(title=f"exact selection and curve: growth with {title}")
        for name in (title, "gate scores: CPU s", "selection, curve: CPU s", "peak MB"):
            table.add_column(name, justify="right")
        sizes, scoring, choosing = [], [], []
        for shape in shapes:
            outputs = draw(shape, 0)
            gate = ConfidenceGate().fit(outputs)
            mixture = GatedMixture(smoothing="adaptive")
            mixture.gate_ = GivenScores(gate.score(outputs))
            first = measure(lambda g=gate, o=outputs: (g.score(o)[0], 0.0))
            second = measure(lambda m=mixture, o=outputs: exact(m, part := fresh(o), part))
            sizes.append(2 * shape[size])
            scoring.append(first[0])
            choosing.append(second[0])
            memory = max(first[1], second[1])
            table.add_row(f"{sizes[-1]:,}", f"{first[0]:.4f}", f"{second[0]:.4f}", f"{memory:.1f}")
        console.print(table)
        exponents = [np.polyfit(np.log(sizes), np.log(cost), 1)[0] for cost in (scoring, choosing)]
        console.print(
            f"cost grows as {title}^{exponents[0]:.2f} (gate scores), "
            f"{title}^{exponents[1]:.2f} (selection and curve)\n"
        )


if __name__ == "__main__":
    out = Console(width=100)
    compare(out)
    growth(out)
