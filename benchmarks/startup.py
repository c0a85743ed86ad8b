"""How long the command line and the import take, against bare Python and the import of scikit-learn.

Each is a process of its own; they take turns, and the best of some turns counts, on the clock and of the
processor (of all threads). Modules that a name of the package needs are imported with the first use of that
name, so beside `import cosmo` stands what an import with the classifier takes.

    python benchmarks/startup.py
    python benchmarks/startup.py --turns 20
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "cosmo --help": [str(Path(sys.executable).with_name("cosmo")), "--help"],
    "import cosmo": [sys.executable, "-c", "import cosmo"],
    "from cosmo import Cosmo": [sys.executable, "-c", "from cosmo import Cosmo"],
    "import sklearn.linear_model": [sys.executable, "-c", "import sklearn.linear_model"],
}


def once(command: list[str]) -> tuple[float, float]:
    """Return the seconds of a process, on the clock and of the processor."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return wall, used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=5)
    turns = parser.parse_args().turns
    found = [[once(command) for command in COMMANDS.values()] for _ in range(turns)]
    best = [[min(values) for values in zip(*runs, strict=True)] for runs in zip(*found, strict=True)]
    table = Table(title=f"starting a process, best of {turns}; ratios to bare Python")
    for name in ("command", "wall ms", "CPU ms", "ratio"):
        table.add_column(name, justify="left" if name == "command" else "right")
    for name, (wall, cpu) in zip(COMMANDS, best, strict=True):
        table.add_row(name, f"{1e3 * wall:.0f}", f"{1e3 * cpu:.0f}", f"{cpu / best[0][1]:.1f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
