"""`cosmo predict`: classes of new samples, however many."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from cosmo._core.engines import make_engine
from cosmo.cli._options import add_model_option, add_worker_options, load_model, make_workers
from cosmo.cli._progress import PlainConsole, progress
from cosmo.io.partitions import is_partitioned, predict_partitions
from cosmo.io.streaming import predict_stream

_EPILOG = """\
examples:
  cosmo predict model.cosmo new.csv                     CSV on the screen
  cosmo predict model.cosmo new.parquet --out classes.parquet --keep id
  cosmo predict model.cosmo messages.jsonl --out classes.jsonl --top 5
  cosmo predict model.cosmo pictures --out classes.csv --skip
  cosmo predict model.cosmo bird.jpg --top 3
  cosmo predict model.cosmo rows --out classes            a folder of Parquet files: a file for each
  cosmo predict model.cosmo "rows/*.parquet" --out classes --engine dask --scheduler tcp://10.0.0.1:8786

columns:
  row           number of the sample, from 1; or the columns named by --keep; or the path of a picture
  label         the class, with its probability
  p_seen        the gate's belief that the sample is of a class with examples
  label_2 ...   the next classes with their probabilities, as many as --top says

Input is read in pieces and may be larger than the memory. What is done is kept in FILE.parts until all is
done: after an interruption of any kind the same command goes on where it was, and the file becomes the same,
byte by byte. If the model, the input or an option has changed since, this is said; --restart begins anew.

Partitioned input (a folder with Parquet files, a pattern of names, or any Parquet file with --engine dask)
gives a folder: a file for each partition, done side by side by --jobs processes or by the workers of a Dask
cluster (docs/guides/cluster.md). Files above 262144 rows are cut where their row groups end.

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
        ".npz; pictures also a folder, or one picture; a folder with Parquet files")  # fmt: skip
    add("--out", metavar="FILE",
        help="where to write: .csv, .parquet or .jsonl (default: CSV on the screen); a folder for "
        "partitioned input")  # fmt: skip
    add("--format", choices=["parquet", "csv", "jsonl"],
        help="of the files for partitioned input (default parquet)")  # fmt: skip
    add_worker_options(options, "partitions at the same time")
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
    partitioned = args.engine == "dask" or is_partitioned(args.input)
    _check(args, partitioned)
    options: dict[str, Any] = {
        "kind": "text" if args.text else "images" if args.image else None,
        "column": args.text or args.image,
        "label": args.label,
        "keep": args.keep,
        "top": args.top,
        "batch_size": args.batch,
        "cache": args.cache,
        "on_error": "skip" if args.skip else "raise",
        "raw": args.raw,
        "restart": args.restart,
    }
    with progress(quiet=args.quiet) as step:
        step(f"loading {args.model}")
        model = load_model(args)
        if partitioned:
            workers = make_workers(args)
            with make_engine(args.engine, scheduler=workers.scheduler, jobs=args.jobs, report=step) as engine:
                summary = predict_partitions(
                    model, args.input, args.out, engine=engine, format=args.format or "parquet", **options
                )
        else:
            summary = predict_stream(
                model, args.input, sys.stdout if args.out is None else args.out, **options
            )
    if args.out is not None and not args.quiet:
        found = f", {summary.found} of them from an earlier run" if summary.found else ""
        skipped = f"; {summary.skipped} samples left out" if summary.skipped else ""
        PlainConsole(stderr=True).print(f"{args.out}: {summary.rows} rows{found}{skipped}")
    return 0


def _check(args: argparse.Namespace, partitioned: bool) -> None:
    """Refuse options that do not go with the input."""
    if not partitioned:
        for name in ("format", "scheduler"):
            if getattr(args, name) is not None:
                raise ValueError(f"--{name} is for partitioned input, which {args.input} is not")
        return
    if args.out is None:
        raise ValueError(f"{args.input} is partitioned: name a folder for the predictions by --out")
    suffix = Path(args.out).suffix
    if suffix in (".csv", ".jsonl", ".parquet"):
        raise ValueError(
            f"--out {args.out}: {args.input} is partitioned and gives a folder with a file for each "
            f"partition; name a folder, and the kind of file by --format {suffix[1:]}"
        )
