"""Tables of samples: features or texts, with labels."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo._core.validation import check_features, first_bad
from cosmo.data._tablefile import TableFile, data_errors, read_npz
from cosmo.data.dataset import DataError

__all__ = ["read_features", "read_table", "read_texts"]

LABEL_NAMES = ("label", "class")
TEXT_NAMES = ("text",)
ARRAY_SUFFIXES = (".npy", ".npz")
_SHOWN = 8


def read_table(path: str | os.PathLike[str]) -> pd.DataFrame:
    r"""Read a table.

    Text files are UTF-8 and may be compressed (`.csv.gz`). CSV cells may be separated by semicolons. Only
    an empty cell counts as missing: "NA" and "None" are names like others.

    Parameters
    ----------
    path : path
        A `.csv`, `.tsv`, `.parquet` (`.pq`), `.json` (a list of objects) or `.jsonl` (`.ndjson`).

    Returns
    -------
    DataFrame

    Raises
    ------
    DataError
        With the name of the file and what is wrong with it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "pets.csv").write_text("size,label\n0.3,cat\n0.7,dog\n")
    ...     read_table(Path(folder, "pets.csv"))
       size label
    0   0.3   cat
    1   0.7   dog
    """
    table = TableFile(path)
    with data_errors(table.path):
        frames = [frame for frame, _, _ in table.frames()]
    if not sum(map(len, frames)) or not frames[0].shape[1]:
        raise DataError(f"{path}: the table has no {'columns' if sum(map(len, frames)) else 'rows'}")
    return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)


def read_features(
    source: str | os.PathLike[str] | pd.DataFrame,
    *,
    label: str | None = None,
    features: str | Sequence[str] | None = None,
    labels: str | os.PathLike[str] | None = None,
) -> tuple[pd.DataFrame | NDArray[np.float32], pd.Index | None]:
    """Read feature rows and, where there are any, their labels.

    Parameters
    ----------
    source : path or DataFrame
        A table, see `read_table`; an `.npz` with the arrays `X` (n_samples, n_features) and, optionally,
        `y` (n_samples,); or an `.npy` of shape (n_samples, n_features).
    label : str or None, default=None
        Column of the labels in a table; by default the one named "label" or "class", if any.
    features : str, list of str or None, default=None
        Columns of a table: the beginning of their names, or a list of names. By default all columns with
        numbers except the label.
    labels : path or None, default=None
        Labels of an `.npy`: another `.npy`, or a text file with one label a line.

    Returns
    -------
    X : DataFrame of a table, or array, of shape (n_samples, n_features), float32
    y : Index of length n_samples, or None
        Whole numbers as int, anything else as str.

    Raises
    ------
    DataError
        With file, row (from 1, without the header) and column of a value that is not a number.

    Examples
    --------
    >>> table = pd.DataFrame({"width": [1, 2], "height": [0.5, 0.7], "label": ["cat", "dog"]})
    >>> X, y = read_features(table)
    >>> list(X.columns), list(y)
    (['width', 'height'], ['cat', 'dog'])
    """
    if isinstance(source, pd.DataFrame):
        return _from_table(source, "the table", label, features)
    path = Path(source)
    if path.suffix not in ARRAY_SUFFIXES:
        if labels is not None:
            raise DataError(
                f"{path}: labels in a file of their own go with .npy; a table has them in a column"
            )
        return _from_table(read_table(path), str(path), label, features)
    X, y = load_arrays(path)
    if path.suffix == ".npy" and labels is not None:
        y = _label_file(Path(labels))
    try:
        X = check_features(X, name="X")
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error
    if len(X) == 0:
        raise DataError(f"{path}: no rows")
    if y is None:
        return X, None
    where = str(path if labels is None else labels)
    if y.ndim != 1 or len(y) != len(X):
        raise DataError(f"{where}: {len(X)} rows of features need as many labels, got shape {y.shape}")
    return X, as_labels(pd.Series(y), where)


def read_texts(
    source: str | os.PathLike[str] | pd.DataFrame, *, text: str | None = None, label: str | None = None
) -> tuple[list[str], pd.Index | None]:
    """Read a table of texts and, where there is such a column, their labels.

    Parameters
    ----------
    source : path or DataFrame
        See `read_table`.
    text : str or None, default=None
        Column of the texts; by default the one named "text".
    label : str or None, default=None
        Column of the labels; by default the one named "label" or "class", if any.

    Returns
    -------
    texts : list of str
    y : Index of length n_samples, or None

    Raises
    ------
    DataError
        With file and row (from 1, without the header) of an empty text or label.

    Examples
    --------
    >>> texts, y = read_texts(pd.DataFrame({"text": ["hello", "bye"], "label": ["greet", "leave"]}))
    >>> texts, list(y)
    (['hello', 'bye'], ['greet', 'leave'])
    """
    table, where = (
        (source, "the table") if isinstance(source, pd.DataFrame) else (read_table(source), str(source))
    )
    column = find_column(table, text, TEXT_NAMES, where, "text")
    if column is None:
        raise DataError(
            f"{where}: no column is called text; name the column of the texts, one of {_columns(table)}"
        )
    texts = table[column].tolist()
    for row, value in enumerate(texts, start=1):
        if not isinstance(value, str) or not value.strip():
            raise DataError(
                f"{where}: row {row}, column {column!r} is {value!r}, not a text; fill or drop it"
            )
    return texts, table_labels(table, label, where)


def find_column(
    table: pd.DataFrame, name: str | None, usual: Sequence[str], where: str, what: str
) -> str | None:
    """Return a column by name, or the one with a usual name, or None."""
    if name is not None and name not in table.columns:
        raise DataError(f"{where}: there is no column {name!r} for {what}; there are {_columns(table)}")
    if name is not None:
        return name
    return next((name for name in usual if name in table.columns), None)


def table_labels(table: pd.DataFrame, label: str | None, where: str) -> pd.Index | None:
    """Return the labels of a table, if it has any."""
    column = find_column(table, label, LABEL_NAMES, where, "labels")
    return None if column is None else as_labels(table[column], where)


def as_labels(values: pd.Series, where: str) -> pd.Index:
    """Return labels: int if all are whole numbers, else str."""
    missing = values.isna().to_numpy()
    if missing.any():
        raise DataError(f"{where}: row {missing.argmax() + 1} has no label; fill or drop it")
    if values.dtype.kind == "f":
        whole = (values % 1 == 0).to_numpy()
        if not whole.all():
            row = int(whole.argmin())
            raise DataError(
                f"{where}: labels must be names or whole numbers, row {row + 1} is {values.iloc[row]}; "
                "is that the right column?"
            )
    if values.dtype.kind in "iuf":
        return pd.Index(values.to_numpy().astype(np.int64))
    texts = [value.decode() if isinstance(value, bytes) else str(value) for value in values]
    for row, text in enumerate(texts, start=1):
        if not text.strip():
            raise DataError(f"{where}: row {row} has no label; fill or drop it")
    return pd.Index(texts)


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


def _from_table(
    table: pd.DataFrame, where: str, label: str | None, features: str | Sequence[str] | None
) -> tuple[pd.DataFrame, pd.Index | None]:
    y = table_labels(table, label, where)
    taken = find_column(table, label, LABEL_NAMES, where, "labels")
    if isinstance(features, str):
        names = [name for name in table.columns if str(name).startswith(features) and name != taken]
    elif features is not None:
        for name in features:
            find_column(table, name, (), where, "features")
        names = list(features)
    else:
        names = [name for name in table.columns if name != taken and has_numbers(table[name])]
    if not names:
        wanted = f"begins with {features!r}" if features else "has numbers"
        raise DataError(f"{where}: no column for features: none {wanted} among {_columns(table)}")
    return as_numbers(table[names], where), y


def load_arrays(path: Path) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return the array of an `.npy`, or the arrays X and, if there is one, y of an `.npz`."""
    if not path.is_file():
        raise DataError(f"{path}: no such file")
    with data_errors(path):
        if path.suffix.lower() == ".npy":
            # Mapped, so that it need not fit into memory.
            return np.load(path, allow_pickle=False, mmap_mode="r"), None
        arrays = read_npz(path, ["X"], ["y"])
        return arrays["X"], arrays.get("y")


def _label_file(path: Path) -> NDArray[Any]:
    if path.suffix == ".npy":
        return load_arrays(path)[0]
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as one label a line: {error}") from error
    numbers = all(line.strip().lstrip("-").isdecimal() for line in lines)
    return np.array([int(line) for line in lines] if numbers else lines)


def _columns(table: pd.DataFrame) -> str:
    names = [repr(name) for name in table.columns[:_SHOWN]]
    return ", ".join(names) + (" …" if table.shape[1] > _SHOWN else "")
