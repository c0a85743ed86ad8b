"""Samples in batches: files of any size, read piece by piece."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from cosmo.data.batches.arrays import Array, Pictures
from cosmo.data.batches.base import Batch, Batches, told_of
from cosmo.data.batches.tables import READERS, suffix_of
from cosmo.data.dataset import DataError
from cosmo.data.samples import Kind

__all__ = ["Batch", "Batches", "open_batches"]

_ARRAYS = (".npy", ".npz")


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
    r"""Prepare to read samples in batches; memory depends on the size of a batch, not of the source.

    Parameters
    ----------
    source : path
        A table (`.csv`, `.tsv`, `.parquet`, `.jsonl`; also `.json`, which is read whole); for features also
        an `.npy` or an `.npz` with the array `X`; for images also a folder, or one picture.
    kind : {"features", "text", "images"}
    column : str, optional
        Column of texts or paths; by default one with a usual name.
    features : list of str, optional
        Columns of features; by default all that have numbers, but neither `label` nor those to keep.
    n_features : int, optional
        How many there must be.
    label : str, optional
        Column that is no feature; by default the one that is called "label" or "class".
    keep : list of str
        Columns to pass on: text as it is written in CSV, else as the file has it. Pictures of a folder have
        the column "path".

    Raises
    ------
    DataError
        Naming the file, and row (counted from 1, without the header) and column of what cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "few.csv")
    ...     _ = path.write_text("id,a,b\n007,1,2\n008,3,4\n009,5,6\n")
    ...     batches = list(open_batches(path, features=["a", "b"], keep=["id"]).read(2))
    >>> [batch.items.tolist() for batch in batches], batches[1].kept
    ([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]], {'id': ['009']})
    """
    source = Path(source)
    if not source.exists():
        raise DataError(f"{source}: no such file or folder")
    suffix = suffix_of(source)
    if kind == "images" and (source.is_dir() or suffix not in READERS):
        return Pictures(source, keep)
    if source.is_dir():
        raise DataError(f"{source}: a folder has pictures; {kind} come from a file")
    if source.stat().st_size == 0:
        raise DataError(f"{source}: the file is empty")
    if kind == "features" and suffix in _ARRAYS:
        with told_of(source):
            return Array(source, keep, n_features)
    if suffix not in READERS:
        known = [*READERS, *(_ARRAYS if kind == "features" else ())]
        raise DataError(f"{source}: {kind} come from one of {', '.join(known)}, by the end of its name")
    table = READERS[suffix](source, keep, kind)
    with told_of(source):
        table.choose(column, features, n_features, label)
    return table
