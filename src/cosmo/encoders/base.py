"""Base class of encoders, and the extraction of the features of many items with a cache on disk."""

from __future__ import annotations

import hashlib
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from cosmo._core import require
from cosmo._core.cache import Cache
from cosmo._core.parallel import Workers, parallel_map
from cosmo.data.dataset import ItemError

logger = logging.getLogger(__name__)

_CHUNK = 256  # items whose features are written to one file
_READERS = 2  # threads that read ahead while the network runs
_MAX_LISTED = 20
_DIGEST_SIZE = 16  # bytes


class Encoder(ABC):
    """Base class of encoders: features of texts or images.

    `read` decodes one item, in a thread; `encode_batch` encodes decoded items. Features of an item must
    not depend on the rest of its batch.

    Attributes
    ----------
    name : str
        ``make_encoder(encoder.name)`` returns the same encoder.
    kind : {"text", "images"}
    n_features : int
    identity : str
        Fingerprint of weights and preprocessing.
    describes : bool
        Whether `encode_descriptions` embeds texts in the space of the samples.
    batch_size : int
        Number of decoded items in memory.

    Examples
    --------
    >>> class Letters(Encoder):
    ...     name, kind, n_features, identity, describes = "letters", "text", 26, "letters-1", True
    ...     def content(self, item):
    ...         return item.encode()
    ...     def read(self, item):
    ...         return np.array([item.lower().count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"])
    ...     def encode_batch(self, batch):
    ...         return np.array(batch, dtype=np.float32)
    >>> Letters().encode(["Abba", "cab"])[:, :3]
    array([[2., 2., 0.],
           [1., 1., 1.]], dtype=float32)
    """

    kind: ClassVar[Literal["text", "images"]]
    describes: bool = False
    batch_size: int = 32
    name: str
    n_features: int
    identity: str

    @abstractmethod
    def content(self, item: Any) -> bytes:
        """Return the bytes that the features depend on, or raise ItemError."""

    @abstractmethod
    def read(self, item: Any) -> Any:
        """Return an item decoded for `encode_batch`, or raise ItemError."""

    @abstractmethod
    def encode_batch(self, batch: Sequence[Any]) -> NDArray[np.float32]:
        """Return the features of decoded items, shape (n_items, n_features)."""

    def loaded(self) -> Encoder:
        """Return the encoder with its weights in memory."""
        return self

    def encode(self, items: Iterable[Any]) -> NDArray[np.float32]:
        """Return features of items, shape (n_items, n_features); `extract` has a cache for many items."""
        if isinstance(items, str | bytes):
            raise TypeError(f"items must be a sequence of {self.kind}, not one; put it into a list")
        remaining, parts = iter(items), [np.empty((0, self.n_features), dtype=np.float32)]
        while batch := [self.read(item) for item in islice(remaining, self.batch_size)]:
            parts.append(self.encode_batch(batch))
        return np.concatenate(parts)

    def encode_descriptions(self, texts: Iterable[str]) -> NDArray[np.float32]:
        """Return texts in the space of the samples, shape (n_texts, n_features), if `describes`."""
        raise ValueError(
            f"{self.name} encodes {self.kind} only, not descriptions in words: describe classes by numbers, "
            "or use an encoder of both, such as open_clip:NAME/PRETRAINED"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def encode_classes(encoder: Encoder, texts: Sequence[str], side_by_side: int = 1) -> NDArray[np.float32]:
    """Return descriptions in the space of the samples.

    Lines of a description are sentences. Several are averaged, and scaled to their mean length. If there are
    to be more than one `side_by_side`, a row has that many embeddings, repeated for classes with fewer.
    """
    groups = [[line for line in text.splitlines() if line.strip()] for text in texts]
    if side_by_side > 1:
        if (most := max(map(len, groups))) > side_by_side:
            raise ValueError(f"a class has {most} sentences; the model compares {side_by_side} at most")
        lines = [line for group in groups for line in (group * side_by_side)[:side_by_side]]
        return encoder.encode_descriptions(lines).reshape(len(groups), -1)
    rows = encoder.encode_descriptions([line for group in groups for line in group])
    starts = np.cumsum([0, *map(len, groups)])[:-1]
    counts = np.array([len(group) for group in groups], dtype=np.float32)
    lengths = np.add.reduceat(np.linalg.norm(rows, axis=1), starts) / counts
    means = np.add.reduceat(rows, starts, axis=0) / counts[:, None]
    scales = lengths / np.maximum(np.linalg.norm(means, axis=1), np.finfo(np.float32).tiny)
    return np.where(counts[:, None] > 1, means * scales[:, None], rows[starts])


def check_text(item: Any) -> str:
    """Return an item if it is a non-empty text."""
    if not isinstance(item, str):
        raise ItemError(f"expected a text, got {item!r} ({type(item).__name__})")
    if not item.strip():
        raise ItemError("the text is empty")
    return item


def weights_identity(weights: Mapping[str, Any], *recipe: str | float) -> str:
    """Return a fingerprint of a network's tensors and of the recipe around it."""
    torch = require("torch")
    digest = hashlib.blake2b(repr(recipe).encode(), digest_size=16)
    for name in sorted(weights):
        values = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)} ".encode())
        # As bytes, since numpy lacks some of PyTorch's dtypes.
        digest.update(values.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


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
