"""Compare zero-shot experts on classes not used for any choice, without the test set.

The validation classes are split in halves: parameters are chosen on one half, the expert is then trained with
that half included and evaluated on the other half, over several splits. All methods use the same splits, so
differences are paired.

    python benchmarks/fresh_classes.py xlsa17/CUB --features res50 --methods eszsl lago
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.base import clone

from cosmo.data import GZSLDataset, read_xlsa17
from cosmo.data.splits import HoldOut, Protocol
from cosmo.experts import make_unseen_expert, select
from cosmo.metrics.accuracy import zsl_accuracy

METHODS = ("eszsl", "lago", "lago:variant=semantic-hard", "lago:variant=singletons")


def accuracy_on_fresh_classes(dataset: GZSLDataset, method: str, cut: int) -> float:
    """Return T1 on the half of the validation classes that was not used for choices."""
    protocol = Protocol(dataset, seed=1002)
    X, y, _ = protocol.training()
    held = protocol.training_hold_out()
    labels = y[held.unseen_val]
    classes = labels.unique()
    half = classes[np.random.default_rng(cut).permutation(len(classes))[: len(classes) // 2]]
    first, fresh = held.unseen_val[labels.isin(half)], held.unseen_val[~labels.isin(half)]
    known = dataset.descriptions.loc[dataset.seen_classes]
    chosen = select(make_unseen_expert(method), X, y, known, HoldOut(held.seen_train, held.seen_val, first))
    rows = np.sort(np.concatenate([held.seen_train, held.seen_val, first]))
    expert = clone(chosen).fit(X[rows], y[rows], known.loc[y[rows].unique()])
    classes = y[fresh].unique()
    return zsl_accuracy(y[fresh], expert.scores(X[fresh], known.loc[classes]), classes)


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("folder", help="a folder in xlsa17 layout")
    options.add_argument("--features", default="res101")
    options.add_argument("--methods", nargs="+", default=METHODS)
    options.add_argument("--cuts", type=int, default=5)
    options.add_argument("--roots", action="store_true", help="take square roots of the features")
    args = options.parse_args()
    data = {
        original: read_xlsa17(args.folder, features=args.features, original=original)
        for original in {make_unseen_expert(method).as_recorded for method in args.methods}
    }
    if args.roots:
        data = {original: dataset.with_roots() for original, dataset in data.items()}
    found = pd.DataFrame(index=range(args.cuts), columns=args.methods, dtype=float)
    seconds = dict.fromkeys(args.methods, 0.0)
    for cut in found.index:
        for method in args.methods:
            start = time.process_time()
            dataset = data[make_unseen_expert(method).as_recorded]
            found.loc[cut, method] = 100 * accuracy_on_fresh_classes(dataset, method, cut)
            seconds[method] += time.process_time() - start
    factor = stats.t.ppf(0.975, args.cuts - 1) / np.sqrt(args.cuts)
    lead = found.sub(found[args.methods[0]], axis=0)
    print(f"{Path(args.folder).name}: T1 on fresh classes, {args.cuts} cuts, percent; ± 95 % interval\n")
    print(f"| method | T1 | lead over {args.methods[0]} | CPU s a cut |")
    print("|---|---:|---:|---:|")
    for method in args.methods:
        half = factor * lead[method].std()
        shown = f"{lead[method].mean():+.1f} ± {half:.1f}" if method != args.methods[0] else ""
        print(f"| {method} | {found[method].mean():.1f} | {shown} | {seconds[method] / args.cuts:.0f} |")


if __name__ == "__main__":
    main()
