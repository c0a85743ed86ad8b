"""Mutation score of the maths: run mutmut on the modules named in pyproject.toml, and print a table."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

_SURVIVED, _UNTESTED, _NOT_RUN = 0, (33, 5), (None, 2, 34)


def _verdict(code: int | None) -> str:
    if code in _NOT_RUN:
        return "not run"
    return "survived" if code == _SURVIVED else "no test" if code in _UNTESTED else "killed"


def main() -> None:
    """Run mutmut and print a table."""
    tool = [sys.executable, "-m", "mutmut"]
    subprocess.run([*tool, "run", *sys.argv[1:]], check=True)
    table = Table(title="mutation score")
    for column in ("module", "mutants", "killed", "survived", "no test", "not run", "kill rate"):
        table.add_column(column, justify="left" if column == "module" else "right")
    total: Counter[str] = Counter()
    for meta in sorted(Path("mutants").rglob("*.py.meta")):
        codes = json.loads(meta.read_text("utf-8"))["exit_code_by_key"].values()
        found = Counter(map(_verdict, codes))
        if not found:
            continue
        total += found
        _row(table, str(meta.relative_to("mutants/src/cosmo")).removesuffix(".meta"), found)
    _row(table, "all", total)
    Console(width=110).print(table)


def _row(table: Table, name: str, found: Counter[str]) -> None:
    kinds = ("killed", "survived", "no test", "not run")
    share = found["killed"] / max(1, found.total() - found["not run"])
    table.add_row(name, str(found.total()), *(str(found[kind]) for kind in kinds), f"{100 * share:.1f} %")


if __name__ == "__main__":
    main()
