"""`cosmo operate`: choose what seen and unseen classes may cost each other."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.table import Table
from rich.text import Text

from cosmo.cli._console import plain_console
from cosmo.cli._samples import add_model_option, load_model
from cosmo.mixture.curve import SeenUnseenCurve

_EPILOG = """\
examples:
  cosmo operate model.cosmo                       show where it is, change nothing
  cosmo operate model.cosmo --min-seen 0.75       the best that keeps 75 % on seen classes
  cosmo operate model.cosmo --min-seen 0.75 --confidence 0.95    ... on other samples, too, 95 of 100
  cosmo operate model.cosmo --min-unseen 0.6 --out careful.cosmo
  cosmo operate model.cosmo --threshold 0.4       by hand; larger gives more samples to unseen classes
  cosmo operate model.cosmo --best                back to the best Acc_H

Accuracies are those of the validation in training, so that nothing is chosen on test samples. Nothing is
trained; the model is changed in place, whole or not at all, unless --out names another file.
"""

_STEPS = np.arange(-4, 5) * 0.05


def parser() -> argparse.ArgumentParser:
    """Return the options of the command."""
    options = argparse.ArgumentParser(
        prog="cosmo operate",
        description="Show, or choose, the operating point of a model on its seen-unseen curve.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_model_option(options)
    add = options.add_argument
    add("--best", action="store_true", help="the point of best Acc_H")
    add("--min-seen", type=float, metavar="X", help="at least this accuracy on seen classes, from 0 to 1")
    add("--min-unseen", type=float, metavar="X", help="at least this accuracy on unseen classes, from 0 to 1")
    add("--confidence", type=float, metavar="X",
        help="how often a floor is to hold on other samples of those classes, such as 0.95 (default: it "
        "holds on the validation samples only)")  # fmt: skip
    add("--threshold", type=float, metavar="T", help="set it by hand")
    add("--softness", type=float, metavar="S", help="set it by hand")
    add("--out", metavar="FILE", help="where to write (default: in place)")
    add("-q", "--quiet", action="store_true", help="print the chosen point only")
    return options


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    floors = {name: getattr(args, name) for name in ("min_seen", "min_unseen")}
    by_hand = {name: getattr(args, name) for name in ("threshold", "softness")}
    floors = {name: value for name, value in floors.items() if value is not None}
    by_hand = {name: value for name, value in by_hand.items() if value is not None}
    if bool(floors) + bool(by_hand) + args.best > 1:
        raise ValueError("give --best, or --min-seen / --min-unseen, or --threshold / --softness")
    if args.confidence is not None:
        if not floors:
            raise ValueError("--confidence is of a floor; add --min-seen or --min-unseen")
        floors["confidence"] = args.confidence
    model = load_model(args)
    change = bool(floors or by_hand or args.best)
    if args.out and not change:
        raise ValueError("--out without a choice; add --best, --min-seen, --min-unseen or --threshold")
    if change:
        model.cosmo.operate_at(**floors, **by_hand)
    point, curve = model.cosmo.operating_point_, model.cosmo.validation_curve_
    console = plain_console(highlight=False, soft_wrap=True)
    if not args.quiet:
        console.print(_table(curve, point.threshold))
    at = curve.at(point.threshold)
    console.print(
        f"threshold {point.threshold:.4g}, softness {point.softness:g}: seen {100 * at.acc_tr:.1f} %, "
        f"unseen {100 * at.acc_ts:.1f} %, Acc_H {100 * at.acc_h:.1f} % on validation"
    )
    if not args.quiet:
        confidence = args.confidence or 0.95
        least = model.cosmo.validation_bounds(confidence)
        console.print(
            f"on other samples of those classes, with {100 * confidence:g} % confidence: seen at least "
            f"{100 * least.acc_tr:.1f} %, unseen at least {100 * least.acc_ts:.1f} %"
        )
    if change:
        out = Path(args.out or args.model)
        model.save(out)
        console.print(f"wrote {out}")
    return 0


def _table(curve: SeenUnseenCurve, threshold: float) -> Table:
    """Return points of the curve around a threshold, some five points of seen accuracy apart."""
    at = curve.at(threshold)
    near = {
        int(np.lexsort((-curve.acc_ts, np.abs(curve.acc_tr - (at.acc_tr + step)).round(9)))[0])
        for step in _STEPS
    }
    points = {(float(curve.thresholds[k]), *curve.at(float(curve.thresholds[k]))) for k in near}
    points = {one for one in points if one[1:] != tuple(at)} | {(threshold, *at)}
    table = Table(title=Text(f"validation, percent; area under the curve (AUSUC) {100 * curve.area:.1f}"))
    for name in ("threshold", "seen (Acc_tr)", "unseen (Acc_ts)", "Acc_H", ""):
        table.add_column(name, justify="right")
    for value, acc_ts, acc_tr, acc_h in sorted(points):
        chosen = "<- chosen" if value == threshold else ""
        table.add_row(f"{value:.4g}", *(f"{100 * one:.1f}" for one in (acc_tr, acc_ts, acc_h)), chosen)
    return table
