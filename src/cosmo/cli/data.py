"""`cosmo data`: list and download benchmark archives."""

from __future__ import annotations

import argparse
import json
import textwrap
from dataclasses import asdict

from cosmo.cli._options import add_quiet, make_parser
from cosmo.cli._progress import PlainConsole, progress
from cosmo.data.download import ARCHIVES, fetch

_EPILOG = """\
A published checksum is verified. Of other archives that of the first download is stored in FILE.sha256 and
verified from then on; --sha256 replaces it. An existing file of that name in DIR is not downloaded again.

Addresses may move. If one does not work, see the archive's page (`cosmo data list`) and give the new address
by --url.

examples:
  cosmo data list
  cosmo data fetch xlsa17 --to data             then: cosmo run data/xlsa17/data/CUB
  cosmo data fetch xlsa17 --url https://mirror.example/xlsa17.zip --sha256 HEX
  cosmo data fetch mine --url https://example.org/mine.tar.gz
"""


def parser() -> argparse.ArgumentParser:
    options = make_parser(
        "data",
        "List benchmark archives, or download, verify and unpack one.",
        _EPILOG,
    )
    actions = options.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list known archives and their addresses")
    listing.add_argument("--json", action="store_true", help="print as JSON")
    fetching = actions.add_parser(
        "fetch",
        help="download an archive and unpack it into a folder of its name",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = fetching.add_argument
    add("name", metavar="NAME", help="see `cosmo data list`; with --url any name")
    add("--to", default=".", metavar="DIR", help="where to put archive and folder (default: here)")
    add("--url", action="append", default=[], metavar="ADDRESS",
        help="try this address first; may be given several times")  # fmt: skip
    add("--sha256", metavar="HEX", help="checksum that the archive must have")
    add_quiet(add)
    return options


def run(args: argparse.Namespace) -> int:
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
        checksum = archive.checksum or "unknown; trusted on first use"
        lines = [
            f"{archive.about} ({archive.size})",
            *archive.urls,
            f"page: {archive.page}",
            f"checksum: {checksum}",
        ]
        blocks.append(f"{archive.name}\n" + textwrap.indent("\n".join(lines), "  "))
    return "\n\n".join(blocks)
