"""`cosmo evaluate`: measure a model on labelled samples."""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path

import numpy as np

from cosmo._core.files import write_atomic
from cosmo.cli import _options
from cosmo.cli._progress import PlainConsole, progress
from cosmo.evaluation.evaluate import ModelEvaluation, evaluate_model
from cosmo.evaluation.unknown import COVERAGES, DOMAINS, UnknownEvaluation, evaluate_unknown
from cosmo.io.writers import CsvWriter
from cosmo.viz.page import model_view, render_page
from cosmo.viz.text import MEASURES, accuracy_table, baselines_table, worst_classes_table

_EPILOG = f"""\
{textwrap.fill(MEASURES, 104)}

examples:
  cosmo evaluate model.cosmo                    the test samples of the project in this folder
  cosmo evaluate model.cosmo test.csv --label species
  cosmo evaluate model.cosmo test.csv --out predictions.csv
  cosmo evaluate model.cosmo test.csv --report report.html
  cosmo evaluate model.cosmo test.csv --unknown other    samples labelled "other" are of no known class
  cosmo evaluate model.cosmo test.csv --json -q | jq .acc_h
"""


def parser() -> argparse.ArgumentParser:
    options = _options.make_parser(
        "evaluate",
        "Measure a model on labelled samples that it was not trained on, ideally of seen and unseen classes.",
        _EPILOG,
    )
    _options.add_model_option(options)
    options.add_argument(
        "samples", nargs="?", default=".", metavar="SAMPLES",
        help="labelled samples, or a project that names test samples (default: the one in this folder)",
    )  # fmt: skip
    options.add_argument("--unknown", metavar="LABEL",
        help="samples with this label are of no known class: measure how well they are rejected")  # fmt: skip
    options.add_argument("--reject", type=float, default=0.05, metavar="SHARE",
        help="largest share of known samples to reject there (default %(default)s)")  # fmt: skip
    _options.add_sample_options(options)
    add = _options.group(options, "output")
    add("--worst", type=int, default=8, metavar="N",
        help="number of classes and confusions to list (default %(default)s)")  # fmt: skip
    add("--out", metavar="FILE", help="write label, prediction and probability of each sample as CSV")
    add("--report", metavar="FILE",
        help="write an interactive page with the curve, the gate and every sample, one file")  # fmt: skip
    add("--json", action="store_true", help="print everything as JSON")
    _options.add_quiet(add)
    return options


def run(args: argparse.Namespace) -> int:
    if args.report and (Path(args.report).is_dir() or not Path(args.report).parent.is_dir()):
        raise ValueError(f"--report {args.report}: name a file in a folder that exists")
    with progress(quiet=args.quiet) as step:
        model = _options.load_model(args)
        samples = _options.load_samples(args, model, test=True)
        samples.require_labels(args.samples)
        step(f"{args.model} on {len(samples)} samples")
        rows, samples = _options.encode_samples(args, model, samples, step.report)
        unknown = None
        if args.unknown is not None:
            labels = samples.require_labels(args.samples)
            unknown = evaluate_unknown(
                model.cosmo, model.encode(rows), labels, args.unknown, reject=args.reject
            )
            samples = samples.take(np.flatnonzero(labels != args.unknown))
            rows = rows[labels != args.unknown]
        found = evaluate_model(model, rows, samples.require_labels(args.samples))
        if args.report:
            step("writing the report")
            name = Path(args.samples).resolve().name
            shown = {"kind": "evaluation", "name": name, "items": samples.items, "unknown": unknown}
            view = model_view(model, found, **shown)
            write_atomic(Path(args.report), render_page(view).encode())
    if args.out:
        # The writer prevents CSV formula injection by names of classes.
        table, csv = found.predictions, CsvWriter()
        rows = csv.encode({"row": table.index.tolist()}, table)
        write_atomic(Path(args.out), csv.file_content([rows], ["row", *map(str, table.columns)]))
    if args.json:
        figures = {} if unknown is None else {"unknown": unknown.to_dict()}
        print(json.dumps(found.to_dict() | figures, indent=2))
        return 0
    console = PlainConsole()
    _print(console, found, args.worst, len(model.classes))
    if unknown is not None:
        _print_unknown(console, unknown, args)
    if args.out:
        console.print(f"predictions: {args.out}")
    if args.report:
        console.print(f"report: {args.report}")
    return 0


def _print(console: PlainConsole, found: ModelEvaluation, worst: int, n_classes: int) -> None:
    for line in found.words:
        console.print(line, style="yellow" if line.startswith("Warning:") else None)
    missing = n_classes - len(found.classes)
    if missing:
        console.print(f"Without samples here, and not counted: {missing} of the model's {n_classes} classes.")
    if len(found.confusions):
        console.print("\nmost frequent mistakes:")
    for label, prediction, times in found.confusions.head(worst).itertuples(index=False):
        console.print(f"  {times:>4} x  {label}  taken for  {prediction}")
    console.print()
    console.print_table(worst_classes_table(found, worst))
    console.print()
    console.print_table(accuracy_table(found))
    if len(found.baselines):
        console.print()
        console.print_table(baselines_table(found))
    for name, one in (
        ("the predicted class", found.answer_calibration),
        ('"new class"', found.gate_calibration),
    ):
        console.print(
            f"  calibration error of the probability of {name}: {100 * one.error:.1f} points; exact "
            f"probabilities would have {100 * one.chance:.1f} on as few samples"
        )


def _print_unknown(console: PlainConsole, found: UnknownEvaluation, args: argparse.Namespace) -> None:
    console.print(
        f'\nunknown ("{args.unknown}"): AUROC {100 * found.auroc:.1f} %; if 95 % of the known samples are '
        f"accepted, {100 * found.fpr:.1f} % of the unknown ones are"
    )
    console.print(f"answers with --reject {args.reject:g}, in percent of the samples of each domain:")
    console.print("          seen  unseen  unknown")
    for domain, (seen, unseen, unknown) in zip(DOMAINS, 100 * found.table.to_numpy(), strict=True):
        console.print(f"  {domain:<7}{seen:5.1f}  {unseen:6.1f}  {unknown:7.1f}")
    risks = ", ".join(
        f"{100 * one:.1f} at {100 * share:g}" for share, one in zip(COVERAGES, found.risk, strict=True)
    )
    console.print(f"wrong answers, in percent, by percent answered: {risks}")
