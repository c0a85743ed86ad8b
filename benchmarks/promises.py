"""Coverage of intervals, operating points with a minimum accuracy, and calibration, where the truth is known.

Classes have known accuracies; their samples are drawn many times. The tables show how often an interval
contains the truth, and how often a minimum accuracy chosen on one draw holds on others. With a folder in
xlsa17 layout: the calibration of a model on its test rows.

    python benchmarks/promises.py
    python benchmarks/promises.py --glyphs
    python benchmarks/promises.py --xlsa17 xlsa17/CUB --features res50
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import softmax
from scipy.stats import norm

from cosmo.classifier._prediction import explain
from cosmo.classifier.combinations import GatedMixture
from cosmo.data import GZSLDataset, load_glyphs, read_xlsa17
from cosmo.data.splits import Protocol
from cosmo.evaluation.run import Settings, run_experiment
from cosmo.gates import ConfidenceGate, Gate, MaxSoftmaxGate
from cosmo.metrics.accuracy import accuracy_to_reach, gate_intervals, gzsl_intervals, harmonic_mean
from cosmo.metrics.calibration import calibration
from cosmo.mixture.curve import SeenUnseenCurve
from cosmo.mixture.outputs import ExpertOutputs

Sizes = tuple[int, int, int, int]  # seen classes, unseen classes, rows of each seen, rows of each unseen
Shape = tuple[float, float]

SIZES: dict[str, Sizes] = {
    "as CUB": (150, 50, 12, 59),
    "as SUN": (645, 72, 4, 20),
    "5 rows a class": (20, 10, 5, 5),
    "3 rows a class": (10, 5, 3, 3),
    "2 rows a class": (100, 50, 2, 2),
    "1 row a class": (20, 10, 1, 1),
    "5 classes": (3, 2, 10, 10),
}


def covers(interval: tuple[float, float], truth: float, stretch: float = 1.0) -> bool:
    """Return whether an interval, stretched about its middle, contains the truth."""
    low, high = interval
    middle, half = (low + high) / 2, stretch * (high - low) / 2
    return middle - half - 1e-12 <= truth <= middle + half + 1e-12


def accuracy_coverage(
    sizes: Sizes,
    repeats: int,
    *,
    seen: Shape = (6, 2),
    unseen: Shape = (2, 2),
    stretch: float = 1.0,
    intervals: Callable[..., Any] = gzsl_intervals,
) -> NDArray[np.float64]:
    """Return the coverage of the intervals of Acc_ts, Acc_tr and Acc_H for Beta-distributed accuracies."""
    n_seen, n_unseen, rows_seen, rows_unseen = sizes
    rng = np.random.default_rng(0)
    accuracy = np.concatenate([rng.beta(*seen, n_seen), rng.beta(*unseen, n_unseen)])
    acc_tr, acc_ts = accuracy[:n_seen].mean(), accuracy[n_seen:].mean()
    truth = acc_ts, acc_tr, harmonic_mean(acc_ts, acc_tr)
    classes = np.arange(n_seen + n_unseen)
    y = np.repeat(classes, [rows_seen] * n_seen + [rows_unseen] * n_unseen)
    found = np.zeros(3)
    for i in range(repeats):
        guess = np.where(rng.random(len(y)) < accuracy[y], y, -1)
        found_intervals = intervals(y, guess, classes[:n_seen], classes[n_seen:], seed=i)
        found += [covers(one, value, stretch) for one, value in zip(found_intervals, truth, strict=True)]
    return found / repeats


def bootstrap_intervals(
    y: NDArray[np.intp], guess: NDArray[np.intp], *sides: NDArray[np.intp], seed: int
) -> list[tuple[float, float]]:
    """Return bootstrap intervals of Acc_ts, Acc_tr and Acc_H: rows resampled within each class."""
    rng, rows, right = np.random.default_rng(seed), np.bincount(y), np.bincount(y[y == guess])
    share = np.append(right, np.zeros(len(rows) - len(right))) / rows
    acc_tr, acc_ts = (
        (rng.binomial(rows[side], share[side], (1000, len(side))) / rows[side]).mean(axis=1) for side in sides
    )
    both = acc_ts, acc_tr, harmonic_mean(acc_ts, acc_tr)
    return [tuple(np.quantile(values, [0.025, 0.975])) for values in both]


def area_coverage(
    sizes: Sizes, repeats: int, *, seen: Shape = (6, 2), unseen: Shape = (2, 2), stretch: float = 1.0
) -> float:
    """Return the coverage of the interval of AUSUC for Gaussian flips, whose area is known."""
    n_seen, n_unseen, rows_seen, rows_unseen = sizes
    rng = np.random.default_rng(1)
    right_seen, right_unseen = rng.beta(*seen, n_seen), rng.beta(*unseen, n_unseen)
    at_seen, at_unseen = rng.normal(1, 0.5, n_seen), rng.normal(-0.3, 0.5, n_unseen)
    before = norm.cdf((at_seen[:, None] - at_unseen) / np.sqrt(2))
    truth = float((right_seen[:, None] * right_unseen * before).mean())
    one, other = np.repeat(np.arange(n_seen), rows_seen), np.repeat(np.arange(n_unseen), rows_unseen)
    zeros = np.zeros(len(one)), np.zeros(len(other))
    groups = np.concatenate([one, n_seen + other])
    found = 0
    for i in range(repeats):
        curve = SeenUnseenCurve(
            rng.normal(np.concatenate([at_seen[one], at_unseen[other]])),
            np.concatenate([(rng.random(len(one)) < right_seen[one]) / (n_seen * rows_seen), zeros[1]]),
            np.concatenate(
                [zeros[0], (rng.random(len(other)) < right_unseen[other]) / (n_unseen * rows_unseen)]
            ),
        )
        found += covers(curve.area_interval(groups, seed=i), truth, stretch)
    return found / repeats


def gate_coverage(
    sizes: Sizes, repeats: int, *, spread: float = 0.5, stretch: float = 1.0
) -> NDArray[np.float64]:
    """Return the coverage of the intervals of a gate's AUC and FPR; class means vary by `spread`."""
    n_seen, n_unseen, rows_seen, rows_unseen = sizes
    rng = np.random.default_rng(2)
    at_seen, at_unseen = rng.normal(1, spread, n_seen), rng.normal(-0.3, spread, n_unseen)
    auc = norm.cdf((at_seen[:, None] - at_unseen) / np.sqrt(2)).mean()
    fpr = norm.sf(brentq(lambda t: norm.sf(t - at_seen).mean() - 0.95, -9, 9) - at_unseen).mean()
    middle = np.concatenate([np.repeat(at_seen, rows_seen), np.repeat(at_unseen, rows_unseen)])
    is_seen = np.arange(len(middle)) < n_seen * rows_seen
    found = np.zeros(2)
    for i in range(repeats):
        intervals = gate_intervals(is_seen, rng.normal(middle), seed=i)
        found += [covers(one, value, stretch) for one, value in zip(intervals, (auc, fpr), strict=True)]
    return found / repeats


class World:
    """Classes from which expert outputs can be sampled.

    The outputs of a sample are a soft-max of noise, with the logit of its class raised. The seen expert takes
    samples of unseen classes for some seen class, so that a minimum accuracy has a cost.
    """

    def __init__(self, n_seen: int, n_unseen: int, *, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.n_seen, self.n_unseen = n_seen, n_unseen
        self.raised_seen = rng.normal(7.8, 1.5, n_seen)
        self.raised = np.concatenate([rng.normal(1.5, 0.5, n_seen), rng.normal(3.0, 0.8, n_unseen)])

    def draw(self, rows: int, rng: np.random.Generator) -> ExpertOutputs:
        """Return labelled outputs of new samples, `rows` of each class."""
        y = np.repeat(np.arange(self.n_seen + self.n_unseen), rows)
        each, is_seen = np.arange(len(y)), y < self.n_seen
        looks_like = np.where(is_seen, y, rng.integers(self.n_seen, size=len(y)))
        seen, joint = rng.normal(0, 2.2, (len(y), self.n_seen)), rng.normal(size=(len(y), len(self.raised)))
        seen[each, looks_like] += np.where(is_seen, self.raised_seen[looks_like], 9.0)
        joint[each, y] += self.raised[y]
        classes = pd.RangeIndex(len(self.raised))
        return ExpertOutputs.from_joint(
            softmax(seen, axis=1),
            softmax(joint, axis=1),
            classes[: self.n_seen],
            classes[self.n_seen :],
            target=y,
        )


def kept_floors(
    sizes: tuple[int, int, int],
    repeats: int,
    *,
    floor: float = 0.75,
    confidence: float | None = None,
    gate: Gate | None = None,
) -> pd.DataFrame:
    """Choose operating points by a minimum Acc_tr on one draw each, and measure it on many other samples.

    Parameters
    ----------
    sizes : (int, int, int)
        Seen classes, unseen classes, and rows of each.
    confidence : float, optional
        Of `accuracy_to_reach`; default: the minimum itself.

    Returns
    -------
    DataFrame
        A row for each draw: Acc_tr on `validation` and `fresh` samples, and Acc_H on fresh ones, `fresh_h`;
        NaN where no point of the curve reaches the minimum.
    """
    world, rng = World(*sizes[:2]), np.random.default_rng(3)
    others = world.draw(40_000 // sum(sizes[:2]), np.random.default_rng(4))
    reach = floor if confidence is None else accuracy_to_reach(floor, [sizes[2]] * sizes[0], confidence)
    found = pd.DataFrame(np.nan, index=range(repeats), columns=["validation", "fresh", "fresh_h"])
    for i in found.index:
        validation = world.draw(sizes[2], rng)
        mixture = GatedMixture(gate if gate is not None else MaxSoftmaxGate()).fit_gate(validation)
        try:
            mixture.operate_at(validation, min_seen=reach)
        except ValueError:  # out of reach
            continue
        at = mixture.curve(others).at(mixture.operating_point_.threshold)
        found.loc[i] = mixture.validation_point_.acc_tr, at.acc_tr, at.acc_h
    return found


def _print_intervals(repeats: int) -> None:
    print(f"Coverage of 95 % intervals, percent, {repeats} draws (a quarter for CUB and SUN)\n")
    print("| classes and rows | Acc_ts | Acc_tr | Acc_H | bootstrap | AUSUC | gate AUC | gate FPR |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    worlds: dict[str, tuple[Sizes, dict[str, Shape]]] = {name: (sizes, {}) for name, sizes in SIZES.items()}
    worlds["5 rows a class, Acc_ts 4, Acc_tr 98"] = (20, 10, 5, 5), {"seen": (60, 1), "unseen": (1, 20)}
    worlds["5 rows a class, Acc_ts 5 of 5 classes"] = (20, 5, 5, 5), {"unseen": (1, 20)}
    for name, (sizes, shapes) in worlds.items():
        n = repeats // 4 if name.startswith("as ") else repeats
        accuracies = accuracy_coverage(sizes, n, **shapes)
        usual = accuracy_coverage(sizes, n, intervals=bootstrap_intervals, **shapes)
        gate = ("", "") if shapes else (f"{100 * value:.0f}" for value in gate_coverage(sizes, n // 2))
        area = area_coverage(sizes, n // 2, **shapes)
        cells = [f"{100 * value:.0f}" for value in accuracies]
        cells += [", ".join(f"{100 * value:.0f}" for value in usual), f"{100 * area:.0f}", *gate]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def _print_floors(repeats: int) -> None:
    print(
        f"\nAcc_tr of at least 75 %, chosen on one draw, on other samples of the classes, {repeats} draws\n"
    )
    print("| classes, rows of each | gate | confidence | validation | fresh | held | Acc_H | unreachable |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for sizes, gate in (
        ((40, 20, 5), MaxSoftmaxGate()),
        ((40, 20, 20), MaxSoftmaxGate()),
        ((40, 20, 5), ConfidenceGate()),
        ((40, 20, 20), ConfidenceGate()),
    ):
        for confidence in (None, 0.95):
            all_found = kept_floors(sizes, repeats, confidence=confidence, gate=gate)
            found = all_found.dropna()
            mean = 100 * found.mean()
            level = "none" if confidence is None else "95 %"
            print(
                f"| {sizes[0]} + {sizes[1]}, {sizes[2]} | {type(gate).__name__} | {level} | "
                f"{mean['validation']:.1f} | {mean['fresh']:.1f} ± {100 * found['fresh'].std():.1f} | "
                f"{100 * (found['fresh'] >= 0.75).mean():.0f} % | {mean['fresh_h']:.1f} | "
                f"{100 * (1 - len(found) / repeats):.0f} % |",
                flush=True,
            )


def _errors(mixture: GatedMixture, outputs: ExpertOutputs) -> list[str]:
    """Return the calibration errors of p(y) and p(U), with those of perfect probabilities in brackets."""
    steps = explain(mixture, outputs)
    proba = steps.proba.max(axis=1).clip(max=1)
    curves = (
        calibration(proba, mixture.predict(outputs) == outputs.labels),
        calibration(steps.p_unseen, ~outputs.is_seen),
    )
    return [f"{100 * curve.error:.1f} ({100 * curve.chance:.1f})" for curve in curves]


def _print_test_stage(name: str, datasets: Iterable[GZSLDataset]) -> None:
    """Print minimum accuracy and calibration on validation and on test, where experts are fitted again."""
    print(f"\n{name}: Acc_tr of at least 75 %, and calibration errors, on validation and test\n")
    print("| seed | confidence | validation | test | validation p(y) | p(U) | test p(y) | p(U) |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for seed, data in enumerate(datasets):
        model = run_experiment(data, Settings(seed=seed)).model
        validation, mixture = model.validation_outputs_, model.combination_
        samples = Protocol(data, seed=seed).open_test()
        test = model.outputs(samples.X, samples.y)
        errors = " | ".join([*_errors(mixture, validation), *_errors(mixture, test)])
        rows = np.bincount(validation.labels)[: validation.n_seen]
        for level, floor in (("none", 0.75), ("95 %", accuracy_to_reach(0.75, rows))):
            try:
                model.operate_at(min_seen=floor)
                there = f"{100 * mixture.validation_point_.acc_tr:.1f}"
                on_test = f"{100 * mixture.curve(test).at(model.operating_point_.threshold).acc_tr:.1f}"
            except ValueError:
                there, on_test = "unreachable", ""
            print(f"| {seed} | {level} | {there} | {on_test} | {errors} |", flush=True)


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--repeats", type=int, default=1000)
    options.add_argument("--glyphs", action="store_true", help="only the table of glyphs")
    options.add_argument("--xlsa17", metavar="FOLDER", help="only the calibration, on this data set")
    options.add_argument("--features", default="res101")
    args = options.parse_args()
    if args.xlsa17:
        data = read_xlsa17(args.xlsa17, features=args.features)
        _print_test_stage(data.name, [data])
        return
    if not args.glyphs:
        _print_intervals(args.repeats)
        _print_floors(args.repeats // 5)
    glyphs = (load_glyphs(n_classes=60, samples_per_class=30, seed=seed) for seed in range(5))
    _print_test_stage("glyphs", glyphs)


if __name__ == "__main__":
    main()
