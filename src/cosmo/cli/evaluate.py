"""`cosmo evaluate` and `cosmo explain`: a model on labelled samples, and the steps to one prediction."""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path

import numpy as np

from cosmo._core.files import write_atomic
from cosmo.classifier._prediction import Explanation
from cosmo.cli import _options, _output
from cosmo.cli._output import PlainConsole, progress
from cosmo.evaluation.evaluate import (
    COVERAGES,
    DOMAINS,
    ModelEvaluation,
    UnknownEvaluation,
    evaluate_model,
    evaluate_unknown,
)
from cosmo.viz.page import model_view, render_page
from cosmo.viz.text import MEASURES, accuracy_table, baselines_table, explanation_text, worst_classes_table


def evaluate_parser() -> argparse.ArgumentParser:
    options = _options.make_parser("evaluate", measures=textwrap.fill(MEASURES, 104))
    _options.add_model_option(options)
    add = options.add_argument
    add("samples", nargs="?", default=".", metavar="SAMPLES",
        help="labelled samples, or a project that names test samples (default: the one in this "
        "folder)")  # fmt: skip
    add("--unknown", metavar="LABEL",
        help="samples with this label are of no known class: measure how well they are rejected")  # fmt: skip
    add("--reject", type=float, default=0.05, metavar="SHARE",
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


def run_evaluate(args: argparse.Namespace) -> int:
    if args.report and (Path(args.report).is_dir() or not Path(args.report).parent.is_dir()):
        raise ValueError(f"--report {args.report}: name a file in a folder that exists")
    with progress(quiet=args.quiet) as step:
        model, rows, samples = _options.load_rows(args, step, test=True)
        unknown = None
        if args.unknown is not None:
            labels = samples.require_labels(args.samples)
            unknown = evaluate_unknown(model.cosmo, rows, labels, args.unknown, reject=args.reject)
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
        _output.write_csv(Path(args.out), found.predictions.reset_index(names="row"))
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


def explain_parser() -> argparse.ArgumentParser:
    options = _options.make_parser("explain")
    _options.add_model_option(options)
    options.add_argument("samples", metavar="SAMPLES", help="samples of the same kind as in training")
    add = _options.add_sample_options(options, skip=False)
    add("--row", type=int, nargs="+", default=[1], metavar="N",
        help="numbers of samples (default %(default)s)")  # fmt: skip
    add = _options.group(options, "output")
    add("--top", type=int, default=5, metavar="N", help="number of classes to show (default %(default)s)")
    add("--picture", metavar="FILE",
        help="draw FILE.png and FILE.svg; with several rows, their numbers are appended")  # fmt: skip
    _options.add_quiet(add)
    return options


def run_explain(args: argparse.Namespace) -> int:
    if args.top < 1:
        raise ValueError(f"--top must be at least 1, got {args.top}")
    with progress(quiet=args.quiet):
        model = _options.load_model(args)
        samples = _options.load_samples(args, model)
        for row in args.row:
            if not 1 <= row <= len(samples):
                raise ValueError(f"--row {row}: {args.samples} has rows 1 to {len(samples)}")
        rows, chosen = _options.encode_samples(args, model, samples.take(np.array(args.row) - 1))
        explanation = model.cosmo.explain(rows)
    console = PlainConsole()
    share, point = model.cosmo.combination_.unseen_share is not None, model.cosmo.operating_point_
    for i, row in enumerate(args.row):
        truth = None if chosen.labels is None else chosen.labels[i]
        text = f": {_output.clip(chosen.items[i], 100)}" if isinstance(chosen.items, list) else ""
        console.print(f"row {row}{text}" + (f"   (true class: {truth})" if truth is not None else ""))
        console.print(explanation_text(explanation, i, point, args.top, share=share))
        if args.picture:
            path = Path(args.picture)
            stem = path.with_suffix("") if path.suffix in (".png", ".svg") else path
            name = f"{stem}-{row}" if len(args.row) > 1 else str(stem)
            console.print(f"picture: {_draw(explanation, i, truth, args.top, name)}\n")
    return 0


def _draw(explanation: Explanation, i: int, truth: object, top: int, name: str) -> Path:
    from cosmo.viz.plots import save_figure
    from cosmo.viz.plots.walkthrough import plot_walkthrough

    known = truth if truth in explanation.classes else None
    return save_figure(plot_walkthrough(explanation, i, truth=known, top=top), name)[0]
