"""`cosmo show`: print a model's card."""

from __future__ import annotations

import argparse
import json

from cosmo.cli._options import add_quiet, make_parser
from cosmo.io.model import Model, card_text
from cosmo.io.model_file import read_card


def parser() -> argparse.ArgumentParser:
    """Return the options of the command."""
    options = make_parser(
        "show",
        "Print the card of a model: its training data, experts, gate and validation.",
        "examples:\n  cosmo show model.cosmo\n  cosmo show model.cosmo --json | jq .validation",
    )
    options.add_argument("model", metavar="MODEL", help="file that `cosmo fit` wrote")
    options.add_argument("--json", action="store_true", help="print as JSON")
    add_quiet(options.add_argument, "check that the file is complete, print nothing")
    return options


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    header = ("format_version", "package", "versions")
    card = {name: value for name, value in read_card(args.model).items() if name in header}
    card |= Model.load(args.model).card()
    if args.json:
        print(json.dumps(card, indent=2))
    elif not args.quiet:
        print(card_text(card))
    return 0
