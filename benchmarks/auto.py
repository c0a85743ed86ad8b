"""`auto` against every single choice of experts and transform, and the accuracies that it expects.

Tasks are those of `carry_over.py`: glyphs (98 seen and 42 unseen classes), CLINC intents (100 and 50) and CUB
with attributes and with sentences (150 and 50). All are fitted with the calibrated method and choose their
parameters on held-out classes. Test rows are opened here only.

    python benchmarks/auto.py --write docs/results/auto.md
    python benchmarks/auto.py --data glyphs --draws 1

Data below the folder that COSMO_DATA names; sets that are absent are left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from threadpoolctl import threadpool_limits

from carry_over import ROOT, Task, draw
from cosmo import Cosmo
from cosmo._core.files import write_atomic
from cosmo.experts import make_seen_expert, make_unseen_expert

TASKS = {"glyphs": (98, 42), "clinc": (100, 50), "cub-att": (150, 50), "cub-sent": (150, 50)}
FOLDERS = {"clinc": "intents", "cub-att": "xlsa17", "cub-sent": "xlsa17"}
UNSEEN = {"clinc": ("eszsl", "gaussian", "similarity")}
TRANSFORMS = {"clinc": ("none",), "glyphs": ("none", "unit")}  # intents have unit length
SEEN = ("logistic", "discriminant-logistic")
MEASURES = ["acc_ts", "acc_tr", "acc_h", "ausuc"]
LEGEND = """\
`auto`, the default of `Cosmo`, `cosmo fit` and `cosmo run`, compares light candidates on held-out classes and
rows and keeps the best ([how](../experts.md#chosen-for-you)). Nothing is chosen on test rows. CUB has pooled
ResNet-50 features, **not** the ResNet-101 features of the papers. Percent, means over draws of classes or
seeds of the hold-out; CPU seconds of `fit` with one thread. *Expected*: mean Acc_H that a model states after
the training, and in how many draws its 90 % interval contains the test figure.
"""


def measure(task: Task, seed: int, **parameters: Any) -> dict[str, Any]:
    """Fit a model and return its figures on test, in percent."""
    model = Cosmo(task.table, random_state=seed, **parameters)
    start = time.process_time()
    model.fit(task.X[task.train], task.y[task.train])
    seconds = time.process_time() - start
    curve = model.combination_.curve(model.outputs(task.X[task.test], task.y[task.test]))
    point = curve.at(model.operating_point_.threshold)
    expected = model.expected_scores()
    interval = expected.intervals[2]
    figures = point.acc_ts, point.acc_tr, point.acc_h, curve.area
    return {
        **{name: 100 * value for name, value in zip(MEASURES, figures, strict=True)},
        "expected": 100 * expected.scores.acc_h,
        "covered": interval.low <= point.acc_h <= interval.high,
        "cpu": seconds,
        "chosen": "" if model.choice_ is None else str(model.choice_),
    }


def compared(name: str, draws: int) -> Iterator[dict[str, Any]]:
    """Measure `auto` and the single choices on each draw of a task."""
    for seed in range(draws):
        task = draw(name, *TASKS[name], seed)
        yield {"choice": "auto", **measure(task, seed)}
        for transform in TRANSFORMS.get(name, ("none", "roots")):
            for unseen in UNSEEN.get(name, ("eszsl", "gaussian")):
                for seen in SEEN:
                    parameters = {"seen": make_seen_expert(seen), "unseen": make_unseen_expert(unseen)}
                    label = f"{unseen}, {seen}" + (f", {transform}" if transform != "none" else "")
                    yield {"choice": label, **measure(task, seed, feature_transform=transform, **parameters)}


def section(name: str, rows: pd.DataFrame) -> Iterator[str]:
    """Return the table of a task, best first, and what `auto` has chosen."""
    groups = rows.groupby("choice", sort=False)
    means = groups[[*MEASURES, "expected", "cpu"]].mean().join(groups["covered"].sum())
    means = means.sort_values("acc_h", ascending=False)
    draws = int(groups.size().iloc[0])
    n_seen, n_unseen = TASKS[name]
    yield f"\n## {name}, {n_seen} seen and {n_unseen} unseen classes, mean of {draws}\n"
    yield "| choice | Acc_ts | Acc_tr | Acc_H | AUSUC | expected | contained | CPU s |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for choice, row in means.iterrows():
        figures = " | ".join(f"{row[measure]:.1f}" for measure in [*MEASURES, "expected"])
        title = f"**{choice}**" if choice == "auto" else choice
        yield f"| {title} | {figures} | {row['covered']:.0f} of {draws} | {row['cpu']:.0f} |"
    single = means.drop(index="auto")
    gain = means.loc["auto", MEASURES] - single[MEASURES].max()
    yield (
        f"\n`auto` minus the best single choice: Acc_H {gain['acc_h']:+.1f} ({single['acc_h'].idxmax()}), "
        f"AUSUC {gain['ausuc']:+.1f} ({single['ausuc'].idxmax()})."
    )
    yield "Chosen:\n"
    for k, chosen in enumerate(rows.loc[rows["choice"] == "auto", "chosen"]):
        yield f"- {k}: {chosen}"


def main() -> None:
    """Print the page."""
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--data", nargs="+", choices=list(TASKS), default=list(TASKS))
    options.add_argument("--draws", type=int, default=3)
    options.add_argument("--write", type=Path, metavar="FILE")
    args = options.parse_args()
    lines = ["# Experts chosen on held-out classes\n", "Written by `python benchmarks/auto.py`.\n", LEGEND]
    with threadpool_limits(1):
        for name in args.data:
            if name in FOLDERS and not (ROOT / FOLDERS[name]).is_dir():
                print(f"{name}: no data below {ROOT}; left out")
                continue
            rows = []
            for row in compared(name, args.draws):
                rows.append(row)
                figures = " ".join(f"{row[measure]:.1f}" for measure in [*MEASURES, "expected", "cpu"])
                print(f"{name}, {row['choice']}: {figures}", flush=True)
            lines += section(name, pd.DataFrame(rows))
    text = "\n".join(lines) + "\n"
    print(text)
    if args.write:
        write_atomic(args.write, text.encode())


if __name__ == "__main__":
    main()
