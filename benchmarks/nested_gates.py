"""Compare gates on classes that they were not fitted on, without the test set.

Gates are fitted on GZSL-Val, so their scores there are optimistic. Here the whole procedure (hold out
classes, fit the gate, choose the operating point, train on all rows) is done inside Seen-Train, and Acc_H is
measured on GZSL-Val, with adaptive smoothing and ESZSL.

    python benchmarks/nested_gates.py                                            glyphs, two minutes
    python benchmarks/nested_gates.py xlsa17/CUB --features res50 --seeds 1002   two minutes
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from cosmo import Cosmo
from cosmo.data import GZSLDataset, load_glyphs, read_xlsa17
from cosmo.data.splits import Protocol
from cosmo.gates import make_gate

GATES = tuple((gate, folds) for gate in ("confidence", "evidence") for folds in (1, 3))
SIZES = ("140x40", "100x20", "80x12", "60x12")


def accuracy_on_fresh_classes(dataset: GZSLDataset, gate: str, folds: int, seed: int) -> float:
    """Return Acc_H on GZSL-Val of a model whose experts and gate are fitted on Seen-Train."""
    protocol = Protocol(dataset, seed=seed)
    X, y, _ = protocol.training()
    held = protocol.training_hold_out()
    known = dataset.descriptions.loc[dataset.seen_classes]
    model = Cosmo(known, gate=make_gate(gate), folds=folds, random_state=seed, method="paper")
    model.fit(X[held.seen_train], y[held.seen_train])
    return model.score(X[held.gzsl_val], y[held.gzsl_val])


def main() -> None:
    """Print the table line by line."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("folder", nargs="?", help="a folder in xlsa17 layout (default: glyphs)")
    options.add_argument("--features", default="res101")
    options.add_argument("--descriptions", nargs="+", default=["att_splits", "sent_splits"])
    options.add_argument("--sizes", nargs="+", default=SIZES, help="glyphs: classes x samples per class")
    options.add_argument("--seeds", nargs="+", type=int, default=range(4))
    args = options.parse_args()
    table = Table(title=f"Acc_H on GZSL-Val, fitted in Seen-Train; seeds {', '.join(map(str, args.seeds))}")
    for title in ("", *(gate if folds == 1 else f"{gate}, {folds} folds" for gate, folds in GATES), "CPU s"):
        table.add_column(title, justify="right" if title else "left")

    def data(name: str, seed: int) -> GZSLDataset:
        if args.folder:
            return read_xlsa17(args.folder, features=args.features, descriptions=name)
        n_classes, samples_per_class = map(int, name.split("x"))
        return load_glyphs(n_classes=n_classes, samples_per_class=samples_per_class, seed=seed)

    for name in args.descriptions if args.folder else args.sizes:
        start = time.process_time()
        found = np.array(
            [
                [accuracy_on_fresh_classes(dataset, *gate, seed) for gate in GATES]
                for seed, dataset in ((seed, data(name, seed)) for seed in args.seeds)
            ]
        )
        means = (f"{100 * mean:.1f}" for mean in found.mean(axis=0))
        table.add_row(name, *means, f"{time.process_time() - start:.0f}")
        print(name, "done", flush=True)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
