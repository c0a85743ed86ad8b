"""Counts of outcomes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

SURVIVED, LOST, LET_IN = "survived", "lost", "let in"


@dataclass
class Tally:
    """Counts of one kind of trial."""

    kind: str
    outcomes: dict[str, int] = field(default_factory=lambda: {SURVIVED: 0, LOST: 0, LET_IN: 0})
    findings: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def tried(self) -> int:
        """Number of trials."""
        return sum(self.outcomes.values())

    @property
    def good(self) -> bool:
        """Whether there were trials, and all were survived."""
        return self.tried == self.outcomes[SURVIVED] > 0

    def add(self, outcome: str, finding: str = "") -> None:
        """Count a trial; `finding` describes one that was not survived."""
        self.outcomes[outcome] += 1
        if outcome != SURVIVED:
            self.findings.append(f"{outcome}: {finding}")

    def check(self, passed: bool, finding: str) -> None:
        """Count a trial as survived or lost."""
        self.add(SURVIVED if passed else LOST, finding)

    @contextmanager
    def timed(self) -> Iterator[Tally]:
        """Add the time that the block takes."""
        start = time.monotonic()
        try:
            yield self
        finally:
            self.seconds += time.monotonic() - start


def print_table(tallies: Iterable[Tally]) -> None:
    """Print a row for each kind of trial, all findings, and the totals."""
    tallies = list(tallies)
    table = Table(box=SIMPLE_HEAD)
    table.add_column("trials", no_wrap=True)
    for name in ("tried", SURVIVED, LOST, LET_IN, "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    for tally in tallies:
        counts = map(str, (tally.tried, *tally.outcomes.values()))
        table.add_row(tally.kind, *counts, f"{tally.seconds:.0f}")
    console = Console(highlight=False, soft_wrap=True, width=110)
    console.print(table)
    for tally in tallies:
        for finding in dict.fromkeys(tally.findings):
            console.print(f"{tally.kind}: {finding} ({tally.findings.count(finding)} times)", markup=False)
    totals = {name: sum(tally.outcomes[name] for tally in tallies) for name in (SURVIVED, LOST, LET_IN)}
    console.print(f"{sum(totals.values())} trials: " + ", ".join(f"{n} {name}" for name, n in totals.items()))
