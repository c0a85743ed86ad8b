"""`cosmo convert`: convert data sets to and from the benchmark layout (xlsa17)."""

from __future__ import annotations

import argparse
from pathlib import Path

from cosmo.cli._options import add_quiet, make_parser
from cosmo.cli._progress import PlainConsole, progress
from cosmo.data import DataError, GZSLDataset, read_xlsa17, write_xlsa17
from cosmo.data.plain import read_plain, write_plain

_EPILOG = """\
A plain folder has features.npz (X, y), descriptions.csv (class, attributes), split.csv (part, row from 0)
and, where samples have names or texts, samples.csv. Features, labels, descriptions, split and names are
converted without loss. Of att and original_att one is read, and written back as both; the MATLAB layout
cannot store images and texts.

examples:
  cosmo convert xlsa17/data/CUB cub              from two .mat files to arrays and CSV tables
  cosmo convert xlsa17/data/AWA2 awa --original  with percentages in place of normalised attributes
  cosmo convert cub xlsa17/CUB-again             and back
"""


def parser() -> argparse.ArgumentParser:
    options = make_parser(
        "convert",
        "Convert a data set between the MATLAB layout of the proposed splits (xlsa17) and plain\n"
        "files. The layout of SOURCE is detected; TARGET gets the other one.",
        _EPILOG,
    )
    add = options.add_argument
    add("source", metavar="SOURCE", help="a folder with two .mat files, or with features.npz")
    add("target", metavar="TARGET", help="folder to write, new or empty")
    add("--features", default="res101", metavar="NAME",
        help=".mat file of the samples, to read or to write (default %(default)s)")  # fmt: skip
    add("--descriptions", default="att_splits", metavar="NAME",
        help=".mat file of the classes, to read or to write (default %(default)s)")  # fmt: skip
    add("--original", action="store_true", help="read original_att of the .mat file instead of att")
    add_quiet(add)
    return options


def run(args: argparse.Namespace) -> int:
    source, target = Path(args.source), Path(args.target)
    to_plain = _is_xlsa17(source)
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise DataError(f"{target} exists already; choose a new folder, or remove it first")
    with progress(quiet=args.quiet) as step:
        step(f"reading {source}")
        dataset = _read(source, args) if to_plain else read_plain(source)
        step(f"writing {dataset!r}")
        if to_plain:
            write_plain(dataset, target)
        else:
            write_xlsa17(dataset, target, features=args.features, descriptions=args.descriptions)
    if not args.quiet:
        PlainConsole().print(f"{target}: {', '.join(sorted(path.name for path in target.iterdir()))}")
    return 0


def _is_xlsa17(source: Path) -> bool:
    if not source.is_dir():
        raise DataError(f"{source}: " + ("not a folder" if source.exists() else "no such folder"))
    matlab, plain = any(source.glob("*.mat")), (source / "features.npz").exists()
    if matlab and plain:
        raise DataError(f"{source} has both .mat files and features.npz; keep one kind in a folder")
    if not matlab and not plain:
        raise DataError(
            f"{source}: neither .mat files nor features.npz; the archives have a folder for each data set, "
            "such as xlsa17/data/CUB"
        )
    return matlab


def _read(source: Path, args: argparse.Namespace) -> GZSLDataset:
    names = source / "attributes.txt"
    return read_xlsa17(
        source,
        features=args.features,
        descriptions=args.descriptions,
        attributes=names if names.exists() else None,
        original=args.original,
    )
