"""What a reader of files is to the trials."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from soak.mutations import mutate

__all__ = ["Reader"]

Mutate = Callable[[bytes, list[bytes], Any], bytes]


@dataclass(frozen=True)
class Reader:
    """How to make files of a kind, and how to read them.

    Parameters
    ----------
    prepare : function of Path
        Fills a folder, and returns the names of the files to be changed, one at a time.
    read : function of (folder, name of the file)
        Raises AssertionError if a changed file is taken for good where the format would tell.
    writes : bool
        Whether reading may write into the folder.
    guided : bool
        Whether our own code does the reading, so that its coverage can guide the changes.
    change : function
        How files are changed.
    needs : str
        Module without which the reader is left out.
    """

    prepare: Callable[[Path], list[str]]
    read: Callable[[Path, str], object]
    writes: bool = False
    guided: bool = False
    change: Mutate = mutate
    needs: str = "cosmo"

    @property
    def here(self) -> bool:
        """Whether what it needs is installed."""
        try:
            return importlib.util.find_spec(self.needs) is not None
        except ImportError:
            return False
