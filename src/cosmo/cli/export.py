"""`cosmo export`: write a model as an ONNX file."""

from __future__ import annotations

import argparse

from cosmo._core import missing_extras
from cosmo.cli._options import add_model_option, add_quiet, load_model, make_parser
from cosmo.io.onnx_file import export_onnx, largest_difference

_EPILOG = """\
The input of the file is feature rows; texts and images are encoded before. Its outputs are label,
probabilities (in the order of the metadata's classes) and p_seen. If onnxruntime is installed, they are
compared with those of the model on its exemplar buffer.

examples:
  cosmo export model.cosmo model.onnx
"""


def parser() -> argparse.ArgumentParser:
    options = make_parser(
        "export", "Write a model of the calibrated method with linear experts as an ONNX file.", _EPILOG
    )
    add_model_option(options)
    options.add_argument("out", metavar="FILE", help="ONNX file to write")
    add_quiet(options.add_argument, "print nothing")
    return options


def run(args: argparse.Namespace) -> int:
    model = load_model(args)
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
