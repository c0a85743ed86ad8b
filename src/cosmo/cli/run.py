"""`cosmo run`: the main job."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path

import pandas as pd
from rich.table import Table
from rich.text import Text

from cosmo._core.extras import versions
from cosmo.cli._console import plain_console, progress
from cosmo.cli._dataset import add_dataset_options, check_dataset, load
from cosmo.cli.experts import expert_name
from cosmo.evaluation.run import Experiment, Settings, run_experiment, summarise
from cosmo.experts import SEEN_EXPERTS, UNSEEN_EXPERTS, make_unseen_expert
from cosmo.gates import GATES
from cosmo.io.model import Model
from cosmo.io.model_file import ModelError
from cosmo.mixture.smoothing import SMOOTHINGS
from cosmo.viz.report import write_report

_EPILOG = """\
unseen experts (--unseen):
{unseen}

seen experts (--seen):
{seen}

gates (--gate):
{gates}

examples:
  cosmo run
  cosmo run --unseen dap --gate confidence-auto --out runs/dap
  cosmo run --unseen lago:variant=k-soft,n_groups=20
  cosmo run xlsa17/CUB --features res50 --descriptions sent_splits --seed 1002
  cosmo run --repeats 5 --quiet

files written to --out:
  results.json   all numbers, settings and operating points
  curves.csv     every point of every seen-unseen curve on test
  plane.png      the curves and the chosen points
  report.html    the same to look at and to play with, one file that is good to mail
  model.cosmo    the model of the row COSMO, for `cosmo studio`, `cosmo predict`, `cosmo show` ...
"""


def parser() -> argparse.ArgumentParser:
    """Return the options of the command."""

    def listing(names: dict[str, str]) -> str:
        return "\n".join(f"  {name:<16} {text}" for name, text in names.items())

    defaults = Settings()
    options = argparse.ArgumentParser(
        prog="cosmo run",
        description="Train both experts and the gate, choose every operating point on held-out training\n"
        "data, then evaluate all ways of combining the experts on test.",
        epilog=_EPILOG.format(
            unseen=listing({name: expert.reference for name, expert in UNSEEN_EXPERTS.items()}),
            seen=listing(SEEN_EXPERTS),
            gates=listing(GATES),
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = options.add_argument
    add_dataset_options(options)
    add("--unseen", default=defaults.unseen, type=expert_name, metavar="NAME",
        help="zero-shot expert, with parameters or a published setting after a colon if need be "
        f"(default {defaults.unseen})")  # fmt: skip
    add("--seen", default=defaults.seen, choices=list(SEEN_EXPERTS), metavar="NAME",
        help=f"expert for classes with examples (default {defaults.seen})")  # fmt: skip
    add("--gate", default=defaults.gate, choices=list(GATES), metavar="NAME",
        help=f"gate of the rows CB-Gating and COSMO (default {defaults.gate})")  # fmt: skip
    add("--smoothing", default=defaults.smoothing, choices=list(SMOOTHINGS),
        help=f"smoothing of the row COSMO (default {defaults.smoothing})")  # fmt: skip
    add("--seed", type=int, default=defaults.seed,
        help="draws the validation split, and the samples of 'glyphs' (default %(default)s)")  # fmt: skip
    add("--repeats", type=int, default=1, metavar="N",
        help="run seeds SEED .. SEED+N-1 and print means with intervals")  # fmt: skip
    add("--descriptions", default="att_splits", metavar="NAME",
        help="descriptions file of the folder, without .mat (default %(default)s)")  # fmt: skip
    add("--original", action="store_true",
        help="take the folder's original attributes (percentages) instead of normalised ones; methods that "
        "need them (see `cosmo experts`) do so anyway")  # fmt: skip
    add("--cache", metavar="DIR",
        help="keep choices and unfinished trainings there, so that a stopped run goes on")  # fmt: skip
    add("--out", metavar="DIR", help="where to write (default cosmo-runs/DATASET)")
    add("--json", action="store_true", help="print the results as JSON instead of a table")
    add("-q", "--quiet", action="store_true", help="no progress")
    return options


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.repeats < 1:
        raise ValueError(f"--repeats must be at least 1, got {args.repeats}")
    settings = Settings(args.unseen, args.seen, args.gate, args.smoothing, args.seed)
    expert = make_unseen_expert(args.unseen)
    out = Path(args.out) if args.out else Path("cosmo-runs", Path(args.dataset).resolve().name)
    check_dataset(args.dataset)
    out.mkdir(parents=True, exist_ok=True)
    if not os.access(out, os.W_OK):
        raise ValueError(f"cannot write to {out}; choose another --out")
    experiments: list[Experiment] = []
    with progress(quiet=args.quiet) as step:
        for seed in range(args.seed, args.seed + args.repeats):
            turn = f"seed {seed}: " if args.repeats > 1 else ""
            step(f"{turn}loading {args.dataset}")
            dataset = load(args, expert, descriptions=args.descriptions, original=args.original, seed=seed)
            step(f"{turn}{dataset!r}")
            experiments.append(run_experiment(dataset, replace(settings, seed=seed), cache=args.cache))
        step("writing the report")
        summary = summarise(experiments) if len(experiments) > 1 else None
        extra = None
        if summary is not None:
            means = {
                method: {block: row[block].to_dict() for block in summary.columns.unique(level=0)}
                for method, row in summary.iterrows()
            }
            extra = {"repeats": [e.to_dict() for e in experiments], "summary_percent": means}
        page = write_report(experiments[0], out, summary=summary, extra=extra)
        try:
            _model(experiments[0]).save(out / "model.cosmo")
        except ModelError as error:
            step(f"no model.cosmo, the report is complete without it: {error}")
    if args.json:
        print(json.dumps({**experiments[0].to_dict(), **(extra or {})}, indent=2))
        return 0
    console = plain_console()
    console.print(_table(experiments[0]) if summary is None else _summary_table(summary, len(experiments)))
    facts = experiments[0].facts
    console.print(
        f"seen expert {100 * facts['seen_expert_accuracy']:.1f} % on its classes, unseen expert "
        f"{100 * facts['zsl_t1']:.1f} % (T1) on its own; gate AUC {100 * facts['gate_auc']:.1f}, "
        f"max-softmax {100 * facts['max_softmax_auc']:.1f} (Gating-Val)"
        + (f"; seed {args.seed}" if summary is not None else "")
    )
    console.print(f"report: {page}", soft_wrap=True)
    return 0


def _model(experiment: Experiment) -> Model:
    data, settings = experiment.dataset, experiment.settings
    return Model(
        experiment.model,
        summary={
            "data": data.name,
            "samples": len(data.split.trainval),
            "seed": settings.seed,
            "versions": versions(),
        },
    )


def _table(experiment: Experiment) -> Table:
    table = Table(title=Text(f"{experiment.dataset.name}: test accuracy in percent, 95 % interval of Acc_H"))
    table.add_column("method")
    for name in ("Acc_ts", "Acc_tr", "Acc_H", "interval", "AUSUC"):
        table.add_column(name, justify="right")
    for method, row in experiment.table().iterrows():
        numbers = [f"{row[key]:.1f}" for key in ("Acc_ts", "Acc_tr", "Acc_H")]
        interval = f"{row['low']:.1f} - {row['high']:.1f}"
        table.add_row(str(method), *numbers, interval, f"{row['AUSUC']:.1f}")
    return table


def _summary_table(summary: pd.DataFrame, repeats: int) -> Table:
    table = Table(
        title=f"mean of {repeats} seeds, percent, ± 95 % interval; lead = COSMO minus the row, seed by seed"
    )
    table.add_column("method", no_wrap=True)
    for name in ("Acc_ts", "Acc_tr", "Acc_H", "AUSUC", "lead Acc_H", "lead AUSUC"):
        table.add_column(name, justify="right")

    def cell(row: pd.Series, block: str, name: str) -> str:
        plus_minus = "±" if block == "mean" else "lead ±"
        return f"{row[block, name]:.1f} ± {row[plus_minus, name]:.1f}"

    for method, row in summary.iterrows():
        means = [cell(row, "mean", column) for column in ("Acc_ts", "Acc_tr", "Acc_H", "AUSUC")]
        last = method == summary.index[-1]
        leads = ["", ""] if last else [cell(row, "lead", column) for column in ("Acc_H", "AUSUC")]
        table.add_row(str(method), *means, *leads)
    return table
