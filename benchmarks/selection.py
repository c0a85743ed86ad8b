"""Exact selection and curve against the authors' grid search, on the same arrays.

Three ways to choose softness and threshold on GZSL-Val and to compute the test AUSUC of COSMO:

- grid, full:   the authors' grids; every grid cell combines the full score matrices and takes the argmax,
                vectorised over samples and classes (what their code does);
- grid, maxima: the same grids, but each cell works on per-sample maxima (the strongest form of a grid);
- exact:        `GatedMixture.operate_at` and the exact curve.

All three need the gate's scores, which are computed once and given; their cost is printed beside. Prints
CPU time on one thread, peak memory of the arrays made, and the validation Acc_H reached.

Then the paper's whole study of a data set with one zero-shot expert: eleven ways to combine experts (the
expert alone, calibrated stacking, COSMO, and its ablations of gates and smoothing), each with its gate fitted
and all its free numbers chosen on GZSL-Val, and measured on test (Acc_ts, Acc_tr, Acc_H, AUSUC; AUC and FPR
of the gate). What the experts predict is given: matrices of the authors' experts below the folder that
COSMO_DATA names (predictions/LAGO/CUB and so on; their columns of seen classes stand in for a seen expert),
else drawn ones. Beside it stands, for CUB, the same study with the authors' grids on full matrices. Memory is
what arrays take beyond the predictions. The authors state 480 s and 1.1 GB for their own code on CUB.

    python benchmarks/selection.py            two minutes
    python benchmarks/selection.py --full     the study of AWA1 by grids, two minutes more
"""

from __future__ import annotations

import argparse
import os
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from scipy.special import softmax
from sklearn.base import clone
from threadpoolctl import threadpool_limits

import plotting
from cosmo.classifier.combinations import GatedMixture
from cosmo.classifier.ways import WAYS, CalibratedStacking
from cosmo.data import read_predictions
from cosmo.data.splits import gating_split
from cosmo.gates import ConfidenceGate, Gate
from cosmo.metrics.accuracy import fpr_at_tpr, gate_auc, gzsl_scores, sampled_ausuc
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.mixture.smoothing import combine, conditional, gate_belief
from cosmo.paper.trials import (
    AUTHORS_GRIDS,
    STACKING_CONSTANTS,
    Grid,
    grid_search,
    resample_thresholds,
)

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

    def accuracies(
        outputs: ExpertOutputs, softness: float, weight: float, thresholds: np.ndarray
    ) -> np.ndarray:
        classes = np.arange(outputs.n_seen + outputs.n_unseen)
        rows = []
        for threshold in thresholds:
            belief = gate_belief(gate_scores[id(outputs)], threshold, softness)
            if mixture.hard:
                belief = (belief > 0.5).astype(float)
            scores = combine(
                outputs.seen, outputs.unseen, belief, smoothing=mixture.smoothing, prior_weight=weight
            )
            sides = classes[: outputs.n_seen], classes[outputs.n_seen :]
            rows.append(gzsl_scores(outputs.labels, scores.argmax(axis=1), *sides))
        return np.array(rows)

    cells = [
        (softness, weight)
        for weight in (mixture.prior_weights if mixture.smoothing == "constant" else (0.0,))
        for softness in ((1.0,) if mixture.hard else grid.softnesses)
    ]
    coarse = [accuracies(validation, *cell, grid.thresholds)[:, 2] for cell in cells]
    best = int(np.argmax([heights.max() for heights in coarse]))
    fine = resample_thresholds(grid.thresholds, coarse[best])
    on_validation = accuracies(validation, *cells[best], fine)
    on_test = accuracies(test, *cells[best], fine)
    return float(on_validation[:, 2].max()), sampled_ausuc(on_test[:, 1], on_test[:, 0])


def maxima_grid(
    mixture: GatedMixture, validation: ExpertOutputs, test: ExpertOutputs, grid: Grid
) -> tuple[float, float]:
    result = grid_search(mixture, validation, test, grid)
    return result.validation.acc_h, result.ausuc


def exact(mixture: GatedMixture, validation: ExpertOutputs, test: ExpertOutputs) -> tuple[float, float]:
    mixture.operate_at(validation)
    return mixture.validation_point_.acc_h, mixture.curve(test).area


def measure(job: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return CPU seconds, peak megabytes, and what the job returns; short jobs are run several times."""
    tracemalloc.start()
    start = time.process_time()
    found = job()
    cost = time.process_time() - start
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    if cost > 5:  # what it takes to follow the memory does not matter
        return cost, peak, found
    repeats, spent = 0, 0.0
    while spent < 0.5:
        start = time.process_time()
        job()
        spent += time.process_time() - start
        repeats += 1
    return spent / repeats, peak, found


def fresh(outputs: ExpertOutputs) -> ExpertOutputs:
    """Return the same outputs without anything computed before."""
    return replace(outputs)


COSTS = ("CPU s", "CPU ratio", "peak MB", "MB ratio")  # ratios to the exact way


def costs(cpu: float, memory: float, least_cpu: float, least_memory: float) -> tuple[str, ...]:
    """Return the cells of `COSTS`."""
    return f"{cpu:.4f}", f"{cpu / least_cpu:.1f}", f"{memory:.1f}", f"{memory / least_memory:.1f}"


def compare() -> Table:
    """Return the three ways side by side."""
    table = Table(title="choosing the operating point on GZSL-Val and computing the test AUSUC")
    for name in ("shape", "way", *COSTS, "val Acc_H", "test AUSUC"):
        table.add_column(name, justify="left" if name in ("shape", "way") else "right")
    for dataset, (val_shape, test_shape) in SHAPES.items():
        validation, test = draw(val_shape, 0), draw(test_shape, 1)
        gate = ConfidenceGate().fit(validation)
        mixture = GatedMixture(smoothing="adaptive")
        mixture.gate_ = GivenScores(gate.score(validation), gate.score(test))
        grid = AUTHORS_GRIDS[dataset]
        shared = measure(lambda g=gate, v=validation, t=test: [g.score(fresh(part)) for part in (v, t)])[0]
        ways = {
            "grid, full": lambda m=mixture, v=validation, t=test, g=grid: full_grid(m, v, t, g),
            "grid, maxima": lambda m=mixture, v=validation, t=test, g=grid: maxima_grid(
                m, fresh(v), fresh(t), g
            ),
            "exact": lambda m=mixture, v=validation, t=test: exact(m, fresh(v), fresh(t)),
        }
        measured = {way: measure(job) for way, job in ways.items()}
        for way, (cpu, memory, (value, area)) in measured.items():
            cells = costs(cpu, memory, *measured["exact"][:2])
            table.add_row(dataset, way, *cells, f"{100 * value:.2f}", f"{100 * area:.2f}")
        table.add_row(dataset, "(gate scores)", f"{shared:.4f}", f"{shared / measured['exact'][0]:.1f}")
        table.add_section()
    return table


def predictions() -> Iterator[tuple[str, str, ExpertOutputs, ExpertOutputs]]:
    """Yield data set, expert, and what was predicted on GZSL-Val and on test."""
    folder = Path(os.environ.get("COSMO_DATA", ""), "predictions")
    for dataset in ("CUB", "AWA1"):
        found = [name for name in ("LAGO", "fCLSWGAN") if (folder / name / dataset).is_dir()]
        for name in found:
            yield dataset, name, *(given(folder / name / dataset, stage) for stage in ("val", "test"))
        if not found:
            yield dataset, "drawn", *(draw(shape, seed) for seed, shape in enumerate(SHAPES[dataset]))


def given(folder: Path, stage: str) -> ExpertOutputs:
    said = read_predictions(folder, stage)
    seen, unseen = np.sort(said.seen_classes), np.sort(said.unseen_classes)
    joint = np.ascontiguousarray(said.proba[np.concatenate([seen, unseen])])
    target = pd.Index(np.concatenate([seen, unseen])).get_indexer(pd.Index(said.y))
    own = conditional(joint[:, : len(seen)])
    return ExpertOutputs.from_joint(own, joint, pd.Index(seen), pd.Index(unseen), target=target)


def gate_measures(rule: Any, validation: ExpertOutputs) -> tuple[float, ...]:
    if not isinstance(rule, GatedMixture):
        return ()
    gating_val = validation[gating_split(len(validation))[1]]
    score = rule.gate_.score(gating_val)
    return gate_auc(gating_val.is_seen, score), fpr_at_tpr(gating_val.is_seen, score)


def study(validation: ExpertOutputs, test: ExpertOutputs) -> dict[str, tuple[float, ...]]:
    """Return the measures of all ways to combine the experts, validation Acc_H and test AUSUC first."""
    validation, test = fresh(validation), fresh(test)
    found = {}
    for name in STUDY:
        rule = clone(WAYS[name]).fit(validation)
        curve, threshold = rule.curve(test), rule.operating_point_.threshold
        at_best = rule.curve(validation).at(threshold).acc_h
        found[name] = at_best, curve.area, *curve.at(threshold), *gate_measures(rule, validation)
    return found


def study_by_grid(validation: ExpertOutputs, test: ExpertOutputs, grid: Grid) -> dict[str, tuple[float, ...]]:
    """Return the same by the authors' grids on full matrices; of test, the areas only."""
    found = {}
    for name in STUDY:
        rule = clone(WAYS[name])
        if isinstance(rule, CalibratedStacking):
            found[name] = stacking_grid(rule, validation, test)
            continue
        rule.fit_gate(fresh(validation))
        figures = full_grid(rule, fresh(validation), fresh(test), grid)
        found[name] = *figures, *gate_measures(rule, fresh(validation))
    return found


def stacking_grid(
    rule: CalibratedStacking, validation: ExpertOutputs, test: ExpertOutputs
) -> tuple[float, float]:
    """Return validation Acc_H and test AUSUC of constants from a grid, on the full scores."""

    def accuracies(outputs: ExpertOutputs, constants: np.ndarray) -> np.ndarray:
        # `unseen` is a part of the joint prediction, which begins with the seen classes.
        joint = outputs.unseen.base
        seen, unseen = np.hsplit(joint, [outputs.n_seen])
        sides = np.arange(outputs.n_seen), outputs.n_seen + np.arange(outputs.n_unseen)
        guesses = (np.hstack([seen - constant, unseen]).argmax(axis=1) for constant in constants)
        return np.array([gzsl_scores(outputs.labels, guess, *sides) for guess in guesses])

    on_validation = accuracies(validation, np.zeros(1) if rule.constant == 0 else STACKING_CONSTANTS)
    on_test = accuracies(test, np.linspace(-1, 1, 201))
    return float(on_validation[:, 2].max()), sampled_ausuc(on_test[:, 1], on_test[:, 0])


STUDY = [name for name in WAYS if name != "own gate"]  # which needs an expert that detects novelty


def studies(*, full: bool) -> Table:
    """Return the cost of the whole study, and of the same by grids: of CUB, or at length of AWA1."""
    table = Table(
        title=f"the paper's study: {len(STUDY)} ways to combine given predictions, chosen and measured"
    )
    for name in ("data", "expert", "way", *COSTS, "predictions MB", "COSMO: val Acc_H"):
        table.add_column(name, justify="left" if name in ("data", "expert", "way") else "right")
    for dataset, expert, validation, test in predictions():
        # A minute or more, and no other for another expert's matrices of the same shape.
        by_grid = expert != "fCLSWGAN" and dataset == ("AWA1" if full else "CUB")
        if full and not by_grid:
            continue
        size = sum(part.nbytes for one in (validation, test) for part in (one.seen, one.unseen)) / 1e6
        ways = {"exact": lambda v=validation, t=test: study(v, t)}
        if by_grid:
            ways["grid, full"] = lambda v=validation, t=test, d=dataset: study_by_grid(v, t, AUTHORS_GRIDS[d])
        measured = {way: measure(job) for way, job in ways.items()}
        for way, (cpu, memory, found) in measured.items():
            cells = *costs(cpu, memory, *measured["exact"][:2]), f"{size:.1f}"
            table.add_row(dataset, expert, way, *cells, f"{100 * found['COSMO'][0]:.2f}")
        table.add_section()
    table.caption = "the authors' own code, as they state it: 480 s and 1.1 GB on CUB"
    return table


def draw_costs(tables: list[Table], file: Path) -> None:
    """Draw what each way takes, of each shape and of the whole study."""
    ways = ["exact", "grid, maxima", "grid, full"]
    found: dict[tuple[str, str], tuple[float, float]] = {}
    for table in tables:
        data, suffix = ("data", ", study") if table.columns[0].header == "data" else ("shape", "")
        names = zip(plotting.cells(table, data), plotting.cells(table, "way"), strict=True)
        costs = zip(plotting.numbers(table, "CPU s"), plotting.numbers(table, "peak MB"), strict=True)
        for (name, way), cost in zip(names, costs, strict=True):
            found.setdefault((name + suffix, way), cost)  # of two experts, the first
    groups = [group for group, way in found if way == "grid, full"]
    figure, (axes,) = plotting.panels(1, 2, height=2.6, sharey=True)
    for k, unit in enumerate(("CPU seconds", "peak memory of arrays, MB")):
        values = [[found.get((group, way), (np.nan, np.nan))[k] for way in ways] for group in groups]
        plotting.dots(axes[k], groups, ways, np.array(values), unit=unit)
    plotting.legend_below(figure, axes[0])
    plotting.save(figure, file)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="the study of AWA1 by grids, instead")
    plotting.add_option(parser)
    arguments = parser.parse_args()
    with threadpool_limits(limits=1):  # CPU time of one thread is compared
        found = [] if arguments.full else [compare()]
        found.append(studies(full=arguments.full))
    console = Console(width=120)
    for table in found:
        console.print(table)
    if arguments.plot:
        draw_costs(found, arguments.plot)


if __name__ == "__main__":
    main()
