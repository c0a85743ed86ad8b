"""`cosmo explain`: show how samples get their classes, step by step."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from cosmo.classifier.explain import Explanation
from cosmo.cli import _options
from cosmo.cli._progress import PlainConsole, progress
from cosmo.viz.text import explanation_text

_EPILOG = """\
Rows are counted from 1, without the header. Labels, where the file has them, are shown but not used.

examples:
  cosmo explain model.cosmo test.csv                    the first sample
  cosmo explain model.cosmo test.csv --row 3 14
  cosmo explain model.cosmo pictures --row 7 --picture walk     writes walk.png and walk.svg
"""

_LONGEST = 100


def parser() -> argparse.ArgumentParser:
    options = _options.make_parser(
        "explain",
        "Show the probabilities of both experts and the gate for a sample, and how they give the prediction.",
        _EPILOG,
    )
    _options.add_model_option(options)
    options.add_argument("samples", metavar="SAMPLES", help="samples of the same kind as in training")
    add = _options.add_sample_options(options, skip=False)
    add(
        "--row",
        type=int,
        nargs="+",
        default=[1],
        metavar="N",
        help="numbers of samples (default %(default)s)",
    )
    add = _options.group(options, "output")
    add("--top", type=int, default=5, metavar="N", help="number of classes to show (default %(default)s)")
    add("--picture", metavar="FILE",
        help="draw FILE.png and FILE.svg; with several rows, their numbers are appended")  # fmt: skip
    _options.add_quiet(add)
    return options


def run(args: argparse.Namespace) -> int:
    if args.top < 1:
        raise ValueError(f"--top must be at least 1, got {args.top}")
    with progress(quiet=args.quiet):
        model = _options.load_model(args)
        samples = _options.load_samples(args, model)
        for row in args.row:
            if not 1 <= row <= len(samples):
                raise ValueError(f"--row {row}: {args.samples} has rows 1 to {len(samples)}")
        rows, chosen = _options.encode_samples(args, model, samples.take(np.array(args.row) - 1))
        explanation = model.cosmo.explain(model.encode(rows))
    console = PlainConsole()
    for i, row in enumerate(args.row):
        truth = None if chosen.labels is None else chosen.labels[i]
        heading = (
            f"row {row}" + _text(chosen.items, i) + (f"   (true class: {truth})" if truth is not None else "")
        )
        console.print(heading)
        share = model.cosmo.combination_.unseen_share is not None
        point = model.cosmo.operating_point_
        console.print(explanation_text(explanation, i, point, args.top, share=share))
        if args.picture:
            path = Path(args.picture)
            stem = path.with_suffix("") if path.suffix in (".png", ".svg") else path
            name = f"{stem}-{row}" if len(args.row) > 1 else str(stem)
            console.print(f"picture: {_draw(explanation, i, truth, args.top, name)}\n")
    return 0


def _text(items: Any, i: int) -> str:
    """Return a text or path, shortened; nothing for a row of features."""
    if not isinstance(items, list):
        return ""
    text = str(items[i])
    return f": {text}" if len(text) <= _LONGEST else f": {text[:_LONGEST]}…"


def _draw(explanation: Explanation, i: int, truth: object, top: int, name: str) -> Path:
    from cosmo.viz.plots import save_figure
    from cosmo.viz.plots.walkthrough import plot_walkthrough

    known = truth if truth in explanation.classes else None
    return save_figure(plot_walkthrough(explanation, i, truth=known, top=top), name)[0]
