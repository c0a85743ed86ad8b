"""A data set as a folder of arrays and CSV tables."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo._core.files import replace_files
from cosmo.data._tablefile import read_npz
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
    labels, table, split = _label_array(dataset.labels), dataset.descriptions, dataset.split
    arrays: dict[str, NDArray[Any]] = {"X": dataset.features, "y": labels}
    if dataset.images is not None:
        arrays["images"] = np.asarray(dataset.images)
    names = ["::".join(map(str, pair)) for pair in table.columns] if table.columns.nlevels == 2 else None
    cells = [[_shortest(value) for value in row] for row in table.to_numpy()]
    parts = {part: getattr(split, part) for part in _PARTS if getattr(split, part) is not None}
    rows = [(part, row) for part, numbers in parts.items() for row in numbers]
    columns = (("name", dataset.sample_names), ("text", dataset.texts))
    samples = {column: list(texts) for column, texts in columns if texts is not None}
    folder = Path(folder)
    with replace_files(folder) as draft:
        np.savez(draft / _FEATURES, **arrays)  # type: ignore[arg-type]
        frame = pd.DataFrame(cells, index=table.index, columns=table.columns if names is None else names)
        frame.to_csv(draft / _DESCRIPTIONS, index_label="class", lineterminator="\n")
        pd.DataFrame(rows, columns=["part", "row"]).to_csv(draft / _SPLIT, index=False, lineterminator="\n")
        copy = _read_descriptions(draft / _DESCRIPTIONS, labels.dtype.kind == "i")
        _check_same("column", copy.columns.tolist(), table.columns.tolist(), _DESCRIPTIONS)
        _check_same("class", copy.index.tolist(), table.index.tolist(), _DESCRIPTIONS)
        if samples:
            pd.DataFrame(samples).to_csv(draft / _SAMPLES, index=False, lineterminator="\n")
            read_back = _read_table(draft / _SAMPLES)
            for column, texts in samples.items():
                _check_same(column, read_back[column].tolist(), texts, _SAMPLES)
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
    _check_exists(folder / _FEATURES)
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
        texts = np.array(labels.tolist(), dtype=np.str_)
        if texts.tolist() != labels.tolist():  # numpy drops NUL characters at the end
            raise DataError("a class name ends in a NUL character; rename it")
        return texts
    if labels.dtype.kind in "iu":
        return labels.to_numpy().astype(np.int64)
    other = next((label for label in labels if not isinstance(label, str)), None)
    raise DataError(f"classes must be strings, or all be integers, to be stored; {other!r} is among them")


def _shortest(value: np.float32) -> str:
    """Return the shortest text that is read back as this number, also by way of double precision."""
    text = str(value)
    return text if np.float32(float(text)) == value else repr(float(value))


def _check_same(kind: str, read: list[Any], written: Iterable[Any], file: str) -> None:
    """Raise if names are not read back as they were written."""
    for copy, name in zip(read, written, strict=True):
        if copy != name or type(copy) is not type(name):
            raise DataError(f"the {kind} {name!r} cannot be written to {file}: use names without '::'")


def _check_exists(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"{path}: no such file; there must be {_FEATURES}, {_DESCRIPTIONS} and {_SPLIT}")


def _read_table(path: Path) -> pd.DataFrame:
    """Return a CSV file as a table of strings."""
    _check_exists(path)
    try:
        table = pd.read_csv(path, dtype=object, keep_default_na=False, index_col=False, encoding="utf-8-sig")
    except (ValueError, pd.errors.ParserError) as error:
        raise DataError(f"{path}: not a CSV table in UTF-8: {error}") from error
    if not len(table):
        raise DataError(f"{path}: the table has no rows")
    return table


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
