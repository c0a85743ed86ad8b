"""The command line. The module of a command is imported when it is run, its texts are in `help/`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.resources import files

from cosmo import __version__
from cosmo._core import MissingExtra

__all__ = ["main"]

COMMANDS = {
    "run": "train, evaluate every way of combining the experts, write a report",
    "compare": "compare zero-shot experts: alone, stacked, inside COSMO",
    "gates": "measure how well each gate separates seen from unseen classes",
    "paper": "reproduce the tables and figures of the paper",
    "experts": "list the experts, with references and requirements",
    "init": "write an example project for your own data",
    "check": "check samples and descriptions before training",
    "fit": "train a model on your own samples",
    "evaluate": "measure a model on labelled samples",
    "predict": "predict the classes of samples, in files of any size",
    "explain": "show how samples get their classes, step by step",
    "classes": "list a model's classes, add some by description, learn from samples",
    "discover": "group rejected samples, and propose a class for each group",
    "operate": "show or choose the operating point of a model",
    "studio": "explore a model in the browser and try new classes",
    "serve": "answer requests over HTTP: predictions of a model, health, metrics",
    "export": "write a model with linear experts as an ONNX file",
    "show": "print a model's card",
    "convert": "convert data to and from the benchmark layout (xlsa17)",
    "data": "list and download benchmark archives",
}

_SHARED = {
    "convert": "data",
    "discover": "classes",
    "experts": "compare",
    "explain": "evaluate",
    "export": "model",
    "gates": "compare",
    "init": "project",
    "check": "project",
    "operate": "model",
    "show": "model",
    "studio": "serve",
}
"""Modules of the commands that share one; others have one of their own."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    try:
        try:
            return _main(argv)
        finally:
            sys.stdout.flush()  # here, where the error of a closed pipe can be caught
    except BrokenPipeError:
        # The buffered rest must not be written again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _main(argv: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    commands = "\n".join(f"  {name:<10} {text}" for name, text in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="cosmo",
        usage="cosmo COMMAND [options]",
        description=files("cosmo.cli")
        .joinpath("help/cosmo.txt")
        .read_text("utf-8")
        .format(commands=commands),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"cosmo {__version__}")
    parser.add_argument("command", metavar="COMMAND", choices=list(COMMANDS), help=argparse.SUPPRESS)
    if not arguments:
        parser.print_help()
        return 2
    name = parser.parse_args(arguments[:1]).command
    try:
        module = import_module(f"cosmo.cli.{_SHARED.get(name, name)}")
        options = getattr(module, f"{name}_parser")().parse_args(arguments[1:])
        return int(getattr(module, f"run_{name}")(options))
    except KeyboardInterrupt:
        print("cosmo: stopped; no incomplete file was written", file=sys.stderr)
        return 130
    except BrokenPipeError:  # an OSError, but not an error of the input
        raise
    except (ValueError, TypeError, OSError, MissingExtra) as error:
        print(f"cosmo {name}: {error}", file=sys.stderr)
        return 2
