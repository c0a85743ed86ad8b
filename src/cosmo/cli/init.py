"""`cosmo init`: write an example project."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from cosmo.cli._options import add_quiet, make_parser
from cosmo.io.project import STARTERS, write_starter

_EPILOG = """\
kinds of examples (--kind):
{kinds}

Existing files are not overwritten. Replace the example data by your own, and adapt cosmo.toml.

examples:
  cosmo init                        a project in this folder
  cosmo init requests --kind text
  cosmo init signs --kind images
"""


def parser() -> argparse.ArgumentParser:
    options = make_parser(
        "init",
        "Write a commented project file, cosmo.toml, and a small example that works.",
        _EPILOG.format(kinds="\n".join(f"  {name:<9} {text}" for name, text in STARTERS.items())),
    )
    add = options.add_argument
    add("folder", nargs="?", default=".", metavar="FOLDER", help="where to write (default: here)")
    add("--kind", default="features", choices=list(STARTERS), help="(default %(default)s)")
    add_quiet(add, "print nothing")
    return options


def run(args: argparse.Namespace) -> int:
    names = write_starter(args.kind, args.folder)
    if args.quiet:
        return 0
    print(f"wrote {', '.join(str(Path(args.folder, name)) for name in names)}\n\nnext:")
    if args.folder != ".":
        print(f"  cd {shlex.quote(args.folder)}")
    print("  cosmo check                      summary of the data, problems and leaks")
    print("  cosmo fit                        train, write model.cosmo")
    print("  cosmo evaluate model.cosmo       accuracy on the test samples")
    return 0
