"""`cosmo data`: fetch known benchmark archives."""

from __future__ import annotations

import argparse
import json
import textwrap
from dataclasses import asdict

from cosmo.cli._console import plain_console, progress
from cosmo.data.download import ARCHIVES, fetch

_EPILOG = """\
examples:
  cosmo data list
  cosmo data fetch xlsa17 --to data             then: cosmo run data/xlsa17/data/CUB
  cosmo data fetch xlsa17 --url https://mirror.example/xlsa17.zip --sha256 HEX
  cosmo data fetch mine --url https://example.org/mine.tar.gz

A download that broke off goes on where it was, also when the command is given again. Of some archives a
checksum is known. Of the others that of the first download is kept in FILE.sha256 and holds from then on;
give --sha256 if you know better. Links, paths that lead out of the folder and archives that unpack to absurd
sizes are refused.

Addresses may move. If one does not answer, look at the archive's page (`cosmo data list`) and give the new
one by --url; a file that you fetched by other means is taken if it lies in DIR under its name.
"""


def parser() -> argparse.ArgumentParser:
    """Return the options of the command."""
    options = argparse.ArgumentParser(
        prog="cosmo data",
        description="List known benchmark archives, or fetch one: download, check, unpack.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = options.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="which archives are known, and where they are")
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
    add("-q", "--quiet", action="store_true", help="no progress")
    return options


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.action == "list":
        if args.json:
            print(json.dumps([asdict(archive) for archive in ARCHIVES.values()], indent=2))
        else:
            plain_console(highlight=False, soft_wrap=True).print(_listing())
        return 0
    with progress(quiet=args.quiet) as step:
        fetched = fetch(args.name, args.to, urls=args.url, sha256=args.sha256, report=step)
    plain_console(highlight=False, soft_wrap=True).print(
        f"{fetched.folder}\n{fetched.file}: {fetched.checksum}"
        + (" (trusted on first use)" if fetched.trusted_on_first_use else "")
    )
    return 0


def _listing() -> str:
    blocks = []
    for archive in ARCHIVES.values():
        checksum = archive.checksum or "none known: the first download is trusted"
        lines = [
            f"{archive.about} ({archive.size})",
            *archive.urls,
            f"page: {archive.page}",
            f"checksum: {checksum}",
        ]
        blocks.append(f"{archive.name}\n" + textwrap.indent("\n".join(lines), "  "))
    return "\n\n".join(blocks)
