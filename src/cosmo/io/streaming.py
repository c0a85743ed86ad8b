"""Predictions for samples that need not fit into memory, in runs that can be stopped at any time."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO

import numpy as np
import pandas as pd

from cosmo._core.extras import versions
from cosmo.data.batches import Batch, Batches, open_batches
from cosmo.data.batches.base import Columns
from cosmo.data.dataset import DataError
from cosmo.data.samples import Kind
from cosmo.encoders import ExtractionError, extract
from cosmo.io.model import Model
from cosmo.io.parts import Parts
from cosmo.io.writers import CsvWriter, make_writer

__all__ = ["StreamSummary", "predict_stream"]

logger = logging.getLogger(__name__)

_FEATURE_ROWS, _ITEMS = 8192, 256  # in a batch: rows of features; texts or pictures, which take longer
_SECONDS = 5.0  # between two reports


@dataclass(frozen=True)
class StreamSummary:
    """What `predict_stream` did.

    Parameters
    ----------
    rows : int
        Predictions in the result.
    found : int
        Those among them that an earlier run had left.
    skipped : int
        Samples that could not be read and were left out in this run, as asked.
    seconds : float
    """

    rows: int
    found: int
    skipped: int
    seconds: float


def predict_stream(
    model: Model,
    source: str | os.PathLike[str],
    sink: str | os.PathLike[str] | TextIO,
    *,
    kind: Kind | None = None,
    column: str | None = None,
    label: str | None = None,
    keep: Sequence[str] = (),
    top: int = 3,
    batch_size: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    raw: bool = False,
    restart: bool = False,
    report: Callable[[str], None] = logger.info,
) -> StreamSummary:
    r"""Predict the classes of samples batch by batch; memory does not grow with their number.

    A file as sink is made of parts, kept in a folder of its name with `.parts` added until all are there.
    Each part is written whole or not at all, so a run that was killed is continued by the same call: no row
    is lost or repeated, and the file is the same, byte by byte, as without the interruption. The folder knows
    model, input and settings; with others it is refused, unless it is to be forgotten (`restart`).

    Parameters
    ----------
    model : Model
    source : path
        Samples, see `cosmo.data.batches.open_batches`.
    sink : path or text file
        A `.csv`, `.jsonl` or `.parquet` to write, or an open file that gets CSV at once.
    kind : {"features", "text", "images"}, optional
        What the samples are; by default as in the training.
    column, label : str, optional
        Column of texts or paths; column to ignore. By default as in the training, or one with a usual name.
    keep : list of str
        Columns of the source that go first in the result, in place of the number of the row (from 1). One
        that is called like a column of the result gets `input_` in front.
    top : int
        How many classes to name.
    batch_size : int, optional
        Samples that are held in memory; by default 8192 rows of features, or 256 texts or pictures.
    cache : path, optional
        Folder for features of texts and pictures, see `cosmo.encoders.extract`.
    on_error : {"raise", "skip"}
        What to do about texts and pictures that cannot be read.
    raw : bool
        Write CSV cells as they are. Else text that a spreadsheet would run as a formula, because it begins
        with one of ``= + - @`` and is not a number, gets an apostrophe in front. JSONL and Parquet are always
        raw.
    restart : bool
        Forget what an earlier run left.
    report : callable
        Gets a line on the progress every few seconds.

    Returns
    -------
    StreamSummary

    Notes
    -----
    Columns are those of `Model.predict_frame`. Probabilities have six digits in text, single precision in
    Parquet. Input is known again by its size, its time of change and samples of its content; of pictures
    named in a table, it is the table that is looked at.

    Examples
    --------
    >>> import tempfile
    >>> from cosmo.io.model import fit_model
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> train = data.split.trainval
    >>> model = fit_model(data.features[train], data.labels[train], data.descriptions)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(Path(folder, "new.npy"), data.features)
    ...     summary = predict_stream(model, Path(folder, "new.npy"), Path(folder, "out.csv"), top=1)
    ...     result = pd.read_csv(Path(folder, "out.csv"))
    >>> summary.rows == len(data), list(result.columns)
    (True, ['row', 'label', 'probability', 'p_seen'])
    """
    if int(top) != top or top < 1:
        raise ValueError(f"top must be a whole number of at least 1, got {top}")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    kind, batches = samples_of(model, source, kind=kind, column=column, label=label, keep=keep)
    size = batch_size or usual_size(kind)
    predictor = Predictor(model, batches.source, top, cache, on_error)
    columns = [*(predictor.kept_names(batches.keep)), *predictor.columns]
    progress = Progress(batches.n_rows, report)
    if hasattr(sink, "write"):
        csv = CsvWriter(raw=raw)
        sink.write(csv.head(columns))
        for batch in batches.read(size):
            kept, frame = predictor(batch)
            sink.write(csv.rows(kept, frame).decode())
            progress.advance(len(frame), batch.share)
        return progress.summary(predictor.skipped)
    path = Path(sink)
    if path.exists() and path.samefile(source):
        raise DataError(f"{path} is the input; choose another file for the predictions")
    settings = {
        "kind": kind,
        "columns": [column, label, *columns],
        "batch size": size,
        "skip": on_error == "skip",
        "raw": raw,
    }
    bound = {
        "model": model.fingerprint(),
        "input": batches.identity(),
        "settings": settings,
        "versions": versions(),
    }
    parts = Parts(path, bound, make_writer(path, raw=raw), restart=restart)
    if parts.finished is not None:
        progress.advance(parts.finished, 1.0, found=True)
    else:
        first = parts.first_missing()
        if first:
            report(f"{first} parts of {size} rows are here from an earlier run")
            progress.advance(parts.rows_before(first), 0.0, found=True)
        for number, batch in enumerate(batches.read(size, first * size), start=first):
            kept, frame = predictor(batch)
            parts.add(number, kept, frame)
            progress.advance(len(frame), batch.share)
        if parts.bound["input"] != batches.identity():
            raise DataError(f"{source}: changed while it was read; run again with --restart")
        parts.join(columns)
    parts.remove()
    return progress.summary(predictor.skipped)


def samples_of(
    model: Model,
    source: str | os.PathLike[str],
    *,
    kind: Kind | None = None,
    column: str | None = None,
    label: str | None = None,
    keep: Sequence[str] = (),
) -> tuple[Kind, Batches]:
    """Return of what kind samples for a model are, and the samples, ready to be read."""
    if kind is None:
        kind = model.summary.get("kind") or ("features" if model.encoder_name is None else model.encoder.kind)
    assert kind is not None
    usual = model.summary.get("columns", {})
    return kind, open_batches(
        source,
        kind,
        column=column or usual.get({"text": "text", "images": "image"}.get(kind, "")),
        features=model.feature_names,
        n_features=int(model.cosmo.n_features_in_),
        label=label or usual.get("label"),
        keep=keep,
    )


def usual_size(kind: Kind) -> int:
    """Return how many samples to hold in memory."""
    return _FEATURE_ROWS if kind == "features" else _ITEMS


class Predictor:
    """Batches of samples in, columns to keep and a table of predictions out."""

    def __init__(
        self,
        model: Model,
        source: Path,
        top: int,
        cache: str | os.PathLike[str] | None,
        on_error: Literal["raise", "skip"],
    ) -> None:
        self._source = source
        self._model, self._cache, self._on_error = model, cache, on_error
        self._top = min(top, len(model.classes))
        further = [f"{name}_{k}" for k in range(2, self._top + 1) for name in ("label", "probability")]
        self.columns = ["label", "probability", "p_seen", *further]
        self.skipped = 0

    def kept_names(self, keep: Sequence[str]) -> list[str]:
        """Return how kept columns are called in the result."""
        names = [f"input_{name}" if name in self.columns else name for name in keep] or ["row"]
        if len(set(names)) < len(names):
            raise DataError(
                f"{self._source}: two columns to keep would both be called {max(names, key=names.count)}"
            )
        return names

    def __call__(self, batch: Batch) -> tuple[Columns, pd.DataFrame]:
        numbers = range(batch.start + 1, batch.start + len(batch) + 1)
        values = list(batch.kept.values()) or [list(numbers)]
        kept = dict(zip(self.kept_names(list(batch.kept)), values, strict=True))
        items = batch.items
        if not isinstance(items, np.ndarray):
            items, rows = self._encode(items, batch.start)
            kept = {name: [values[row] for row in rows] for name, values in kept.items()}
        if not len(items):
            return kept, pd.DataFrame(columns=self.columns)
        return kept, self._model.predict_frame(items, top=self._top)

    def _encode(self, items: list[Any], start: int) -> tuple[Any, Any]:
        extraction = logging.getLogger(extract.__module__)
        disabled, extraction.disabled = extraction.disabled, True  # it counts from the start of the batch
        try:
            found = extract(self._model.encoder, items, cache=self._cache, on_error=self._on_error)
        except ExtractionError as error:
            lines = [f"  row {start + one.row + 1}: {one.reason}" for one in error.problems]
            head = f"{self._source}: some samples cannot be used; correct or remove them, or skip them:"
            raise DataError("\n".join([head, *lines])) from error
        finally:
            extraction.disabled = disabled
        for problem in found.problems:
            logger.warning("row %d is left out: %s", start + problem.row + 1, problem.reason)
        self.skipped += len(found.problems)
        return found.features, found.rows


class Progress:
    """Says now and then how far the work is, how fast it goes and how long it will take."""

    def __init__(self, total: int | None, report: Callable[[str], None]) -> None:
        self._total, self._report = total, report
        self._start = self._said = time.monotonic()
        self._rows = self._found = 0
        self._base: tuple[float, float] | None = None
        self._told = -1

    def advance(self, rows: int, share: float, *, found: bool = False) -> None:
        """Count rows that are done; `share` of the source has been read."""
        self._rows += rows
        self._found += rows if found else 0
        if found:
            return
        now = time.monotonic()
        if self._base is None:
            self._base = share, now
        if now - self._said < _SECONDS:
            return
        self._said = now
        speed = share - self._base[0]
        left = (
            f", {(1 - share) * (now - self._base[1]) / speed:.0f} s left" if speed > 0 and share < 1 else ""
        )
        self._tell(left)

    def _tell(self, left: str) -> None:
        if self._rows == self._told:
            return
        self._told = self._rows
        rate = (self._rows - self._found) / max(time.monotonic() - self._start, 1e-9)
        total = "" if self._total is None else f" of {self._total}"
        self._report(f"{self._rows}{total} rows, {rate:.0f} per second{left}")

    def summary(self, skipped: int) -> StreamSummary:
        """Return what was done."""
        self._tell("")
        return StreamSummary(self._rows, self._found, skipped, time.monotonic() - self._start)
