"""`cosmo experts`: what there is to choose from."""

from __future__ import annotations

import argparse
import json

from rich.table import Table

from cosmo.cli.console import plain_console
from cosmo.experts import SEEN_EXPERTS, UNSEEN_EXPERTS


def parser() -> argparse.ArgumentParser:
    """Return the options of the command."""
    options = argparse.ArgumentParser(
        prog="cosmo experts",
        description="List the experts that `cosmo run --unseen` and `--seen` take.",
        epilog="example:\n  cosmo experts --json | jq .unseen",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("--json", action="store_true", help="print as JSON")
    return options


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    unseen = {
        name: {
            "reference": expert.reference,
            "needs": expert.needs,
            "output": "probabilities" if expert.native else "scores, soft-max with fitted temperature",
            "chosen on validation": [*expert.grid],
        }
        for name, expert in UNSEEN_EXPERTS.items()
    }
    if args.json:
        print(json.dumps({"unseen": unseen, "seen": SEEN_EXPERTS}, indent=2))
        return 0
    console = plain_console()
    table = Table(title="unseen experts: recognise classes by description (--unseen)")
    for column in ("name", "reference", "needs", "output", "chosen on validation"):
        table.add_column(column)
    for name, about in unseen.items():
        values = [", ".join(value) if isinstance(value, list) else value for value in about.values()]
        table.add_row(name, *values)
    console.print(table)
    table = Table("name", "what it is", title="seen experts: classify classes with examples (--seen)")
    for name, text in SEEN_EXPERTS.items():
        table.add_row(name, text)
    console.print(table)
    console.print("In Python, any scikit-learn classifier with predict_proba can be the seen expert.")
    return 0
