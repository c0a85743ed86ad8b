"""Predictions as CSV, JSON lines or Parquet, in parts that can be joined."""

from __future__ import annotations

import io
import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from cosmo._core.extras import require
from cosmo.data.batches.base import Columns
from cosmo.data.dataset import DataError

__all__ = ["CsvWriter", "Writer", "make_writer"]

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what makes a spreadsheet take a cell for a formula
_GROUP = 32  # parts in a row group of a Parquet file


class Writer(ABC):
    """Turns kept columns and predictions into the bytes of a part, and parts into a file."""

    @abstractmethod
    def rows(self, kept: Columns, frame: pd.DataFrame) -> bytes:
        """Return a part."""

    @abstractmethod
    def join(self, parts: Sequence[Path], columns: Sequence[str], path: Path) -> None:
        """Write a file of all parts; `columns` are named in it even if there are no parts."""


def make_writer(path: Path, *, raw: bool = False) -> Writer:
    r"""Return the writer for a file, by the end of its name; `raw` as in `CsvWriter`.

    Examples
    --------
    >>> frame = pd.DataFrame({"label": ["cat"], "probability": [0.75]})
    >>> make_writer(Path("out.jsonl")).rows({"row": [1]}, frame)
    b'{"row": 1, "label": "cat", "probability": 0.75}\n'
    """
    suffix = path.suffix.lower()
    if suffix == ".csv":
        return CsvWriter(raw=raw)
    if suffix in (".jsonl", ".ndjson"):
        return _LinesWriter()
    if suffix in (".parquet", ".pq"):
        require("pyarrow")
        return _ParquetWriter()
    raise DataError(f"{path}: predictions go to a .csv, .jsonl or .parquet, by the end of its name")


class _TextWriter(Writer):
    def join(self, parts: Sequence[Path], columns: Sequence[str], path: Path) -> None:
        with path.open("wb") as file:
            file.write(self.head(columns).encode())
            for part in parts:
                with part.open("rb") as content:
                    shutil.copyfileobj(content, file)

    def head(self, columns: Sequence[str]) -> str:
        """Return what stands before the rows."""
        return ""


class CsvWriter(_TextWriter):
    """CSV in UTF-8, numbers with six digits.

    Parameters
    ----------
    raw : bool
        Leave cells as they are. Else text that a spreadsheet would run as a formula gets an apostrophe in
        front: whoever wrote the class names of a model should not have a say on the reader's computer.

    Examples
    --------
    >>> frame = pd.DataFrame({"label": ["=1+2", "-5"], "probability": [0.5, 1 / 3]})
    >>> print(CsvWriter().rows({"row": [1, 2]}, frame).decode(), end="")
    1,'=1+2,0.5
    2,-5,0.333333
    """

    def __init__(self, *, raw: bool = False) -> None:
        self._raw = raw

    def head(self, columns: Sequence[str]) -> str:
        """Return the header."""
        return ",".join(map(self._cell, columns)) + "\n"

    def rows(self, kept: Columns, frame: pd.DataFrame) -> bytes:
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


class _LinesWriter(_TextWriter):
    def rows(self, kept: Columns, frame: pd.DataFrame) -> bytes:
        def cell(value: Any) -> str:
            return json.dumps(value, ensure_ascii=False, default=str)

        names = [cell(name).replace("%", "%%") for name in (*kept, *frame.columns)]
        template = "{" + ", ".join(f"{name}: %s" for name in names) + "}\n"
        return "".join(template % row for row in zip(*_cells(kept, frame, cell), strict=True)).encode()


def _cells(kept: Columns, frame: pd.DataFrame, cell: Callable[[Any], str]) -> Iterable[list[str]]:
    """Yield columns of text."""
    for values in kept.values():
        yield [cell(value) for value in values]
    for _, column in frame.items():
        if column.dtype.kind == "f":
            yield ["%.6g" % value for value in column.tolist()]  # noqa: UP031  (twice as fast)
        else:
            labels = column.tolist()
            written = {label: cell(label) for label in set(labels)}
            yield [written[label] for label in labels]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class _ParquetWriter(Writer):
    def rows(self, kept: Columns, frame: pd.DataFrame) -> bytes:
        pyarrow = require("pyarrow")
        columns = {name: _array(pyarrow, values) for name, values in kept.items()}
        for name, values in frame.items():
            columns[str(name)] = (
                pyarrow.array(values.to_numpy("float32"))
                if values.dtype.kind == "f"
                else _array(pyarrow, values.tolist())
            )
        table = pyarrow.table(columns)
        content = io.BytesIO()
        with pyarrow.ipc.new_file(content, table.schema) as writer:
            writer.write_table(table)
        return content.getvalue()

    def join(self, parts: Sequence[Path], columns: Sequence[str], path: Path) -> None:
        pyarrow, parquet = require("pyarrow"), require("pyarrow.parquet")

        def read(part: Path) -> Any:
            return pyarrow.ipc.open_file(io.BytesIO(part.read_bytes())).read_all()

        types: dict[str, set[Any]] = {name: set() for name in columns}
        for part in parts:
            for field in pyarrow.ipc.open_file(io.BytesIO(part.read_bytes())).schema:
                types[field.name].add(field.type)
        schema = pyarrow.schema([(name, _common(pyarrow, types[name])) for name in columns])
        rest = iter(parts)
        with parquet.ParquetWriter(path, schema) as writer:
            while group := [read(part).cast(schema) for part in islice(rest, _GROUP)]:
                table = pyarrow.concat_tables(group)
                writer.write_table(table, row_group_size=max(1, table.num_rows))


def _array(pyarrow: Any, values: list[Any]) -> Any:
    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):  # of several types
        return pyarrow.array([None if value is None else str(value) for value in values])


def _common(pyarrow: Any, types: set[Any]) -> Any:
    """Return a type for a column that may have been taken for another one in each part."""
    try:
        fields = [pyarrow.schema([("x", one)]) for one in sorted(types, key=str)]
        return pyarrow.unify_schemas(fields, promote_options="permissive").field("x").type
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
        return pyarrow.string()
