"""Run the long trials and print one table; exit status 1 if anything was lost or let in."""

from __future__ import annotations

import argparse
import os
import sys
import time
from importlib import import_module

from soak.tally import Tally, print_table

# Module, description, share of the time.
_TRIALS = {
    "files": ("damaged files for every reader", 0.35),
    "steps": ("killed, or out of disk space, before every change to the file system", 0.15),
    "kills": ("commands killed at random times, on full disks, and twice at once", 0.4),
    "load": ("many clients of the studio, some of them hostile", 0.1),
}


def main() -> int:
    """Run the trials that are named on the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m soak",
        description="Long trials. Survived: correct result or clean error. Lost: the process, a result or a "
        "clean error was missing. Let in: a file executed code, or damage was accepted.",
        epilog="; ".join(f"{name}: {about}" for name, (about, _) in _TRIALS.items()),
    )
    add = parser.add_argument
    add(
        "trials",
        nargs="*",
        choices=[[], *_TRIALS],
        metavar="TRIALS",
        help=f"{', '.join(_TRIALS)} (default all)",
    )
    add("--minutes", type=float, default=10.0, help="total time, approximately (default %(default)s)")
    add("--seed", type=int, default=0, help="seed of all random changes and times (default %(default)s)")
    args = parser.parse_args()
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(threads, "1")  # before numpy is imported
    names = args.trials or list(_TRIALS)
    total = sum(_TRIALS[name][1] for name in names)
    start = time.monotonic()

    def report(line: str) -> None:
        print(f"{time.monotonic() - start:6.0f} s  {line}", flush=True)

    tallies: list[Tally] = []
    for name in names:
        about, share = _TRIALS[name]
        report(f"{name}: {about}")
        run_trials = import_module(f"soak.{name}").run_trials
        for tally in run_trials(args.minutes * share / total, args.seed):
            report(f"{tally.kind}: {tally.tried} trials, {len(tally.findings)} failed")
            tallies.append(tally)
    print_table(tallies)
    return 0 if tallies and all(tally.good for tally in tallies) else 1


if __name__ == "__main__":
    sys.exit(main())
