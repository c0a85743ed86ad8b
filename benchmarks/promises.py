"""Whether intervals, floors and probabilities keep what they promise, on data whose truth is known.

Classes are made up, with known accuracies; samples of them are drawn many times over, and it is counted how
often the truth lies where an interval says, and how often a floor chosen on one draw holds on others.
With a folder in xlsa17 layout, the calibration of a model on its test rows, too.

    python benchmarks/promises.py
    python benchmarks/promises.py --xlsa17 xlsa17/CUB --features res50
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import softmax
from scipy.stats import norm

from cosmo.classifier.combinations import GatedMixture
from cosmo.data import GZSLDataset, load_glyphs, read_xlsa17
from cosmo.data.splits import Protocol
from cosmo.evaluation.calibration import answer_calibration, gate_calibration
from cosmo.evaluation.run import Settings, run_experiment
from cosmo.gates import ConfidenceGate, Gate, MaxSoftmaxGate
from cosmo.metrics.accuracy import gate_intervals, gzsl_intervals, harmonic_mean
from cosmo.metrics.intervals import accuracy_to_reach
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
    """Return whether an interval, made longer or shorter about its middle, has the truth in it."""
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
    """Return how often the intervals of Acc_ts, Acc_tr and Acc_H cover, for classes of Beta accuracies."""
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
        told = intervals(y, guess, classes[:n_seen], classes[n_seen:], seed=i)
        found += [covers(one, value, stretch) for one, value in zip(told, truth, strict=True)]
    return found / repeats


def bootstrap_intervals(
    y: NDArray[np.intp], guess: NDArray[np.intp], *sides: NDArray[np.intp], seed: int
) -> list[tuple[float, float]]:
    """Return the usual intervals of Acc_ts, Acc_tr and Acc_H instead: rows resampled within each class."""
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
    """Return how often the interval of AUSUC covers, for classes of Gaussian flips, whose area is known."""
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
    """Return how often the intervals of a gate's AUC and FPR cover; classes differ by `spread`."""
    n_seen, n_unseen, rows_seen, rows_unseen = sizes
    rng = np.random.default_rng(2)
    at_seen, at_unseen = rng.normal(1, spread, n_seen), rng.normal(-0.3, spread, n_unseen)
    auc = norm.cdf((at_seen[:, None] - at_unseen) / np.sqrt(2)).mean()
    fpr = norm.sf(brentq(lambda t: norm.sf(t - at_seen).mean() - 0.95, -9, 9) - at_unseen).mean()
    middle = np.concatenate([np.repeat(at_seen, rows_seen), np.repeat(at_unseen, rows_unseen)])
    is_seen = np.arange(len(middle)) < n_seen * rows_seen
    found = np.zeros(2)
    for i in range(repeats):
        told = gate_intervals(is_seen, rng.normal(middle), seed=i)
        found += [covers(one, value, stretch) for one, value in zip(told, (auc, fpr), strict=True)]
    return found / repeats


class World:
    """Classes whose samples both experts can be asked about, as often as one likes.

    A sample's expert outputs are a soft-max of noise, with its own class raised by what is drawn for the
    class. Samples of unseen classes look like some seen class to the seen expert, so that floors cost.
    """

    def __init__(self, n_seen: int, n_unseen: int, *, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.n_seen, self.n_unseen = n_seen, n_unseen
        self.raised_seen = rng.normal(7.8, 1.5, n_seen)
        self.raised = np.concatenate([rng.normal(1.5, 0.5, n_seen), rng.normal(3.0, 0.8, n_unseen)])

    def draw(self, rows: int, rng: np.random.Generator) -> ExpertOutputs:
        """Return the labelled outputs of so many new samples of each class."""
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
    """Choose operating points by a floor of Acc_tr on one draw each, and ask about very many other samples.

    Parameters
    ----------
    sizes : (int, int, int)
        Seen classes, unseen classes, and rows of each.
    confidence : float, optional
        Of `accuracy_to_reach`; without it the floor itself is asked for.

    Returns
    -------
    DataFrame
        A row for each draw: `validation` and `fresh` Acc_tr, and `fresh_h`, the fresh Acc_H; NaN where no
        point of the curve was good enough.
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
    print(f"how often 95 % intervals cover, percent, {repeats} draws (of those as CUB and SUN a quarter)\n")
    print("| classes and rows | Acc_ts | Acc_tr | Acc_H | by a bootstrap | AUSUC | gate AUC | gate FPR |")
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
    print("| classes, rows of each | gate | asked for | validation | fresh | kept | Acc_H | out of reach |")
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
            asked = "75 % there" if confidence is None else "75 %, 95 % sure"
            print(
                f"| {sizes[0]} + {sizes[1]}, {sizes[2]} | {type(gate).__name__} | {asked} | "
                f"{mean['validation']:.1f} | {mean['fresh']:.1f} ± {100 * found['fresh'].std():.1f} | "
                f"{100 * (found['fresh'] >= 0.75).mean():.0f} % | {mean['fresh_h']:.1f} | "
                f"{100 * (1 - len(found) / repeats):.0f} % |",
                flush=True,
            )


def _print_stage(dataset: GZSLDataset, seeds: int, make: Callable[[int], GZSLDataset]) -> None:
    """Print what becomes of a floor, and of probabilities, where the experts are fitted again."""
    print(f"\n{dataset.name}: the floor and the probabilities of validation, and on test\n")
    print("| seed | max Acc_tr | asked for | Acc_tr there | on test | ECE p(y) | p(U) | test p(y) | p(U) |")
    print("|---|---:|---|---:|---:|---:|---:|---:|---:|")
    for seed in range(seeds):
        data = make(seed)
        model = run_experiment(data, Settings(seed=seed)).model
        validation, mixture = model.validation_outputs_, model.combination_
        samples = Protocol(data, seed=seed).open_test()
        test = model.outputs(samples.X, samples.y)
        errors = [
            f"{100 * found.error:.1f} ({100 * found.chance:.1f})"
            for outputs in (validation, test)
            for found in (answer_calibration(mixture, outputs), gate_calibration(mixture, outputs))
        ]
        rows = np.bincount(validation.labels)[: validation.n_seen]
        most = mixture.curve(validation).acc_tr.max()
        for name, floor in (("75 %", 0.75), ("75 %, 95 % sure", accuracy_to_reach(0.75, rows))):
            try:
                model.operate_at(min_seen=floor)
                there = f"{100 * mixture.validation_point_.acc_tr:.1f}"
                on_test = f"{100 * mixture.curve(test).at(model.operating_point_.threshold).acc_tr:.1f}"
            except ValueError:
                there, on_test = "out of reach", ""
            print(
                f"| {seed} | {100 * most:.1f} | {name} | {there} | {on_test} | {' | '.join(errors)} |",
                flush=True,
            )


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--repeats", type=int, default=1000)
    options.add_argument("--seeds", type=int, default=5, help="of glyphs")
    options.add_argument("--xlsa17", metavar="FOLDER", help="only the calibration, on this data set")
    options.add_argument("--features", default="res101")
    args = options.parse_args()
    if args.xlsa17:
        data = read_xlsa17(args.xlsa17, features=args.features)
        _print_stage(data, 1, lambda seed: data)
        return
    _print_intervals(args.repeats)
    _print_floors(args.repeats // 5)
    glyphs = partial(load_glyphs, n_classes=60, samples_per_class=30)
    _print_stage(glyphs(), args.seeds, lambda seed: glyphs(seed=seed))


if __name__ == "__main__":
    main()
