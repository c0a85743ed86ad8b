"""Predictions for inputs of any size, in chunks that an interrupted run does not repeat."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count, takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TextIO

import numpy as np
import pandas as pd

from cosmo._core import versions
from cosmo._core.files import draft_of, sync, write_atomic
from cosmo._core.parallel import Workers, parallel_map
from cosmo.data._tablefile import Columns
from cosmo.data.dataset import DataError
from cosmo.data.samples import Batch, Batches, Kind, file_fingerprint, open_batches
from cosmo.encoders import ExtractionError, extract
from cosmo.io.model import Model
from cosmo.io.writers import (
    OUTPUT_SUFFIXES,
    Chunk,
    Writer,
    finished_chunks,
    is_partitioned,
    make_writer,
    parquet_files,
    plan_chunks,
    state_folder,
)

logger = logging.getLogger(__name__)

_BATCH_ROWS, _BATCH_ITEMS = 8192, 256  # of features; of texts or images
# Rows that are worth the start of a process; a file in a folder of predictions has about that many.
_PROCESS_ROWS = {"features": 1 << 18, "text": 1 << 12, "images": 1 << 12}


def kind_of(model: Model) -> Kind:
    """Return the kind of the samples that a model takes."""
    kind: Kind | None = model.summary.get("kind")
    if kind is not None:
        return kind
    return "features" if model.encoder_name is None else model.encoder.kind


@dataclass(frozen=True)
class PredictionSummary:
    """Counts of `predict_file`: rows in the output, those found from an earlier run, skipped samples."""

    rows: int
    found: int
    skipped: int


@dataclass(frozen=True, eq=False)
class _Job:
    """What is the same for all chunks."""

    model: Model
    samples: dict[str, Any]
    size: int
    top: int
    cache: Path | None
    on_error: Literal["raise", "skip"]
    writer: Writer
    answers: dict[str, Any]
    home: Path = Path()

    def open(self, source: Path) -> Batches:
        return open_batches(source, **self.samples)

    @property
    def columns(self) -> list[str]:
        further = [f"{name}_{k}" for k in range(2, self.top + 1) for name in ("label", "probability")]
        added = [name for name, key in (("conformity", "reject"), ("why", "why")) if key in self.answers]
        return ["label", "probability", "p_seen", *added, *further]

    def kept_names(self, keep: Sequence[str]) -> list[str]:
        names = [f"input_{name}" if name in self.columns else name for name in keep] or ["row"]
        if len(set(names)) < len(names):
            raise DataError(f"two columns to keep would both be called {max(names, key=names.count)}")
        return names

    def predict(self, source: Path, batch: Batch) -> tuple[Columns, pd.DataFrame]:
        """Return the columns to keep and the predictions of a batch."""
        values = list(batch.kept.values()) or [list(range(batch.start + 1, batch.start + len(batch) + 1))]
        kept = dict(zip(self.kept_names(list(batch.kept)), values, strict=True))
        items = batch.items
        if not isinstance(items, np.ndarray):
            items, rows = self._encode(source, items, batch.start)
            kept = {name: [values[row] for row in rows] for name, values in kept.items()}
        if not len(items):
            return kept, pd.DataFrame(columns=self.columns)
        return kept, self.model.predict_frame(items, top=self.top, **self.answers)

    def _encode(self, source: Path, items: list[Any], start: int) -> tuple[Any, Any]:
        extract_logger = logging.getLogger(extract.__module__)
        disabled, extract_logger.disabled = extract_logger.disabled, True  # It counts rows of the batch.
        try:
            found = extract(self.model.encoder, items, cache=self.cache, on_error=self.on_error)
        except ExtractionError as error:
            lines = [f"  row {start + one.row + 1}: {one.reason}" for one in error.problems]
            head = f"{source}: some samples cannot be used; correct, remove or skip them:"
            raise DataError("\n".join([head, *lines])) from error
        finally:
            extract_logger.disabled = disabled
        for problem in found.problems:
            logger.warning("%s: row %d is skipped: %s", source, start + problem.row + 1, problem.reason)
        return found.features, found.rows


def predict_file(
    model: Model,
    source: str | os.PathLike[str],
    output: str | os.PathLike[str] | TextIO,
    *,
    kind: Kind | None = None,
    column: str | None = None,
    label: str | None = None,
    keep: Sequence[str] = (),
    top: int = 3,
    answers: Mapping[str, Any] = MappingProxyType({}),
    batch_size: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    format: Literal["parquet", "csv", "jsonl"] = "parquet",
    raw: bool = False,
    restart: bool = False,
    workers: Workers | None = None,
    report: Callable[[int, int | None], None] = lambda done, total: None,
) -> PredictionSummary:
    """Predict the classes of samples that need not fit into memory.

    Finished chunks of the output are files in a folder of its name with `.parts` added, until all are there.
    A call with the same arguments continues an interrupted one. The folder records model, input and settings;
    with others the call fails, unless `restart` is set. Columns are those of `Model.predict_frame`;
    probabilities have six digits in text, single precision in Parquet.

    Parameters
    ----------
    model : Model
    source : path
        Samples, see `cosmo.data.samples.open_batches`; or several Parquet files: a folder, or a pattern such
        as ``rows/*.parquet``.
    output : path or text file
        A `.csv`, `.jsonl` or `.parquet`; a folder, for Parquet files; or an open text file for CSV.
    kind, column, label
        Kind of the samples, column of texts or paths, column to ignore; by default as in the training.
    keep : list of str, default=()
        Columns of the source that are written first, instead of the number of the row in its file (from 1).
        A name that is also a column of predictions is prefixed by `input_`.
    top : int, default=3
        Number of classes per sample.
    answers : dict, default={}
        `reject`, `accuracy`, `unknown` and `why` of `Model.predict_frame`.
    batch_size : int or None, default=None
        Samples in memory; by default 8192 rows of features, or 256 texts or images.
    cache, on_error
        As in `cosmo.encoders.extract`, for texts and images.
    format : {"parquet", "csv", "jsonl"}, default="parquet"
        Format of the files in a folder.
    raw : bool, default=False
        Do not prevent formula injection in CSV, see `cosmo.io.writers.CsvWriter`.
    restart : bool, default=False
        Remove the chunks of an earlier run.
    workers : Workers or None, default=None
        Where the chunks of Parquet files are predicted; by default in this process. On a cluster, source,
        output and cache must be on storage that all machines share.
    report : callable, default=no report
        Receives the number of finished rows and their total, which is an estimate for text files.

    Raises
    ------
    DataError
        If the input is invalid, or the output is being written by another process.

    Examples
    --------
    >>> import tempfile
    >>> from cosmo.data import load_glyphs
    >>> from cosmo.io.model import fit_model
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> train = data.split.trainval
    >>> model = fit_model(data.features[train], data.labels[train], data.descriptions)
    >>> with tempfile.TemporaryDirectory() as home:
    ...     np.save(Path(home, "rows.npy"), data.features)
    ...     summary = predict_file(model, Path(home, "rows.npy"), Path(home, "classes.csv"), top=1)
    ...     print(Path(home, "classes.csv").read_text().splitlines()[0], summary.rows == len(data))
    row,label,probability,p_seen True
    """
    for name, number in (("top", top), ("batch_size", batch_size)):
        if number is not None and (int(number) != number or number < 1):
            raise ValueError(f"{name} must be a whole number of at least 1, got {number}")
    kind = kind or kind_of(model)
    usual = model.summary.get("columns", {})
    samples = {
        "kind": kind,
        "column": column or usual.get({"text": "text", "images": "image"}.get(kind, "")),
        "features": model.feature_names,
        "n_features": int(model.cosmo.n_features_in_),
        "label": label or usual.get("label"),
        "keep": tuple(keep),
    }
    out = None if hasattr(output, "write") else Path(output).resolve()
    one_file = out is not None and out.suffix.lower() in OUTPUT_SUFFIXES
    suffix = ".csv" if out is None else out.suffix if one_file else f".{format}"
    writer = make_writer(suffix, raw=raw)
    size = batch_size or (_BATCH_ROWS if kind == "features" else _BATCH_ITEMS)
    cache = None if cache is None else Path(cache).resolve()
    job = _Job(model, samples, size, min(top, len(model.classes)), cache, on_error, writer, dict(answers))
    base, files = parquet_files(source) if is_partitioned(source) else (Path(source).parent, [Path(source)])
    batches = job.open(files[0])
    columns = [*job.kept_names(batches.keep), *job.columns]
    if out is None:
        if len(files) > 1:
            raise DataError(f"{source} has several files; name a file or folder for their predictions")
        return _write_csv(job, batches, columns, output, report)
    if out.exists() and (not one_file or out.samefile(files[0])):
        problem = "is the input" if one_file else "exists already"
        raise DataError(f"{out} {problem}; choose another name for the predictions, or remove it")
    rows = _PROCESS_ROWS[kind]
    sizes = rows // 4 if one_file else rows, 4 * rows
    chunks = plan_chunks(base, files, sizes, writer.suffix) if batches.row_groups is not None else None
    if chunks is None and not one_file:
        raise DataError(
            f"{out}: a folder of predictions is for Parquet input, which {source} is not; name a "
            ".csv, .jsonl or .parquet"
        )
    inputs = files if chunks is not None else batches.files
    settings = [
        kind,
        column,
        label,
        columns,
        size,
        len(chunks or ()),
        raw,
        one_file,
        writer.suffix,
        dict(answers),
    ]
    manifest = {
        "model": model.fingerprint(),
        "input": file_fingerprint(inputs),
        "settings": settings,
        "versions": versions(),
    }
    with state_folder(out, manifest, restart) as home:
        job = replace(job, home=home)
        done = finished_chunks(home)
        if chunks is None:  # Batches are read from the first gap on; a kill during the removal leaves gaps.
            done = {number: done[number] for number in takewhile(done.__contains__, count())}
        found = sum(rows for _, rows in done.values())
        if done:
            logger.info("%d rows were predicted by an earlier run", found)
        skipped = _predict_chunks(job, batches, chunks, done, found, workers, report)
        if file_fingerprint(inputs) != manifest["input"]:
            raise DataError(f"{source}: changed while it was read; run again with --restart")
        done = finished_chunks(home)
        paths = [done[number][0] for number in sorted(done)]
        draft = draft_of(home / "output")
        if one_file:
            writer.join(paths, columns, draft)
            sync(draft)
            os.replace(draft, out)
        else:
            for chunk in chunks or ():
                target = draft / chunk.target
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(done[chunk.number][0], target)
            os.rename(draft, out)
    return PredictionSummary(sum(rows for _, rows in done.values()), found, skipped)


class _Progress:
    """Counts rows and reports them with their total."""

    def __init__(self, rows: int, total: int | None, report: Callable[[int, int | None], None]) -> None:
        self.rows, self._total, self._report = rows, total, report

    def add(self, rows: int, share: float) -> None:
        self.rows += rows
        total = self._total if self._total is not None else round(self.rows / share) if share else None
        self._report(self.rows, total)


def _write_csv(
    job: _Job, batches: Batches, columns: list[str], output: Any, report: Callable[[int, int | None], None]
) -> PredictionSummary:
    """Write all predictions to an open file."""
    progress, skipped = _Progress(0, None, report), 0
    output.write(job.writer.file_content([], columns).decode())
    for batch in batches.read(job.size):
        kept, frame = job.predict(batches.source, batch)
        output.write(job.writer.encode(kept, frame).decode())
        progress.add(len(frame), batch.share)
        skipped += len(batch) - len(frame)
    return PredictionSummary(progress.rows, 0, skipped)


def _predict_chunks(
    job: _Job,
    batches: Batches,
    chunks: list[Chunk] | None,
    done: dict[int, tuple[Path, int]],
    found: int,
    workers: Workers | None,
    report: Callable[[int, int | None], None],
) -> int:
    """Write the chunks that are not done; return the number of samples that were skipped."""
    if chunks is None:
        progress, first = _Progress(found, None, report), len(done)
        numbered = enumerate(batches.read(job.size, first * job.size), start=first)
        return sum(_predict_chunk(job, Chunk(k, batches.source, batch=one), progress) for k, one in numbered)
    progress = _Progress(found, sum(map(len, chunks)), report)
    waiting = {chunk.number: chunk for chunk in chunks if chunk.number not in done}
    if workers is not None and workers.scheduler is None:
        n_useful = sum(map(len, waiting.values())) // _PROCESS_ROWS[job.samples["kind"]]
        workers = Workers(max(1, min(workers.jobs, len(waiting), n_useful)))
    if workers is None or workers == Workers(1):  # in this process, with all its threads
        return sum(_predict_chunk(job, chunk, progress) for chunk in waiting.values())
    skipped = 0
    results = parallel_map(_predict_in_worker, waiting.values(), common=job, workers=workers, folder=job.home)
    with closing(results):
        for number, n_skipped in results:
            chunk = waiting[number]
            if n_skipped:
                logger.warning(
                    "%s: %d of rows %d to %d are skipped",
                    chunk.source,
                    n_skipped,
                    chunk.start + 1,
                    chunk.stop,
                )
            skipped += n_skipped
            progress.add(len(chunk), 1.0)
    return skipped


def _predict_in_worker(job: _Job, chunk: Chunk) -> tuple[int, int]:
    return chunk.number, _predict_chunk(job, chunk)


def _predict_chunk(job: _Job, chunk: Chunk, progress: _Progress | None = None) -> int:
    """Write the predictions for a chunk; return the number of samples that were skipped."""
    batches: Iterator[Batch] = iter([chunk.batch] if chunk.batch is not None else [])
    if chunk.batch is None:
        batches = job.open(chunk.source).read(job.size, chunk.start, chunk.stop)
    encoded: list[Any] = []
    columns: list[str] = []
    n_rows = skipped = 0
    for batch in batches:
        kept, frame = job.predict(chunk.source, batch)
        encoded.append(job.writer.encode(kept, frame))
        columns = [*kept, *frame.columns]
        n_rows, skipped = n_rows + len(frame), skipped + len(batch) - len(frame)
        if progress is not None:
            progress.add(len(batch), batch.share)
    content = job.writer.file_content(encoded, columns)
    write_atomic(job.home / f"{chunk.number:08}-{n_rows}.part", content)
    return skipped
