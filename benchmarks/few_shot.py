r"""Measure what a model learns from few samples of classes that it knows by description.

Unseen classes are learned five at a time, by `Model.learn`, from 0 to 50 samples of each. Accuracies are
those of these classes on their other samples, of the unseen classes that stay unseen, and of the seen ones,
among all classes; the same after a training from scratch with the same samples, and with each of the five
classes learned alone. Intents (CLINC), CUB (attributes) and glyphs; further draws than those on which the
method was designed, and the unseen classes of the benchmark.

    COSMO_DATA=... python benchmarks/few_shot.py --write docs/results/few-shot.md \
        --plot docs/results/images/few-shot.png
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from cosmo import Cosmo, Model
from cosmo._core.files import write_atomic
from cosmo.classifier._learning import ExemplarBuffer
from cosmo.data import load_glyphs, read_xlsa17
from cosmo.experts import Discriminant, GaussianExpert, make_seen_expert, make_unseen_expert
from cosmo.metrics.accuracy import per_class_accuracy
from intents import draw, paragraph, read
from plotting import add_option, legend_below, line, panels, plain_ticks, save

SIZES, TOGETHER = (0, 1, 2, 5, 10, 20, 50), 5
PARTS = ("classes learned", "other unseen classes", "seen classes")
WAYS = ("by description", "learned", "trained from scratch")
TITLES = {"intents": "CLINC intents", "cub": "CUB, attributes", "glyphs": "Glyphs"}
DRAWS, GROUPS = {"intents": 3, "cub": 1, "glyphs": 3}, {"intents": 1, "cub": 2, "glyphs": 2}


class Task(NamedTuple):
    """Rows, their labels, descriptions, row numbers of each part, and parameters of `Cosmo`."""

    X: np.ndarray
    y: pd.Index
    table: pd.DataFrame
    train: np.ndarray
    test_seen: np.ndarray
    unseen: np.ndarray
    experts: dict[str, Any]


def intents_task(data: Path, cache: str, seed: int) -> Task:
    found = read(data / "intents" / "clinc", cache)
    table = found.descriptions["description and name"]
    split = draw(found.y, table.index, seed)
    experts = {"seen": make_seen_expert("logistic-unit"), "unseen": make_unseen_expert("similarity")}
    return Task(found.X, found.y, table, split.trainval, split.test_seen, split.test_unseen, experts)


def cub_task(data: Path, cache: str, seed: int) -> Task:
    cub = read_xlsa17(data / "xlsa17" / "CUB", features="res50")
    # What `cosmo run --unseen auto --seen auto` chooses.
    experts = {"seen": Discriminant(0.2), "unseen": GaussianExpert(0.8, 0.1, 0.3)}
    experts["feature_transform"] = "roots"
    parts = cub.split.trainval, cub.split.test_seen, cub.split.test_unseen
    return Task(cub.features, cub.labels, cub.descriptions, *parts, experts)


def glyphs_task(data: Path, cache: str, seed: int) -> Task:
    glyphs, rng = load_glyphs(), np.random.default_rng(seed)
    y, seen = glyphs.labels, rng.permutation(glyphs.descriptions.index.to_numpy())[:90]
    place = pd.Series(rng.permutation(len(y)).argsort()).groupby(y).rank(pct=True).to_numpy()
    known, is_test = y.isin(seen), place <= 0.2
    parts = (np.flatnonzero(part) for part in (known & ~is_test, known & is_test, ~known))
    return Task(glyphs.features, y, glyphs.descriptions, *parts, {"seen": "auto", "unseen": "auto"})


def measure(task: Task, seed: int, n_groups: int) -> Iterator[dict[str, Any]]:
    """Yield the accuracies of each way, for each number of samples and group of classes."""
    X, y, table, train, test_seen, unseen, experts = task
    cosmo = Cosmo(table, **experts).fit(X[train], y[train])
    if cosmo.choice_ is not None:  # A training from scratch has the same experts.
        pair = cosmo.experts_
        experts = {"seen": pair.seen, "unseen": pair.unseen, "feature_transform": pair.transform}
    buffer = ExemplarBuffer.draw(X[train], cosmo.seen_classes_.get_indexer(y[train]), 20)
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(y[unseen].unique())[: n_groups * TOGETHER]
    pools, tests = {}, {}
    for label in chosen:
        rows = rng.permutation(unseen[y[unseen] == label])
        pools[label], tests[label] = np.array_split(rows, 2)

    def accuracies(model: Any, classes: Any) -> list[float]:
        test = np.concatenate([tests[label] for label in classes])
        parts = test, unseen[~y[unseen].isin(classes)], test_seen
        return [100 * per_class_accuracy(y[p], model.predict(X[p]), y[p].unique()) for p in parts]

    def at_seen_accuracy(model: Cosmo, classes: Any, accuracy: float) -> float:
        rows = np.append(unseen[~y[unseen].isin(classes)], test_seen)
        curve = model.combination_.present_curve(model.outputs(X[rows], y[rows]))
        return float(100 * curve.acc_ts[100 * curve.acc_tr >= accuracy - 1e-9].max())

    def learned(classes: Any, n: int) -> tuple[Cosmo, float]:
        model = Model(copy(cosmo), exemplars=buffer)
        model.cosmo.combination_ = copy(cosmo.combination_)
        rows = np.concatenate([pools[label][:n] for label in classes])
        start = time.process_time()
        if n:
            model.learn(X[rows], y[rows])
        return model.cosmo, time.process_time() - start

    for group in chosen.reshape(n_groups, TOGETHER):
        for n in SIZES:
            if n > min(len(pools[label]) for label in group):
                continue
            found: dict[str, Any] = {"n": n}
            together, found["cpu"] = learned(group, n)
            found["learned"] = accuracies(together, group)
            alone = [accuracies(learned([label], n)[0], [label]) for label in group]
            found["alone"] = np.mean(alone, axis=0).tolist()
            if n:
                rows = np.concatenate([train, *(pools[label][:n] for label in group)])
                start = time.process_time()
                scratch = Cosmo(table, **experts).fit(X[rows], y[rows])
                found["cpu from scratch"] = time.process_time() - start
                found["trained from scratch"] = accuracies(scratch, group)
                level = found["trained from scratch"][2]
                found["at its seen accuracy"] = [at_seen_accuracy(m, group, level) for m in (cosmo, together)]
            yield found


def means(found: list[dict[str, Any]], way: str) -> pd.DataFrame:
    """Return the mean accuracy of each part after each number of samples."""
    rows = {(k, one["n"]): one[way] for k, one in enumerate(found) if way in one}
    return pd.DataFrame(rows, index=PARTS).T.groupby(level=1).mean()


def differences(found: list[dict[str, Any]], way: str, base: str = "") -> pd.DataFrame:
    """Return the mean difference to the model by description, or to `base`, with 95 % intervals."""
    rows, first = {}, None
    for k, one in enumerate(found):
        first = one[way] if one["n"] == 0 and not base else first
        if not base or base in one:
            rows[k, one["n"]] = np.subtract(one[way], one[base] if base else first)
    frame = pd.DataFrame(rows, index=PARTS).T.groupby(level=1)
    n = frame.size()
    error = frame.std().mul(stats.t.ppf(0.975, n - 1) / np.sqrt(n), axis=0)
    shown = frame.mean().map("{:+.1f}".format)
    return shown + error.map(" ± {:.1f}".format) if n.iloc[0] > 2 else shown


def document(results: dict[str, list[dict[str, Any]]], big: str) -> Iterator[str]:
    """Return the lines of the result page."""
    yield "# Few-shot curve: from a description to many samples\n"
    yield paragraph(f"""
        Written by `python benchmarks/few_shot.py --write docs/results/few-shot.md --plot
        docs/results/images/few-shot.png`. {TOGETHER} unseen classes at a time are learned by `Model.learn`
        (`cosmo classes learn`); the other unseen classes stay unseen. Percent, means over classes; half of
        the samples of a learned class are for the test. *Trained from scratch*: `Cosmo.fit` with the same
        samples among the training rows, with a new gate and a new operating point.
    """)
    yield "\n![Accuracies by number of samples](images/few-shot.png)"
    for name, found in results.items():
        n_groups = sum(one["n"] == 0 for one in found)
        yield f"\n## {TITLES[name]}\n\n{n_groups} groups of {TOGETHER} classes, {DRAWS[name]} draw(s)."
        yield f"\n| samples | {' | '.join(f'{part}: learned | from scratch' for part in PARTS)} |"
        yield "|---:|" + "---:|" * 6
        learned, scratch = means(found, "learned"), means(found, "trained from scratch")
        for n, row in learned.iterrows():
            other = scratch.loc[n] if n in scratch.index else [np.nan] * 3
            pairs = zip(row, other, strict=True)
            cells = [f"{a:.1f} | {'' if np.isnan(b) else f'{b:.1f}'}" for a, b in pairs]
            yield f"| {n} | {' | '.join(cells)} |"
        together, alone = differences(found, "learned"), differences(found, "alone")
        yield "\nChange from the model by description, with 95 % intervals over three or more groups:\n"
        yield f"| samples | {' | '.join(PARTS)} | alone: {' | alone: '.join(PARTS)} |\n|---:|" + "---:|" * 6
        for n in together.index[1:]:
            yield f"| {n} | {' | '.join([*together.loc[n], *alone.loc[n]])} |"
        own = differences(found, "learned", "trained from scratch").loc[20]
        known, point = (
            pd.DataFrame([one["at its seen accuracy"] for one in found if one["n"] == 20]).mean(),
            scratch.loc[20, PARTS[1]],
        )
        yield "\n" + paragraph(f"""
            With 20 samples, learned minus from scratch: {", ".join(f"{part} {own[part]}" for part in PARTS)}.
            The latter has another operating point. At its accuracy on seen classes, the other unseen classes
            have {known[1]:.1f} ({known[0]:.1f} by description only; from scratch {point:.1f}).
        """)
        cpu = [np.mean([one[key] for one in found if one["n"] == 20]) for key in ("cpu", "cpu from scratch")]
        yield f"\nWith 20 samples, learning takes {cpu[0]:.2f} CPU seconds, a training {cpu[1]:.1f}."
    if big:
        yield f"\n## Time\n\n{big}"


def timing() -> str:
    """Return how long learning takes with 200 classes of 2048 features."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.random((250, 50)))
    centres = (table.to_numpy() @ rng.normal(size=(50, 2048))).astype(np.float32)
    codes = np.repeat(np.arange(200), 20)
    X = centres[codes] + 4 * rng.normal(size=(4000, 2048)).astype(np.float32)
    experts = {"seen": Discriminant(0.2), "unseen": GaussianExpert(0.8, 0.1, 0.3), "rounds": 1}
    model = Model(Cosmo(table, **experts).fit(X, codes), exemplars=ExemplarBuffer.draw(X, codes, 20))
    times = []
    for labels in ([200], np.arange(201, 206)):
        y = np.repeat(labels, 20)
        start = time.process_time()
        model.learn(centres[y] + 4 * rng.normal(size=(len(y), 2048)).astype(np.float32), y)
        times.append(time.process_time() - start)
    return paragraph(f"""
        200 seen classes with 20 exemplars each, 2048 features, linear experts: one class with 20 samples
        takes {times[0]:.2f} CPU seconds, five classes take {times[1]:.2f}.
    """)


def plot(results: dict[str, list[dict[str, Any]]], file: Path) -> None:
    figure, axes = panels(len(PARTS), len(results), height=7.0)
    for column, (name, found) in enumerate(results.items()):
        learned, scratch = means(found, "learned"), means(found, "trained from scratch")
        for row, part in enumerate(PARTS):
            one, sizes = axes[row, column], learned.index[1:]
            by_description = np.full(len(sizes), learned.loc[0, part])
            values = by_description, learned.loc[sizes, part], scratch[part]
            for k, (way, numbers) in enumerate(zip(WAYS, values, strict=True)):
                one.semilogx(sizes, numbers, **(line(k) | ({"marker": ""} if k == 0 else {})), label=way)
            one.set(title=f"{TITLES[name]}: {part}" if row == 0 else part, ylabel="accuracy (%)")
            one.set_ylim(0, 100)
            if row == len(PARTS) - 1:
                one.set_xlabel("samples of each class")
            plain_ticks(one.xaxis)
    legend_below(figure, axes[0, 0])
    save(figure, file)


def main() -> None:
    """Print the tables, or write them to a file."""
    options = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--data", nargs="+", choices=[*TITLES, "time"], default=[*TITLES, "time"])
    options.add_argument("--first", type=int, default=0, metavar="SEED", help="of the first draw")
    options.add_argument("--cache", default="cosmo-runs/cache", help="keeps encoded texts and finished draws")
    options.add_argument("--write", metavar="FILE")
    add_option(options)
    args = options.parse_args()
    folder = Path(os.environ.get("COSMO_DATA", "../shared/data"))
    results: dict[str, list[dict[str, Any]]] = {}
    for name in args.data:
        for seed in range(args.first, args.first + DRAWS.get(name, 0)):
            done = Path(args.cache, f"few-shot-{name}-{seed}.json")
            if not done.exists():
                task = globals()[f"{name}_task"](folder, args.cache, seed)
                write_atomic(done, json.dumps(list(measure(task, seed, GROUPS[name]))).encode())
            results.setdefault(name, []).extend(json.loads(done.read_text()))
            print(f"{name}, draw {seed}", flush=True)
    text = "\n".join(document(results, timing() if "time" in args.data else "")) + "\n"
    if args.write:
        write_atomic(Path(args.write), text.encode())
    else:
        print(text)
    if args.plot:
        plot(results, args.plot)


if __name__ == "__main__":
    main()
