"""Predictions as CSV, JSON lines or Parquet."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from cosmo._core.extras import require
from cosmo.data._tablefile import Columns
from cosmo.data.dataset import DataError

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # Spreadsheets execute cells that begin with these.
OUTPUT_SUFFIXES = (".csv", ".jsonl", ".ndjson", ".parquet", ".pq")
_GROUP_ROWS = 1 << 18  # in a row group of a Parquet file


def make_writer(suffix: str, *, raw: bool = False) -> Writer:
    """Return the writer for a suffix; `raw` as in `CsvWriter`."""
    suffix = suffix.lower()
    if suffix == ".csv":
        return CsvWriter(raw=raw)
    if suffix in (".jsonl", ".ndjson"):
        return LinesWriter()
    if suffix in (".parquet", ".pq"):
        require("pyarrow")
        return ParquetWriter()
    raise DataError(f"predictions go to a .csv, .jsonl or .parquet, not to {suffix!r}")


class _TextWriter:
    """Joins lines; subclasses encode them."""

    def header(self, columns: Sequence[str]) -> bytes:
        """Return the first line."""
        return b""

    def file_content(self, batches: Sequence[Any], columns: Sequence[str]) -> bytes:
        """Return the content of a file with encoded batches."""
        return b"".join([self.header(columns), *batches])

    def join(self, paths: Sequence[Path], columns: Sequence[str], path: Path) -> None:
        """Write a file with the rows of others."""
        header = self.header(columns)
        with path.open("wb") as file:
            file.write(header)
            for one in paths:
                with one.open("rb") as content:
                    content.seek(len(header))
                    shutil.copyfileobj(content, file)


class CsvWriter(_TextWriter):
    """Write CSV in UTF-8, with six digits of numbers.

    Text that a spreadsheet would execute as a formula is prefixed by an apostrophe, unless `raw`: this
    prevents CSV formula injection by class names.
    """

    suffix = ".csv"

    def __init__(self, *, raw: bool = False) -> None:
        self._raw = raw

    def header(self, columns: Sequence[str]) -> bytes:
        """Return the first line."""
        return (",".join(map(self._cell, columns)) + "\n").encode()

    def encode(self, kept: Columns, frame: pd.DataFrame) -> bytes:
        """Return lines."""
        lines = map(",".join, zip(*_cells(kept, frame, self._cell), strict=True))
        return "".join(f"{line}\n" for line in lines).encode()

    def _cell(self, value: Any) -> str:
        if value is None:
            return ""
        if isinstance(value, list | dict):
            value = json.dumps(value, ensure_ascii=False, default=str)
        if not isinstance(value, str):
            return str(value)
        if not self._raw and value.startswith(_FORMULA) and not _is_number(value):
            value = f"'{value}"
        if any(mark in value for mark in ',"\r\n'):
            return '"' + value.replace('"', '""') + '"'
        return value


class LinesWriter(_TextWriter):
    """Write JSON lines in UTF-8."""

    suffix = ".jsonl"

    def encode(self, kept: Columns, frame: pd.DataFrame) -> bytes:
        """Return lines."""
        names = [_json(name).replace("%", "%%") for name in (*kept, *frame.columns)]
        template = "{" + ", ".join(f"{name}: %s" for name in names) + "}\n"
        return "".join(template % row for row in zip(*_cells(kept, frame, _json), strict=True)).encode()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _cells(kept: Columns, frame: pd.DataFrame, cell: Callable[[Any], str]) -> Iterable[list[str]]:
    """Yield columns of text."""
    for values in kept.values():
        yield [cell(value) for value in values]
    for _, column in frame.items():
        if column.dtype.kind == "f":
            yield ["%.6g" % value for value in column.tolist()]  # noqa: UP031  (twice as fast)
        else:
            labels = column.tolist()
            texts = {label: cell(label) for label in set(labels)}
            yield [texts[label] for label in labels]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class ParquetWriter:
    """Write Parquet, with numbers in single precision."""

    suffix = ".parquet"

    def encode(self, kept: Columns, frame: pd.DataFrame) -> Any:
        """Return a pyarrow table."""
        pyarrow = require("pyarrow")
        columns = {name: _array(values) for name, values in kept.items()}
        for name, values in frame.items():
            is_number = values.dtype.kind == "f"
            columns[str(name)] = (
                pyarrow.array(values.to_numpy("float32")) if is_number else _array(values.tolist())
            )
        return pyarrow.table(columns)

    def file_content(self, batches: Sequence[Any], columns: Sequence[str]) -> bytes:
        """Return the content of a file with encoded batches."""
        pyarrow, parquet = require("pyarrow"), require("pyarrow.parquet")
        schema = _common_schema([table.schema for table in batches])
        content = io.BytesIO()
        parquet.write_table(pyarrow.concat_tables([table.cast(schema) for table in batches]), content)
        return content.getvalue()

    def join(self, paths: Sequence[Path], columns: Sequence[str], path: Path) -> None:
        """Write a file with the rows of others."""
        pyarrow, parquet = require("pyarrow"), require("pyarrow.parquet")
        schema = _common_schema([parquet.read_schema(one) for one in paths])
        tables: list[Any] = []
        with parquet.ParquetWriter(path, schema) as writer:
            for k, one in enumerate(paths, start=1):
                tables.append(parquet.ParquetFile(one).read().cast(schema))
                n_rows = sum(map(len, tables))
                if n_rows >= _GROUP_ROWS or k == len(paths):
                    writer.write_table(pyarrow.concat_tables(tables), row_group_size=max(1, n_rows))
                    tables = []


def _array(values: list[Any]) -> Any:
    pyarrow = require("pyarrow")
    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):  # of several types
        return pyarrow.array([None if value is None else str(value) for value in values])


def _common_schema(schemas: Sequence[Any]) -> Any:
    """Return a schema for tables whose columns may have other types in each."""
    pyarrow = require("pyarrow")

    def common(name: str) -> Any:
        fields = [pyarrow.schema([schema.field(name)]) for schema in schemas]
        try:
            return pyarrow.unify_schemas(fields, promote_options="permissive").field(name)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
            return pyarrow.field(name, pyarrow.string())

    return pyarrow.schema([common(name) for name in schemas[0].names])


Writer = CsvWriter | LinesWriter | ParquetWriter
