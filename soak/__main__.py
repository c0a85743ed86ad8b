"""`python -m soak`: all long trials, one table; exit status 1 if anything was lost or let in."""

from __future__ import annotations

import argparse
import os
import sys
import time
from importlib import import_module

from soak.tally import Tally, print_table

# What there is: the module, what it does, and its share of the time.
_TRIALS = {
    "fuzz": ("fuzz", "files changed at random, for every reader", 0.25),
    "guided": ("guided", "files that coverage leads to (atheris)", 0.15),
    "steps": ("steps", "kills and a full disk before every change to the file system", 0.1),
    "kills": ("kills", "kill -9 of real commands at random times", 0.25),
    "disk": ("disk", "full and read-only disks, two processes at once, clocks that jump", 0.12),
    "load": ("load", "the studio's server under load", 0.1),
}


def main() -> int:
    """Run trials and print what came of them."""
    options = argparse.ArgumentParser(
        prog="python -m soak",
        description="Long trials. Survived: it ended as it should. Lost: the process, a result or a clean "
        "error was. Let in: a file had code run, or damage was taken for good.",
        epilog="; ".join(f"{name}: {about}" for name, (_, about, _) in _TRIALS.items()),
    )
    add = options.add_argument
    add("trials", nargs="*", choices=[[], *_TRIALS], metavar="TRIALS", help=f"{', '.join(_TRIALS)} (all)")
    add("--minutes", type=float, default=10.0, help="of all together, roughly (default %(default)s)")
    add("--seed", type=int, default=0, help="draws changes and times (default %(default)s)")
    args = options.parse_args()
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(threads, "1")  # before numpy is imported
    names = args.trials or list(_TRIALS)
    total = sum(_TRIALS[name][2] for name in names)
    began = time.monotonic()

    def report(line: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {line}", flush=True)

    tallies: list[Tally] = []
    for name in names:
        module, about, share = _TRIALS[name]
        report(f"{name}: {about}")
        trials = getattr(import_module(f"soak.{module}"), name)
        tallies += trials(args.minutes * share / total, args.seed, report)
    print_table(tallies)
    return 0 if tallies and all(tally.good for tally in tallies) else 1


if __name__ == "__main__":
    sys.exit(main())
