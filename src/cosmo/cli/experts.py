"""`cosmo experts`: what there is to choose from."""

from __future__ import annotations

import argparse
import json
import textwrap
from typing import Any

from cosmo.experts import SEEN_EXPERTS, UNSEEN_EXPERTS, make_unseen_expert

_MORE = """
A colon after the name of an unseen expert adds parameters (lago:variant=k-soft,n_groups=40) or
names one of its settings (dem:CUB, the published one; f-clswgan:fast, for a CPU). Those that need torch:
pip install 'cosmo-gzsl[torch]'.
In Python, any scikit-learn classifier with predict_proba can be the seen expert."""


def expert_name(text: str) -> str:
    """Return the name of an unseen expert as given, or tell argparse what is wrong with it."""
    try:
        make_unseen_expert(text)
    except (ValueError, TypeError) as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


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
    print(_MORE)
    return 0
