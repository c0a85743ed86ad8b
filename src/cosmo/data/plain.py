"""Folders of arrays and tables: data sets, and published predictions for the rows of a stage."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo._core.files import replace_files
from cosmo._core.validation import check_probabilities
from cosmo.data._tablefile import TableFile, data_errors, read_npz
from cosmo.data.dataset import DataError, GZSLDataset, Split
from cosmo.data.tables import as_descriptions

_FEATURES, _DESCRIPTIONS, _SPLIT, _SAMPLES = "features.npz", "descriptions.csv", "split.csv", "samples.csv"
_PARTS = ("trainval", "test_seen", "test_unseen", "train", "val")
_OPTIONAL = ("train", "val")
_MAX_DIGITS = 18  # of a row number


def write_plain(dataset: GZSLDataset, folder: str | os.PathLike[str]) -> None:
    """Write a data set as plain files that `read_plain` reads back without loss.

    `features.npz`
        `X` (n_samples, n_features), `y` (n_samples,) and, if there are images, `images`.
    `descriptions.csv`
        The column `class`, then one per attribute; `group::attribute` where there are groups.
    `split.csv`
        `part` (trainval, test_seen, test_unseen, and optionally train, val) and `row`, from 0.
    `samples.csv`
        `name` and `text` of each sample, if there are any.

    `cosmo fit features.npz --descriptions descriptions.csv` reads the first two.

    Parameters
    ----------
    dataset : GZSLDataset
        Classes must be strings, or all be integers.
    folder : path
        Created if necessary; files of the same names are replaced, all or none.

    Raises
    ------
    DataError
        If a name would not be read back unchanged.

    Examples
    --------
    >>> import tempfile
    >>> table = pd.DataFrame([[1, 0], [0, 1], [1, 1]], index=["cat", "dog", "fox"])
    >>> data = GZSLDataset(np.eye(5, 4), ["cat", "cat", "dog", "dog", "fox"], table,
    ...                    Split(trainval=[2, 0], test_seen=[1, 3], test_unseen=[4]), name="pets")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_plain(data, folder)
    ...     print(Path(folder, "descriptions.csv").read_text())
    ...     read_plain(folder, name="pets")
    class,0,1
    cat,1.0,0.0
    dog,0.0,1.0
    fox,1.0,1.0
    <BLANKLINE>
    GZSLDataset('pets': 5 samples x 4 features, 2 seen + 1 unseen classes, 2 attributes)
    """
    table, split = dataset.descriptions, dataset.split
    arrays: dict[str, NDArray[Any]] = {"X": dataset.features, "y": _label_array(dataset.labels)}
    if dataset.images is not None:
        arrays["images"] = np.asarray(dataset.images)
    names = (
        ["::".join(map(str, pair)) for pair in table.columns] if table.columns.nlevels == 2 else table.columns
    )
    cells = [[_shortest(value) for value in row] for row in table.to_numpy()]
    parts = {part: getattr(split, part) for part in _PARTS if getattr(split, part) is not None}
    columns = {"name": dataset.sample_names, "text": dataset.texts}
    samples = {column: list(texts) for column, texts in columns.items() if texts is not None}
    tables = {
        _DESCRIPTIONS: pd.DataFrame(cells, table.index, names)
        .rename_axis("class")
        .reset_index(allow_duplicates=True),
        _SPLIT: pd.DataFrame([(part, row) for part in parts for row in parts[part]], columns=["part", "row"]),
        **({_SAMPLES: pd.DataFrame(samples)} if samples else {}),
    }
    folder = Path(folder)
    with replace_files(folder) as draft:
        np.savez(draft / _FEATURES, **arrays)  # type: ignore[arg-type]
        for file, frame in tables.items():
            frame.to_csv(draft / file, index=False, lineterminator="\n")
        copy = read_plain(draft)
        _check_same("class", copy.classes, table.index)
        _check_same("column", copy.descriptions.columns, table.columns)
        _check_same("name", copy.sample_names or (), dataset.sample_names or ())
        _check_same("text", copy.texts or (), dataset.texts or ())
    if not samples:
        (folder / _SAMPLES).unlink(missing_ok=True)  # of a data set that was here before


def read_plain(folder: str | os.PathLike[str], *, name: str | None = None) -> GZSLDataset:
    """Read a folder of plain files; `write_plain` has the layout.

    Parameters
    ----------
    folder : path
    name : str, default=None
        Name of the data set; by default that of the folder.

    Returns
    -------
    GZSLDataset

    Raises
    ------
    DataError
        Naming the file, and the row, that cannot be used.
    """
    folder = Path(folder)
    arrays = read_npz(folder / _FEATURES, ["X", "y"], ["images"])
    labels = arrays["y"]
    integer = labels.dtype.kind in "iu"
    if labels.ndim != 1 or not (integer or labels.dtype.kind == "U"):
        raise DataError(f"{folder / _FEATURES}: y must be a vector of names or integers, got {labels.dtype}")
    samples = _read_table(folder / _SAMPLES) if (folder / _SAMPLES).exists() else pd.DataFrame()
    descriptions = _read_descriptions(folder / _DESCRIPTIONS, integer)
    split = _read_split(folder / _SPLIT)
    try:
        return GZSLDataset(
            arrays["X"],
            pd.Index(labels.astype(np.int64) if integer else labels.tolist()),
            descriptions,
            split,
            sample_names=samples["name"].tolist() if "name" in samples else None,
            texts=samples["text"].tolist() if "text" in samples else None,
            images=arrays.get("images"),
            name=folder.resolve().name if name is None else name,
        )
    except DataError as error:
        raise DataError(f"{folder}: {error}") from error


def _label_array(labels: pd.Index) -> NDArray[Any]:
    if all(isinstance(label, str) for label in labels):
        return np.array(labels.tolist(), dtype=np.str_)
    if labels.dtype.kind in "iu":
        return labels.to_numpy().astype(np.int64)
    other = next((label for label in labels if not isinstance(label, str)), None)
    raise DataError(f"classes must be strings, or all be integers, to be stored; {other!r} is among them")


def _shortest(value: np.float32) -> str:
    """Return the shortest text that is read back as this number, also by way of double precision."""
    text = str(value)
    return text if np.float32(float(text)) == value else repr(float(value))


def _check_same(kind: str, read: Iterable[Any], written: Iterable[Any]) -> None:
    """Raise if names are not read back as they were written."""
    for copy, name in zip(read, written, strict=True):
        if copy != name or type(copy) is not type(name):
            raise DataError(
                f"the {kind} {name!r} cannot be written: use names without '::' and NUL characters"
            )


def _read_table(path: Path) -> pd.DataFrame:
    """Return a CSV file as a table of strings."""
    table = TableFile(path)
    with data_errors(path):
        (frame,) = (frame for frame, *_ in table.frames(columns=table.names(), text=True))
    return frame.fillna("")


def _read_descriptions(path: Path, integer: bool) -> pd.DataFrame:
    table = _read_table(path)
    if table.columns[0] not in ("class", "label") or table.shape[1] < 2:
        raise DataError(f"{path}: the first column must be called class, and others describe it")
    classes, cells = table.iloc[:, 0], table.iloc[:, 1:]
    try:
        index = pd.Index([int(label) for label in classes] if integer else classes.tolist())
    except ValueError as error:
        raise DataError(f"{path}: classes must be integers, as y in {_FEATURES}: {error}") from error
    descriptions = as_descriptions(index, cells, path)
    if descriptions.columns.tolist() == [str(place) for place in range(cells.shape[1])]:
        descriptions.columns = pd.RangeIndex(cells.shape[1])
    return descriptions


def _read_split(path: Path) -> Split:
    table = _read_table(path)
    if table.columns.tolist() != ["part", "row"]:
        raise DataError(f"{path}: the columns must be part and row, got {', '.join(table.columns)}")
    for number, (part, row) in enumerate(zip(table["part"], table["row"], strict=True), start=1):
        if part not in _PARTS or not row.isdecimal() or len(row) > _MAX_DIGITS:
            raise DataError(
                f"{path}: row {number} is {part},{row}; expected one of {', '.join(_PARTS)}, and a row number"
            )
    optional = table["part"].isin(_OPTIONAL).any()
    rows: dict[str, Any] = {
        part: table["row"][table["part"] == part].astype(np.intp).to_numpy()
        for part in _PARTS
        if optional or part not in _OPTIONAL
    }
    try:
        return Split(**rows)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


@dataclass(frozen=True, eq=False)
class StagePredictions:
    """Predictions of an expert at the validation or test stage.

    Parameters
    ----------
    rows : array of int, shape (n_rows,)
        Rows of the data set, from 0.
    y : array of int, shape (n_rows,)
        True class id (1-based position in `allclasses_names`).
    seen_classes, unseen_classes : array of int
        Class ids of the stage.
    proba : DataFrame of float32, shape (n_rows, n_seen + n_unseen)
        Index = `rows`, columns = class ids in increasing order. Classes outside the stage are left out,
        so a row may sum to less than one.
    seed : int, default=None
        Seed of the authors' draw of Seen-Val, if the file has it.

    Examples
    --------
    >>> StagePredictions(
    ...     rows=np.array([7]), y=np.array([2]), seen_classes=np.array([1]), unseen_classes=np.array([2]),
    ...     proba=pd.DataFrame([[0.2, 0.7]], index=[7], columns=[1, 2])).proba.idxmax(axis=1).tolist()
    [2]
    """

    rows: NDArray[np.intp]
    y: NDArray[np.intp]
    seen_classes: NDArray[np.intp]
    unseen_classes: NDArray[np.intp]
    proba: pd.DataFrame
    seed: int | None = None


def read_predictions(folder: str | os.PathLike[str], stage: Literal["val", "test"]) -> StagePredictions:
    """Read the predictions of one stage.

    Parameters
    ----------
    folder : path
        Holds `pred_gzsl_<stage>.npz` with `pred_<stage>` (n_rows x (1 + n_classes): the column is the class
        id, column 0 a dummy) and `rows_<stage>.npz` with `rows` (1-based), `y`, `seen_classes`,
        `unseen_classes` (class ids) and, optionally, `seen_val_seed`.
    stage : {"val", "test"}

    Returns
    -------
    StagePredictions

    Raises
    ------
    DataError
        Naming the file and the entry that cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/pred_gzsl_test.npz", pred_test=[[0.1, 0.2, 0.7]])
    ...     np.savez(f"{folder}/rows_test.npz", rows=[8], y=[2], seen_classes=[1], unseen_classes=[2])
    ...     stage = read_predictions(folder, "test")
    >>> stage.rows, stage.proba.to_dict("list")
    (array([7]), {1: [0.20000000298023224], 2: [0.699999988079071]})
    """
    if stage not in ("val", "test"):
        raise ValueError(f"stage must be 'val' or 'test', got {stage!r}")
    path, predicted = Path(folder, f"rows_{stage}.npz"), Path(folder, f"pred_gzsl_{stage}.npz")
    names = ("rows", "y", "seen_classes", "unseen_classes")
    about = _load_npz(path, names, ["seen_val_seed"])
    rows, y, seen, unseen = (_ids(about, name, path) for name in names)
    classes = np.sort(np.concatenate([seen, unseen]))
    for entry, ids in (("rows", rows), ("seen_classes and unseen_classes", classes)):
        if len(np.unique(ids)) != len(ids):
            raise DataError(f"{path}: {entry} must be unique; drop the repetitions")
    if len(y) != len(rows) or not np.isin(y, classes).all():
        raise DataError(
            f"{path}: y must be a class of the stage for each of the {len(rows)} rows; correct it"
        )
    seed = about.get("seen_val_seed")
    if seed is not None and (seed.size != 1 or seed.dtype.kind not in "iu"):
        raise DataError(f"{path}: seen_val_seed must be one integer, got {seed.dtype} {seed.shape}")
    entry = f"pred_{stage}"
    try:
        values = check_probabilities(_load_npz(predicted, [entry])[entry], name=entry, joint=True)
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{predicted}: {error}; expected probabilities, not scores") from error
    if len(values) != len(rows) or not classes.size or values.shape[1] <= classes[-1]:
        raise DataError(
            f"{predicted}: {entry} has shape {values.shape}, but {path.name} has {len(rows)} rows and class "
            f"ids up to {classes.max(initial=0)} (column 0 is a dummy); take both files from the same expert"
        )
    proba = pd.DataFrame(values[:, classes].astype(np.float32), index=rows - 1, columns=classes)
    return StagePredictions(rows - 1, y, seen, unseen, proba, None if seed is None else int(seed.item()))


def _load_npz(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
    if not path.is_file():
        others = ", ".join(sorted(other.name for other in path.parent.glob("*.npz"))) or "none"
        raise DataError(f"{path}: no such file; .npz files in that folder: {others}")
    return read_npz(path, required, optional)


def _ids(arrays: Mapping[str, NDArray[Any]], entry: str, path: Path) -> NDArray[np.intp]:
    values = arrays[entry]
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise DataError(f"{path}: {entry} must be a list of integers, got {values.dtype} {values.shape}")
    if values.size and values.min() < 1:
        raise DataError(f"{path}: {entry} has the number {values.min()}; numbers are 1-based: add 1 to all")
    return values.astype(np.intp)
