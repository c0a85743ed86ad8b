"""`cosmo experts`: list the experts."""

from __future__ import annotations

import argparse
import json
import textwrap
from typing import Any

from cosmo.cli._options import make_parser
from cosmo.experts import SEEN_EXPERTS, UNSEEN_EXPERTS

_NOTES = """
Parameters or a preset may follow the name of an unseen expert: lago:variant=k-soft,n_groups=40; dem:CUB
(published setting); f-clswgan:fast (for a CPU). Experts that need torch: pip install torch.
In Python, any scikit-learn classifier with predict_proba can be the seen expert."""


def parser() -> argparse.ArgumentParser:
    options = make_parser(
        "experts",
        "List the experts that `cosmo run --unseen` and `--seen` take, with references and requirements.",
        "examples:\n  cosmo experts\n  cosmo experts --json | jq .unseen",
    )
    options.add_argument("--json", action="store_true", help="print as JSON")
    return options


def run(args: argparse.Namespace) -> int:
    unseen: dict[str, dict[str, Any]] = {
        name: {
            "reference": expert.reference,
            "needs": f"{expert.needs}; torch" if expert.needs_torch else expert.needs,
            "output": "probabilities" if expert.native else "scores, soft-max with fitted temperature",
            "chosen on validation": [*expert.grid],
            "settings": [*expert.presets],
        }
        for name, expert in UNSEEN_EXPERTS.items()
    }
    if args.json:
        print(json.dumps({"unseen": unseen, "seen": SEEN_EXPERTS}, indent=2))
        return 0
    print("unseen experts, which recognise classes by description (--unseen):\n")
    for name, about in unseen.items():
        print(f"  {name:<9} {about['reference']}")
        details = [f"needs {about['needs']}", f"gives {about['output']}"]
        details.append(f"chosen on validation: {', '.join(about['chosen on validation'])}")
        if about["settings"]:
            details.append(f"settings: {', '.join(about['settings'])}")
        for detail in details:
            print(textwrap.fill(detail, 100, initial_indent=" " * 12, subsequent_indent=" " * 14))
    print("\nseen experts, which classify classes with examples (--seen):\n")
    for name, text in SEEN_EXPERTS.items():
        print(f"  {name:<9} {text}")
    print(_NOTES)
    return 0
