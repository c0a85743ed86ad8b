"""`cosmo show`: print a model's card."""

from __future__ import annotations

import argparse
import json

from cosmo.cli._options import add_quiet, add_trust, make_parser
from cosmo.io.model import Model
from cosmo.io.model_file import card_text, read_card


def parser() -> argparse.ArgumentParser:
    options = make_parser(
        "show",
        "Print the card of a model: its training data, experts, gate and validation, and the types that\n"
        "must be trusted to load it. If there are some, the model is loaded with --trust only.",
        "examples:\n  cosmo show model.cosmo\n  cosmo show model.cosmo --json | jq .validation",
    )
    options.add_argument("model", metavar="MODEL", help="file that `cosmo fit` wrote")
    add_trust(options.add_argument)
    options.add_argument("--json", action="store_true", help="print as JSON")
    add_quiet(options.add_argument, "check that the file is complete, print nothing")
    return options


def run(args: argparse.Namespace) -> int:
    card = read_card(args.model)
    if args.trust or not card["types"]:
        header = {name: card[name] for name in ("format_version", "package", "versions", "types")}
        card = header | Model.load(args.model, trusted=args.trust).card()
    if args.json:
        print(json.dumps(card, indent=2))
    elif not args.quiet:
        print(card_text(card))
    return 0
