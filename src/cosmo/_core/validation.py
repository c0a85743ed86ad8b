"""Checks of arguments: features, labels, descriptions, probabilities and numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

Descriptions = pd.DataFrame | Mapping[Hashable, Sequence[float]]

_BLOCK = 1 << 22  # values that are checked at a time, so that memory-mapped files fit into memory


def first_bad(values: NDArray[Any]) -> tuple[int, ...] | None:
    """Return the position of the first NaN or infinity in a 2-D array, or None."""
    step = max(1, _BLOCK // max(1, values.shape[1]))
    for start in range(0, len(values), step):
        finite = np.isfinite(values[start : start + step])
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            return start + int(row), int(column)
    return None


def check_features(
    X: ArrayLike, *, name: str = "features", columns: int | None = None
) -> NDArray[np.float32]:
    """Return `X` as a finite float32 matrix with this number of columns; float32 is not copied."""
    values = _as_numeric(X, name)
    if values.ndim != 2:
        raise ValueError(
            f"{name} must have one row per sample (2 dimensions), got shape {values.shape}; "
            "reshape(1, -1) makes a row of one sample"
        )
    if values.shape[1] == 0:
        raise ValueError(f"{name} has no columns (shape {values.shape}); give at least one feature")
    if columns is not None and values.shape[1] != columns:
        raise ValueError(
            f"{name} has {values.shape[1]} columns, but the training had {columns}; give the same"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        values = values.astype(np.float32, copy=False)
    bad = first_bad(values)
    if bad is not None:
        raise ValueError(
            f"{name} has a value that is not finite in float32 at row {bad[0]}, column {bad[1]}: "
            f"{values[bad]}; drop or impute such rows first"
        )
    return values


def check_scores(scores: ArrayLike, n_samples: int | None = None, *, name: str) -> NDArray[np.float64]:
    """Return one finite number per sample, as float64."""
    values = _as_numeric(scores, name)
    if values.ndim != 1 or (n_samples is not None and len(values) != n_samples):
        wanted = "" if n_samples is None else f", {n_samples} in all"
        raise ValueError(f"{name} must be one number per sample{wanted}, got shape {values.shape}")
    finite = np.isfinite(values)
    if not finite.all():
        row = int(finite.argmin())
        raise ValueError(f"{name} of sample {row} is {values[row]}, not a finite number; drop such samples")
    return values.astype(np.float64)


def as_number(value: Any, *, name: str, whole: bool = False) -> Any:
    """Return a parameter that must be a number, or a whole number (5.0 becomes 5)."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    number = float(value)
    if math.isnan(number) or (whole and not number.is_integer()):
        raise ValueError(f"{name} must be a {'whole ' if whole else ''}number, got {value}")
    return int(number) if whole else value


def check_shares(**shares: Any) -> None:
    """Raise unless all values are numbers between 0 and 1, neither of them included."""
    for name, share in shares.items():
        if not 0 < as_number(share, name=name) < 1:
            raise ValueError(f"{name} is a share between 0 and 1, got {share}")


def as_array(values: ArrayLike, *, name: str) -> NDArray[Any]:
    """Return values as an array; raise for sparse, masked and ragged ones."""
    if issparse(values):
        raise TypeError(f"{name} is a sparse matrix; make it a dense array with toarray()")
    if np.ma.is_masked(values):
        raise ValueError(f"{name} has masked values; fill them (filled) or drop their rows")
    try:
        # Memory-mapped arrays stay what they are.
        return np.asanyarray(values) if isinstance(values, np.memmap) else np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must have rows of the same length: {error}") from error


def _as_numeric(values: ArrayLike, name: str) -> NDArray[Any]:
    array = as_array(values, name=name)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be numbers, got dtype {array.dtype}; convert them with astype(float)")
    return array


def as_class_index(labels: Iterable[Hashable]) -> pd.Index:
    """Return labels as a flat index, strings as objects; a tuple is one label."""
    if isinstance(labels, pd.Index) and not isinstance(labels, pd.MultiIndex):
        index = labels
    elif isinstance(labels, np.ndarray):
        if labels.ndim != 1:
            raise ValueError(
                f"labels must be one per sample, got shape {labels.shape}; ravel() makes a column flat"
            )
        index = pd.Index(labels)
    else:
        items: list[Any] = list(labels)
        if items and isinstance(items[0], list):
            raise ValueError(f"labels must be one per sample, the first is the list {items[0]}; unpack them")
        index = pd.Index(items, tupleize_cols=False)
    # With pyarrow installed, scikit-learn cannot index the strings of pandas.
    return index.astype(object) if isinstance(index.dtype, pd.StringDtype) else index


def check_descriptions(descriptions: Descriptions, *, name: str = "descriptions") -> pd.DataFrame:
    """Return descriptions as a float32 table with one row per class, one column per attribute.

    Columns may have two levels: the group of the attribute, and the attribute.
    """
    if isinstance(descriptions, Mapping):
        keys = as_class_index(descriptions.keys())
        try:
            with np.errstate(over="ignore"):
                rows = np.asarray(list(descriptions.values()), dtype=np.float32)
        except ValueError as error:
            raise ValueError(f"{name}: every class needs a vector of the same length") from error
        descriptions = pd.DataFrame(rows, index=keys)
    if not isinstance(descriptions, pd.DataFrame):
        raise TypeError(
            f"{name} must be a pandas DataFrame with one row per class (or a dict from class to vector), "
            f"got {type(descriptions).__name__}"
        )
    if descriptions.shape[0] == 0 or descriptions.shape[1] == 0:
        raise ValueError(
            f"{name} is empty (shape {descriptions.shape}); give a row for each class and a column for each "
            "attribute"
        )
    if descriptions.columns.nlevels > 2:
        raise ValueError(
            f"{name} has {descriptions.columns.nlevels} column levels; use one (attribute) or two "
            "(group, attribute)"
        )
    if descriptions.index.nlevels > 1:
        raise ValueError(f"{name} must have one index level, the class label")
    nameless = np.flatnonzero(descriptions.index.isna())
    if len(nameless):
        raise ValueError(f"{name} has no class label in row {nameless[0]}; name the class or drop the row")
    twice = descriptions.index[descriptions.index.duplicated()]
    if len(twice):
        raise ValueError(f"{name} describes a class more than once: {listed(twice)}; keep one row for each")
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            # A fixed memory layout, because the rounding of matrix products depends on it.
            values = np.asfortranarray(descriptions.to_numpy(dtype=np.float32, na_value=np.nan))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name} must hold numbers only: {error}; encode words as numbers first") from error
    bad = first_bad(values)
    if bad is not None:
        raise ValueError(
            f"{name} has a missing or infinite value: class {descriptions.index[bad[0]]!r}, "
            f"attribute {descriptions.columns[bad[1]]!r}; fill it in or drop the attribute"
        )
    return pd.DataFrame(values, index=as_class_index(descriptions.index), columns=descriptions.columns)


def encode_labels(labels: Iterable[Hashable], classes: pd.Index, *, name: str = "labels") -> NDArray[np.intp]:
    """Return the position of each label in `classes`; raise for labels that are not there."""
    index = as_class_index(labels)
    codes = classes.get_indexer(index)
    if (codes < 0).any():
        missing = np.flatnonzero((codes < 0) & index.isna())
        if len(missing):
            raise ValueError(f"{name} has no label in row {missing[0]}; fill it in or drop the row")
        unknown = index[codes < 0].unique()
        raise ValueError(
            f"{name} without a description: {listed(unknown)}; add a row for each to the descriptions"
        )
    return codes


def check_probabilities(proba: ArrayLike, *, name: str, joint: bool = False) -> NDArray[Any]:
    """Return a matrix of probabilities whose rows sum to 1, or to at most 1 if `joint`."""
    values = as_array(proba, name=name)
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} must be a numeric matrix (samples x classes), got shape {values.shape}, {values.dtype}; "
            "convert it with astype(float)"
        )
    if values.shape[1] == 0:
        raise ValueError(f"{name} has no columns (shape {values.shape}); give one for each class")
    if values.dtype.kind != "f":
        values = values.astype(np.float64)
    elif values.dtype.itemsize < 4:  # logarithms of small probabilities do not fit into float16
        values = values.astype(np.float32)
    sums = values.sum(axis=1, dtype=np.float64)
    if not np.isfinite(sums).all():
        row = int(np.argmin(np.isfinite(sums)))
        raise ValueError(f"{name} has NaN or infinite values, first in row {row}; drop such rows")
    if values.size and values.min() < 0:
        row = int(np.argmax(values.min(axis=1) < 0))
        raise ValueError(f"{name} has a negative value in row {row}; logits must go through a soft-max first")
    tolerance = 1e-3
    wrong = sums > 1 + tolerance if joint else np.abs(sums - 1) > tolerance
    if wrong.any():
        row = int(np.argmax(wrong))
        expected = "at most 1" if joint else "1"
        raise ValueError(
            f"{name} must sum to {expected} in every row; row {row} sums to {sums[row]:.4g}: "
            "divide rows by their sums, or put scores through a soft-max"
        )
    return values


def training_rows(
    estimator: BaseEstimator, X: ArrayLike, y: Iterable[Hashable], descriptions: Descriptions | None
) -> tuple[NDArray[np.float32], pd.Index, pd.DataFrame]:
    """Return rows, labels and the table of descriptions for training."""
    if descriptions is None:
        raise ValueError("Cosmo needs descriptions: a table with one row per class, or a dict of vectors")
    table = check_descriptions(descriptions)
    features, labels = validated(estimator, X, y, table)
    index = as_class_index(labels)
    n_seen = len(np.unique(encode_labels(index, table.index, name="y")))
    if n_seen < 2:
        raise ValueError(f"y has only one class ({index[0]!r}); COSMO needs at least two seen classes")
    return features, index, table


def new_descriptions(descriptions: Descriptions, known: pd.DataFrame) -> pd.DataFrame:
    """Return descriptions of new classes, with the attributes of the known ones in their order."""
    new = check_descriptions(descriptions)
    if isinstance(descriptions, Mapping) and new.shape[1] == known.shape[1]:
        new.columns = known.columns
    if set(new.columns) != set(known.columns) or new.shape[1] != known.shape[1]:
        raise ValueError(
            f"the new descriptions must have the same {known.shape[1]} attributes as the model's; "
            f"got {new.shape[1]} columns"
        )
    twice = new.index.intersection(known.index)
    if len(twice):
        raise ValueError(f"class {twice[0]!r} exists already")
    return new[known.columns]


def validated(
    estimator: BaseEstimator,
    X: ArrayLike,
    y: Any = None,
    table: pd.DataFrame | None = None,
    *,
    finite: bool = True,
) -> Any:
    """Return rows in single precision; with a table of classes, for training, rows and labels."""
    try:
        if np.ma.is_masked(X):
            check_features(X, name="X")
        with np.errstate(over="ignore", invalid="ignore"):  # Overflow of float32 shows as infinity.
            if table is None:
                return validate_data(estimator, X, dtype=np.float32, reset=False, ensure_all_finite=finite)
            features, labels = validate_data(estimator, X, y, dtype=np.float32, ensure_min_samples=2)
        check_classification_targets(labels)
        return features, labels
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        try:
            check_features(X, name="X")
            if y is not None and table is not None:
                kind = ValueError  # Versions of scikit-learn differ in the error for bad labels.
                encode_labels(y, table.index, name="y")
        except (ValueError, TypeError) as own:
            raise kind(f"{own} ({error})" if str(own) != str(error) else str(own)) from error
        raise kind(f"X must be one row of finite numbers per sample ({error})") from error


def listed(names: Iterable[Any], show: Callable[[Any], str] = repr, separator: str = ", ") -> str:
    """Return the first five names for a message, and the number of the others."""
    names = list(names)
    shown = separator.join(map(show, names[:5]))
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
