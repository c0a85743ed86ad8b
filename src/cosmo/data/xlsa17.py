"""Reader and writer of the "proposed splits" benchmark (xlsa17), in MATLAB files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo._core.validation import check_descriptions, check_features
from cosmo.data._matfile import MatFile, cell_array, read_mat, storable, write_mat_files
from cosmo.data.dataset import DataError, GZSLDataset, Split

_PARTS = ("trainval", "test_seen", "test_unseen")
_OPTIONAL_PARTS = ("train", "val")
_VALIDATION_CLASSES = "valclasses1.txt"
_SAMPLE_FIELDS = ("features", "labels", "image_files")
_CLASS_FIELDS = (
    "allclasses_names",
    "att",
    "original_att",
    *(f"{part}_loc" for part in _PARTS + _OPTIONAL_PARTS),
)
_MISSING = -1


def read_xlsa17(
    folder: str | os.PathLike[str],
    *,
    features: str = "res101",
    descriptions: str = "att_splits",
    attributes: str | os.PathLike[str] | None = None,
    original: bool = False,
    name: str | None = None,
) -> GZSLDataset:
    """Read a folder of the proposed-splits benchmark.

    MATLAB files of versions 5 to 7.3 (HDF5) are read.

    Parameters
    ----------
    folder : path
        Holds `<features>.mat` and `<descriptions>.mat`.
    features : str, default="res101"
        File with `features` (n_features x n_samples), `labels` (n_samples x 1, the 1-based position in
        `allclasses_names`) and, optionally, `image_files`.
    descriptions : str, default="att_splits"
        File with `att` (n_attributes x n_classes), the 1-based rows `trainval_loc`, `test_seen_loc`,
        `test_unseen_loc` and, optionally, `allclasses_names`, `train_loc`, `val_loc`, `original_att`.
        Without `allclasses_names`, as in the FLO file, names are the lines of `allclasses.txt` in the
        folder, or else "1", "2", ...
        Without `train_loc` and `val_loc`, which some copies lack, the validation classes are the lines of
        `valclasses1.txt` in the folder.
    attributes : path, default=None
        Text file with a line `group::attribute`, optionally numbered, for each attribute. Without it,
        attributes of CUB, AWA and SUN get their known groups, and others are numbered from 0.
    original : bool, default=False
        Describe classes by `original_att` instead of `att`. In a table of percentages, -1 means missing
        (AWA has four such entries) and is replaced by the mean of the attribute over the other classes.
    name : str, default=None
        Name of the data set; by default that of the folder.

    Returns
    -------
    GZSLDataset
        Labels are the names of the classes; the rows of the split are in the order of the file.

    Raises
    ------
    DataError
        Naming the file and the field that cannot be used.

    References
    ----------
    Y. Xian et al., "Zero-Shot Learning - A Comprehensive Evaluation of the Good, the Bad and the Ugly",
    TPAMI 2018.

    Examples
    --------
    >>> import tempfile
    >>> table = pd.DataFrame([[1, 0], [0, 1], [1, 1]], index=["cat", "dog", "fox"])
    >>> data = GZSLDataset(np.eye(5, 4), ["cat", "cat", "dog", "dog", "fox"], table,
    ...                    Split(trainval=[2, 0], test_seen=[1, 3], test_unseen=[4]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_xlsa17(data, folder)
    ...     read_xlsa17(folder, name="pets")
    GZSLDataset('pets': 5 samples x 4 features, 2 seen + 1 unseen classes, 2 attributes)
    """
    folder = Path(folder)
    samples = _open(folder, features, "features", _SAMPLE_FIELDS)
    described = _open(folder, descriptions, "descriptions", _CLASS_FIELDS)
    classes = _class_names(described)
    codes = samples.positions("labels", len(classes), "class")
    name = folder.resolve().name if name is None else name
    return GZSLDataset(
        _features(samples, len(codes)),
        classes.take(codes),
        _descriptions(described, classes, original, attributes, name),
        _split(described, codes, classes),
        sample_names=_sample_names(samples, len(codes)),
        name=name,
    )


def read_xlsa17_split(
    folder: str | os.PathLike[str], *, labels: str = "res101", descriptions: str = "att_splits"
) -> tuple[pd.Index, Split]:
    """Read labels and split only, for a folder without features.

    Parameters
    ----------
    folder : path
        Holds `<labels>.mat` and `<descriptions>.mat`.
    labels : str, default="res101"
        File with `labels`.
    descriptions : str, default="att_splits"
        File with the `*_loc` fields, see `read_xlsa17`.

    Returns
    -------
    labels : Index of length n_samples
        Class name of each row.
    split : Split
        Row numbers in the order of the file.
    """
    folder = Path(folder)
    samples = _open(folder, labels, "labels", ("labels",))
    described = _open(folder, descriptions, "descriptions", _CLASS_FIELDS)
    classes = _class_names(described)
    codes = samples.positions("labels", len(classes), "class")
    return classes.take(codes), _split(described, codes, classes)


def write_xlsa17(
    dataset: GZSLDataset,
    folder: str | os.PathLike[str],
    *,
    features: str = "res101",
    descriptions: str = "att_splits",
) -> None:
    """Write a data set as MATLAB (version 5) files that `read_xlsa17` reads.

    Labels become strings. Columns in groups go to `attributes.txt`, to be read with
    `attributes=folder/attributes.txt`; other column names, images and texts are not stored.

    Parameters
    ----------
    dataset : GZSLDataset
        Its descriptions are written as both `att` and `original_att`.
    folder : path
        Created if necessary; files of the same names are replaced, all or none.
    features, descriptions : str, default="res101" and "att_splits"
        Names of the two files, without `.mat`.

    Raises
    ------
    DataError
        If a matrix has 2 GB or more, or a name cannot be stored in a MATLAB file.
    """
    names = _mat_name(features), _mat_name(descriptions)
    if names[0] == names[1] or any(Path(name).name != name for name in names):
        raise DataError(f"features and descriptions need two different file names, not paths, got {names}")
    samples: dict[str, NDArray[Any]] = {"features": dataset.features.T, "labels": _column(dataset.codes)}
    if dataset.sample_names is not None:
        samples["image_files"] = cell_array(dataset.sample_names)
    files = {names[0]: samples, names[1]: _class_fields(dataset)}
    lines = _attribute_lines(dataset.descriptions.columns)
    write_mat_files(folder, files, {"attributes.txt": "\n".join(lines) + "\n"} if lines else None)


def known_groups(dataset: str, n_attributes: int) -> pd.MultiIndex | None:
    """Return the columns (group, number) of a benchmark's attributes, or None."""
    # The files do not name attributes, but their order is fixed.
    known = json.loads(resources.files("cosmo.data").joinpath("attribute_groups.json").read_text())
    sizes = known.get(dataset.upper().rstrip("12"), [])
    if sum(size for _, size in sizes) != n_attributes:
        return None
    groups = pd.Series([group for group, size in sizes for _ in range(size)])
    numbers = groups.groupby(groups).cumcount() + 1
    return pd.MultiIndex.from_arrays([groups, numbers.astype(str)], names=["group", "attribute"])


def _open(folder: Path, stem: str, option: str, fields: Sequence[str]) -> MatFile:
    path = folder / _mat_name(stem)
    if not path.is_file():
        others = ", ".join(sorted(other.name for other in folder.glob("*.mat"))) or "none"
        raise DataError(f"{path}: no such file; .mat files in that folder: {others}; name one by {option}")
    return read_mat(path, fields)


def _mat_name(stem: str) -> str:
    return stem if stem.endswith(".mat") else f"{stem}.mat"


def _class_names(file: MatFile) -> pd.Index:
    listed = file.path.with_name("allclasses.txt")
    if "allclasses_names" in file:
        classes = pd.Index(file.texts("allclasses_names"))
    elif listed.is_file():
        classes = pd.Index(_lines(listed))
    else:
        classes = pd.Index([str(number + 1) for number in range(file.numbers("att").shape[-1])])
    twice = classes[classes.duplicated()]
    if len(twice):
        raise file.error("allclasses_names", f"has {twice[0]!r} more than once; rename one of the classes")
    return classes


def _features(file: MatFile, n_samples: int) -> NDArray[np.float32]:
    values = file.matrix("features", n_samples, "labels")
    try:
        return np.ascontiguousarray(check_features(values.T))
    except ValueError as error:
        raise DataError(f"{file.path}: {error}") from error


def _sample_names(file: MatFile, n_samples: int) -> list[str] | None:
    if "image_files" not in file:
        return None
    names = file.texts("image_files")
    if len(names) != n_samples:
        raise file.error("image_files", f"has {len(names)} names for {n_samples} labels; correct or drop it")
    return names


def _descriptions(
    file: MatFile, classes: pd.Index, original: bool, attributes: str | os.PathLike[str] | None, dataset: str
) -> pd.DataFrame:
    field = "original_att" if original else "att"
    if original and field not in file:
        raise file.error(field, "is missing; read att with original=False")
    values = file.matrix(field, len(classes), "allclasses_names")
    if original:
        values = _fill_missing(file, field, values)
    if attributes is None:
        columns = known_groups(dataset, len(values))
    else:
        columns = _read_attributes(Path(attributes), len(values))
    try:
        return check_descriptions(pd.DataFrame(values.T, index=classes, columns=columns), name=field)
    except ValueError as error:
        raise DataError(f"{file.path}: {error}; every class needs a finite value") from error


def _fill_missing(file: MatFile, field: str, values: NDArray[Any]) -> NDArray[Any]:
    missing = values == _MISSING
    known = values[~missing]
    if not missing.any() or not known.size or known.min() < 0 or not 1 < known.max() <= 100:
        return values
    if missing.all(axis=1).any():
        attribute = int(np.argmax(missing.all(axis=1))) + 1
        raise file.error(field, f"is {_MISSING} for every class in row {attribute}; drop that attribute")
    mean = values.mean(axis=1, keepdims=True, where=~missing)
    return np.where(missing, mean, values)


def _split(file: MatFile, codes: NDArray[np.intp], classes: pd.Index) -> Split:
    parts = _PARTS + tuple(part for part in _OPTIONAL_PARTS if f"{part}_loc" in file)
    rows = {part: file.positions(f"{part}_loc", len(codes), "row") for part in parts}
    validation = file.path.with_name(_VALIDATION_CLASSES)
    if parts == _PARTS and validation.is_file():
        names = pd.Index(_lines(validation))
        held = classes.get_indexer(names)
        if held.min(initial=0) < 0:
            raise DataError(f"{validation}: no class {names[held < 0][0]!r} in {file.path.name}")
        in_val = np.isin(codes[rows["trainval"]], held)
        rows |= {"train": rows["trainval"][~in_val], "val": rows["trainval"][in_val]}
    try:
        split = Split(**rows)
        split.check(codes, classes)
    except DataError as error:
        raise DataError(f"{file.path}: {error} (split.trainval is the field trainval_loc)") from error
    return split


def _lines(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip()]


def _read_attributes(path: Path, n_attributes: int) -> pd.MultiIndex:
    try:
        pairs = _parse_attributes(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as a list of attributes: {error}") from error
    if len(pairs) != n_attributes:
        raise DataError(f"{path}: {len(pairs)} attributes for {n_attributes} columns; give one line for each")
    names = pd.DataFrame(pairs, columns=["group", "attribute"])
    repetition = names.groupby(["group", "attribute"]).cumcount()
    names["attribute"] += [f" ({count + 1})" if count else "" for count in repetition]
    return pd.MultiIndex.from_frame(names)


def _parse_attributes(text: str) -> list[tuple[str, str]]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    numbered = [match for line in lines if (match := re.fullmatch(r"([0-9]{1,9})\s+(.*)", line))]
    if lines and len(numbered) == len(lines):
        numbers = [int(match[1]) for match in numbered]
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise ValueError("the lines are numbered, but not in order; sort them as the columns are")
        lines = [match[2] for match in numbered]
    pairs = []
    for place, line in enumerate(lines, start=1):
        group, colons, attribute = line.partition("::")
        if not (colons and group and attribute):
            raise ValueError(f"line {place} is {line!r}, not group::attribute")
        pairs.append((group, attribute))
    return pairs


def _class_fields(dataset: GZSLDataset) -> dict[str, NDArray[Any]]:
    names = [str(label) for label in dataset.classes]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"two classes are both written as {twice!r}; rename one of them")
    table = dataset.descriptions.to_numpy().T
    fields = {"allclasses_names": cell_array(names), "att": table, "original_att": table}
    for part in _PARTS + _OPTIONAL_PARTS:
        rows = getattr(dataset.split, part)
        if rows is not None:
            fields[f"{part}_loc"] = _column(rows)
    return fields


def _column(positions: NDArray[np.intp]) -> NDArray[np.float64]:
    return (positions.astype(np.float64) + 1)[:, np.newaxis]


def _attribute_lines(columns: pd.Index) -> list[str]:
    """Return numbered lines of grouped columns; numbered, because a group may begin with a number."""
    if columns.nlevels != 2:
        return []
    pairs = [(storable(str(group)), storable(str(attribute))) for group, attribute in columns]
    for pair in pairs:
        if "::" in pair[0] or any([name.strip()] != name.splitlines() for name in pair):
            raise DataError(f"the column {pair!r} cannot be written to attributes.txt; give simple names")
    return [f"{place} {group}::{attribute}" for place, (group, attribute) in enumerate(pairs, start=1)]
