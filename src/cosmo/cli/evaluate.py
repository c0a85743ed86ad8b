"""`cosmo evaluate`: how well a model does on labelled samples."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cosmo._core.files import write_whole
from cosmo.cli._console import plain_console, progress
from cosmo.cli._samples import add_model_option, add_sample_options, load_model, rows_of, samples_of
from cosmo.evaluation.evaluate import ModelEvaluation, evaluate_model
from cosmo.io.writers import CsvWriter
from cosmo.viz.page import model_view, render_page

_EPILOG = """\
examples:
  cosmo evaluate model.cosmo                    the test samples of the project in this folder
  cosmo evaluate model.cosmo test.csv --label species
  cosmo evaluate model.cosmo test.csv --out predictions.csv
  cosmo evaluate model.cosmo test.csv --report report.html
  cosmo evaluate model.cosmo test.csv --json -q | jq .acc_h

Acc_tr is the accuracy on seen classes, Acc_ts on unseen ones, both among all classes and every class counted
the same; Acc_H is their harmonic mean, AUSUC the area under the curve of what one costs the other.
"""


def parser() -> argparse.ArgumentParser:
    """Return the options of the command."""
    options = argparse.ArgumentParser(
        prog="cosmo evaluate",
        description="Measure a model on labelled samples that it was not trained on, best of seen and\n"
        "of unseen classes.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_model_option(options)
    options.add_argument(
        "samples", nargs="?", default=".", metavar="SAMPLES",
        help="labelled samples like those of the training, or a project that names test samples (default: "
        "the one in this folder)",
    )  # fmt: skip
    add_sample_options(options)
    add = options.add_argument
    add("--worst", type=int, default=8, metavar="N",
        help="how many classes and confusions to list (default %(default)s)")  # fmt: skip
    add("--out", metavar="FILE", help="write label, prediction and probability of each sample as CSV")
    add("--report", metavar="FILE",
        help="write a page with the curve, the gate and every sample: one file, good to mail")  # fmt: skip
    add("--json", action="store_true", help="print everything as JSON")
    add("-q", "--quiet", action="store_true", help="no progress")
    return options


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.report and (Path(args.report).is_dir() or not Path(args.report).parent.is_dir()):
        raise ValueError(f"--report {args.report}: name a file in a folder that exists")
    with progress(quiet=args.quiet) as step:
        model = load_model(args)
        samples = samples_of(args, model, test=True)
        samples.labelled(args.samples)
        step(f"{args.model} on {len(samples)} samples")
        rows, samples = rows_of(args, model, samples)
        found = evaluate_model(model, rows, samples.labelled(args.samples))
        if args.report:
            step("writing the report")
            name = Path(args.samples).resolve().name
            view = model_view(model, found, kind="evaluation", name=name, items=samples.items)
            write_whole(Path(args.report), render_page(view).encode())
    if args.out:
        # Names of classes that a spreadsheet would run are written so that it does not.
        table, csv = found.predictions, CsvWriter()
        head = csv.head(["row", *map(str, table.columns)]).encode()
        write_whole(Path(args.out), head + csv.rows({"row": table.index.tolist()}, table))
    if args.json:
        print(json.dumps(found.to_dict(), indent=2))
        return 0
    console = plain_console(highlight=False, soft_wrap=True)
    _print(console, found, args.worst, len(model.classes))
    if args.out:
        console.print(f"predictions: {args.out}")
    if args.report:
        console.print(f"report: {args.report}")
    return 0


def _print(console: Console, found: ModelEvaluation, worst: int, n_classes: int) -> None:
    table = Table(title=Text("test accuracy in percent, with 95 % intervals"))
    table.add_column("")
    for name in ("accuracy", "interval"):
        table.add_column(name, justify="right")
    rows = zip(
        ("Acc_ts (unseen)", "Acc_tr (seen)", "Acc_H", "AUSUC"),
        (*found.scores, found.ausuc),
        (*found.intervals, found.ausuc_interval),
        strict=True,
    )
    for name, value, (low, high) in rows:
        if np.isnan(value):
            table.add_row(name, "-", "no such samples" if name.startswith("Acc_t") else "needs both")
        else:
            table.add_row(name, f"{100 * value:.1f}", f"{100 * low:.1f} - {100 * high:.1f}")
    console.print(table)
    for name, one in (("p(y)", found.answer_calibration), ("p(unseen)", found.gate_calibration)):
        console.print(
            f"calibration error of {name}: {100 * one.error:.1f} points, of which chance gives "
            f"{100 * one.chance:.1f}"
        )
    missing = n_classes - len(found.classes)
    if missing:
        console.print(f"{missing} of the model's {n_classes} classes have no samples here and do not count")
    console.print()
    table = Table(title=Text("worst classes"))
    for name in ("class", "", "samples", "accuracy", "most often taken for"):
        table.add_column(name, justify="right" if name in ("samples", "accuracy") else "left")
    for label, row in found.classes.head(worst).iterrows():
        mistake = f"{row['taken_for']} ({row['times']})" if row["times"] else ""
        cells = (label, row["domain"], row["samples"], f"{100 * row['accuracy']:.1f}", mistake)
        table.add_row(*(Text(str(cell)) for cell in cells))
    console.print(table)
    if len(found.confusions):
        console.print("\nmost frequent mistakes:")
    for label, prediction, times in found.confusions.head(worst).itertuples(index=False):
        console.print(f"  {times:>4} x  {label}  taken for  {prediction}")
