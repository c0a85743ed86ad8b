"""A data set as a folder of files that anything can read: arrays and CSV tables."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo._core.files import sync
from cosmo.data._tablefile import check_npz
from cosmo.data.dataset import DataError, GZSLDataset, Split

__all__ = ["read_plain", "write_plain"]

_FEATURES, _DESCRIPTIONS, _SPLIT, _SAMPLES = "features.npz", "descriptions.csv", "split.csv", "samples.csv"
_PARTS = ("trainval", "test_seen", "test_unseen", "train", "val")
_OPTIONAL = ("train", "val")
_DIGITS = 18  # of the number of a row, at most


def write_plain(dataset: GZSLDataset, folder: str | os.PathLike[str]) -> None:
    """Write a data set as plain files that `read_plain` reads back without loss.

    `features.npz`
        `X` (n_samples, n_features), `y` (n_samples,) and, if there are pictures, `images`.
    `descriptions.csv`
        The column `class`, then one for each attribute; `group::attribute` where there are groups.
    `split.csv`
        `part` (trainval, test_seen, test_unseen and, if there are such, train, val) and `row`, counted from 0
        as in the arrays, in the order of the split.
    `samples.csv`
        `name` and `text` of each sample; only if there are any.

    `cosmo fit features.npz --descriptions descriptions.csv` takes the first two as they are. Files appear
    under their names only when all are complete.

    Parameters
    ----------
    dataset : GZSLDataset
        Classes must be strings, or all be whole numbers.
    folder : path
        Made if need be; files of the same names are replaced.

    Raises
    ------
    DataError
        If a name would not come back as it is.

    Examples
    --------
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
    labels = _stored(dataset.labels)
    arrays: dict[str, NDArray[Any]] = {"X": dataset.features, "y": labels}
    if dataset.images is not None:
        arrays["images"] = np.asarray(dataset.images)
    tables = {
        _DESCRIPTIONS: _csv(_description_rows(dataset.descriptions)),
        _SPLIT: _csv([("part", "row"), *_split_rows(dataset.split)]),
    }
    told = {"name": dataset.sample_names, "text": dataset.texts}
    given = {column: list(values) for column, values in told.items() if values is not None}
    if given:
        tables[_SAMPLES] = _csv([tuple(given), *zip(*given.values(), strict=True)])
    # What is read back otherwise, for whatever reason, must not be written.
    again = _parse_descriptions(tables[_DESCRIPTIONS], labels.dtype.kind == "i", _DESCRIPTIONS)
    _compare(again, dataset.descriptions)
    if given and list(csv.reader(io.StringIO(tables[_SAMPLES], newline="")))[1:] != [
        list(row) for row in zip(*given.values(), strict=True)
    ]:
        raise DataError("sample names and texts must be strings without NUL characters to be written as CSV")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unfinished-") as draft:
        np.savez(Path(draft, _FEATURES), **arrays)  # type: ignore[arg-type]
        for name, text in tables.items():
            Path(draft, name).write_text(text, encoding="utf-8", newline="")
        drafts = sorted(Path(draft).iterdir())
        for path in drafts:
            sync(path)
        for path in drafts:
            os.replace(path, folder / path.name)
    if not given:
        (folder / _SAMPLES).unlink(missing_ok=True)  # of a data set that was here before


def read_plain(folder: str | os.PathLike[str], *, name: str | None = None) -> GZSLDataset:
    """Read a folder of plain files, see `write_plain` for what is in them.

    Parameters
    ----------
    folder : path
    name : str, optional
        Name of the data set; by default that of the folder.

    Raises
    ------
    DataError
        Naming the file, and the row, that cannot be used.
    """
    folder = Path(folder)
    arrays = _arrays(folder / _FEATURES)
    labels = arrays["y"]
    whole = labels.dtype.kind in "iu"
    if labels.ndim != 1 or not (whole or labels.dtype.kind == "U"):
        raise DataError(
            f"{folder / _FEATURES}: y must be a row of names or whole numbers, got {labels.dtype}"
        )
    path = folder / _DESCRIPTIONS
    descriptions = _parse_descriptions(_text(path), whole, path)
    split = _parse_split(_text(folder / _SPLIT), folder / _SPLIT)
    told: dict[str, list[str]] = {}
    if (folder / _SAMPLES).exists():
        header, *rows = _rows(_text(folder / _SAMPLES), folder / _SAMPLES)
        told = {column: [row[place] for row in rows] for place, column in enumerate(header)}
    try:
        return GZSLDataset(
            arrays["X"],
            pd.Index(labels.astype(np.int64) if whole else labels.tolist()),
            descriptions,
            split,
            sample_names=told.get("name"),
            texts=told.get("text"),
            images=arrays.get("images"),
            name=folder.resolve().name if name is None else name,
        )
    except DataError as error:
        raise DataError(f"{folder}: {error}") from error


def _stored(labels: pd.Index) -> NDArray[Any]:
    if all(isinstance(label, str) for label in labels):
        texts = np.array(labels.tolist(), dtype=np.str_)
        if texts.tolist() != labels.tolist():  # numpy drops NUL characters at the end
            raise DataError("a class name ends in a NUL character; rename it")
        return texts
    if labels.dtype.kind in "iu":
        return labels.to_numpy().astype(np.int64)
    strange = next((label for label in labels if not isinstance(label, str)), None)
    raise DataError(
        f"classes must be strings, or all be whole numbers, to be stored; {strange!r} is among them"
    )


def _description_rows(table: pd.DataFrame) -> Iterable[Sequence[Any]]:
    if table.columns.nlevels == 2:
        yield ["class", *("::".join(map(str, pair)) for pair in table.columns.tolist())]
    else:
        yield ["class", *table.columns]
    for label, values in zip(table.index, table.to_numpy(), strict=True):
        yield [label, *map(_number, values)]


def _number(value: np.float32) -> str:
    """Return the shortest text that is read back as this number, also by way of double precision."""
    text = str(value)
    return text if np.float32(float(text)) == value else repr(float(value))


def _split_rows(split: Split) -> Iterable[tuple[str, int]]:
    for part in _PARTS:
        rows = getattr(split, part)
        if rows is not None:
            yield from ((part, int(row)) for row in rows)


def _csv(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO(newline="")
    try:
        csv.writer(text, lineterminator="\n").writerows(rows)
    except csv.Error as error:
        raise DataError(f"a name cannot be written as CSV: {error}") from error
    return text.getvalue()


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    if not path.is_file():
        raise DataError(f"{path}: no such file; a plain data set has it, {_DESCRIPTIONS} and {_SPLIT}")
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            check_npz(path, file.zip.infolist())
            missing = [name for name in ("X", "y") if name not in file.files]
            if missing:
                raise DataError(f"{path}: no array {missing[0]}; there are {', '.join(file.files) or 'none'}")
            return {name: file[name] for name in ("X", "y", "images") if name in file.files}
    except DataError:
        raise
    except Exception as error:  # what a damaged file raises depends on where it is damaged
        raise DataError(f"{path}: damaged, cut short, or holds objects: {error}") from error


def _text(path: Path) -> str:
    if not path.is_file():
        raise DataError(
            f"{path}: no such file; a plain data set has {_FEATURES}, {_DESCRIPTIONS} and {_SPLIT}"
        )
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text; save it as CSV UTF-8 ({error})") from error


def _rows(text: str, where: object) -> list[list[str]]:
    """Return header and rows of a CSV file, all of the same length."""
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    except csv.Error as error:
        raise DataError(f"{where}: cannot be read as CSV: {error}") from error
    if len(rows) < 2:
        raise DataError(f"{where}: the table has no rows")
    for number, row in enumerate(rows[1:], start=1):
        if len(row) != len(rows[0]):
            raise DataError(f"{where}: row {number} has {len(row)} cells, the header {len(rows[0])}")
    return rows


def _parse_descriptions(text: str, whole: bool, where: object) -> pd.DataFrame:
    (first, *names), *rows = _rows(text, where)
    if first not in ("class", "label") or not names:
        raise DataError(
            f"{where}: the first column must be called class, and others describe it; got {first!r}"
        )
    values = np.empty((len(rows), len(names)), dtype=np.float32)
    classes: list[Any] = []
    for number, (label, *cells) in enumerate(rows, start=1):
        if not label:
            raise DataError(f"{where}: row {number} has no class; name it or drop the row")
        try:
            classes.append(int(label) if whole else label)
        except ValueError as error:
            raise DataError(f"{where}: row {number}: labels are whole numbers, {label!r} is not") from error
        for place, cell in enumerate(cells):
            try:
                values[number - 1, place] = float(cell)
            except ValueError as error:
                raise DataError(
                    f"{where}: {label!r}, column {names[place]!r} is {cell!r}, not a number; correct it"
                ) from error
    columns: Any = names
    if all("::" in name for name in names):
        pairs = [tuple(name.split("::", 1)) for name in names]
        columns = pd.MultiIndex.from_tuples(pairs, names=["group", "attribute"])
    elif names == [str(place) for place in range(len(names))]:
        columns = pd.RangeIndex(len(names))
    return pd.DataFrame(values, index=pd.Index(classes), columns=columns)


def _parse_split(text: str, where: Path) -> Split:
    header, *rows = _rows(text, where)
    if header != ["part", "row"]:
        raise DataError(f"{where}: the columns must be part and row, got {', '.join(header)}")
    parts: dict[str, list[int]] = {part: [] for part in _PARTS if part not in _OPTIONAL}
    for number, (part, row) in enumerate(rows, start=1):
        if part not in _PARTS or not row.isdecimal() or len(row) > _DIGITS:
            raise DataError(
                f"{where}: row {number} is {part},{row}; needed is one of {', '.join(_PARTS)}, number"
            )
        parts.setdefault(part, []).append(int(row))
    if any(part in parts for part in _OPTIONAL):
        parts = {part: parts.get(part, []) for part in _PARTS}
    try:
        return Split(**{part: np.array(rows, dtype=np.intp) for part, rows in parts.items()})
    except DataError as error:
        raise DataError(f"{where}: {error}") from error


def _compare(again: pd.DataFrame, table: pd.DataFrame) -> None:
    """Raise an error if a table would be read back otherwise."""
    if again.columns.tolist() != table.columns.tolist():
        pairs = zip(again.columns, table.columns, strict=False)
        name = next((name for one, name in pairs if one != name), table.columns[0])
        raise DataError(
            f"the column {name!r} of the descriptions cannot be written to {_DESCRIPTIONS}: attributes are "
            "strings (without '::'), pairs of strings (group without '::'), or numbered from 0"
        )
    if again.index.tolist() != table.index.tolist():
        pairs = zip(again.index, table.index, strict=False)
        name = next((name for one, name in pairs if one != name), table.index[0])
        raise DataError(f"the class {name!r} cannot be written to {_DESCRIPTIONS}; rename it")
