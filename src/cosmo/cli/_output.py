"""What commands print and write: progress on standard error, the console of results, files."""

from __future__ import annotations

import argparse
import logging
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich import progress as bars
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cosmo._core.files import write_atomic
from cosmo.io.writers import CsvWriter

if TYPE_CHECKING:
    from cosmo.viz.text import TextTable

_SECONDS_BETWEEN_LINES = 10.0  # where there is no terminal


class PlainConsole(Console):
    """Console that prints names and paths as they are, whatever brackets they contain."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, soft_wrap=True, **options)

    def on_broken_pipe(self) -> None:
        """Leave a closed stdout pipe to `cosmo.cli.main`."""
        raise BrokenPipeError

    def print_table(self, table: TextTable) -> None:
        """Print a table at its full width; a narrow window wraps lines, but no number is cut."""
        shown = Table(title=Text(table.title), box=SIMPLE_HEAD, padding=(0, 1, 0, 0), title_justify="left")
        for column, side in zip(table.columns, table.sides, strict=True):
            shown.add_column(Text(column), justify="right" if side == "r" else "left", no_wrap=True)
        for row in table.texts:
            shown.add_row(*map(Text, row))
        needed = self.measure(shown, options=self.options.update(max_width=1000)).maximum
        self.width = max(self.width, needed)
        self.print(shown)
        for note in table.notes:
            self.print(f"  {note}", style="dim")


class Progress:
    """Show steps of a command as lines, and counted work as a bar with the remaining time."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = PlainConsole(stderr=True, quiet=quiet)
        self._has_bar = self._console.is_terminal and not quiet
        self._bar = bars.Progress(
            bars.TextColumn("{task.description}", markup=False),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeElapsedColumn(),
            bars.TimeRemainingColumn(),
            console=self._console,
            transient=True,
            redirect_stdout=False,  # results must not end up on standard error
        )
        self._start = self._step_start = self._last_line = time.monotonic()
        self._text = ""

    def __call__(self, text: str) -> None:
        """Begin a step."""
        self.stop()
        self._text = text
        self._step_start = self._last_line = time.monotonic()
        self.note(text)

    def note(self, text: str) -> None:
        """Print a line with the time since the start; a running count goes on."""
        self._console.print(f"{time.monotonic() - self._start:6.1f} s  {text}")

    def report(self, done: int, total: int | None = None) -> None:
        """Show how much of the current step is done."""
        if self._has_bar:
            if not self._bar.task_ids:
                self._bar.add_task(self._text, total=total, completed=done)
                self._bar.start()
            self._bar.update(self._bar.task_ids[0], completed=done, total=total)
            if done == total:
                self.stop()
        elif time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            left = ""
            if total is not None and done:
                seconds = (self._last_line - self._step_start) * (total - done) / done
                left = f" of {total}, about {seconds:.0f} s left"
            self.note(f"{done}{left}")

    def stop(self) -> None:
        """Remove the bar."""
        if self._bar.task_ids:
            self._bar.stop()
            self._bar.remove_task(self._bar.task_ids[0])


@contextmanager
def progress(*, quiet: bool, hidden: str | None = None) -> Iterator[Progress]:
    """Show steps, counts and messages of the logger "cosmo", except those of `hidden`, on standard error."""
    shown = Progress(quiet=quiet)
    handler = logging.Handler(logging.INFO)
    handler.emit = lambda record: shown.note(record.getMessage())  # type: ignore[method-assign]
    handler.addFilter(lambda record: hidden is None or not record.name.startswith(hidden))
    logger = logging.getLogger("cosmo")
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield shown
    finally:
        shown.stop()
        logger.removeHandler(handler)
        logger.setLevel(level)


def clip(text: object, most: int = 80) -> str:
    """Return the first characters of a text."""
    shown = str(text)
    return shown if len(shown) <= most else f"{shown[:most]}…"


def command_line(parser: argparse.ArgumentParser, words: Iterable[str], options: Mapping[str, Any]) -> str:
    """Return a command as it is typed; options with their default are left out.

    >>> parser = argparse.ArgumentParser("cosmo gates")
    >>> _ = parser.add_argument("--seed", default=0)
    >>> command_line(parser, ["CUB"], {"features": "res50", "roots": False, "seed": 0})
    'cosmo gates CUB --features res50'
    """
    parts = [parser.prog, *words]
    for name, value in options.items():
        if value is not None and value is not False and value != parser.get_default(name):
            values = value if isinstance(value, list) else [] if value is True else [str(value)]
            parts += [f"--{name}", *map(shlex.quote, values)]
    return " ".join(parts)


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write a table, whose index is left out, in a way that prevents CSV formula injection by its texts."""
    csv, columns = CsvWriter(), [str(name) for name in table.columns]
    write_atomic(path, csv.file_content([csv.encode({}, table)], columns))


def output_folder(args: argparse.Namespace, suffix: str = "") -> Path:
    """Return --out, or a folder named after the data set, and create it."""
    out = Path(args.out or Path("cosmo-runs", Path(args.dataset).resolve().name + suffix))
    out.mkdir(parents=True, exist_ok=True)
    return out


def check_document(path: str | None) -> None:
    """Create the folder of --write, or raise if the path is a folder itself."""
    if path:
        if Path(path).is_dir():
            raise ValueError(f"--write {path} is a folder; name a file")
        Path(path).parent.mkdir(parents=True, exist_ok=True)
