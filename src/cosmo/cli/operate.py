"""`cosmo operate`: show or choose the operating point of a model."""

from __future__ import annotations

import argparse
from pathlib import Path

from cosmo.cli import _options
from cosmo.cli._progress import PlainConsole
from cosmo.viz.text import curve_table

_EPILOG = """\
Accuracies are those on held-out training samples, so that nothing is chosen on test samples. Nothing is
trained. The operating point of a calibrated model is the share of samples of unseen classes that it expects.
The file is replaced in one step unless --out names another one.

examples:
  cosmo operate model.cosmo                       show the operating point, change nothing
  cosmo operate model.cosmo --min-seen 0.75       best Acc_H with at least 75 % on seen classes
  cosmo operate model.cosmo --min-seen 0.75 --confidence 0.95    ... on new samples, with 95 % confidence
  cosmo operate model.cosmo --min-unseen 0.6 --out careful.cosmo
  cosmo operate model.cosmo --unseen-share 0.1    a tenth of the samples is expected to be of unseen classes
  cosmo operate model.cosmo --samples new.csv     estimate that share from unlabelled samples
  cosmo operate model.cosmo --threshold 0.4       by hand; larger favours unseen classes
  cosmo operate model.cosmo --best                back to the best Acc_H
"""


def parser() -> argparse.ArgumentParser:
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
    add("--unseen-share", type=float, metavar="X",
        help="expected share of samples of unseen classes, above 0 and below 1")  # fmt: skip
    add("--samples", metavar="FILE",
        help="estimate that share from these samples; labels are not needed and not read")  # fmt: skip
    add("--threshold", type=float, metavar="T",
        help="set the threshold by hand; of a calibrated model, the log-odds of the share")  # fmt: skip
    add("--softness", type=float, metavar="S", help="set the softness of the paper's method by hand")
    _options.add_sample_options(options)
    add = _options.group(options, "output")
    add("--out", metavar="FILE", help="file to write (default: in place)")
    _options.add_quiet(add, "print the operating point only")
    return options


def run(args: argparse.Namespace) -> int:
    def given(*names: str) -> dict[str, float]:
        return {name: getattr(args, name) for name in names if getattr(args, name) is not None}

    floors, by_hand = given("min_seen", "min_unseen"), given("threshold", "softness", "unseen_share")
    is_change = bool(floors or by_hand or args.best or args.samples)
    kinds = [floors, given("threshold", "softness"), given("unseen_share"), args.best, args.samples]
    if sum(map(bool, kinds)) > 1:
        raise ValueError(
            "give --best, or --min-seen / --min-unseen, or --unseen-share, or --samples, or --threshold / "
            "--softness"
        )
    if args.confidence is not None:
        if not floors:
            raise ValueError("--confidence needs a least accuracy: add --min-seen or --min-unseen")
        floors["confidence"] = args.confidence
    model = _options.load_model(args)
    if args.out and not is_change:
        raise ValueError("--out needs a choice, such as --best, --min-seen or --unseen-share")
    if args.samples:
        rows, _ = _options.encode_samples(args, model, _options.load_samples(args, model))
        estimate = model.cosmo.estimate_share(model.encode(rows))
        model.cosmo.operate_at(samples=model.encode(rows))
    elif is_change:
        model.cosmo.operate_at(**floors, **by_hand)
    point, curve = model.cosmo.operating_point_, model.cosmo.validation_curve_
    share = model.cosmo.combination_.unseen_share
    console = PlainConsole()
    if not args.quiet:
        console.print_table(curve_table(curve, point.threshold, share=share is not None))
    at = curve.at(point.threshold)
    where = f"threshold {point.threshold:.4g}, softness {point.softness:g}"
    if share is not None:
        where = f"expected share of unseen samples {100 * share:.3g} %"
    if args.samples:
        where += f" (estimate, 90 % interval {100 * estimate.low:.3g} to {100 * estimate.high:.3g} %)"
    console.print(
        f"{where}: seen {100 * at.acc_tr:.1f} %, unseen {100 * at.acc_ts:.1f} %, "
        f"Acc_H {100 * at.acc_h:.1f} % on held-out samples"
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
