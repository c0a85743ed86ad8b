"""What may come of packed files: bombs are refused before they take the memory.

One rule for all kinds: what is held at once is at most 200 times the size of its file, or 100 MB, whichever
is more. Readers of whole files hold all of it; readers in batches hold a batch.
"""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Container, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from cosmo.data._footer import Chunk, column_chunks
from cosmo.data._pages import page_sizes
from cosmo.data.dataset import DataError

__all__ = [
    "RowGroups",
    "Unpacked",
    "check_gzip",
    "check_members",
    "check_method",
    "check_parquet",
    "most_bytes",
    "too_much",
]

_FREE = 10**8  # bytes that may be packed as tightly as they like
_MOST_RATIO = 200  # of unpacked to packed; features and texts stay far below
_CHUNK = 1 << 18
_BUFFER = 1 << 16  # bytes of each Parquet column read at a time
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}  # bytes of a value
_OFFSET = 4  # bytes of a text beside its letters
_GROWTH = 4  # room for how Arrow's buffers grow, and for what is put together from them


def most_bytes(n_packed: int) -> int:
    """Return how many bytes may come of some that are packed; more is a bomb.

    Examples
    --------
    >>> most_bytes(1000), most_bytes(10**9)
    (100000000, 200000000000)
    """
    return max(_FREE, _MOST_RATIO * n_packed)


def too_much(path: Path, what: str, most: int) -> DataError:
    """Return the error to raise for a file of which more than `most` bytes would come.

    Examples
    --------
    >>> print(too_much(Path("a.npz"), "the arrays", 10**8))
    a.npz: the arrays would take more than 100,000,000 bytes, too much for a file of this size; split it, or \
save it unpacked
    """
    return DataError(
        f"{path}: {what} would take more than {most:,} bytes, too much for a file of this size; split it, or "
        "save it unpacked"
    )


class Unpacked(gzip.GzipFile):
    r"""A gzip file that is read up to a bound, which holds anew after each `forget`.

    Parameters
    ----------
    path : Path
    raw : binary file
        The same, open.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.csv.gz")
    ...     _ = path.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    ...     with path.open("rb") as raw, Unpacked(path, raw) as file:
    ...         file.read1()
    b'a,b\n1,2\n'
    """

    def __init__(self, path: Path, raw: Any) -> None:
        super().__init__(fileobj=raw, mode="rb")
        self._path, self._most = path, most_bytes(path.stat().st_size)
        self._came = 0

    def forget(self) -> None:
        """Count from here on: what came before is no longer held."""
        self._came = 0

    def read1(self, size: int = -1) -> bytes:
        """Return some bytes, at most `size`; text files are read through this."""
        content = super().read1(size)
        self._came += len(content)
        if self._came > self._most:
            raise too_much(self._path, "what is packed in it", self._most)
        return content


def check_gzip(path: Path) -> None:
    r"""Raise if a gzip file, which may be read whole then, is a bomb; none of it is kept.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.csv.gz")
    ...     _ = path.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    ...     check_gzip(path)
    """
    with path.open("rb") as raw, Unpacked(path, raw) as file:
        while file.read1(_CHUNK):
            pass


def check_method(path: Path, member: zipfile.ZipInfo) -> None:
    """Raise if a member is packed as numpy never does: the memory that other ways take is up to the file.

    Examples
    --------
    >>> check_method(Path("a.npz"), zipfile.ZipInfo("X.npy"))
    """
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(f"{path}: {member.filename!r} is packed in a rare way; save it again with np.savez")


def check_members(path: Path, members: Iterable[zipfile.ZipInfo]) -> None:
    """Raise if arrays of an `.npz` are a bomb; no more is unpacked of a member than it declares.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.npz")
    ...     with zipfile.ZipFile(path, "w") as archive:
    ...         archive.writestr("X.npy", bytes(100))
    ...         check_members(path, archive.infolist())
    """
    most, total = most_bytes(path.stat().st_size), 0
    for member in members:
        check_method(path, member)
        total += member.file_size
    if total > most:
        raise too_much(path, "its arrays", most)


class RowGroups:
    """A Parquet file that is read group by group, each within the bound.

    Few bytes of such a file can stand for many: pages are packed, equal values are counted, and texts are
    stored once. What is declared is checked first. How long texts are is not declared; so many rows are read
    at a time that they could all be as long as the largest page.

    Parameters
    ----------
    path : Path
    columns : container of str, optional
        What is to be read; by default everything.

    Attributes
    ----------
    file : pyarrow.parquet.ParquetFile
    most : int
        Bytes that may be held at once.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.parquet")
    ...     pd.DataFrame({"a": range(5)}).to_parquet(path)
    ...     check_parquet(path)
    ...     with RowGroups(path) as groups:
    ...         [piece.num_rows for piece in groups.pieces(3, 0)]
    [3, 2]
    """

    def __init__(self, path: Path, columns: Container[str] | None = None) -> None:
        parquet = import_module("pyarrow.parquet")
        self.path, self.most = path, most_bytes(path.stat().st_size)
        self._raw = path.open("rb")
        self._at_once: dict[int, int] = {}
        try:
            self.file = parquet.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False)
            self._groups = column_chunks(self._raw)
            leaves = [self.file.schema.column(place) for place in range(len(self.file.schema))]
            if any(len(group) != len(leaves) for group in self._groups):
                raise ValueError("a group of rows has other columns than the table")
        except BaseException:
            self._raw.close()
            raise
        self._names = [leaf.path for leaf in leaves]
        self._widths = {
            place: _WIDTHS.get(leaf.physical_type, max(leaf.length, 0))
            for place, leaf in enumerate(leaves)
            # A column of lists has leaves of longer names.
            if columns is None or leaf.path in columns or leaf.path.partition(".")[0] in columns
        }

    def __enter__(self) -> RowGroups:
        return self

    def __exit__(self, *_error: object) -> None:
        self.file.close()
        self._raw.close()

    def declared(self, group: int) -> int:
        """Return how many bytes the values of a group take at least, by what the file says."""
        n_rows = self.file.metadata.row_group(group).num_rows
        return sum(
            # Lists have more values than rows; that there are fewer is not believed.
            (width or _OFFSET) * max(chunk.n_values, n_rows) + (0 if width else max(chunk.unpacked, 0))
            for _, chunk, width in self._chunks(group)
        )

    def rows_at_once(self, group: int) -> int:
        """Return how many rows of a group can be read together, whatever is in them.

        Raises
        ------
        DataError
            If not even one can be: a page is packed like a bomb.
        """
        if group not in self._at_once:
            row = 1
            for name, chunk, width in self._chunks(group):
                largest = max(page_sizes(self._raw, chunk.start, chunk.start + chunk.packed), default=0)
                if largest > self.most:
                    raise too_much(self.path, f"a page of column {name!r}", self.most)
                row += width or _OFFSET + largest
            self._at_once[group] = max(1, self.most // (_GROWTH * row))
        return self._at_once[group]

    def pieces(self, size: int, start: int, columns: list[str] | None = None) -> Iterator[Any]:
        """Yield the rows from `start` on as record batches of at most `size`."""
        for group in range(self.file.num_row_groups):
            n_rows = self.file.metadata.row_group(group).num_rows
            if n_rows <= start:
                start -= n_rows
                continue
            size_here = min(size, self.rows_at_once(group))
            for piece in self.file.iter_batches(size_here, row_groups=[group], columns=columns):
                yield piece[min(start, len(piece)) :]
                start = max(0, start - len(piece))

    def _chunks(self, group: int) -> Iterator[tuple[str, Chunk, int]]:
        for place, width in self._widths.items():
            yield self._names[place], self._groups[group][place], width


def check_parquet(path: Path) -> None:
    """Raise if a Parquet file, which may be read whole then, is a bomb.

    Texts that could take too much, if all were long, are read in batches, to see how much they take.
    """
    with RowGroups(path) as groups:
        held, places = 0, range(groups.file.num_row_groups)
        for group in places:
            held += groups.declared(group)
            if held > groups.most:
                raise too_much(path, f"its {groups.file.metadata.num_rows:,} rows", groups.most)
        at_once = [groups.rows_at_once(group) for group in places]
        rows = [groups.file.metadata.row_group(group).num_rows for group in places]
        if sum(n_rows / most for n_rows, most in zip(rows, at_once, strict=True)) <= 1:
            return
        held = 0
        for piece in groups.pieces(max(rows), 0):
            held += piece.nbytes
            if held > groups.most:
                raise too_much(path, f"its {groups.file.metadata.num_rows:,} rows", groups.most)
