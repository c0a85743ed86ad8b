"""The contract of samples that come in batches."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosmo._core.extras import MissingExtra
from cosmo.data.dataset import DataError

__all__ = ["Batch", "Batches", "Columns", "told_of"]

_BLOCKS, _BLOCK = 64, 1 << 16  # looked at in a file to know it again

Columns = dict[str, list[Any]]


@contextmanager
def told_of(source: Path) -> Iterator[None]:
    """Turn what reading a damaged file raises into an error that names the file."""
    try:
        yield
    except (DataError, MissingExtra):
        raise
    except UnicodeDecodeError as error:
        raise DataError(f"{source}: not UTF-8 text; save it as UTF-8 ({error})") from error
    except Exception as error:  # what a damaged file raises depends on where it is damaged
        raise DataError(f"{source}: damaged, cut short or not of its kind: {error}") from error


@dataclass(frozen=True, eq=False)
class Batch:
    """Some consecutive samples.

    Parameters
    ----------
    start : int
        Position of the first one, from 0.
    items : array of shape (n_rows, n_features), list of texts, or list of paths
    kept : dict
        Values of the columns that are to be kept, by column.
    share : float
        How much of the source has been read so far, from 0 to 1.
    """

    start: int
    items: Any
    kept: Columns
    share: float

    def __len__(self) -> int:
        return len(self.items)


class Batches(ABC):
    """Samples of a file or folder; `open_batches` makes one.

    Attributes
    ----------
    source : Path
    keep : tuple of str
        Columns that come with the samples.
    n_rows : int or None
        How many samples there are, if that can be known without reading them.
    """

    n_rows: int | None = None

    def __init__(self, source: Path, keep: Sequence[str]) -> None:
        self.source = source
        self.keep = tuple(dict.fromkeys(keep))

    def identity(self) -> str:
        """Return a fingerprint: size, time of change and samples of the content."""
        digest = hashlib.blake2b(digest_size=16)
        state = self.source.stat()
        digest.update(f"{state.st_size} {state.st_mtime_ns}".encode())
        with self.source.open("rb") as file:
            for k in range(_BLOCKS):
                file.seek(state.st_size * k // _BLOCKS)
                digest.update(file.read(_BLOCK))
        return digest.hexdigest()

    def read(self, size: int, start: int = 0) -> Iterator[Batch]:
        """Yield batches of `size` samples, the last one smaller, from position `start`, a multiple of it."""
        with told_of(self.source):
            yield from self._read(size, start)

    @abstractmethod
    def _read(self, size: int, start: int) -> Iterator[Batch]: ...
