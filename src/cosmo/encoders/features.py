"""`extract`: features of many items, kept on disk as they are made."""

from __future__ import annotations

import hashlib
import io
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cosmo._core.files import write_whole
from cosmo._core.parallel import Workers, parallel_map
from cosmo.data.dataset import ItemError
from cosmo.encoders.base import Encoder

__all__ = ["Extraction", "ExtractionError", "Problem", "extract"]

logger = logging.getLogger(__name__)

_CHUNK = 256  # items whose features are written together: what a stopped run can lose
_READERS = 2  # threads that read ahead while the network runs
_MOST_NAMED = 20
_LONGEST_NAME = 60
_DIGEST = 16  # bytes
_SECONDS = 5.0  # between two reports


@dataclass(frozen=True)
class Problem:
    """An item without features: its position, its name (path or beginning of the text), the reason."""

    row: int
    item: str
    reason: str


@dataclass(frozen=True, eq=False)
class Extraction:
    """What `extract` returns.

    Parameters
    ----------
    features : array of shape (n_rows, n_features)
    rows : array of int, shape (n_rows,)
        Position of each row's item among those given: all of them, unless some were skipped.
    problems : tuple of Problem
        Items that were skipped.
    """

    features: NDArray[np.float32]
    rows: NDArray[np.intp]
    problems: tuple[Problem, ...] = ()


class ExtractionError(ValueError):
    """Some items cannot be encoded; `problems` lists them, the message names the first."""

    def __init__(self, problems: Sequence[Problem], kind: str, *, all_looked_at: bool) -> None:
        self.problems = tuple(problems)
        lines = [f"  row {problem.row}: {problem.reason}" for problem in problems[:_MOST_NAMED]]
        count = f"{len(problems)}" if all_looked_at else f"at least {len(problems)}"
        head = f"{count} of the {kind} cannot be used; correct or remove them, or ask to skip them:"
        super().__init__("\n".join([head, *lines]))


def extract(
    encoder: Encoder,
    items: Sequence[Any],
    *,
    cache: str | os.PathLike[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    workers: Workers | None = None,
    report: Callable[[str], None] = logger.info,
) -> Extraction:
    """Encode many items, going on where an earlier run stopped.

    Parameters
    ----------
    encoder : Encoder
    items : sequence
        Texts, or paths of pictures.
    cache : path, optional
        Folder that keeps features by the content of the item and the identity of the encoder, written
        every 256 items. A run that was stopped loses no more than those; items whose content changed, or
        that are new, are encoded, all others are found. Several runs may share it.
    on_error : {"raise", "skip"}
        What to do about items that cannot be read: raise an error that names them, after all were tried
        or many were found, or leave them out and list them in `problems`.
    workers : Workers or None, default=None
        Where items are encoded, 256 at a time; by default in this process with all its threads. On a cluster,
        the cache (which is required) and the files of pictures must be on storage that all machines share.
    report : callable
        Gets a line on the progress every few seconds; by default it goes to the logger "cosmo".

    Returns
    -------
    Extraction
        Equal, bit by bit, for any cache and any order of runs.

    Raises
    ------
    ExtractionError
        Naming the items that cannot be used, unless they are to be skipped.

    Examples
    --------
    >>> from cosmo.encoders import make_encoder
    >>> found = extract(make_encoder("minilm"), ["is it cold?", "", "call me"], on_error="skip")
    >>> found.features.shape, found.rows, found.problems[0].reason
    ((2, 384), array([0, 2]), 'the text is empty')
    """
    if on_error not in ("raise", "skip"):
        raise ValueError(f'on_error must be "raise" or "skip", got {on_error!r}')
    if isinstance(items, str | bytes):
        raise TypeError(f"items must be a sequence of {encoder.kind}, not one; put it into a list")
    home = None if cache is None else Path(cache).resolve()
    if workers is not None and encoder.kind == "images":  # workers may have another directory
        items = [Path(item).resolve() if isinstance(item, str | os.PathLike) else item for item in items]
    chunks = ((start, items[start : start + _CHUNK]) for start in range(0, len(items), _CHUNK))
    if workers is None:
        store = None if home is None else _Store(home, encoder.identity, encoder.n_features)
        results = (_encode_chunk(encoder, store, *chunk) for chunk in chunks)
    else:
        if home is not None:
            home.mkdir(parents=True, exist_ok=True)
        results = parallel_map(_encode_apart, chunks, common=(encoder, home), workers=workers, folder=home)
    features = np.empty((len(items), encoder.n_features), dtype=np.float32)
    kept = np.ones(len(items), dtype=bool)
    problems: list[Problem] = []
    progress = _Progress(len(items), encoder.kind, report)
    early: dict[int, dict[int, str]] = {}  # what failed in chunks that came before their turn
    turn = 0
    with closing(results):
        for start, rows, made, failed in results:
            features[start : start + len(rows)] = rows
            progress.advance(len(rows), made)
            early[start] = failed
            while turn in early:
                for row, reason in sorted(early.pop(turn).items()):
                    kept[row] = False
                    problems.append(Problem(row, _name(items[row]), reason))
                turn = min(turn + _CHUNK, len(items))
                if on_error == "raise" and len(problems) >= _MOST_NAMED:
                    raise ExtractionError(problems, encoder.kind, all_looked_at=turn == len(items))
    if problems and on_error == "raise":
        raise ExtractionError(problems, encoder.kind, all_looked_at=True)
    for problem in problems:
        logger.warning("row %d is left out: %s", problem.row, problem.reason)
    return Extraction(features[kept] if problems else features, np.flatnonzero(kept), tuple(problems))


def _encode_apart(
    common: tuple[Encoder, Path | None], chunk: tuple[int, Sequence[Any]]
) -> tuple[int, NDArray[np.float32], int, dict[int, str]]:
    """Encode a chunk in a worker process."""
    encoder, home = common
    store = None if home is None else _open_store(home, encoder.identity, encoder.n_features)
    return _encode_chunk(encoder, store, *chunk)


def _encode_chunk(
    encoder: Encoder, store: _Store | None, start: int, chunk: Sequence[Any]
) -> tuple[int, NDArray[np.float32], int, dict[int, str]]:
    """Return the row of the first item, features, how many had to be made, and which rows failed why."""
    features = np.zeros((len(chunk), encoder.n_features), dtype=np.float32)
    failed: dict[int, str] = {}
    wanted = list(range(len(chunk)))
    digests: dict[int, bytes] = {}
    made: list[int] = []
    pool = ThreadPoolExecutor(_READERS)
    try:
        if store is not None:
            for place, digest in enumerate(pool.map(partial(_try, partial(_digest, encoder)), chunk)):
                if isinstance(digest, ItemError):
                    failed[place] = str(digest)
                else:
                    digests[place] = digest
            found = store.find(digests, features)
            wanted = [place for place in digests if place not in found]
        reads = pool.map(partial(_try, encoder.read), [chunk[place] for place in wanted])
        reading = zip(wanted, reads, strict=True)
        while batch := list(islice(reading, encoder.batch_size)):
            good = [(place, item) for place, item in batch if not isinstance(item, ItemError)]
            failed.update((place, str(item)) for place, item in batch if isinstance(item, ItemError))
            if good:
                places = [place for place, _ in good]
                features[places] = encoder.encode_batch([item for _, item in good])
                made += places
    finally:
        pool.shutdown(cancel_futures=True)
    if store is not None and made:
        store.add([digests[place] for place in made], features[made])
    return start, features, len(made), {start + place: reason for place, reason in failed.items()}


def _try(function: Callable[[Any], Any], item: Any) -> Any:
    try:
        return function(item)
    except ItemError as error:
        return error


def _digest(encoder: Encoder, item: Any) -> bytes:
    return hashlib.blake2b(encoder.content(item), digest_size=_DIGEST).digest()


def _name(item: Any) -> str:
    if isinstance(item, np.ndarray):
        return f"array {item.shape}"
    name = str(item)
    return name if isinstance(item, os.PathLike) or len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"


@lru_cache(maxsize=1)
def _open_store(folder: Path, identity: str, n_features: int) -> _Store:
    """Return a store; opened once in a process, since that takes a look at every file."""
    return _Store(folder, identity, n_features)


class _Store:
    """Features on disk: files of a few hundred rows each, with the digest of the item of each row."""

    def __init__(self, folder: Path, identity: str, n_features: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._prefix = f"features-{identity}-"
        self._n_features = n_features
        self._place: dict[bytes, tuple[Path, int]] = {}
        for path in folder.glob(f"{self._prefix}*.npz"):
            for row, digest in enumerate(self._read(path, "digests")):
                self._place[digest.tobytes()] = path, row

    def find(self, digests: Mapping[int, bytes], into: NDArray[np.float32]) -> set[int]:
        """Fill in the rows that are here and return which."""
        found: set[int] = set()
        rows_of: dict[Path, list[tuple[int, int]]] = {}
        for place, digest in digests.items():
            if digest in self._place:
                path, row = self._place[digest]
                rows_of.setdefault(path, []).append((place, row))
        for path, pairs in rows_of.items():
            features = self._read(path, "features")
            if len(features):
                places, rows = zip(*pairs, strict=True)
                into[list(places)] = features[list(rows)]
                found.update(places)
        return found

    def add(self, digests: Sequence[bytes], features: NDArray[np.float32]) -> None:
        """Keep new rows."""
        joined = b"".join(digests)
        name = hashlib.blake2b(joined, digest_size=_DIGEST).hexdigest()
        path = self._folder / f"{self._prefix}{name}.npz"
        content = io.BytesIO()
        np.savez(content, digests=np.frombuffer(joined, np.uint8).reshape(-1, _DIGEST), features=features)
        write_whole(path, content.getvalue())
        self._place.update((digest, (path, row)) for row, digest in enumerate(digests))

    def _read(self, path: Path, name: str) -> NDArray[Any]:
        """Return an array of a file, or an empty one if the file is damaged: its rows are made again."""
        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                return file[name]
        except Exception as error:  # what a damaged file raises depends on where it is damaged
            logger.warning("%s cannot be read (%s); its features are made again", path, error)
            return np.empty((0, self._n_features), dtype=np.float32)


class _Progress:
    """Says now and then how far the work is."""

    def __init__(self, total: int, kind: str, report: Callable[[str], None]) -> None:
        self._total, self._kind, self._report = total, kind, report
        self._start = self._said = time.monotonic()
        self._done = self._made = 0

    def advance(self, done: int, made: int) -> None:
        """Count items that are done and those among them that were not found on disk."""
        self._done += done
        self._made += made
        now = time.monotonic()
        if self._done < self._total and now - self._said < _SECONDS:
            return
        self._said = now
        rate = f", {self._made / max(now - self._start, 1e-9):.1f} per second" if self._made else ""
        found = f" ({self._done - self._made} found)" if self._done > self._made else ""
        self._report(f"{self._done} of {self._total} {self._kind}{found}{rate}")
