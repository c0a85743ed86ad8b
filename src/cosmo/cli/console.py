"""Where commands print: as given, and quiet about a reader who went away."""

from __future__ import annotations

from typing import Any

from rich.console import Console

__all__ = ["plain_console"]


class _Console(Console):
    """A console that leaves a reader who went away to `cosmo.cli.main`."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def plain_console(**options: Any) -> Console:
    """Return a console that prints names and paths as they are, whatever brackets they have."""
    return _Console(markup=False, emoji=False, **options)
