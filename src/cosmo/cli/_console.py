"""Where commands print: as given, and quiet about a reader who went away."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console

__all__ = ["plain_console", "progress"]


class _Console(Console):
    """A console that leaves a reader who went away to `cosmo.cli.main`."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def plain_console(**options: Any) -> Console:
    """Return a console that prints names and paths as they are, whatever brackets they have."""
    return _Console(markup=False, emoji=False, **options)


@contextmanager
def progress(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show steps, the package's own log messages among them, with their time on standard error."""
    console = plain_console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    start = time.monotonic()

    def step(text: str) -> None:
        console.print(f"{time.monotonic() - start:6.1f} s  {text}")

    handler = logging.Handler(logging.INFO)
    handler.emit = lambda record: step(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("cosmo")
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield step
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
