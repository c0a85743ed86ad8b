"""`cosmo evaluate`: measure a model on labelled samples."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from cosmo._core.files import write_atomic
from cosmo.cli import _options
from cosmo.cli._progress import PlainConsole, progress
from cosmo.evaluation.evaluate import ModelEvaluation, evaluate_model
from cosmo.io.writers import CsvWriter
from cosmo.viz.page import model_view, render_page
from cosmo.viz.text import accuracy_table, worst_classes_table

_EPILOG = """\
Acc_tr is the accuracy on seen classes, Acc_ts on unseen ones, both among all classes and averaged over
classes; Acc_H is their harmonic mean; AUSUC is the area under the seen-unseen curve.

examples:
  cosmo evaluate model.cosmo                    the test samples of the project in this folder
  cosmo evaluate model.cosmo test.csv --label species
  cosmo evaluate model.cosmo test.csv --out predictions.csv
  cosmo evaluate model.cosmo test.csv --report report.html
  cosmo evaluate model.cosmo test.csv --json -q | jq .acc_h
"""


def parser() -> argparse.ArgumentParser:
    """Return the options of the command."""
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
    """Run the command."""
    if args.report and (Path(args.report).is_dir() or not Path(args.report).parent.is_dir()):
        raise ValueError(f"--report {args.report}: name a file in a folder that exists")
    with progress(quiet=args.quiet) as step:
        model = _options.load_model(args)
        samples = _options.load_samples(args, model, test=True)
        samples.require_labels(args.samples)
        step(f"{args.model} on {len(samples)} samples")
        rows, samples = _options.encode_samples(args, model, samples, step.report)
        found = evaluate_model(model, rows, samples.require_labels(args.samples))
        if args.report:
            step("writing the report")
            name = Path(args.samples).resolve().name
            view = model_view(model, found, kind="evaluation", name=name, items=samples.items)
            write_atomic(Path(args.report), render_page(view).encode())
    if args.out:
        # The writer prevents CSV formula injection by names of classes.
        table, csv = found.predictions, CsvWriter()
        rows = csv.encode({"row": table.index.tolist()}, table)
        write_atomic(Path(args.out), csv.file_content([rows], ["row", *map(str, table.columns)]))
    if args.json:
        print(json.dumps(found.to_dict(), indent=2))
        return 0
    console = PlainConsole()
    _print(console, found, args.worst, len(model.classes))
    if args.out:
        console.print(f"predictions: {args.out}")
    if args.report:
        console.print(f"report: {args.report}")
    return 0


def _print(console: PlainConsole, found: ModelEvaluation, worst: int, n_classes: int) -> None:
    console.print_table(accuracy_table(found))
    for name, one in (("p(y)", found.answer_calibration), ("p(unseen)", found.gate_calibration)):
        console.print(
            f"calibration error of {name}: {100 * one.error:.1f} points, of which chance gives "
            f"{100 * one.chance:.1f}"
        )
    missing = n_classes - len(found.classes)
    if missing:
        console.print(f"{missing} of the model's {n_classes} classes have no samples here and do not count")
    console.print()
    console.print_table(worst_classes_table(found, worst))
    if len(found.confusions):
        console.print("\nmost frequent mistakes:")
    for label, prediction, times in found.confusions.head(worst).itertuples(index=False):
        console.print(f"  {times:>4} x  {label}  taken for  {prediction}")
