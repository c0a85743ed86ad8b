"""What came of the trials."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

__all__ = ["LET_IN", "LOST", "SURVIVED", "Tally", "print_table"]

SURVIVED, LOST, LET_IN = "survived", "lost", "let in"


@dataclass
class Tally:
    """Counts of one kind of trial.

    A trial is survived if it ended as it should; lost if something was: the process, the result, or a clean
    error; let in if a file had code run or damage was taken for good.

    Examples
    --------
    >>> tally = Tally("kills")
    >>> tally.add(SURVIVED)
    >>> tally.add(LOST, "model.cosmo differs")
    >>> tally.tried, tally.good, tally.findings
    (2, False, ['lost: model.cosmo differs'])
    """

    kind: str
    outcomes: dict[str, int] = field(default_factory=lambda: {SURVIVED: 0, LOST: 0, LET_IN: 0})
    findings: list[str] = field(default_factory=list)
    seconds: float = 0.0
    note: str = ""

    @property
    def tried(self) -> int:
        """How many trials there were."""
        return sum(self.outcomes.values())

    @property
    def good(self) -> bool:
        """Whether there were trials, and all were survived."""
        return self.tried == self.outcomes[SURVIVED] > 0

    def add(self, outcome: str, what: str = "") -> None:
        """Count a trial; say what happened if it was not survived."""
        self.outcomes[outcome] += 1
        if outcome != SURVIVED:
            self.findings.append(f"{outcome}: {what}")

    def check(self, right: bool, what: str) -> None:
        """Count a trial that is survived if something holds."""
        self.add(SURVIVED if right else LOST, what)

    @contextmanager
    def timed(self) -> Iterator[Tally]:
        """Add the time that is spent here."""
        start = time.monotonic()
        try:
            yield self
        finally:
            self.seconds += time.monotonic() - start


def print_table(tallies: Iterable[Tally]) -> None:
    """Print one row for each kind of trial, and what was found."""
    tallies = list(tallies)
    table = Table(box=SIMPLE_HEAD)
    table.add_column("trials", no_wrap=True)
    for name in ("tried", SURVIVED, LOST, LET_IN, "seconds"):
        table.add_column(name, justify="right", no_wrap=True)
    for tally in tallies:
        counts = (tally.outcomes[name] for name in (SURVIVED, LOST, LET_IN))
        table.add_row(tally.kind, str(tally.tried), *map(str, counts), f"{tally.seconds:.0f}")
    totals = [sum(tally.outcomes[name] for tally in tallies) for name in (SURVIVED, LOST, LET_IN)]
    table.add_section()
    seconds = sum(tally.seconds for tally in tallies)
    table.add_row("all", str(sum(totals)), *map(str, totals), f"{seconds:.0f}")
    console = Console(highlight=False, soft_wrap=True, width=110)
    console.print(table)
    for tally in tallies:
        if tally.note:
            console.print(f"{tally.kind}: {tally.note}", markup=False)
        for finding in dict.fromkeys(tally.findings):
            count = tally.findings.count(finding)
            times = f" ({count} times)" if count > 1 else ""
            console.print(f"{tally.kind}: {finding}{times}", markup=False)
