"""`cosmo explain`: how a sample gets its class, step by step."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from cosmo.classifier.explain import Explanation
from cosmo.cli._console import plain_console, progress
from cosmo.cli._samples import add_model_option, add_sample_options, load_model, rows_of, samples_of
from cosmo.io.model import Model

_EPILOG = """\
examples:
  cosmo explain model.cosmo test.csv                    the first sample
  cosmo explain model.cosmo test.csv --row 3 14
  cosmo explain model.cosmo pictures --row 7 --picture walk     writes walk.png and walk.svg

Rows are counted from 1, without the header. Labels, where the file has them, are shown but not used.
"""

_LONGEST = 100


def parser() -> argparse.ArgumentParser:
    """Return the options of the command."""
    options = argparse.ArgumentParser(
        prog="cosmo explain",
        description="Show what both experts say about a sample, what the gate believes, and how that\n"
        "becomes the answer.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_model_option(options)
    add = options.add_argument
    add("samples", metavar="SAMPLES", help="samples like those of the training")
    add_sample_options(options, skip=False)
    add("--row", type=int, nargs="+", default=[1], metavar="N", help="which samples (default %(default)s)")
    add("--top", type=int, default=5, metavar="N", help="how many classes to show (default %(default)s)")
    add("--picture", metavar="FILE",
        help="draw it as FILE.png and FILE.svg; with several rows, their numbers are added")  # fmt: skip
    add("-q", "--quiet", action="store_true", help="no progress")
    return options


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.top < 1:
        raise ValueError(f"--top must be at least 1, got {args.top}")
    with progress(quiet=args.quiet):
        model = load_model(args)
        samples = samples_of(args, model)
        for row in args.row:
            if not 1 <= row <= len(samples):
                raise ValueError(f"--row {row}: {args.samples} has rows 1 to {len(samples)}")
        chosen = samples.take(np.array(args.row) - 1)
        rows, chosen = rows_of(args, model, chosen)
        explanation = model.cosmo.explain(model.encode(rows))
    console = plain_console(highlight=False, soft_wrap=True)
    for i in range(len(chosen)):
        truth = None if chosen.labels is None else chosen.labels[i]
        console.print(_walk(model, explanation, i, args.row[i], _shown(chosen.items, i), truth, args.top))
        if args.picture:
            stem = (
                Path(args.picture).with_suffix("")
                if Path(args.picture).suffix in (".png", ".svg")
                else args.picture
            )
            name = f"{stem}-{args.row[i]}" if len(args.row) > 1 else str(stem)
            console.print(f"picture: {_draw(explanation, i, truth, args.top, name)}\n")
    return 0


def _shown(items: Any, i: int) -> str:
    """Return what can be shown of a sample in a line: a text, a path, nothing of numbers."""
    if not isinstance(items, list):
        return ""
    text = str(items[i])
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _walk(
    model: Model, explanation: Explanation, i: int, row: int, item: str, truth: object, top: int
) -> str:
    point = model.cosmo.operating_point_
    table = explanation.table(i)
    answer = table.iloc[0]

    def best(domain: str, column: str) -> str:
        part = table[table["domain"] == domain].sort_values(column, ascending=False, kind="stable").head(3)
        return ", ".join(f"{name} {value:.3f}" for name, value in part[column].items())

    lines = [
        f"row {row}"
        + (f": {item}" if item else "")
        + (f"   (true class: {truth})" if truth is not None else ""),
        f"  1. The seen expert says    {best('seen', 'expert')}",
        f"     The unseen expert says  {best('unseen', 'expert')}",
        f"  2. The gate: p(seen) {1 - explanation.p_unseen[i]:.3f} (score {explanation.gate_score[i]:.3f}, "
        f"threshold {point.threshold:.3f}, softness {point.softness:g})",
        f"  3. Smoothed where they are not believed, they say  {best('seen', 'smoothed')} (seen)",
        f"     and  {best('unseen', 'smoothed')} (unseen)",
        f"  4. Answer: {table.index[0]} ({answer['domain']} class), probability {answer['result']:.3f}",
    ]
    listing = table.head(top).to_string(float_format="{:.3f}".format)
    return "\n".join([*lines, "", *(f"     {line}" for line in listing.splitlines()), ""])


def _draw(explanation: Explanation, i: int, truth: object, top: int, name: str) -> Path:
    from cosmo.viz.plots import plot_walkthrough, save_figure

    known = truth if truth in explanation.classes else None
    return save_figure(plot_walkthrough(explanation, i, truth=known, top=top), name)[0]
