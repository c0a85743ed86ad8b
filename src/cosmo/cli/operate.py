"""`cosmo operate`: show or choose the operating point of a model."""

from __future__ import annotations

import argparse
from pathlib import Path

from cosmo.cli import _options
from cosmo.cli._progress import PlainConsole
from cosmo.viz.text import curve_table

_EPILOG = """\
Accuracies are those of the validation set, so that nothing is chosen on test samples. Nothing is trained.
The file is replaced in one step unless --out names another one.

examples:
  cosmo operate model.cosmo                       show the operating point, change nothing
  cosmo operate model.cosmo --min-seen 0.75       best Acc_H with at least 75 % on seen classes
  cosmo operate model.cosmo --min-seen 0.75 --confidence 0.95    ... on new samples, with 95 % confidence
  cosmo operate model.cosmo --min-unseen 0.6 --out careful.cosmo
  cosmo operate model.cosmo --threshold 0.4       by hand; larger favours unseen classes
  cosmo operate model.cosmo --best                back to the best Acc_H
"""


def parser() -> argparse.ArgumentParser:
    """Return the options of the command."""
    options = _options.make_parser(
        "operate", "Show or choose the operating point of a model on its seen-unseen curve.", _EPILOG
    )
    _options.add_model_option(options)
    add = _options.group(options, "operating point")
    add("--best", action="store_true", help="the point of best Acc_H")
    add("--min-seen", type=float, metavar="X", help="least accuracy on seen classes, from 0 to 1")
    add("--min-unseen", type=float, metavar="X", help="least accuracy on unseen classes, from 0 to 1")
    add("--confidence", type=float, metavar="X",
        help="confidence that the least accuracy holds on new samples of the same classes, such as 0.95 "
        "(default: it holds on the validation samples)")  # fmt: skip
    add("--threshold", type=float, metavar="T", help="set the threshold by hand")
    add("--softness", type=float, metavar="S", help="set the softness by hand")
    add = _options.group(options, "output")
    add("--out", metavar="FILE", help="file to write (default: in place)")
    _options.add_quiet(add, "print the operating point only")
    return options


def run(args: argparse.Namespace) -> int:
    """Run the command."""

    def given(*names: str) -> dict[str, float]:
        return {name: getattr(args, name) for name in names if getattr(args, name) is not None}

    floors, by_hand = given("min_seen", "min_unseen"), given("threshold", "softness")
    if bool(floors) + bool(by_hand) + args.best > 1:
        raise ValueError("give --best, or --min-seen / --min-unseen, or --threshold / --softness")
    if args.confidence is not None:
        if not floors:
            raise ValueError("--confidence needs a least accuracy: add --min-seen or --min-unseen")
        floors["confidence"] = args.confidence
    model = _options.load_model(args)
    is_change = bool(floors or by_hand or args.best)
    if args.out and not is_change:
        raise ValueError("--out needs a choice: add --best, --min-seen, --min-unseen or --threshold")
    if is_change:
        model.cosmo.operate_at(**floors, **by_hand)
    point, curve = model.cosmo.operating_point_, model.cosmo.validation_curve_
    console = PlainConsole()
    if not args.quiet:
        console.print_table(curve_table(curve, point.threshold))
    at = curve.at(point.threshold)
    console.print(
        f"threshold {point.threshold:.4g}, softness {point.softness:g}: seen {100 * at.acc_tr:.1f} %, "
        f"unseen {100 * at.acc_ts:.1f} %, Acc_H {100 * at.acc_h:.1f} % on validation"
    )
    if not args.quiet:
        confidence = args.confidence or 0.95
        least = model.cosmo.validation_bounds(confidence)
        console.print(
            f"on new samples of the same classes, with {100 * confidence:g} % confidence: seen at least "
            f"{100 * least.acc_tr:.1f} %, unseen at least {100 * least.acc_ts:.1f} %"
        )
    if is_change:
        out = Path(args.out or args.model)
        model.save(out)
        console.print(f"wrote {out}")
    return 0
