"""Clocks that jump: nothing goes by the time of day, and the clock of the long trials does jump."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import cosmo

ROOT = Path(__file__).parents[2]
OF_THE_DAY = {
    "time",
    "time_ns",
    "localtime",
    "gmtime",
    "ctime",
    "asctime",
    "strftime",
    "now",
    "utcnow",
    "today",
}
ASK = """
import time
said = []
for wait in (0.51, 0):
    said.append(time.time())
    assert abs(time.time_ns() / 1e9 - said[-1]) < 1 and abs(time.mktime(time.localtime()) - said[-1]) < 2
    assert time.strftime("%Y") == str(time.localtime().tm_year) == time.ctime()[-4:] == time.asctime()[-4:]
    time.sleep(wait)
print(*said)
"""


def asks_the_time(path: Path) -> list[str]:
    """Return where a module asks for the time of day."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr in OF_THE_DAY and isinstance(node.value, ast.Name):
            if node.value.id in ("time", "datetime", "date"):
                found.append(f"{path.name}:{node.lineno}")
        elif isinstance(node, ast.ImportFrom) and node.module in ("time", "datetime"):
            found.append(f"{path.name}:{node.lineno}")
    return found


def test_no_module_asks_for_the_time_of_day():
    modules = sorted(Path(cosmo.__file__).parent.rglob("*.py"))
    assert len(modules) > 100
    assert [place for module in modules for place in asks_the_time(module)] == []


def test_asking_is_found(tmp_path: Path):
    (tmp_path / "a.py").write_text("import time\nfrom datetime import date\nlate = time.time() > 9\n")
    assert asks_the_time(tmp_path / "a.py") == ["a.py:2", "a.py:3"]


def test_the_clock_of_the_trials_jumps():
    clock = {"PYTHONPATH": str(ROOT / "soak" / "clock"), "SOAK_CLOCK": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ASK], env={**os.environ, **clock}, capture_output=True, text=True, check=True
    )
    before, after = map(float, done.stdout.split())
    assert abs(after - before) > 365 * 86_400
