"""The command line. Each command is a file; it is imported only when it is used."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from cosmo import __version__
from cosmo._core.extras import MissingExtra

__all__ = ["main"]

COMMANDS = {
    "run": "train, evaluate every way of combining the experts, write a report",
    "compare": "every zero-shot expert side by side: alone, stacked, inside COSMO",
    "gates": "how well each gate tells samples of seen classes from the others",
    "paper": "the tables and figures of the paper, beside what it prints",
    "experts": "list the experts, where they come from and what they need",
    "init": "your own data: a project file and a small example to start from",
    "check": "what is wrong with samples and descriptions, and what to begin with",
    "fit": "train on them and write a model to a file",
    "evaluate": "how well a model does on labelled samples",
    "predict": "classes of new samples, however many",
    "explain": "how a sample gets its class, in words and as a picture",
    "classes": "list a model's classes, add some by description, promote them",
    "operate": "choose what seen and unseen classes may cost each other",
    "studio": "look at a model in the browser, ask it, try new classes",
    "show": "what a model is made of and how good it was on validation",
    "convert": "data to and from the benchmark layout (xlsa17)",
    "data": "fetch known benchmark archives",
}

_MANUAL = """\
cosmo recognises classes that have examples and, in the same classifier, classes that have
only a description: generalized zero-shot learning by adaptive confidence smoothing (COSMO).

commands:
{commands}

examples:
  cosmo run                         the built-in data set, no download, about 15 seconds
  cosmo run xlsa17/CUB --features res50
                                    a benchmark folder (two .mat files)
  cosmo run --repeats 5             five seeds, means with intervals
  cosmo run --json -q | jq .results numbers for another program
  cosmo init letters --kind images  a project of your own to start from; cd letters, then
  cosmo check; cosmo fit; cosmo evaluate model.cosmo

exit status:
  0 done   1 a bug (please report it)   2 wrong input or options   130 stopped by Ctrl-C

`cosmo COMMAND --help` explains a command. Documentation: README.md and docs/.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    try:
        try:
            return _main(argv)
        finally:
            sys.stdout.flush()  # here, where a reader that went away can be caught
    except BrokenPipeError:
        # What is still buffered must not be tried again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _main(argv: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    commands = "\n".join(f"  {name:<10} {text}" for name, text in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="cosmo",
        usage="cosmo COMMAND [options]",
        description=_MANUAL.format(commands=commands),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"cosmo {__version__}")
    parser.add_argument("command", metavar="COMMAND", choices=list(COMMANDS), help=argparse.SUPPRESS)
    if not arguments:
        parser.print_help()
        return 2
    name = parser.parse_args(arguments[:1]).command
    try:
        command = import_module(f"cosmo.cli.{name}")
        return int(command.run(command.parser().parse_args(arguments[1:])))
    except KeyboardInterrupt:
        print("cosmo: stopped; nothing was written half", file=sys.stderr)
        return 130
    except BrokenPipeError:  # an OSError, but not about the input
        raise
    except (ValueError, TypeError, OSError, MissingExtra) as error:
        print(f"cosmo {name}: {error}", file=sys.stderr)
        return 2
