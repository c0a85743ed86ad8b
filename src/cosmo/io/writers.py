"""Writers of predictions (CSV, JSON lines, Parquet), and the folder of finished chunks of a run."""

from __future__ import annotations

import glob
import io
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock, Timeout

from cosmo._core import require
from cosmo._core.files import write_atomic
from cosmo.data._tablefile import Columns, TableFile, data_errors
from cosmo.data.dataset import DataError
from cosmo.data.samples import Batch

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


_PARQUET = (".parquet", ".pq")
_MANIFEST, _LOCK = "manifest.json", "lock"


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows that are predicted together: a batch in memory, or a range of a Parquet file."""

    number: int
    source: Path
    start: int = 0
    stop: int = 0
    target: Path = Path()  # in a folder of predictions
    batch: Batch | None = None

    def __len__(self) -> int:
        return self.stop - self.start


def is_partitioned(source: str | os.PathLike[str]) -> bool:
    """Return whether a source is a folder with Parquet files, or a pattern of names."""
    path = Path(source)
    if path.is_dir():
        return any(True for _ in _files_in(path))
    return not path.exists() and glob.has_magic(str(source))


def finished_chunks(home: Path) -> dict[int, tuple[Path, int]]:
    """Return path and number of rows of the finished chunks, by their numbers."""
    parts = [(path, path.stem.split("-")) for path in home.glob("*.part")]
    return {int(number): (path, int(rows)) for path, (number, rows) in parts}


@contextmanager
def state_folder(out: Path, manifest: dict[str, Any], restart: bool) -> Iterator[Path]:
    """Lock the folder of finished chunks, check that they are of this run, and remove it on success."""
    home = out.with_name(f"{out.name}.parts")
    if not out.parent.is_dir() or out.is_dir():
        raise DataError(f"{out}: {'a folder, not a file' if out.is_dir() else 'there is no such folder'}")
    path = home / _MANIFEST
    if home.exists() and not path.exists() and any(one.name != _LOCK for one in home.glob("[!.]*")):
        raise DataError(f"{home} is not of an earlier run: move it, or choose another name for {out.name}")
    home.mkdir(exist_ok=True)
    lock = FileLock(home / _LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise DataError(f"{out}: another process is writing it; wait, or choose another name") from error
    with lock:
        changed = list(manifest)
        try:
            earlier = json.loads(path.read_bytes()) if path.exists() else {}
            changed = [name for name, value in manifest.items() if earlier.get(name) != value]
        except (ValueError, AttributeError, RecursionError) as error:
            if not restart:
                raise DataError(f"{path} is damaged: run again with --restart") from error
        if changed and not restart and finished_chunks(home):
            raise DataError(
                f"{home} has predictions of an unfinished run that differs in {' and '.join(changed)}: run "
                "again with --restart to discard them, or restore what it was started with"
            )
        if changed or restart:
            _clear(home)
        for draft in home.glob(".*"):  # of a killed run
            shutil.rmtree(draft) if draft.is_dir() else draft.unlink()
        write_atomic(path, json.dumps(manifest, indent=1).encode())
        yield home
        _clear(home)
        path.unlink()
    with suppress(OSError):  # Another run has started.
        shutil.rmtree(home)


def _clear(home: Path) -> None:
    for part in home.glob("*.part"):
        part.unlink()


def parquet_files(source: str | os.PathLike[str]) -> tuple[Path, list[Path]]:
    """Return the folder of the Parquet files of a partitioned source, and the files in order."""
    path = Path(source).resolve()
    if path.is_dir():
        return path, sorted(_files_in(path))
    files = sorted(Path(name).resolve() for name in glob.glob(str(source), recursive=True))
    other = next((file for file in files if not file.is_file() or file.suffix.lower() not in _PARQUET), None)
    if other is not None or not files:
        problem = f"{other} is not one" if other else "there are none"
        raise DataError(f"{source}: partitions are files that end in {' or '.join(_PARQUET)}; {problem}")
    return Path(os.path.commonpath([file.parent for file in files])), files


def _files_in(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
        if path.suffix.lower() in _PARQUET and path.is_file() and not hidden:
            yield path


def plan_chunks(base: Path, files: Sequence[Path], rows: tuple[int, int], suffix: str) -> list[Chunk]:
    """Return the chunks of Parquet files."""
    chunks: list[Chunk] = []
    for file in files:
        with data_errors(file):
            cuts = list(_cuts(TableFile(file).row_groups() or [], *rows))
        name = file.relative_to(base)
        for k, (start, stop) in enumerate(cuts):
            target = name.with_name(name.stem + (f"-{k:05}" if len(cuts) > 1 else "") + suffix)
            chunks.append(Chunk(len(chunks), file.resolve(), start, stop, target))
    targets = [chunk.target for chunk in chunks]
    if not chunks:
        raise DataError(f"{base}: the tables have no rows")
    if len(set(targets)) < len(targets):
        raise DataError(f"{base}: two chunks would both go to {max(targets, key=targets.count)}; rename one")
    return chunks


def _cuts(groups: Sequence[int], rows: int, max_rows: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of chunks of about `rows` rows, at the ends of row groups of up to `max_rows`."""
    start = stop = 0
    for n_rows in groups:
        if stop > start and stop + n_rows - start > rows:
            yield start, stop
            start = stop
        stop += n_rows
        while stop - start > max_rows:
            yield start, start + max_rows
            start += max_rows
    if stop > start:
        yield start, stop
