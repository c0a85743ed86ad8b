"""Samples of any kind, whole or in batches: feature rows, texts or images."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from cosmo._core.validation import check_features, first_bad
from cosmo.data._tablefile import (
    TABLE_SUFFIXES,
    Columns,
    TableFile,
    as_numbers,
    data_errors,
    find_column,
    has_numbers,
    shown,
    table_suffix,
)
from cosmo.data.dataset import DataError
from cosmo.data.images import PATH_NAMES, read_image_folder, read_image_table
from cosmo.data.tables import ARRAY_SUFFIXES, LABEL_NAMES, TEXT_NAMES, load_arrays, read_features, read_texts

Kind = Literal["features", "text", "images"]

_FINGERPRINT_BLOCKS, _BLOCK = 64, 1 << 16  # bytes of a file that its fingerprint is computed from
_ITEM_NAMES = {"text": TEXT_NAMES, "images": PATH_NAMES}


@dataclass(frozen=True, eq=False)
class SampleSet:
    """Samples (DataFrame or array of feature rows, list of texts or paths), and labels if they have any."""

    items: Any
    labels: pd.Index | None

    def __len__(self) -> int:
        return len(self.items)

    def take(self, rows: Any) -> SampleSet:
        """Return the samples at these positions."""
        if isinstance(self.items, pd.DataFrame):
            items: Any = self.items.iloc[rows]
        elif isinstance(self.items, np.ndarray):
            items = self.items[rows]
        else:
            items = [self.items[row] for row in rows]
        return SampleSet(items, None if self.labels is None else self.labels[rows])

    def require_labels(self, source: object) -> pd.Index:
        """Return the labels; raise with the name of the `source` if there are none."""
        if self.labels is None:
            raise DataError(f"{source}: there are no labels; name their column, or use class folders")
        return self.labels


@dataclass(frozen=True, eq=False)
class ProjectData:
    """The data of a project: labelled samples for training and test, and descriptions by class."""

    kind: Kind
    train: SampleSet
    test: SampleSet | None
    descriptions: pd.DataFrame | pd.Series


def read_samples(
    source: str | Path,
    kind: Kind,
    *,
    label: str | None = None,
    text: str | None = None,
    image: str | None = None,
    features: str | tuple[str, ...] | None = None,
    labels: str | Path | None = None,
) -> SampleSet:
    """Read samples of a kind from a file or folder; see `cosmo.io.project.Project` for the parameters."""
    source = Path(source)
    if not source.exists():
        raise DataError(f"{source}: no such file or folder")
    if kind == "images":
        if source.is_dir():
            return SampleSet(*read_image_folder(source))
        return SampleSet(*read_image_table(source, image=image, label=label))
    if source.is_dir():
        raise DataError(f"{source}: a folder has images; {kind} come from a file")
    if kind == "text":
        return SampleSet(*read_texts(source, text=text, label=label))
    try:
        return SampleSet(*read_features(source, label=label, features=features, labels=labels))
    except DataError as error:
        if "no column for features" not in str(error):
            raise
        raise DataError(f"{error}; name the column of texts (--text) or images (--image)") from error


@dataclass(frozen=True, eq=False)
class Batch:
    """Consecutive samples: features, texts or paths, with columns to keep and the share read so far."""

    start: int
    items: Any
    kept: Columns
    share: float

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, eq=False)
class Batches:
    """Samples that are read in batches; see `open_batches`."""

    source: Path
    files: Sequence[Path]
    keep: list[str]
    row_groups: list[int] | None
    reader: Callable[[int, int], Iterator[tuple[Any, Columns, float]]]

    def read(self, size: int, start: int = 0, stop: int | None = None) -> Iterator[Batch]:
        """Yield batches of `size` samples from `start`, a multiple of `size`, to `stop`."""
        with data_errors(self.source):
            for items, kept, share in self.reader(size, start):
                n_rows = len(items) if stop is None else min(len(items), stop - start)
                yield Batch(start, items[:n_rows], {name: kept[name][:n_rows] for name in kept}, share)
                start += n_rows
                if start == stop:
                    return
            if start == 0:
                raise DataError(f"{self.source}: the table has no rows")


def file_fingerprint(paths: Sequence[Path]) -> str:
    """Return a digest of the sizes and modification times of files, and of parts of a single file."""
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        state = path.stat()
        digest.update(f"{path.name} {state.st_size} {state.st_mtime_ns}\n".encode())
        if len(paths) == 1:
            with path.open("rb") as file:
                for k in range(_FINGERPRINT_BLOCKS):
                    file.seek(state.st_size * k // _FINGERPRINT_BLOCKS)
                    digest.update(file.read(_BLOCK))
    return digest.hexdigest()


def open_batches(
    source: str | os.PathLike[str],
    kind: Kind = "features",
    *,
    column: str | None = None,
    features: Sequence[str] | None = None,
    n_features: int | None = None,
    label: str | None = None,
    keep: Sequence[str] = (),
) -> Batches:
    """Open samples that are read in batches, so that they need not fit into memory.

    The source is a table (see `cosmo.data.read_table`); for features also an `.npy`, or an `.npz` with the
    array `X` (which, like `.json`, is read whole); for images also a folder, or one image. `column` has texts
    or paths, and `label` is not a feature; by default those with usual names. `features` are by default all
    others with numbers; `n_features` is checked. Columns to `keep` are text in CSV, "path" in image folders.
    """
    source, keep = Path(source), list(dict.fromkeys(keep))
    if not source.exists():
        raise DataError(f"{source}: no such file or folder")
    suffix = table_suffix(source)
    if kind == "images" and (source.is_dir() or suffix not in TABLE_SUFFIXES):
        return _image_batches(source, keep)
    if source.is_dir():
        raise DataError(f"{source}: a folder has images; {kind} come from a file")
    if kind == "features" and suffix in ARRAY_SUFFIXES:
        return _array_batches(source, keep, n_features)
    table = TableFile(source)
    with data_errors(source):
        columns = _choose_columns(table, kind, column, features, n_features, label, keep)

        def read(size: int, start: int) -> Iterator[tuple[Any, Columns, float]]:
            for frame, kept, share in table.frames(size, start, columns, keep, text=kind != "features"):
                yield _items(source, kind, frame, start), kept, share
                start += len(frame)

        return Batches(source, [source], keep, table.row_groups(), read)


def _image_batches(source: Path, keep: list[str]) -> Batches:
    for name in keep:
        if name != "path":
            raise DataError(f"{source}: there is no column {name!r}; images have the column 'path'")
    paths, home = (read_image_folder(source)[0], source) if source.is_dir() else ([source], source.parent)

    def read(size: int, start: int) -> Iterator[tuple[Any, Columns, float]]:
        for first in range(start, len(paths), size):
            batch = paths[first : first + size]
            names = [path.relative_to(home).as_posix() for path in batch]
            yield batch, {"path": names}, (first + len(batch)) / len(paths)

    return Batches(source, paths, ["path"], None, read)


def _array_batches(source: Path, keep: list[str], n_features: int | None) -> Batches:
    if keep:
        raise DataError(f"{source}: an array has no columns to keep, such as {keep[0]!r}; rows are numbered")
    X, _ = load_arrays(source)
    if X.ndim != 2 or X.dtype.kind not in "fiub" or not len(X):
        raise DataError(f"{source}: rows of numbers are needed, got {X.dtype} of shape {X.shape}")
    if n_features not in (None, X.shape[1]):
        raise DataError(f"{source}: rows have {X.shape[1]} features, the model takes {n_features}")

    def read(size: int, start: int) -> Iterator[tuple[Any, Columns, float]]:
        for first in range(start, len(X), size):
            try:
                rows = check_features(X[first : first + size], name="X")
            except ValueError as error:
                raise DataError(f"{source}, from row {first + 1} on: {error}") from error
            yield rows, {}, (first + len(rows)) / len(X)

    return Batches(source, [source], keep, None, read)


def _choose_columns(
    table: TableFile,
    kind: Kind,
    column: str | None,
    features: Sequence[str] | None,
    n_features: int | None,
    label: str | None,
    keep: list[str],
) -> list[str]:
    """Return the columns of features, or the one of texts or paths."""
    names, source = table.names(), table.path
    for what, wanted in (("--keep", keep), ("features", features or ())):
        for name in wanted:
            find_column(names, name, (), source, what)
    if kind != "features":
        usual = _ITEM_NAMES[kind]
        column = find_column(names, column, usual, source, kind)
        if column is None:
            option = "--text" if kind == "text" else "--image"
            raise DataError(
                f"{source}: no column is called {' or '.join(usual)}; name the column of the {kind} by "
                f"{option}: {shown(names)}"
            )
        return [column]
    if features is None:
        excluded = {*keep, label or next((name for name in LABEL_NAMES if name in names), None)}
        others = [name for name in names if name not in excluded]
        first = next((frame for frame, _, _ in table.frames(1000, 0, others)), pd.DataFrame())
        features = [name for name in first.columns if has_numbers(first[name])]
    if not features or n_features not in (None, len(features)):
        raise DataError(
            f"{source}: {len(features)} columns of numbers, but rows of {n_features or 'some'} features are "
            "needed; --keep or drop others"
        )
    return list(features)


def _items(source: Path, kind: Kind, frame: pd.DataFrame, start: int) -> Any:
    """Return the features, texts or paths of a frame whose first row is `start`."""
    if kind == "features":
        if all(dtype.kind in "iufb" for dtype in frame.dtypes):
            with np.errstate(over="ignore"):
                values = frame.to_numpy(np.float32)
            if first_bad(values) is None:
                return values
        return as_numbers(frame, str(source), start=start).to_numpy()
    cells = frame.iloc[:, 0].tolist()
    if kind == "text":
        return ["" if pd.isna(text) else text for text in cells]
    for row, name in enumerate(cells, start=start + 1):
        if not isinstance(name, str) or not name.strip():
            raise DataError(f"{source}: row {row} is {name!r}, not a path; fill or drop it")
    return [source.parent / name for name in cells]
