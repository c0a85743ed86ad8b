"""Leaderboard: our methods beside published code that was run on the same features and splits.

`peers.csv` has a row for each run of published code, with one thread: accuracies after its last epoch and at
the epoch that is best on test, AUSUC of the scores after the last epoch (exact curve), CPU seconds of
training without evaluation, and in `how` what was adapted. Ours are trained here: the mean over seeds,
everything chosen on held-out classes and rows, CPU seconds of `fit` with all choices.

    python benchmarks/peers.py xlsa17/CUB --features res50 --write docs/results/leaderboard.md
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from cosmo import Cosmo
from cosmo._core.files import write_atomic
from cosmo.data import read_xlsa17
from cosmo.data.splits import Protocol
from plotting import panels, plain_ticks, save

AUTO = "ours, auto"
OURS: dict[str, dict[str, Any]] = {
    AUTO: {"seen": "auto", "unseen": "auto"},
    "ours, COSMO + ESZSL": {"method": "paper"},
}
DESCRIPTIONS = {"att_splits": "attributes", "sent_splits": "sentences"}
LAST = ["acc_ts", "acc_tr", "acc_h"]
BEST = [f"best_{name}" for name in LAST]
MEASURES = [*LAST, *BEST, "ausuc", "cpu_seconds"]


def measure(folder: str, features: str, seeds: int) -> Iterator[dict[str, Any]]:
    """Train each of our methods on each table of descriptions, with each seed."""
    for file, descriptions in DESCRIPTIONS.items():
        dataset = read_xlsa17(folder, features=features, descriptions=file)
        for method, parameters in OURS.items():
            for seed in range(seeds):
                protocol = Protocol(dataset, seed=seed)
                X, y, _ = protocol.training()
                model = Cosmo(
                    dataset.descriptions,
                    hold_out=protocol.training_hold_out(),
                    random_state=seed,
                    **parameters,
                )
                start = time.process_time()
                model.fit(X, y)
                seconds = time.process_time() - start
                test = protocol.open_test()
                curve = model.combination_.curve(model.outputs(test.X, test.y))
                accuracies = curve.at(model.combination_.operating_point_.threshold)
                percent = 100 * np.array([*accuracies, curve.area])
                yield {
                    "method": method,
                    "descriptions": descriptions,
                    **dict(zip([*LAST, "ausuc"], percent, strict=True)),
                    "cpu_seconds": seconds,
                }


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """Return means over runs by descriptions and method, the best Acc_H first."""
    groups = rows.groupby(["descriptions", "method"])
    means = groups[MEASURES].mean().join(groups.size().rename("runs"))
    means = means.join(groups[["epochs", "of_epochs"]].first())
    return means.sort_values(["descriptions", "acc_h"], ascending=[True, False])


def table(means: pd.DataFrame) -> list[str]:
    lines = [
        "| method | chosen on | U | S | Acc_H | best on test: U / S / Acc_H | AUSUC | CPU s | runs |",
        "|---|---|---:|---:|---:|---|---:|---:|---:|",
    ]
    for method, row in means.iterrows():
        chosen = "held-out classes" if method in OURS else f"epoch {row.epochs:.0f} of {row.of_epochs:.0f}"
        best = "" if np.isnan(row.best_acc_h) else " / ".join(f"{row[name]:.1f}" for name in BEST)
        last = " | ".join(f"{row[name]:.1f}" for name in LAST)
        area = "" if np.isnan(row.ausuc) else f"{row.ausuc:.1f}"
        lines.append(
            f"| {method} | {chosen} | {last} | {best} | {area} | {row.cpu_seconds:.0f} | {row.runs:.0f} |"
        )
    return lines


def comparison(means: pd.DataFrame) -> list[str]:
    """Return a line for each peer: what `auto` gains over it, and its share of the CPU time."""
    ours = means.xs(AUTO, level="method")
    lines = [
        "| peer | descriptions | Acc_H | over its best on test | AUSUC | CPU time of auto / of the peer |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for (descriptions, method), row in means.iterrows():
        if method not in OURS:
            auto = ours.loc[descriptions]
            gains = auto.acc_h - row.acc_h, auto.acc_h - row.best_acc_h, auto.ausuc - row.ausuc
            cells = " | ".join("" if np.isnan(gain) else f"{gain:+.1f}" for gain in gains)
            share = auto.cpu_seconds / row.cpu_seconds
            lines.append(f"| {method} | {descriptions} | {cells} | {share:.2f} |")
    return lines


def plot(means: pd.DataFrame, file: Path) -> None:
    """Draw Acc_H against CPU seconds; a ring is the epoch that is best on test."""
    figure, axes = panels(1, len(DESCRIPTIONS), height=3.4)
    for axis, descriptions in zip(axes[0], DESCRIPTIONS.values(), strict=True):
        for method, row in means.loc[descriptions].iterrows():
            colour = "#0072B2" if method in OURS else "#D55E00"
            axis.plot(row.cpu_seconds, row.acc_h, "o", color=colour)
            axis.plot(row.cpu_seconds, row.best_acc_h, "o", color=colour, markerfacecolor="none")
            axis.annotate(
                str(method).removeprefix("ours, "), (row.cpu_seconds, row.acc_h), (0, -12),
                textcoords="offset points", fontsize=8, color=colour, ha="center",
            )  # fmt: skip
        axis.set(title=descriptions, xscale="log", xlabel="CPU seconds", ylabel="Acc_H, percent")
        axis.margins(x=0.25, y=0.2)
        plain_ticks(axis.xaxis)
    save(figure, file)


def document(means: pd.DataFrame, peers: pd.DataFrame, command: str) -> str:
    lines = [
        "# Leaderboard",
        "",
        "Our methods and published code on the same data: CUB, pooled ResNet-50 features (**not** the",
        "ResNet-101 features of the papers), the benchmark's splits, one CPU thread.",
        "",
        "```",
        command,
        "```",
        "",
        "trains ours, reads what published code measured from `benchmarks/peers.csv`, and prints in percent:",
        "",
        "![Acc_H against CPU seconds](images/leaderboard.png)",
        "",
    ]
    for descriptions in DESCRIPTIONS.values():
        lines += [f"## CUB, {descriptions}", "", *table(means.loc[descriptions]), ""]
    lines += [
        "U, S: accuracy on unseen and on seen classes. *Best on test* is the epoch, of those evaluated, with",
        "the best Acc_H on test: the figure that most papers print, and the rings of the plot. Ours is never",
        "chosen on test. CPU seconds of ours include every choice of parameters; those of the others are one",
        "training with the parameters of their authors.",
        "",
        "## Ahead by",
        "",
        "`auto` minus each peer:",
        "",
        *comparison(means),
        "",
        "## How the others were run",
        "",
        "Loading of data is adapted and nothing of their code is in this repository. The optimiser is the",
        "fused Adam of PyTorch: the same steps, faster.",
        "",
    ]
    for (repository, how), group in peers.groupby(["repository", "how"], sort=False):
        lines.append(f"- {repository} ({', '.join(group['descriptions'].unique())}): {how}.")
    return "\n".join([*lines, ""])


def main() -> None:
    """Print the page."""
    options = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("folder", help="CUB in xlsa17 layout, with att_splits.mat and sent_splits.mat")
    options.add_argument("--features", default="res101")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument(
        "--write", type=Path, metavar="FILE", help="write the page and images/leaderboard.png"
    )
    args = options.parse_args()
    peers = pd.read_csv(Path(__file__).with_suffix(".csv"))
    with threadpool_limits(1):
        rows = []
        for row in measure(args.folder, args.features, args.seeds):
            print(
                *(f"{value:.1f}" if isinstance(value, float) else value for value in row.values()), flush=True
            )
            rows.append(row)
    means = summarise(pd.concat([peers, pd.DataFrame(rows)]))
    command = "python benchmarks/peers.py xlsa17/CUB --features res50"
    page = document(means, peers, command)
    print(page)
    if args.write:
        plot(means, args.write.parent / "images/leaderboard.png")
        write_atomic(args.write, page.encode())


if __name__ == "__main__":
    main()
