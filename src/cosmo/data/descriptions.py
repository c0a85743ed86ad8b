"""Readers of class descriptions: attributes or a text for each class."""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from cosmo._core.validation import as_class_index, check_descriptions
from cosmo.data.dataset import DataError, listed
from cosmo.data.tables import as_labels, as_numbers, has_numbers, read_table

__all__ = ["match_labels", "read_descriptions"]

_CLASS_NAMES = ("class", "label")


def read_descriptions(path: str | os.PathLike[str]) -> pd.DataFrame | pd.Series:
    """Read class descriptions.

    Parameters
    ----------
    path : path
        A table (see `read_table`) with classes in the column "class" or "label", else in the first, and
        either numeric columns, one per attribute, or one column of texts. Columns named
        `group::attribute` get two levels. Or a JSON object from class to a text, a list of numbers, or an
        object from attribute to number.

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
    if texts and rest.shape[1] > 1:
        raise DataError(
            f"{path}: column {texts[0]!r} has no numbers; give numbers only, or one column of texts only"
        )
    if texts:
        return _texts(classes, rest[texts[0]].tolist(), path)
    return _numbers(classes, rest, path)


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
    if index.isin(classes).all():
        return index
    missing = index.isna()
    if missing.any():
        raise DataError(f"labels have none in row {missing.argmax()}; fill it in or drop the row")
    by_text = {str(name): name for name in classes}
    if len(by_text) == len(classes):
        matches = [by_text.get(str(label)) for label in index]
        if None not in matches:
            return pd.Index(matches)
    undescribed = index[~index.isin(classes) & ~index.astype(str).isin(list(by_text))].unique()
    raise DataError(
        f"{len(undescribed)} classes of samples have no description: {listed(undescribed)}; "
        f"described are {listed(classes)}: add descriptions, or correct the labels"
    )


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
    kinds = {type(value) for value in document.values()}
    if len(kinds) > 1 or not kinds <= {str, list, dict}:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise DataError(
            f"{path}: every class needs a text, or every class a list or an object of numbers, got {names}"
        )
    classes = pd.Index([*document])
    if kinds == {str}:
        return _texts(classes, [*document.values()], path)
    sizes = {name: len(value) for name, value in document.items()}
    longest = max(sizes.values())
    for name, size in sizes.items():
        if size != longest:
            raise DataError(f"{path}: {name!r} has {size} numbers, others {longest}; all need the same")
    rows: list[Any] = [*document.values()]
    return _numbers(classes, pd.DataFrame(rows), path)


def _texts(classes: pd.Index, texts: list[Any], path: Path) -> pd.Series:
    _check_unique(classes, path)
    for name, text in zip(classes, texts, strict=True):
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"{path}: class {name!r} has no text ({text!r}); describe it in words")
    return pd.Series(texts, index=classes, name="description")


def _numbers(classes: pd.Index, table: pd.DataFrame, path: Path) -> pd.DataFrame:
    _check_unique(classes, path)
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


def _check_unique(classes: pd.Index, path: Path) -> None:
    twice = classes[classes.duplicated()].unique()
    if len(twice):
        raise DataError(f"{path}: described more than once: {listed(twice)}; keep one row for each class")
