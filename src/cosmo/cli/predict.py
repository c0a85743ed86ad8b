"""`cosmo predict`: classes of new samples, however many."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from cosmo.cli import _options
from cosmo.cli._output import PlainConsole, progress
from cosmo.io.predict import is_partitioned, kind_of, predict_file
from cosmo.io.writers import OUTPUT_SUFFIXES


def predict_parser() -> argparse.ArgumentParser:
    options = _options.make_parser("predict")
    _options.add_model_option(options)
    add = options.add_argument
    add("input", nargs="?", metavar="INPUT",
        help="samples like those of the training: .csv, .tsv, .parquet or .jsonl; features also .npy or "
        ".npz; images also a folder, or one image; a folder of Parquet files")  # fmt: skip
    add("--out", metavar="FILE",
        help="output: .csv, .parquet or .jsonl (default: CSV on standard output); a folder for several "
        "Parquet files")  # fmt: skip
    add("--format", choices=["parquet", "csv", "jsonl"],
        help="format of the files in a folder (default parquet)")  # fmt: skip
    _options.add_worker_options(options, "processes that predict Parquet files")
    add("--keep", nargs="+", default=[], metavar="COLUMN", help="columns of the input to copy to the output")
    add("--top", type=int, default=3, metavar="K", help="number of classes per sample (default %(default)s)")
    add("--reject", type=float, metavar="SHARE",
        help="answer unknown to samples of no known class; of known ones, at most this share, such as 0.05, "
        "is rejected")  # fmt: skip
    add("--accuracy", type=float, metavar="X",
        help="answer unknown where the class is uncertain, so that the other answers have this "
        "accuracy")  # fmt: skip
    add("--unknown", metavar="NAME", help='answer to rejected samples (default "unknown")')
    add("--why", action="store_true", help="add a column with the reason for each answer")
    add("--text", action="append", metavar="COLUMN",
        help="the samples are texts, in this column; without INPUT, a text to predict (repeat it for "
        "several)")  # fmt: skip
    add("--image", metavar="COLUMN", help="the samples are images, with their paths in this column")
    add("--label", metavar="COLUMN",
        help="column of the class, which is not a feature (default: label or class)")  # fmt: skip
    add("--skip", action="store_true", help="skip texts and images that cannot be read")
    add("--batch", type=int, metavar="ROWS",
        help="rows in memory at a time (default 8192 of features, 256 texts or images)")  # fmt: skip
    add("--cache", metavar="DIR", help="folder that stores features of texts and images for later runs")
    add("--raw", action="store_true", help="write CSV cells as they are")
    add("--restart", action="store_true", help="discard what an earlier run has left in FILE.parts")
    _options.add_quiet(add)
    return options


def run_predict(args: argparse.Namespace) -> int:
    texts = args.text or []
    args.text = texts[0] if texts else None
    if args.input is not None:
        if len(texts) > 1:
            raise ValueError(f"--text names the column of texts in {args.input}; give it once")
        return _run(args, args.input)
    if not texts:
        raise ValueError("name a file of samples, or give a text by --text")
    with TemporaryDirectory() as folder:
        source = Path(folder, "texts.jsonl")
        source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
        args.input, args.text, args.keep = str(source), "text", ["text"]
        return _run(args, f"{len(texts)} texts" if len(texts) > 1 else "a text")


def _run(args: argparse.Namespace, what: str) -> int:
    for name in ("top", "batch"):
        if (number := getattr(args, name)) is not None and number < 1:
            raise ValueError(f"--{name} must be at least 1, got {number}")
    _check(args)
    workers = _options.make_workers(args)
    given = {name: getattr(args, name) for name in ("reject", "accuracy", "unknown", "why")}
    with progress(quiet=args.quiet) as step:
        step(f"loading {args.model}")
        model = _options.load_model(args)
        if args.text and kind_of(model) != "text":
            raise ValueError(f"{args.model} takes {kind_of(model)}, not texts: leave out --text")
        if args.reject is not None or args.accuracy is not None:
            model.cosmo.rejection()
        step(f"predicting {what}")
        summary = predict_file(
            model,
            args.input,
            sys.stdout if args.out is None else args.out,
            kind="text" if args.text else "images" if args.image else None,
            column=args.text or args.image,
            label=args.label,
            keep=args.keep,
            top=args.top,
            answers={name: value for name, value in given.items() if value},
            batch_size=args.batch,
            cache=args.cache,
            on_error="skip" if args.skip else "raise",
            format=args.format or "parquet",
            raw=args.raw,
            restart=args.restart,
            workers=workers,
            report=step.report,
        )
    if args.out is not None and not args.quiet:
        found = f", {summary.found} of them from an earlier run" if summary.found else ""
        skipped = f"; {summary.skipped} samples skipped" if summary.skipped else ""
        PlainConsole(stderr=True).print(f"{args.out}: {summary.rows} rows{found}{skipped}")
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raise if options do not match the input or each other."""
    rejects = args.reject is not None or args.accuracy is not None
    if args.unknown is not None and not rejects:
        raise ValueError("--unknown names the answer of --reject or --accuracy; add one of them")
    for name in ("reject", "accuracy"):
        if getattr(args, name) is not None and not 0 < getattr(args, name) < 1:
            raise ValueError(f"--{name} must lie between 0 and 1, got {getattr(args, name):g}")
    if args.engine == "local" and not is_partitioned(args.input):
        for name in ("format", "scheduler"):
            if getattr(args, name) is not None:
                raise ValueError(f"--{name} is for partitioned input, which {args.input} is not")
        if args.out is not None and Path(args.out).suffix.lower() not in OUTPUT_SUFFIXES:
            raise ValueError(f"--out {args.out}: predictions go to a .csv, .jsonl or .parquet")
        return
    if args.out is None:
        raise ValueError(f"{args.input} is partitioned: name a folder for the predictions by --out")
    suffix = Path(args.out).suffix
    if suffix in OUTPUT_SUFFIXES:
        raise ValueError(
            f"--out {args.out}: {args.input} is partitioned, and its predictions are a folder of files; name "
            f"a folder, and the format of its files by --format {suffix[1:]}"
        )
