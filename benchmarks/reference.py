"""Compare our experts with published code, run on the same features and splits.

`reference.csv` holds what was measured on CUB (ResNet-50, attributes), one thread: published code, its
loading of data adapted and what `how` says, and ours, the mean over seeds. `choice` is what parameters or
the state were chosen by. Prints the table; --measure first replaces the figures of ours:

    python benchmarks/reference.py --measure sje dem --folder xlsa17/CUB --features res50
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


def measure_ours(method: str, folder: str, features: str, seeds: int) -> dict[str, object]:
    """Return a row of the table: the mean over seeds."""
    expert = make_unseen_expert(method)
    dataset = read_xlsa17(folder, features=features, original=expert.as_recorded)
    values = range(seeds) if "seed" in expert.get_params() else [None]
    experts = [expert if seed is None else clone(expert).set_params(seed=seed) for seed in values]
    split_seed = PUBLISHED_SEEDS.get(Path(folder).name, 0)
    mean = np.mean([measure(dataset, one, split_seed) for one in experts], axis=0).round(2)
    how = "seeds: " + str(len(experts)) if values != [None] else ""
    return {
        "method": method,
        "code": "ours",
        "choice": "validation",
        "how": how,
        **dict(zip(COLUMNS, mean, strict=True)),
    }


def plot(pairs: pd.DataFrame, file: Path) -> None:
    """Draw ours against published code, a point for each pair; the band is a difference of 1.5 points."""
    figure, axes = panels(1, 2, height=3.9)
    for axis, column, title in zip(axes[0], ["t1", "acc_h"], ["T1", "Acc_H"], strict=True):
        both = pairs[[column, f"{column}_ours"]].to_numpy()
        ends = np.array([both.min() - 2, both.max() + 2])
        axis.plot(ends, ends, color="#888888", linewidth=0.8, zorder=1)
        axis.fill_between(ends, ends - 1.5, ends + 1.5, color="#eeeeee", linewidth=0, zorder=0)
        axis.plot(*both.T, MARKERS[0])
        for row, (x, y) in zip(pairs.itertuples(), both, strict=True):
            axis.annotate(row.method, (x, y), (5, -3), textcoords="offset points", fontsize=7)
        axis.set(xlim=ends, ylim=ends, aspect="equal", xlabel=f"{title} of published code", ylabel="ours")
    save(figure, file)


def main() -> None:
    """Print the table."""
    file = Path(__file__).with_suffix(".csv")
    table = pd.read_csv(file, keep_default_na=False)
    options = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--measure", nargs="+", default=[], metavar="METHOD", help="train ours")
    options.add_argument("--folder", help="a folder in xlsa17 layout")
    options.add_argument("--features", default="res101")
    options.add_argument("--seeds", type=int, default=3)
    add_option(options)
    args = options.parse_args()
    for method in args.measure:
        row = measure_ours(method, args.folder, args.features, args.seeds)
        table = table[(table["method"] != method) | (table["code"] != "ours")]
        table = pd.concat([table, pd.DataFrame([row])]).sort_values("method", kind="stable")
        table.to_csv(file, index=False)
    print("| method | code | chosen by | T1 | ts | tr | H | CPU s |\n|---|---|---|---:|---:|---:|---:|---:|")
    for row in table.to_dict("records"):
        figures = " | ".join(f"{row[column]:.{int(column != 'cpu_seconds')}f}" for column in COLUMNS)
        print(f"| {row['method']} | {row['code']} | {row['choice']} | {figures} |")
    print()
    published = table[table["code"] != "ours"]
    for row in published.drop_duplicates(["method", "how"]).itertuples():
        print(f"- {row.method}: {row.how}")
    if args.plot:
        ours = table[table["code"] == "ours"].set_index("method")[COLUMNS]
        plot(published.merge(ours.add_suffix("_ours"), left_on="method", right_index=True), args.plot)


if __name__ == "__main__":
    main()
