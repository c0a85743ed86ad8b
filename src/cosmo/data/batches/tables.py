"""Tables in batches, by the kind of file."""

from __future__ import annotations

import csv
import io
import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cosmo._core.extras import require
from cosmo._core.validation import first_bad
from cosmo.data._packed import RowGroups, Unpacked, too_much
from cosmo.data.batches.base import Batch, Batches, Columns
from cosmo.data.dataset import DataError
from cosmo.data.samples import Kind
from cosmo.data.tables import as_numbers, has_numbers, read_table

__all__ = ["READERS", "Table", "suffix_of"]

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_USUAL = {"text": ("text",), "images": ("path", "image", "file", "filename")}
_LABELS = ("label", "class")


class _Row(int):
    """A row as messages name it."""

    def __repr__(self) -> str:
        return f"row {int(self)}"


class Table(Batches):
    """A table whose columns are chosen by its header and, without names of features, its first rows."""

    def __init__(self, source: Path, keep: Sequence[str], kind: Kind) -> None:
        super().__init__(source, keep)
        self._kind = kind

    def choose(
        self,
        column: str | None,
        features: Sequence[str] | None,
        n_features: int | None,
        label: str | None,
    ) -> None:
        """Decide which columns to read."""
        kind, names = self._kind, self._header()
        shown = ", ".join(map(repr, names[:8])) + (" …" if len(names) > 8 else "")
        wanted = [*self.keep, *(features or ()), *([] if column is None else [column])]
        missing = [name for name in wanted if name not in names]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise DataError(f"{self.source}: there is no column {missing[0]!r}{more}; there are {shown}")
        if kind != "features":
            column = column or next((name for name in _USUAL[kind] if name in names), None)
            if column is None:
                raise DataError(
                    f"{self.source}: no column is called {' or '.join(_USUAL[kind])}; say by --"
                    f"{'text' if kind == 'text' else 'image'} which one has the {kind}: {shown}"
                )
            self._columns = [column]
            return
        if features is None:
            taken = {*self.keep, label or next((name for name in _LABELS if name in names), None)}
            first, _, _ = next(self._frames(1000, 0, [name for name in names if name not in taken]))
            features = [name for name in first.columns if has_numbers(first[name])]
        if not features or n_features not in (None, len(features)):
            raise DataError(
                f"{self.source}: {len(features)} columns of numbers, but rows of {n_features or 'some'} "
                "features are needed; --keep columns that are no features, or drop them"
            )
        self._columns = list(features)

    def _read(self, size: int, start: int) -> Iterator[Batch]:
        first = start
        for frame, kept, share in self._frames(size, start, self._columns):
            yield Batch(first, self._items(frame, first), kept, share)
            first += len(frame)
        if first == 0:
            raise DataError(f"{self.source}: the table has no rows")

    def _items(self, frame: pd.DataFrame, first: int) -> Any:
        if self._kind == "features":
            if all(dtype.kind in "iufb" for dtype in frame.dtypes):
                with np.errstate(over="ignore"):
                    values = frame.to_numpy(np.float32)
                if first_bad(values) is None:
                    return values
            rows = [_Row(row) for row in range(first + 1, first + len(frame) + 1)]
            return as_numbers(frame, str(self.source), rows).to_numpy()
        if self._kind == "text":
            return ["" if pd.isna(text) else text for text in frame[self._columns[0]]]
        for row, name in enumerate(frame[self._columns[0]], start=first + 1):
            if not isinstance(name, str) or not name.strip():
                raise DataError(f"{self.source}: row {row} is {name!r}, not a path; fill or drop it")
        return [self.source.parent / name for name in frame[self._columns[0]]]

    @abstractmethod
    def _header(self) -> list[str]:
        """Return the names of the columns."""

    @abstractmethod
    def _frames(
        self, size: int, start: int, columns: Sequence[str]
    ) -> Iterator[tuple[pd.DataFrame, Columns, float]]:
        """Yield `columns` and those to keep of `size` rows at a time, and the share read."""


class _Csv(Table):
    def _header(self) -> list[str]:
        self._separator = _SEPARATORS[suffix_of(self.source)]
        with _opened(self.source) as (file, *_):
            header, row = self._two(file)
        if len(header) == 1 and ";" in header[0]:
            self._separator = ";"
            with _opened(self.source) as (file, *_):
                header, row = self._two(file)
        if len(row) > len(header):
            raise DataError(f"{self.source}: rows have more cells than the header, which has {len(header)}")
        twice = next((name for name in header if header.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"{self.source}: two columns are called {twice!r}; rename one")
        return header

    def _two(self, file: Any) -> tuple[list[str], list[str]]:
        found = list(islice((row for row in csv.reader(file, delimiter=self._separator) if row), 2))
        if len(found) < 2:
            raise DataError(f"{self.source}: the table has no rows")
        return found[0], found[1]

    def _frames(
        self, size: int, start: int, columns: Sequence[str]
    ) -> Iterator[tuple[pd.DataFrame, Columns, float]]:
        as_text = dict.fromkeys(self.keep if self._kind == "features" else [*self.keep, *columns], str)
        total = self.source.stat().st_size
        with _opened(self.source) as (file, raw, forget):
            # All columns, since with some of them pandas would pass over a row that has too many cells.
            chunks = pd.read_csv(
                file,
                sep=self._separator,
                keep_default_na=False,
                na_values=[""],
                low_memory=False,
                dtype=as_text,
                chunksize=size,
            )
            for number, frame in enumerate(chunks):
                forget()
                if number >= start // size:
                    kept = {name: frame[name].fillna("").tolist() for name in self.keep}
                    yield frame[list(columns)], kept, min(raw.tell() / total, 1.0)


class _Lines(Table):
    def _header(self) -> list[str]:
        with _opened(self.source) as (file, *_):
            for _, record in self._records(file):
                return list(record)
        raise DataError(f"{self.source}: the table has no rows")

    def _frames(
        self, size: int, start: int, columns: Sequence[str]
    ) -> Iterator[tuple[pd.DataFrame, Columns, float]]:
        total = self.source.stat().st_size
        with _opened(self.source) as (file, raw, forget):
            lines = self._records(file)
            for _ in islice(lines, start):
                forget()
            while records := [record for _, record in islice(lines, size)]:
                forget()
                frame = pd.DataFrame({name: [record.get(name) for record in records] for name in columns})
                kept = {name: [record.get(name) for record in records] for name in self.keep}
                yield frame, kept, min(raw.tell() / total, 1.0)

    def _records(self, file: Any) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError as error:
                raise DataError(f"{self.source}: line {number} is not JSON: {error}") from error
            if not isinstance(record, dict):
                raise DataError(f'{self.source}: line {number} is not an object, such as {{"text": "..."}}')
            yield number, record


class _Parquet(Table):
    def _header(self) -> list[str]:
        require("pyarrow")
        with RowGroups(self.source) as groups:
            self.n_rows = groups.file.metadata.num_rows
            return list(groups.file.schema_arrow.names)

    def _frames(
        self, size: int, start: int, columns: Sequence[str]
    ) -> Iterator[tuple[pd.DataFrame, Columns, float]]:
        pyarrow = require("pyarrow")
        assert self.n_rows is not None
        wanted = [*dict.fromkeys([*columns, *self.keep])]
        with RowGroups(self.source, wanted) as groups:
            # Pieces may end where a row group does: they are put together to the asked-for size.
            waiting: list[Any] = []
            n_waiting = held = 0
            first = start
            for piece in groups.pieces(size, start, wanted):
                while len(piece):
                    part = piece[: size - n_waiting]
                    piece = piece[len(part) :]
                    waiting.append(part)
                    n_waiting, held, first = n_waiting + len(part), held + part.nbytes, first + len(part)
                    if held > groups.most:
                        raise too_much(self.source, f"{n_waiting:,} rows", groups.most)
                    if n_waiting == size or first == self.n_rows:
                        table = pyarrow.Table.from_batches(waiting)
                        kept = table.select(list(self.keep)).to_pydict()
                        yield table.select(list(columns)).to_pandas(), kept, first / self.n_rows
                        waiting, n_waiting, held = [], 0, 0
            if first < self.n_rows:
                raise DataError(f"{self.source}: damaged: {first:,} rows instead of {self.n_rows:,}")


class _Whole(Table):
    def _header(self) -> list[str]:
        self._table = read_table(self.source)
        self.n_rows = len(self._table)
        return [str(name) for name in self._table.columns]

    def _frames(
        self, size: int, start: int, columns: Sequence[str]
    ) -> Iterator[tuple[pd.DataFrame, Columns, float]]:
        for first in range(start, len(self._table), size):
            part = self._table.iloc[first : first + size]
            kept = {name: part[name].tolist() for name in self.keep}
            yield part[list(columns)], kept, (first + len(part)) / len(self._table)


READERS: dict[str, type[Table]] = {
    **dict.fromkeys((".csv", ".tsv"), _Csv),
    **dict.fromkeys((".parquet", ".pq"), _Parquet),
    **dict.fromkeys((".jsonl", ".ndjson"), _Lines),
    ".json": _Whole,
}


def suffix_of(path: Path) -> str:
    """Return the end of a name that tells the kind of file, whether it is compressed or not."""
    return Path(path.stem).suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any, Callable[[], None]]]:
    """Open a text file that may be packed; yield it, the file itself, and what to call after each batch."""
    with path.open("rb") as raw:
        packed = Unpacked(path, raw) if path.suffix.lower() == ".gz" else None
        with io.TextIOWrapper(packed or raw, encoding="utf-8-sig", newline="") as file:
            yield file, raw, packed.forget if packed else lambda: None
