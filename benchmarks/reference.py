"""Compare our experts with published code, run on the same features and splits.

`reference.csv` holds what that code measured on CUB (ResNet-50, attributes), one thread. Its loading of data
was adapted, and what `how` says. `choice` is the rows on which it chose its parameters or state. Ours is the
mean over seeds; everything is chosen on held-out classes.

    python benchmarks/reference.py xlsa17/CUB --features res50
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import clone

from cosmo.data import GZSLDataset, read_xlsa17
from cosmo.data.splits import PUBLISHED_SEEDS, Protocol
from cosmo.experts import UnseenExpert, make_unseen_expert, select
from cosmo.metrics.accuracy import gzsl_scores, zsl_accuracy
from plotting import MARKERS, add_option, panels, save

COLUMNS = ["t1", "acc_ts", "acc_tr", "acc_h", "cpu_seconds"]


def measure(dataset: GZSLDataset, expert: UnseenExpert, split_seed: int) -> list[float]:
    """Return the test accuracies of an expert chosen on held-out classes, in percent, and CPU seconds."""
    start = time.process_time()
    protocol = Protocol(dataset, seed=split_seed)
    X, y, _ = protocol.training()
    known = dataset.descriptions.loc[dataset.seen_classes]
    chosen = select(expert, X, y, known, protocol.training_hold_out())
    fitted = clone(chosen).fit(X, y, dataset.descriptions)
    seconds = time.process_time() - start
    test = protocol.open_test()
    scores = fitted.scores(test.X, dataset.descriptions)
    guess = dataset.classes[scores.argmax(axis=1)]
    unseen = dataset.classes.isin(dataset.unseen_classes)
    of_unseen = test.y.isin(dataset.unseen_classes)
    t1 = zsl_accuracy(test.y[of_unseen], scores[of_unseen][:, unseen], dataset.classes[unseen])
    accuracies = t1, *gzsl_scores(test.y, guess, dataset.seen_classes, dataset.unseen_classes)
    return [*(100 * value for value in accuracies), seconds]


def measure_all(folder: str, features: str, methods: list[str], seeds: int) -> pd.DataFrame:
    """Return ours, the mean over seeds, with a row for each method."""
    found = {}
    for method in methods:
        expert = make_unseen_expert(method)
        dataset = read_xlsa17(folder, features=features, original=expert.as_recorded)
        values = range(seeds) if "seed" in expert.get_params() else [None]
        experts = [expert if seed is None else clone(expert).set_params(seed=seed) for seed in values]
        split_seed = PUBLISHED_SEEDS.get(Path(folder).name, 0)
        found[method] = np.mean([measure(dataset, one, split_seed) for one in experts], axis=0)
    return pd.DataFrame(found, index=COLUMNS).T


def plot(pairs: list[tuple[str, dict[str, float], pd.Series[float]]], file: Path) -> None:
    """Draw ours against published code, a point for each pair; the band is a difference of 1.5 points."""
    figure, axes = panels(1, 2, height=3.9)
    for axis, column, title in zip(axes[0], ["t1", "acc_h"], ["T1", "Acc_H"], strict=True):
        for k, (label, theirs, ours) in enumerate(pairs):
            axis.plot(theirs[column], ours[column], MARKERS[k % len(MARKERS)], label=label)
        limits = *axis.get_xlim(), *axis.get_ylim()
        ends = np.array([min(limits) - 2, max(limits) + 2])
        axis.plot(ends, ends, color="#888888", linewidth=0.8, zorder=0)
        axis.fill_between(ends, ends - 1.5, ends + 1.5, color="#eeeeee", linewidth=0, zorder=0)
        axis.set(xlim=ends, ylim=ends, aspect="equal", xlabel=f"{title} of published code", ylabel="ours")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    save(figure, file)


def main() -> None:
    """Print the table."""
    reference = pd.read_csv(Path(__file__).with_suffix(".csv"))
    options = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("folder", help="a folder in xlsa17 layout")
    options.add_argument("--features", default="res101")
    options.add_argument("--methods", nargs="+", default=list(reference["method"].unique()))
    options.add_argument("--seeds", type=int, default=3)
    add_option(options)
    args = options.parse_args()
    ours = measure_all(args.folder, args.features, args.methods, args.seeds)
    names = [method.partition(":")[0] for method in args.methods]
    print("| method | code | chosen on | T1 | ts | tr | H | CPU s |\n|---|---|---|---:|---:|---:|---:|---:|")
    pairs = []
    for method, name in zip(args.methods, names, strict=True):
        rows = [*reference[reference["method"] == name].to_dict("records")]
        pairs += [(f"{method} (chosen on {row['choice']})", row, ours.loc[method]) for row in rows]
        rows.append({"repository": "ours", "choice": "validation", **ours.loc[method]})
        for row in rows:
            figures = " | ".join(f"{row[column]:.{int(column != 'cpu_seconds')}f}" for column in COLUMNS)
            print(f"| {method} | {row['repository']} | {row['choice']} | {figures} |")
    print()
    for row in reference[reference["method"].isin(names)].itertuples():
        print(f"- {row.method}: {row.how}")
    if args.plot:
        plot(pairs, args.plot)


if __name__ == "__main__":
    main()
