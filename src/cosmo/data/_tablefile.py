"""Table files (CSV, TSV, JSON, JSON lines and Parquet), read in batches, and their columns."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cosmo._core import MissingExtra, require
from cosmo._core.validation import first_bad
from cosmo.data.dataset import DataError

Columns = dict[str, list[Any]]
Frames = Iterator[tuple[pd.DataFrame, Columns, float]]
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_PARQUET = (".parquet", ".pq")
TABLE_SUFFIXES = (*_SEPARATORS, *_PARQUET, ".json", ".jsonl", ".ndjson")
_BATCH = 1 << 16  # rows of a whole Parquet file that are decoded at a time
_BUFFER = 1 << 16  # bytes of each Parquet column that are read at a time
_SHOWN = 8  # columns in a message
_FREE_BYTES, _MAX_RATIO = 10**8, 200  # a compressed file may hold the larger of the two


class TableFile:
    """A table that is read in batches; see `read_table` for the formats."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.kind = table_suffix(self.path)
        if self.kind not in TABLE_SUFFIXES:
            raise DataError(f"{path}: a table is one of {', '.join(TABLE_SUFFIXES)}, by the end of its name")
        if not self.path.is_file():
            raise DataError(f"{path}: {'a folder, not a table' if self.path.exists() else 'no such file'}")
        if self.path.stat().st_size == 0:
            raise DataError(f"{path}: the file is empty")

    def names(self) -> list[str]:
        """Return the names of the columns; of JSON, those of the first row."""
        if self.kind in _SEPARATORS:
            return self._csv_layout()[1]
        if self.kind in _PARQUET:
            with self._parquet() as file:
                return list(file.schema_arrow.names)
        with self._json_records() as (records, *_):
            return list(next(records, {}))

    def row_groups(self) -> list[int] | None:
        """Return the number of rows of each row group of a Parquet file; None of other files."""
        if self.kind not in _PARQUET:
            return None
        with self._parquet() as file:
            return [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]

    def frames(
        self,
        size: int | None = None,
        start: int = 0,
        columns: Sequence[str] | None = None,
        keep: Sequence[str] = (),
        text: bool = False,
    ) -> Frames:
        """Yield batches of `size` rows (default: all), columns to keep, and the share that has been read.

        `start` is a multiple of `size` in CSV. Frames have `columns` (default: all), in CSV as `text` or by
        type; the values of columns to `keep` are those of the file, which are text in CSV.
        """
        if self.kind in _SEPARATORS:
            return self._csv_frames(size, start, columns, keep, text)
        if self.kind in _PARQUET:
            return self._parquet_frames(size or _BATCH, start, columns, keep)
        return self._json_frames(size, start, columns, keep)

    def _csv_layout(self) -> tuple[str, list[str]]:
        """Return the separator and the header."""
        for separator in (_SEPARATORS[self.kind], ";"):
            with _open_text(self.path) as (file, *_):
                rows = list(islice((row for row in csv.reader(file, delimiter=separator) if row), 2))
            if not rows or len(rows[0]) > 1 or ";" not in rows[0][0]:
                break
        if len(rows) < 2:
            raise DataError(f"{self.path}: the table has no rows")
        header, row = rows
        if len(row) > len(header):
            raise DataError(f"{self.path}: rows have more cells than the header, which has {len(header)}")
        twice = next((name for name in header if name and header.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"{self.path}: two columns are called {twice!r}; rename one")
        return separator, header

    def _csv_frames(
        self, size: int | None, start: int, columns: Sequence[str] | None, keep: Sequence[str], text: bool
    ) -> Frames:
        separator, _ = self._csv_layout()
        total = self.path.stat().st_size
        with _open_text(self.path) as (file, raw, reset):
            # All columns, since with some of them pandas would ignore additional cells of a row.
            chunks = pd.read_csv(
                file,
                sep=separator,
                keep_default_na=False,
                na_values=[""],
                low_memory=False,
                dtype=dict.fromkeys([*keep, *(columns or () if text else ())], str),
                chunksize=size,
            )
            done = 0
            for frame in [chunks] if isinstance(chunks, pd.DataFrame) else chunks:
                reset()
                done += len(frame)
                if done > start:
                    kept = {name: frame[name].fillna("").tolist() for name in keep}
                    yield frame[list(columns or frame)], kept, min(raw.tell() / total, 1.0)

    @contextmanager
    def _json_records(self) -> Iterator[tuple[Iterator[dict[str, Any]], Callable[[], float]]]:
        """Yield the rows of a JSON file, and a function that returns the share that has been read."""
        with _open_text(self.path) as (file, raw, reset):
            total = self.path.stat().st_size
            if self.kind == ".json":
                records = json.load(file)
                if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
                    raise DataError(f"{self.path}: a table of this kind is a list of objects, one per row")
                yield iter(records), lambda: 1.0
            else:
                yield _json_lines(self.path, file, reset), lambda: min(raw.tell() / total, 1.0)

    def _json_frames(
        self, size: int | None, start: int, columns: Sequence[str] | None, keep: Sequence[str]
    ) -> Frames:
        with self._json_records() as (records, share):
            for _ in islice(records, start):
                pass
            while rows := list(islice(records, size)):
                values = {name: [row.get(name) for row in rows] for name in (*(columns or ()), *keep)}
                frame = pd.DataFrame({name: values[name] for name in columns} if columns else rows)
                yield frame, {name: values[name] for name in keep}, share()

    def _parquet(self) -> Any:
        return require("pyarrow.parquet").ParquetFile(self.path, buffer_size=_BUFFER, pre_buffer=False)

    def _parquet_frames(
        self, size: int, start: int, columns: Sequence[str] | None, keep: Sequence[str]
    ) -> Frames:
        pyarrow = require("pyarrow")
        with self._parquet() as file:
            rows = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
            groups = [k for k, stop in enumerate(np.cumsum(rows)) if stop > start]
            if not groups:
                return
            done = sum(rows[: groups[0]])
            wanted = None if columns is None else [*dict.fromkeys([*columns, *keep])]
            for batch in file.iter_batches(size, row_groups=groups, columns=wanted):
                done += len(batch)
                batch = batch[max(0, len(batch) - (done - start)) :]
                if len(batch):
                    batch.validate(full=True)  # Texts may be damaged.
                    table = pyarrow.Table.from_batches([batch])
                    chosen = table if columns is None else table.select(list(columns))
                    kept = table.select(list(keep)).to_pydict()
                    yield chosen.to_pandas(ignore_metadata=True), kept, done / sum(rows)


def table_suffix(path: Path) -> str:
    """Return the suffix of the format, in lower case and without `.gz`."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


@contextmanager
def data_errors(path: Path) -> Iterator[None]:
    """Turn errors of a reader into `DataError` with the name of the file."""
    try:
        yield
    except (DataError, MissingExtra):
        raise
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text; save it as UTF-8 ({error})") from error
    except Exception as error:  # The type depends on where a file is damaged.
        raise DataError(f"{path}: damaged, cut short or not of its kind: {error}") from error


def max_unpacked_bytes(n_packed: int) -> int:
    """Return the bytes that a compressed file of a size may unpack to."""
    return max(_FREE_BYTES, _MAX_RATIO * n_packed)


def read_npz(path: Path, required: Sequence[str] = (), optional: Sequence[str] = ()) -> dict[str, Any]:
    """Return the named arrays of an `.npz` file, or all if none are named."""
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    with data_errors(path), path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
        _check_npz(path, file.zip.infolist())
        for name in required:
            if name not in file.files:
                raise DataError(f"{path}: no array {name}; there are {', '.join(file.files) or 'none'}")
        names = {*required, *optional} or set(file.files)
        return {name: file[name] for name in file.files if name in names}


def _check_npz(path: Path, members: Iterable[zipfile.ZipInfo]) -> None:
    """Raise `DataError` if an `.npz` would unpack to too much memory."""
    limit, total = max_unpacked_bytes(path.stat().st_size), 0
    for member in members:
        # The memory that other methods need is up to the file.
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(f"{path}: {member.filename!r} is compressed by another method; use np.savez")
        total += member.file_size
    if total > limit:
        raise _too_large(path, limit)


def _too_large(path: Path, limit: int) -> DataError:
    return DataError(
        f"{path}: unpacks to more than {limit:,} bytes, too much for a file of its size; split it, or save "
        "it uncompressed"
    )


def find_column(
    columns: Sequence[str] | pd.Index, name: str | None, usual: Sequence[str], where: object, what: str
) -> str | None:
    """Return a column by name, or the one with a usual name, or None."""
    if name is not None and name not in columns:
        raise DataError(f"{where}: there is no column {name!r} for {what}; there are {shown(columns)}")
    return name if name is not None else next((name for name in usual if name in columns), None)


def as_labels(values: pd.Series, where: str) -> pd.Index:
    """Return labels: int if all are whole numbers, else str."""
    missing = values.isna().to_numpy()
    if missing.any():
        raise DataError(f"{where}: row {missing.argmax() + 1} has no label; fill or drop it")
    if values.dtype.kind == "f":
        whole = (values % 1 == 0).to_numpy()
        if not whole.all():
            row = int(whole.argmin())
            raise DataError(f"{where}: row {row + 1} is {values.iloc[row]}; labels are names or integers")
    if values.dtype.kind in "iuf":
        return pd.Index(values.to_numpy().astype(np.int64))
    texts = [value.decode() if isinstance(value, bytes) else str(value) for value in values]
    for row, text in enumerate(texts, start=1):
        if not text.strip():
            raise DataError(f"{where}: row {row} has no label; fill or drop it")
    return pd.Index(texts, dtype=object)  # With pyarrow, scikit-learn cannot index the strings of pandas.


def as_numbers(
    table: pd.DataFrame, where: str, rows: Sequence[Any] | None = None, start: int = 0
) -> pd.DataFrame:
    """Return a table as float32; errors name a row by `rows`, or by its number after `start`."""
    values = np.empty(table.shape, dtype=np.float32)
    for place, (name, column) in enumerate(table.items()):
        numbers = _as_numeric(column)
        with np.errstate(over="ignore"):
            values[:, place] = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
        bad = first_bad(values[:, [place]])
        if bad is not None:
            row, cell = bad[0], column.iloc[bad[0]]
            named = f"row {start + row + 1}" if rows is None else f"{rows[row]!r}"
            shown = repr(cell) if isinstance(cell, str) else str(cell)
            wrong = "empty" if pd.isna(cell) else f"{shown}, not a finite number"
            raise DataError(f"{where}: {named}, column {name!r} is {wrong}; correct, fill or drop it")
    return pd.DataFrame(values, columns=table.columns)


def has_numbers(column: pd.Series) -> bool:
    """Return whether any cell of a column is a number."""
    return column.dtype.kind in "iufb" or bool(_as_numeric(column).notna().any())


def _as_numeric(column: pd.Series) -> pd.Series:
    """Return the numbers of a column; other cells are missing."""
    if column.dtype.kind in "iufb":
        return column
    try:
        return pd.to_numeric(column, errors="coerce")
    except OverflowError:  # a whole number of hundreds of digits, which is an infinite one then
        return pd.to_numeric(
            column.map(lambda cell: np.inf if len(str(cell)) > 300 else cell), errors="coerce"
        )


def shown(columns: Sequence[str] | pd.Index) -> str:
    """Return the first names of columns for a message."""
    return ", ".join(map(repr, columns[:_SHOWN])) + (" …" if len(columns) > _SHOWN else "")


class _BoundedGzip(gzip.GzipFile):
    """A gzip file that unpacks to a bounded number of bytes between two calls of `reset`."""

    def __init__(self, path: Path, raw: Any) -> None:
        super().__init__(fileobj=raw, mode="rb")
        self._path, self._limit, self._count = path, max_unpacked_bytes(path.stat().st_size), 0

    def reset(self) -> None:
        self._count = 0

    def read1(self, size: int = -1) -> bytes:
        content = super().read1(size)
        self._count += len(content)
        if self._count > self._limit:
            raise _too_large(self._path, self._limit)
        return content


@contextmanager
def _open_text(path: Path) -> Iterator[tuple[Any, Any, Callable[[], None]]]:
    """Yield a text file, the file below it, and a function to call after each batch."""
    with path.open("rb") as raw:
        packed = _BoundedGzip(path, raw) if path.suffix.lower() == ".gz" else None
        with io.TextIOWrapper(packed or raw, encoding="utf-8-sig", newline="") as file:
            yield file, raw, packed.reset if packed else lambda: None


def _json_lines(path: Path, file: Iterable[str], reset: Callable[[], None]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(file, start=1):
        reset()
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise DataError(f"{path}: line {number} is not JSON: {error}") from error
        if not isinstance(record, dict):
            raise DataError(f'{path}: line {number} is not an object, such as {{"text": "..."}}')
        yield record
