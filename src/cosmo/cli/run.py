"""`cosmo run`: train, evaluate every way of combining the experts, write a report."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace

from cosmo._core import versions
from cosmo.classifier.choice import AUTO
from cosmo.cli import _options, _output
from cosmo.cli._output import PlainConsole, progress
from cosmo.evaluation.run import Experiment, Settings, run_experiment, summarise
from cosmo.experts import SEEN_EXPERTS, UNSEEN_EXPERTS, make_unseen_expert
from cosmo.gates import GATES
from cosmo.io.model import Model
from cosmo.io.model_file import ModelError
from cosmo.mixture.smoothing import SMOOTHINGS
from cosmo.viz.page import write_report
from cosmo.viz.text import run_table, summary_table


def run_parser() -> argparse.ArgumentParser:
    options = _options.make_parser(
        "run",
        unseen=_options.list_choices({name: expert.reference for name, expert in UNSEEN_EXPERTS.items()}),
        seen=_options.list_choices(SEEN_EXPERTS),
        gates=_options.list_choices(GATES),
    )
    add = _options.add_dataset_options(options)
    add("--repeats", type=int, default=1, metavar="N",
        help="run seeds SEED .. SEED+N-1 and print means with intervals")  # fmt: skip
    add("--original", action="store_true",
        help="use the folder's original attributes (percentages); methods that need them (see "
        "`cosmo experts`) use them anyway")  # fmt: skip
    add = _options.group(options, "experts and gates")
    _options.add_chosen_experts(add)
    add("--gate", default="confidence", choices=list(GATES), metavar="NAME",
        help="gate of the rows CB-Gating and COSMO (default %(default)s)")  # fmt: skip
    add("--smoothing", default="adaptive", choices=list(SMOOTHINGS),
        help="smoothing of the row COSMO (default %(default)s)")  # fmt: skip
    add = _options.group(options, "output")
    add("--cache", metavar="DIR", help="folder for selected parameters and checkpoints, to resume a run")
    add("--out", metavar="DIR", help="folder to write to (default cosmo-runs/DATASET)")
    add("--json", action="store_true", help="print the results as JSON instead of a table")
    _options.add_quiet(add)
    return options


def run_run(args: argparse.Namespace) -> int:
    if args.repeats < 1:
        raise ValueError(f"--repeats must be at least 1, got {args.repeats}")
    budget = 60.0 if args.budget is None else args.budget
    settings = Settings(args.unseen, args.seen, args.gate, args.smoothing, args.seed, budget)
    expert = make_unseen_expert("eszsl" if args.unseen in (None, AUTO) else args.unseen)
    _options.check_dataset(args.dataset)
    out = _output.output_folder(args)
    if not os.access(out, os.W_OK):
        raise ValueError(f"cannot write to {out}; choose another --out")
    experiments: list[Experiment] = []
    with progress(quiet=args.quiet) as step:
        for seed in range(args.seed, args.seed + args.repeats):
            prefix = f"seed {seed}: " if args.repeats > 1 else ""
            step(f"{prefix}loading {args.dataset}")
            dataset = _options.load_dataset(args, expert, original=args.original, seed=seed)
            step(f"{prefix}{dataset!r}")
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
            _model(experiments[0], args.method).save(out / "model.cosmo")
        except ModelError as error:
            step(f"no model.cosmo, the report is complete without it: {error}")
    if args.json:
        print(json.dumps({**experiments[0].to_dict(), **(extra or {})}, indent=2))
        return 0
    console = PlainConsole()
    console.print_table(
        run_table(experiments[0])
        if summary is None
        else summary_table(summary, f"mean of {len(experiments)} seeds")
    )
    choice = experiments[0].model.choice_
    if choice is not None:
        console.print(f"chosen on held-out classes: {choice}")
    facts = {name: f"{100 * value:.1f}" for name, value in experiments[0].facts.items()}
    console.print(
        f"seen expert {facts['seen_expert_accuracy']} % on its classes, unseen expert "
        f"{facts['zsl_t1']} % (T1) on its own; gate AUC {facts['gate_auc']}, "
        f"max-softmax {facts['max_softmax_auc']} (Gating-Val)"
        + (f"; seed {args.seed}" if summary is not None else "")
    )
    console.print(f"report: {page}")
    return 0


def _model(experiment: Experiment, method: str | None) -> Model:
    """Return the model of the row of a method."""
    data, calibrated = experiment.dataset, experiment.calibrated
    return Model(
        experiment.model if calibrated is None or method == "paper" else calibrated,
        summary={
            "data": data.name,
            "samples": len(data.split.trainval),
            "seed": experiment.settings.seed,
            "versions": versions(),
        },
    )
