"""Predictions for partitioned Parquet: many files in, many files out, on one machine or on a cluster."""

from __future__ import annotations

import glob
import hashlib
import logging
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from cosmo._core.engines import Engine, LocalEngine
from cosmo._core.extras import require, versions
from cosmo.data.batches import Batch, Batches
from cosmo.data.batches.base import told_of
from cosmo.data.dataset import DataError
from cosmo.data.samples import Kind
from cosmo.io.model import Model
from cosmo.io.parts import Parts
from cosmo.io.streaming import Predictor, Progress, StreamSummary, samples_of, usual_size
from cosmo.io.writers import make_writer

__all__ = ["is_partitioned", "predict_partitions"]

logger = logging.getLogger(__name__)

_ROWS = 1 << 18  # in a partition: a few seconds of features, which is what a killed worker costs at most
_SUFFIXES = (".parquet", ".pq")
Format = Literal["parquet", "csv", "jsonl"]


@dataclass(frozen=True)
class _Partition:
    """Rows `start` to `stop` of a file, and where their predictions go."""

    number: int
    source: Path
    state: tuple[int, int]
    start: int
    stop: int
    target: Path

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, eq=False)
class _Job:
    """What all partitions have in common."""

    model: Model
    home: Path
    samples: dict[str, Any]
    columns: list[str]
    top: int
    size: int
    cache: Path | None
    on_error: Literal["raise", "skip"]
    raw: bool


def is_partitioned(source: str | os.PathLike[str]) -> bool:
    """Tell whether samples are a folder with Parquet files, or a pattern of names.

    Examples
    --------
    >>> is_partitioned("rows/part-*.parquet"), is_partitioned("rows.parquet")
    (True, False)
    """
    path = Path(source)
    if path.is_dir():
        return any(True for _ in _inside(path))
    return not path.exists() and glob.has_magic(str(source))


def predict_partitions(
    model: Model,
    source: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    engine: Engine | None = None,
    format: Format = "parquet",
    kind: Kind | None = None,
    column: str | None = None,
    label: str | None = None,
    keep: Sequence[str] = (),
    top: int = 3,
    batch_size: int | None = None,
    partition_rows: int = _ROWS,
    cache: str | os.PathLike[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    raw: bool = False,
    restart: bool = False,
    report: Callable[[str], None] = logger.info,
) -> StreamSummary:
    """Predict the classes of samples in many Parquet files; rows never pass through this process.

    Each partition is a task: whoever does it reads the rows, and writes their predictions whole or not at
    all. Results do not depend on the engine, byte by byte. Until all are there they are in a folder of the
    result's name with `.parts` added, so a run that was stopped is continued by the same call; with another
    model, other input or other settings it is refused, unless it is to be forgotten (`restart`).

    Parameters
    ----------
    model : Model
    source : path
        A folder with Parquet files, also in folders inside it; a pattern, such as ``rows/*.parquet``; or one
        Parquet file. Files whose names begin with a dot or an underscore are passed over.
    folder : path
        To write: a file for each partition, called like its source; where a source has several partitions,
        with their number.
    engine : Engine, optional
        Who does the work; by default this process. On a cluster, source, folder and cache have to be on
        storage that all machines share.
    format : {"parquet", "csv", "jsonl"}
    partition_rows : int
        A larger file is cut where its row groups end, into partitions of about so many rows.
    kind, column, label, keep, top, batch_size, cache, on_error, raw, restart, report
        As in `cosmo.io.streaming.predict_stream`; rows are numbered within their file.

    Returns
    -------
    StreamSummary

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from cosmo.data import load_glyphs
    >>> from cosmo.io.model import fit_model
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> table = pd.DataFrame(data.features).rename(columns=str)
    >>> train = data.split.trainval
    >>> model = fit_model(table.iloc[train], data.labels[train], data.descriptions)
    >>> with tempfile.TemporaryDirectory() as home:
    ...     Path(home, "rows").mkdir()
    ...     for k in range(3):
    ...         table[k::3].to_parquet(Path(home, "rows", f"{k}.parquet"))
    ...     summary = predict_partitions(model, Path(home, "rows"), Path(home, "classes"), format="csv")
    ...     sorted(path.name for path in Path(home, "classes").iterdir())
    ['0.csv', '1.csv', '2.csv']
    >>> summary.rows == len(data)
    True
    """
    for name, number in (("top", top), ("batch_size", batch_size), ("partition_rows", partition_rows)):
        if number is not None and (int(number) != number or number < 1):
            raise ValueError(f"{name} must be a whole number of at least 1, got {number}")
    if format not in ("parquet", "csv", "jsonl"):
        raise ValueError(f"format must be parquet, csv or jsonl, got {format!r}")
    out = Path(folder).resolve()
    home = out.with_name(f"{out.name}.parts")
    partitions, identity = _plan(source, format, partition_rows)
    kind, batches = samples_of(model, partitions[0].source, kind=kind, column=column, label=label, keep=keep)
    samples = {"kind": kind, "column": column, "label": label, "keep": tuple(keep)}
    size = batch_size or usual_size(kind)
    predictor = Predictor(model, batches.source, top, cache, on_error)
    columns = [*predictor.kept_names(batches.keep), *predictor.columns]
    bound = {
        "model": model.fingerprint(),
        "input": identity,
        "settings": {
            "kind": kind,
            "columns": [column, label, *columns],
            "batch size": size,
            "partitions": len(partitions),
            "skip": on_error == "skip",
            "raw": raw,
            "format": format,
        },
        "versions": versions(),
    }
    progress = Progress(sum(map(len, partitions)), report)
    if out.exists():
        if (home / "manifest.json").exists() and not (home / "data").exists():
            shutil.rmtree(home)  # all was done but this
        raise DataError(f"{out} is there already; remove it, or choose another name for the predictions")
    parts = Parts(out, bound, make_writer(Path(f"x.{format}"), raw=raw), restart=restart)
    (home / "0000000000-0.part").touch()  # from now on there is something to lose
    for name in ("data", "drafts", "done"):
        (home / name).mkdir(exist_ok=True)
    done = _done(home)
    if done:
        report(f"{len(done)} of {len(partitions)} partitions are here from an earlier run")
        progress.advance(sum(done.values()), 0.0, found=True)
    job = _Job(
        model,
        home,
        samples,
        columns,
        top,
        size,
        None if cache is None else Path(cache).resolve(),
        on_error,
        raw,
    )
    waiting = {one.number: one for one in partitions if one.number not in done}
    total = sum(map(len, partitions))
    read, skipped = total - sum(map(len, waiting.values())), 0
    with closing(
        (engine or LocalEngine()).map(_predict, waiting.values(), common=job, folder=home)
    ) as results:
        for number, rows in results:
            part = waiting[number]
            if rows < len(part):
                report(f"{part.source}, rows {part.start + 1} to {part.stop}: {len(part) - rows} left out")
            read, skipped = read + len(part), skipped + len(part) - rows
            progress.advance(rows, read / total)
    if any(_state(one.source) != one.state for one in partitions):
        raise _changed(source)
    os.rename(home / "data", out)
    parts.remove()
    return progress.summary(skipped)


def _plan(
    source: str | os.PathLike[str], format: Format, partition_rows: int
) -> tuple[list[_Partition], str]:
    """Return the partitions of all files, and a fingerprint of the files."""
    parquet = require("pyarrow.parquet")
    home, files = _files(source)
    digest = hashlib.blake2b(digest_size=16)
    partitions: list[_Partition] = []
    for file in files:
        state, name = _state(file), file.relative_to(home)
        with told_of(file):
            footer = parquet.read_metadata(file)
            with file.open("rb") as raw:
                # The place and size of every column of every row group, and mostly its bounds.
                raw.seek(-8 - footer.serialized_size, os.SEEK_END)
                digest.update(f"{name} {state}\n".encode() + raw.read())
        groups = [footer.row_group(k).num_rows for k in range(footer.num_row_groups)]
        cuts = list(_cuts(groups, partition_rows))
        for k, (start, stop) in enumerate(cuts):
            end = f"-{k:05}.{format}" if len(cuts) > 1 else f".{format}"
            target = name.with_name(name.stem + end)
            partitions.append(_Partition(len(partitions), file, state, start, stop, target))
    if not partitions:
        raise DataError(f"{source}: the tables have no rows")
    targets = [one.target for one in partitions]
    if len(set(targets)) < len(targets):
        raise DataError(
            f"{source}: two partitions would both go to {max(targets, key=targets.count)}; rename one"
        )
    return partitions, digest.hexdigest()


def _files(source: str | os.PathLike[str]) -> tuple[Path, list[Path]]:
    """Return the Parquet files of a source, in order, and the folder that they are in."""
    path = Path(source).resolve()
    if path.is_dir():
        home, files = path, sorted(_inside(path))
    elif path.is_file():
        home, files = path.parent, [path]
    else:
        files = sorted(Path(name).resolve() for name in glob.glob(str(source), recursive=True))
        home = Path(os.path.commonpath([file.parent for file in files])) if files else path
    strange = next(
        (file for file in files if not file.is_file() or file.suffix.lower() not in _SUFFIXES), None
    )
    if strange is not None or not files:
        what = f"{strange} is not one" if strange else "there are none"
        raise DataError(f"{source}: partitions are files that end in {' or '.join(_SUFFIXES)}; {what}")
    return home, files


def _inside(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
        if path.suffix.lower() in _SUFFIXES and path.is_file() and not hidden:
            yield path


def _state(path: Path) -> tuple[int, int]:
    state = path.stat()
    return state.st_size, state.st_mtime_ns


def _cuts(groups: Sequence[int], rows: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of partitions of `rows` rows or, where row groups are larger, of one group."""
    start = stop = 0
    for n_rows in groups:
        if stop > start and stop + n_rows - start > rows:
            yield start, stop
            start = stop
        stop += n_rows
    if stop > start:
        yield start, stop


def _done(home: Path) -> dict[int, int]:
    """Return how many rows the partitions have that are done, by their numbers."""
    pairs = (path.name.split("-") for path in (home / "done").iterdir())
    return {int(number): int(rows) for number, rows in pairs}


def _predict(job: _Job, part: _Partition) -> tuple[int, int]:
    """Write the predictions for a partition; return its number and how many there are."""
    target, home = job.home / "data" / part.target, job.home
    if target.exists():  # by a worker that was lost after it had done it
        for receipt in (home / "done").glob(f"{part.number}-*"):
            return part.number, int(receipt.name.split("-")[1])
    _, batches = samples_of(job.model, part.source, **job.samples)
    predictor = Predictor(job.model, part.source, job.top, job.cache, job.on_error)
    writer = make_writer(target, raw=job.raw)
    draft = home / "drafts" / uuid.uuid4().hex  # not by the number: two workers may be at the same partition
    n_rows = 0
    with TemporaryDirectory(prefix="cosmo-") as scratch:
        pieces: list[Path] = []
        for batch in _rows(batches, job.size, part.start, part.stop):
            kept, frame = predictor(batch)
            pieces.append(Path(scratch, str(len(pieces))))
            pieces[-1].write_bytes(writer.rows(kept, frame))
            n_rows += len(frame)
        if _state(part.source) != part.state:
            raise _changed(part.source)
        try:
            writer.join(pieces, job.columns, draft)
            with draft.open("rb") as file:
                os.fsync(file.fileno())
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(draft, target)
        finally:
            draft.unlink(missing_ok=True)
    (home / "done" / f"{part.number}-{n_rows}").touch()
    return part.number, n_rows


def _rows(batches: Batches, size: int, start: int, stop: int) -> Iterator[Batch]:
    """Yield batches of the rows from `start` to `stop`."""
    for batch in batches.read(size, start):
        left = stop - batch.start
        if len(batch) > left:  # it reaches into the next partition
            kept = {name: values[:left] for name, values in batch.kept.items()}
            batch = Batch(batch.start, batch.items[:left], kept, batch.share)
        yield batch
        if len(batch) >= left:
            return


def _changed(source: object) -> DataError:
    return DataError(f"{source}: changed while it was read; run again with --restart")
