"""`cosmo show`, `operate` and `export`: the card of a model, its operating point, an ONNX file."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from cosmo._core import missing_extras
from cosmo.cli import _options
from cosmo.cli._output import PlainConsole
from cosmo.io.model import Model
from cosmo.io.model_file import card_text, read_card
from cosmo.viz.text import curve_table


def show_parser() -> argparse.ArgumentParser:
    options = _options.make_parser("show")
    options.add_argument("model", metavar="MODEL", help="file that `cosmo fit` wrote")
    _options.add_trust(options.add_argument)
    options.add_argument("--json", action="store_true", help="print as JSON")
    _options.add_quiet(options.add_argument, "check that the file is complete, print nothing")
    return options


def run_show(args: argparse.Namespace) -> int:
    card = read_card(args.model)
    if args.trust or not card["types"]:
        header = {name: card[name] for name in ("format_version", "package", "versions", "types")}
        card = header | Model.load(args.model, trusted=args.trust).card()
    if args.json:
        print(json.dumps(card, indent=2))
    elif not args.quiet:
        print(card_text(card))
    return 0


def operate_parser() -> argparse.ArgumentParser:
    options = _options.make_parser("operate")
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


def run_operate(args: argparse.Namespace) -> int:
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
        estimate = model.cosmo.estimate_share(rows)
        model.cosmo.operate_at(samples=rows)
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


def export_parser() -> argparse.ArgumentParser:
    options = _options.make_parser("export")
    _options.add_model_option(options)
    options.add_argument("out", metavar="FILE", help="ONNX file to write")
    _options.add_quiet(options.add_argument, "print nothing")
    return options


def run_export(args: argparse.Namespace) -> int:
    from cosmo.io.onnx_file import export_onnx, largest_difference

    model = _options.load_model(args)
    export_onnx(model, args.out)
    checked = "not compared with the model"
    if model.exemplars is not None and not missing_extras("onnxruntime"):
        rows = model.exemplars.rows
        difference = largest_difference(model, args.out, rows)
        checked = f"probabilities of {len(rows)} rows differ by at most {difference:.0e}"
    if not args.quiet:
        print(f"wrote {args.out}: {len(model.classes)} classes, {model.cosmo.n_features_in_} features")
        print(checked)
    return 0
