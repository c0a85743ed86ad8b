"""Freeze the words of the command line and the public names, but no prose."""

import argparse
import re
from importlib import import_module
from pathlib import Path

import pytest

import cosmo
from cosmo.cli import main

README = Path(__file__).resolve().parents[2] / "README.md"


def parser_of(*words):
    """Return the parser that answers --help after these words."""
    shown = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "print_help", lambda self, file=None: shown.append(self))
        with pytest.raises(SystemExit) as stop:
            main([*words, "--help"])
    assert stop.value.code == 0
    (parser,) = shown
    return parser


def words_of(parser, name):
    """Return options and positional names of a verb and of the verbs below it."""
    found = {name: {"positionals": [], "options": []}}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below, one in action.choices.items():
                found |= words_of(one, f"{name} {below}")
        elif action.option_strings:
            found[name]["options"] += action.option_strings
        else:
            found[name]["positionals"].append(str(action.metavar or action.dest))
    found[name]["options"].sort()
    return found


def test_command_line(frozen):
    verbs = [verb for action in parser_of()._actions if not action.option_strings for verb in action.choices]
    found = {}
    for verb in sorted(verbs):
        found |= words_of(parser_of(verb), verb)
    assert found == frozen("command_line", found)


def test_public_names(frozen):
    snippet = "".join(re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL))
    imports = re.findall(r"^from ([\w.]+) import (\w+)$", snippet, re.MULTILINE)
    names = {"cosmo": sorted(cosmo.__all__), "cosmo.data": [n for m, n in imports if m == "cosmo.data"]}
    methods = sorted({"fit", *re.findall(r"\bmodel\.(\w+)\(", snippet)})
    kept = frozen("names", {**names, "methods of Cosmo": methods})
    assert set(kept["cosmo"]) <= set(cosmo.__all__)
    for module in ("cosmo", "cosmo.data"):
        missing = [name for name in kept[module] if not hasattr(import_module(module), name)]
        assert missing == [], module
    missing = [name for name in kept["methods of Cosmo"] if not callable(getattr(cosmo.Cosmo, name, None))]
    assert missing == []
