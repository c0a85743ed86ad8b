"""Feature extraction: encode many items, with a cache on disk."""

from __future__ import annotations

import hashlib
import logging
import os
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

from cosmo._core.cache import Cache
from cosmo._core.parallel import Workers, parallel_map
from cosmo.data.dataset import ItemError
from cosmo.encoders.base import Encoder

logger = logging.getLogger(__name__)

_CHUNK = 256  # items whose features are written to one file
_READERS = 2  # threads that read ahead while the network runs
_MAX_LISTED = 20
_DIGEST_SIZE = 16  # bytes


@dataclass(frozen=True)
class Problem:
    """An item that cannot be encoded: its row, and the reason."""

    row: int
    reason: str


@dataclass(frozen=True, eq=False)
class Extraction:
    """Result of `extract`: features, the position of the item of each row, and the skipped items."""

    features: NDArray[np.float32]
    rows: NDArray[np.intp]
    problems: tuple[Problem, ...] = ()


class ExtractionError(ValueError):
    """Raised when items cannot be encoded; `problems` has all that were found."""

    def __init__(self, problems: Sequence[Problem], kind: str, *, complete: bool) -> None:
        self.problems = tuple(problems)
        lines = [f"  row {problem.row}: {problem.reason}" for problem in problems[:_MAX_LISTED]]
        count = f"{len(problems)}" if complete else f"at least {len(problems)}"
        head = f"{count} of the {kind} cannot be used; correct or remove them, or skip them (--skip):"
        super().__init__("\n".join([head, *lines]))


def extract(
    encoder: Encoder,
    items: Sequence[Any],
    *,
    cache: str | os.PathLike[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    workers: Workers | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Extraction:
    """Return the features of many items, from a cache where possible.

    Parameters
    ----------
    encoder : Encoder
    items : sequence
        Texts, or paths of images.
    cache : path, default=None
        Folder for features, keyed by the content of the item and the identity of the encoder. It is
        written every 256 items, so an interrupted run can be resumed, and runs can share it.
    on_error : {"raise", "skip"}, default="raise"
        Whether items that cannot be read raise an error or are left out and listed in `problems`.
    workers : Workers, default=None
        Where items are encoded, 256 at a time; by default in this process with all its threads. On a
        cluster, the cache (which is required) and image files must be on shared storage.
    report : callable, default=no report
        Called with the number of finished items and the number of all items.

    Returns
    -------
    Extraction

    Raises
    ------
    ExtractionError
        If items cannot be used and are not to be skipped.
    """
    if on_error not in ("raise", "skip"):
        raise ValueError(f'on_error must be "raise" or "skip", got {on_error!r}')
    if isinstance(items, str | bytes):
        raise TypeError(f"items must be a sequence of {encoder.kind}, not one; put it into a list")
    folder = None if cache is None else Path(cache).resolve()
    if workers is not None and encoder.kind == "images":  # workers may have another directory
        items = [Path(item).resolve() if isinstance(item, str | os.PathLike) else item for item in items]
    chunks = ((start, items[start : start + _CHUNK]) for start in range(0, len(items), _CHUNK))
    _open_store.cache_clear()  # other processes may have added files since the last call
    if workers is None:
        results = (_encode_chunk((encoder, folder), chunk) for chunk in chunks)
    else:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        results = parallel_map(
            _encode_chunk, chunks, common=(encoder, folder), workers=workers, folder=folder
        )
    features = np.zeros((len(items), encoder.n_features), dtype=np.float32)
    failures: dict[int, str] = {}
    done = 0
    with closing(results):
        for start, rows, failed in results:
            features[start : start + len(rows)] = rows
            failures |= failed
            done += len(rows)
            report(done, len(items))
            if on_error == "raise" and len(failures) >= _MAX_LISTED:
                break
    problems = [Problem(row, reason) for row, reason in sorted(failures.items())]
    if problems and on_error == "raise":
        raise ExtractionError(problems, encoder.kind, complete=done == len(items))
    for problem in problems:
        logger.warning("row %d is left out: %s", problem.row, problem.reason)
    usable = np.delete(np.arange(len(items)), list(failures))
    return Extraction(features[usable] if problems else features, usable, tuple(problems))


def _encode_chunk(
    common: tuple[Encoder, Path | None], chunk: tuple[int, Sequence[Any]]
) -> tuple[int, NDArray[np.float32], dict[int, str]]:
    """Return the position of a chunk, its features, and the reasons of failures by row."""
    (encoder, folder), (start, items) = common, chunk
    features = np.zeros((len(items), encoder.n_features), dtype=np.float32)
    failed: dict[int, str] = {}
    missing, digests = list(range(len(items))), dict[int, bytes]()
    store = None if folder is None else _open_store(folder, encoder.identity)
    pool = ThreadPoolExecutor(_READERS)
    try:
        if store is not None:
            for place, digest in enumerate(pool.map(partial(_call, partial(_digest, encoder)), items)):
                if isinstance(digest, ItemError):
                    failed[start + place] = str(digest)
                else:
                    digests[place] = digest
            found = store.read(digests, features)
            missing = [place for place in digests if place not in found]
        if missing:
            encoder = encoder.loaded()  # here, not in the threads of the pool
        contents = pool.map(partial(_call, encoder.read), [items[place] for place in missing])
        pairs, encoded = zip(missing, contents, strict=True), list[int]()
        while batch := list(islice(pairs, encoder.batch_size)):
            failed |= {start + place: str(item) for place, item in batch if isinstance(item, ItemError)}
            readable = {place: item for place, item in batch if not isinstance(item, ItemError)}
            if readable:
                features[list(readable)] = encoder.encode_batch(list(readable.values()))
                encoded += readable
    finally:
        pool.shutdown(cancel_futures=True)
    if store is not None and encoded:
        store.write([digests[place] for place in encoded], features[encoded])
    return start, features, failed


def _call(function: Callable[[Any], Any], item: Any) -> Any:
    """Return the result, or the ItemError that was raised."""
    try:
        return function(item)
    except ItemError as error:
        return error


def _digest(encoder: Encoder, item: Any) -> bytes:
    return hashlib.blake2b(encoder.content(item), digest_size=_DIGEST_SIZE).digest()


class _Store:
    """Cached features: files of up to 256 rows, with the digest of the item of each row."""

    def __init__(self, folder: Path, identity: str) -> None:
        self._cache = Cache(folder)
        self._kind = f"features-{identity}"
        self._places: dict[bytes, tuple[str, int]] = {}
        for path in folder.glob(f"{self._kind}-*.npz"):
            key = path.stem.removeprefix(f"{self._kind}-")
            for row, digest in enumerate(self._load(key).get("digests", ())):
                self._places[digest.tobytes()] = key, row

    def read(self, digests: Mapping[int, bytes], features: NDArray[np.float32]) -> set[int]:
        """Fill in the rows that are stored, and return their positions."""
        stored = {place: self._places[digest] for place, digest in digests.items() if digest in self._places}
        for key in {key for key, _ in stored.values()}:
            places = [place for place, (other, _) in stored.items() if other == key]
            features[places] = self._load(key)["features"][[stored[place][1] for place in places]]
        return set(stored)

    def write(self, digests: Sequence[bytes], features: NDArray[np.float32]) -> None:
        """Store new rows."""
        joined = b"".join(digests)
        key = hashlib.blake2b(joined, digest_size=_DIGEST_SIZE).hexdigest()
        array = np.frombuffer(joined, np.uint8).reshape(-1, _DIGEST_SIZE)
        self._cache.arrays(self._kind, key, lambda: {"digests": array, "features": features})
        self._places |= {digest: (key, row) for row, digest in enumerate(digests)}

    def _load(self, key: str) -> dict[str, NDArray[Any]]:
        """Return the arrays of a file; none if it is damaged."""

        def damaged() -> dict[str, NDArray[Any]]:
            raise LookupError(key)

        try:
            return self._cache.arrays(self._kind, key, damaged)
        except LookupError:
            return {}


@lru_cache(maxsize=1)
def _open_store(folder: Path, identity: str) -> _Store:
    """Return the store of a folder, opened once per process because it reads every file."""
    return _Store(folder, identity)
