"""Measure start-up: the command line and `from cosmo import Cosmo`, each in fresh processes.

The import is compared with that of its dependencies, scikit-learn's `LogisticRegression` and pandas.
Processes take turns; medians of wall-clock and CPU time (all threads) are reported, and the number of modules
of this package that the import loads. Targets: a ratio of at most 1.25, fewer than 50 modules.

    python benchmarks/startup.py
    python benchmarks/startup.py --turns 20
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time

from rich.console import Console
from rich.table import Table

DEPENDENCIES = "from sklearn.linear_model import LogisticRegression; import pandas"
IMPORT = "from cosmo import Cosmo"
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "cosmo --help": ["-m", "cosmo", "--help"],
    "import cosmo": ["-c", "import cosmo"],
    DEPENDENCIES: ["-c", DEPENDENCIES],
    IMPORT: ["-c", IMPORT],
}
COUNT = f"{IMPORT}; import sys; print(sum(one.split('.')[0] == 'cosmo' for one in sys.modules))"


def measure(arguments: list[str]) -> tuple[float, float]:
    """Return wall-clock and CPU seconds of a new Python process."""
    command = [sys.executable, *arguments]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return wall, usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=9, help="processes of each kind (default: %(default)s)")
    turns = parser.parse_args().turns
    for (
        arguments
    ) in COMMANDS.values():  # the first process of a kind compiles modules and fills the file cache
        measure(arguments)
    runs = [[measure(arguments) for arguments in COMMANDS.values()] for _ in range(turns)]
    medians = {
        name: [statistics.median(values) for values in zip(*times, strict=True)]
        for name, times in zip(COMMANDS, zip(*runs, strict=True), strict=True)
    }
    table = Table(title=f"starting a process, median of {turns}")
    for name in ("command", "wall ms", "CPU ms"):
        table.add_column(name, justify="left" if name == "command" else "right")
    for name, (wall, cpu) in medians.items():
        table.add_row(name, f"{1e3 * wall:.0f}", f"{1e3 * cpu:.0f}")
    console = Console(width=110, highlight=False)
    console.print(table)
    wall, cpu = (ours / theirs for ours, theirs in zip(medians[IMPORT], medians[DEPENDENCIES], strict=True))
    modules = int(subprocess.run([sys.executable, "-c", COUNT], capture_output=True, check=True).stdout)
    console.print(f"`{IMPORT}`: {cpu:.2f} times the CPU time of its dependencies ({wall:.2f} on the clock)")
    console.print(f"modules of cosmo that it loads: {modules}")


if __name__ == "__main__":
    main()
