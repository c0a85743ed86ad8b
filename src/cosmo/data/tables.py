"""Tables of samples (features or texts, with labels) and of class descriptions."""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo._core.validation import as_class_index, check_descriptions, check_features, listed
from cosmo.data._tablefile import (
    TableFile,
    as_labels,
    as_numbers,
    data_errors,
    find_column,
    has_numbers,
    read_npz,
    shown,
)
from cosmo.data.dataset import DataError

LABEL_NAMES = ("label", "class")
_CLASS_NAMES = ("class", "label")
TEXT_NAMES = ("text",)
ARRAY_SUFFIXES = (".npy", ".npz")


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
            raise DataError(f"{path}: labels in a file of their own go with .npy; use a column of the table")
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
    column = find_column(table.columns, text, TEXT_NAMES, where, "text")
    if column is None:
        raise DataError(f"{where}: no column is called text; name one of {shown(table.columns)}")
    texts = table[column].tolist()
    for row, value in enumerate(texts, start=1):
        if not isinstance(value, str) or not value.strip():
            raise DataError(
                f"{where}: row {row}, column {column!r} is {value!r}, not a text; fill or drop it"
            )
    return texts, table_labels(table, label, where)


def read_descriptions(path: str | os.PathLike[str]) -> pd.DataFrame | pd.Series:
    """Read class descriptions.

    Parameters
    ----------
    path : path
        A table (see `read_table`) with classes in the column "class" or "label", else in the first, and
        either numeric columns, one per attribute, or columns of texts. Columns named `group::attribute` get
        two levels. Or a JSON object from class to a text, a list of texts, a list of numbers, or an object
        from attribute to number. Several texts of a class, in rows, columns or a list, become lines of one.

    Returns
    -------
    DataFrame of shape (n_classes, n_attributes), float32, or Series of str
        Index = class: int if all classes of a table are integers, else str.

    Raises
    ------
    DataError
        Naming the file, the class and the attribute that cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "pets.json").write_text('{"cat": "a small hunter", "dog": "a loud friend"}')
    ...     read_descriptions(Path(folder, "pets.json"))["cat"]
    'a small hunter'
    """
    path = Path(path)
    document = _json_object(path) if path.suffix.lower() == ".json" else None
    if document is not None:
        return _from_mapping(document, path)
    table = read_table(path)
    column = next((name for name in _CLASS_NAMES if name in table.columns), table.columns[0])
    classes = as_labels(table[column], str(path))
    rest = table.drop(columns=column)
    if rest.shape[1] == 0:
        raise DataError(f"{path}: the only column is {column!r}; add columns that describe the classes")
    texts = [name for name in rest.columns if not has_numbers(rest[name])]
    if texts and len(texts) < rest.shape[1]:
        raise DataError(f"{path}: column {texts[0]!r} has no numbers; give numbers only, or texts only")
    if texts:
        return _texts(classes, rest.to_numpy(dtype=object).tolist(), path)
    return as_descriptions(classes, rest, path)


def match_labels(labels: Iterable[Hashable], classes: pd.Index) -> pd.Index:
    """Return labels with the types of `classes`, such as "1" for 1.

    Parameters
    ----------
    labels : sequence of hashable
    classes : Index

    Returns
    -------
    Index

    Raises
    ------
    DataError
        Naming the labels without a description.

    Examples
    --------
    >>> list(match_labels([1, 2, 1], pd.Index(["1", "2", "3"])))
    ['1', '2', '1']
    """
    index = as_class_index(labels)
    missing = index.isna()
    if missing.any() and not classes.hasnans:
        raise DataError(f"labels have none in row {missing.argmax()}; fill it in or drop the row")
    matched = index if index.isin(classes).all() else match_texts(index, classes)
    undescribed = matched[~matched.isin(classes)].unique()
    if len(undescribed):
        raise DataError(
            f"{len(undescribed)} classes of samples have no description: {listed(undescribed)}; "
            f"described are {listed(classes)}: add descriptions, or correct the labels"
        )
    return matched


def match_texts(labels: Iterable[Hashable], classes: pd.Index) -> pd.Index:
    """Return labels with the type of `classes` where both have the same text, such as 1 and "1"."""
    by_text = {str(name): name for name in classes}
    return pd.Index([by_text.get(str(label), label) for label in labels], tupleize_cols=False)


def table_labels(table: pd.DataFrame, label: str | None, where: str) -> pd.Index | None:
    """Return the labels of a table, if it has any."""
    column = find_column(table.columns, label, LABEL_NAMES, where, "labels")
    return None if column is None else as_labels(table[column], where)


def _from_table(
    table: pd.DataFrame, where: str, label: str | None, features: str | Sequence[str] | None
) -> tuple[pd.DataFrame, pd.Index | None]:
    y = table_labels(table, label, where)
    taken = find_column(table.columns, label, LABEL_NAMES, where, "labels")
    if isinstance(features, str):
        names = [name for name in table.columns if str(name).startswith(features) and name != taken]
    elif features is not None:
        for name in features:
            find_column(table.columns, name, (), where, "features")
        names = list(features)
    else:
        names = [name for name in table.columns if name != taken and has_numbers(table[name])]
    if not names:
        wanted = f"begins with {features!r}" if features else "has numbers"
        raise DataError(f"{where}: no column for features: none {wanted} among {shown(table.columns)}")
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


def _json_object(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file, or None if it is not an object or cannot be read."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise DataError(f"{path}: {twice!r} occurs more than once; keep one")
        return found

    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=unique)
    except DataError:
        raise
    except (OSError, ValueError, RecursionError):  # reported by the reader of tables
        return None
    return document if isinstance(document, dict) else None


def _from_mapping(document: dict[str, Any], path: Path) -> pd.DataFrame | pd.Series:
    if not document:
        raise DataError(f"{path}: no class is described")
    words = all(isinstance(value, str) or _is_texts(value) for value in document.values())
    kinds = {str} if words else {type(value) for value in document.values()}
    if len(kinds) > 1 or not kinds <= {str, list, dict}:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise DataError(f"{path}: classes need all a text, or all a list or object of numbers; got {names}")
    classes = pd.Index([*document])
    if kinds == {str}:
        return _texts(classes, [value if _is_texts(value) else [value] for value in document.values()], path)
    sizes = {name: len(value) for name, value in document.items()}
    longest = max(sizes.values())
    for name, size in sizes.items():
        if size != longest:
            raise DataError(f"{path}: {name!r} has {size} numbers, others {longest}; all need the same")
    rows: list[Any] = [*document.values()]
    return as_descriptions(classes, pd.DataFrame(rows), path)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value)


def _texts(classes: pd.Index, texts: list[list[Any]], path: Path) -> pd.Series:
    """Return the texts of each class as lines, without empty cells and repetitions."""
    found: dict[Any, list[str]] = {name: [] for name in classes}
    for name, row in zip(classes, texts, strict=True):
        found[name] += [text.strip() for text in row if isinstance(text, str) and text.strip()]
    for name, lines in found.items():
        if not lines:
            raise DataError(f"{path}: class {name!r} has no text; describe it in words")
    return pd.Series(
        ["\n".join(dict.fromkeys(lines)) for lines in found.values()],
        index=classes.unique(),
        name="description",
    )


def as_descriptions(classes: pd.Index, table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Return a table of numbers by class; columns `group::attribute` get two levels."""
    twice = classes[classes.duplicated()].unique()
    if len(twice):
        raise DataError(f"{path}: described more than once: {listed(twice)}; keep one row for each class")
    numbers = as_numbers(table, str(path), classes.tolist())
    numbers.index = classes
    grouped = [isinstance(name, str) and "::" in name for name in table.columns]
    if any(grouped) and not all(grouped):
        name = table.columns[grouped.index(False)]
        raise DataError(f"{path}: the column {name!r} has no group; write group::attribute in all or in none")
    if any(grouped):
        pairs = [tuple(name.split("::", 1)) for name in table.columns]
        numbers.columns = pd.MultiIndex.from_tuples(pairs, names=["group", "attribute"])
    return check_descriptions(numbers)
