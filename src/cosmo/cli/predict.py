"""`cosmo predict`: classes of new samples, however many."""

from __future__ import annotations

import argparse
import sys

from cosmo.cli.console import plain_console, progress
from cosmo.cli.samples import add_model_option, load_model
from cosmo.streaming import predict_stream

_EPILOG = """\
examples:
  cosmo predict model.cosmo new.csv                     CSV on the screen
  cosmo predict model.cosmo new.parquet --out classes.parquet --keep id
  cosmo predict model.cosmo messages.jsonl --out classes.jsonl --top 5
  cosmo predict model.cosmo pictures --out classes.csv --skip
  cosmo predict model.cosmo bird.jpg --top 3

columns:
  row           number of the sample, from 1; or the columns named by --keep; or the path of a picture
  label         the class, with its probability
  p_seen        the gate's belief that the sample is of a class with examples
  label_2 ...   the next classes with their probabilities, as many as --top says

Input is read in pieces and may be larger than the memory. What is done is kept in FILE.parts until all is
done: after an interruption of any kind the same command goes on where it was, and the file becomes the same,
byte by byte. If the model, the input or an option has changed since, this is said; --restart begins anew.

Spreadsheets run cells that begin with = + - @ as formulas. In CSV such text (not numbers) therefore gets an
apostrophe in front; --raw leaves it as it is, as JSONL and Parquet always do.
"""


def parser() -> argparse.ArgumentParser:
    """Return the options of the command."""
    options = argparse.ArgumentParser(
        prog="cosmo predict",
        description="Predict the classes of samples, seen or unseen, with probabilities.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_model_option(options)
    add = options.add_argument
    add("input", metavar="INPUT",
        help="samples like those of the training: .csv, .tsv, .parquet or .jsonl; features also .npy or "
        ".npz; pictures also a folder, or one picture")  # fmt: skip
    add("--out", metavar="FILE", help="where to write: .csv, .parquet or .jsonl (default: CSV on the screen)")
    add("--keep", nargs="+", default=[], metavar="COLUMN", help="columns of the input to pass on")
    add("--top", type=int, default=3, metavar="K", help="how many classes to name (default %(default)s)")
    add("--text", metavar="COLUMN", help="the samples are texts, in this column")
    add("--image", metavar="COLUMN", help="the samples are pictures, with their paths in this column")
    add(
        "--label", metavar="COLUMN", help="column of the class, which is no feature (default: label or class)"
    )
    add("--skip", action="store_true", help="leave out texts and pictures that cannot be read")
    add("--batch", type=int, metavar="ROWS",
        help="rows in memory at a time (default 8192 of features, 256 texts or pictures)")  # fmt: skip
    add("--cache", metavar="DIR", help="keep features of texts and pictures there, to use them again")
    add("--raw", action="store_true", help="no apostrophes in CSV")
    add("--restart", action="store_true", help="forget what an earlier run has left in FILE.parts")
    add("-q", "--quiet", action="store_true", help="no progress")
    return options


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.top < 1:
        raise ValueError(f"--top must be at least 1, got {args.top}")
    if args.batch is not None and args.batch < 1:
        raise ValueError(f"--batch must be at least 1, got {args.batch}")
    with progress(quiet=args.quiet) as step:
        step(f"loading {args.model}")
        model = load_model(args)
        summary = predict_stream(
            model,
            args.input,
            sys.stdout if args.out is None else args.out,
            kind="text" if args.text else "images" if args.image else None,
            column=args.text or args.image,
            label=args.label,
            keep=args.keep,
            top=args.top,
            batch_size=args.batch,
            cache=args.cache,
            on_error="skip" if args.skip else "raise",
            raw=args.raw,
            restart=args.restart,
        )
    if args.out is not None and not args.quiet:
        found = f", {summary.found} of them from an earlier run" if summary.found else ""
        skipped = f"; {summary.skipped} samples left out" if summary.skipped else ""
        plain_console(stderr=True, highlight=False, soft_wrap=True).print(
            f"{args.out}: {summary.rows} rows{found}{skipped}"
        )
    return 0
