"""`cosmo data` and `cosmo convert`: benchmark archives, and data sets in the benchmark layout (xlsa17)."""

from __future__ import annotations

import argparse
import json
import textwrap
from dataclasses import asdict
from pathlib import Path

from cosmo.cli import _options
from cosmo.cli._output import PlainConsole, progress
from cosmo.data import DataError, GZSLDataset, read_xlsa17, write_xlsa17
from cosmo.data.download import ARCHIVES, fetch
from cosmo.data.plain import read_plain, write_plain


def data_parser() -> argparse.ArgumentParser:
    options = _options.make_parser("data")
    actions = options.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list known archives and their addresses")
    listing.add_argument("--json", action="store_true", help="print as JSON")
    text = "download an archive and unpack it into a folder of its name"
    fetching = actions.add_parser("fetch", help=text, epilog=options.epilog, **_options.RAW)
    add = fetching.add_argument
    add("name", metavar="NAME", help="see `cosmo data list`; with --url any name")
    add("--to", default=".", metavar="DIR", help="where to put archive and folder (default: here)")
    add("--url", action="append", default=[], metavar="ADDRESS",
        help="try this address first; may be given several times")  # fmt: skip
    add("--sha256", metavar="HEX", help="checksum that the archive must have")
    _options.add_quiet(add)
    return options


def run_data(args: argparse.Namespace) -> int:
    if args.action == "list":
        if args.json:
            print(json.dumps([asdict(archive) for archive in ARCHIVES.values()], indent=2))
        else:
            PlainConsole().print(_listing())
        return 0
    with progress(quiet=args.quiet) as step:
        fetched = fetch(args.name, args.to, urls=args.url, sha256=args.sha256, report=step.report)
    PlainConsole().print(
        f"{fetched.folder}\n{fetched.file}: {fetched.checksum}"
        + (" (trusted on first use)" if fetched.trusted_on_first_use else "")
    )
    return 0


def _listing() -> str:
    blocks = []
    for archive in ARCHIVES.values():
        checksum = f"checksum: {archive.checksum or 'unknown; trusted on first use'}"
        lines = [f"{archive.about} ({archive.size})", *archive.urls, f"page: {archive.page}", checksum]
        blocks.append(f"{archive.name}\n" + textwrap.indent("\n".join(lines), "  "))
    return "\n\n".join(blocks)


def convert_parser() -> argparse.ArgumentParser:
    options = _options.make_parser("convert")
    add = options.add_argument
    add("source", metavar="SOURCE", help="a folder with two .mat files, or with features.npz")
    add("target", metavar="TARGET", help="folder to write, new or empty")
    add("--features", default="res101", metavar="NAME",
        help=".mat file of the samples, to read or to write (default %(default)s)")  # fmt: skip
    add("--descriptions", default="att_splits", metavar="NAME",
        help=".mat file of the classes, to read or to write (default %(default)s)")  # fmt: skip
    add("--original", action="store_true", help="read original_att of the .mat file instead of att")
    _options.add_quiet(add)
    return options


def run_convert(args: argparse.Namespace) -> int:
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
