"""Input checks shared by every public entry point: one door, one set of messages."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

__all__ = ["as_class_index", "check_descriptions", "check_features", "check_probabilities", "encode_labels"]

_CHUNK = 1 << 22  # values looked at in one go, so that checking a memory-mapped file stays small


def first_bad(values: NDArray[Any]) -> tuple[int, ...] | None:
    """Return the position of the first NaN or infinity in a 2-D array, or None."""
    step = max(1, _CHUNK // max(1, values.shape[1]))
    for start in range(0, len(values), step):
        finite = np.isfinite(values[start : start + step])
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            return start + int(row), int(column)
    return None


def check_features(X: ArrayLike, *, name: str = "features") -> NDArray[np.float32]:
    """Return `X` as a finite float32 matrix, one row per sample; float32 input is not copied."""
    values = np.asanyarray(X)
    if values.dtype == object or values.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be numbers, got dtype {values.dtype}")
    if values.ndim != 2:
        raise ValueError(f"{name} must have one row per sample (2 dimensions), got shape {values.shape}")
    if values.shape[1] == 0:
        raise ValueError(f"{name} has no columns (shape {values.shape})")
    with np.errstate(over="ignore", invalid="ignore"):
        values = values.astype(np.float32, copy=False)
    bad = first_bad(values)
    if bad is not None:
        raise ValueError(
            f"{name} has a value that is not finite in float32 at row {bad[0]}, column {bad[1]}: "
            f"{values[bad]}; drop or impute such rows first"
        )
    return values


def as_class_index(labels: Iterable[Hashable]) -> pd.Index:
    """Return labels as a flat index; a tuple stays one label, and strings are Python's."""
    if isinstance(labels, pd.Index) and not isinstance(labels, pd.MultiIndex):
        return _with_plain_strings(labels)
    if isinstance(labels, np.ndarray):
        return _with_plain_strings(pd.Index(labels))
    return _with_plain_strings(pd.Index(list(labels), tupleize_cols=False))


def _with_plain_strings(index: pd.Index) -> pd.Index:
    # With pyarrow installed, pandas' own kind of strings cannot be indexed by scikit-learn.
    return index.astype(object) if isinstance(index.dtype, pd.StringDtype) else index


def check_descriptions(
    descriptions: pd.DataFrame | Mapping[Hashable, Sequence[float]], *, name: str = "descriptions"
) -> pd.DataFrame:
    """Return class descriptions as a float32 table: one row per class, one column per attribute.

    A mapping from class label to vector is accepted too. Columns may have two levels, the first
    naming the attribute's group.
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
        raise ValueError(f"{name} is empty (shape {descriptions.shape})")
    if descriptions.columns.nlevels > 2:
        raise ValueError(
            f"{name} has {descriptions.columns.nlevels} column levels; use one (attribute) or two "
            "(group, attribute)"
        )
    if descriptions.index.nlevels > 1:
        raise ValueError(f"{name} must have one index level, the class label")
    twice = descriptions.index[descriptions.index.duplicated()]
    if len(twice):
        raise ValueError(f"{name} describes a class more than once: {_some(twice)}")
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            values = descriptions.to_numpy(dtype=np.float32, na_value=np.nan)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name} must hold numbers only: {error}") from error
    bad = first_bad(values)
    if bad is not None:
        raise ValueError(
            f"{name} has a missing or infinite value: class {descriptions.index[bad[0]]!r}, "
            f"attribute {descriptions.columns[bad[1]]!r}"
        )
    return pd.DataFrame(values, index=as_class_index(descriptions.index), columns=descriptions.columns)


def encode_labels(labels: Iterable[Hashable], classes: pd.Index, *, name: str = "labels") -> NDArray[np.intp]:
    """Return each label's position in `classes`; labels without a description are an error."""
    index = as_class_index(labels)
    codes = classes.get_indexer(index)
    if (codes < 0).any():
        unknown = index[codes < 0].unique()
        raise ValueError(
            f"{name} without a description: {_some(unknown)}; add a row for each to the descriptions"
        )
    return codes


def check_probabilities(proba: ArrayLike, *, name: str, joint: bool = False) -> NDArray[Any]:
    """Return `proba` as a floating matrix of probabilities.

    Rows must sum to one, or, when `joint` is true, to at most one (a part of a larger distribution).
    """
    values = np.asanyarray(proba)
    if values.ndim != 2 or values.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} must be a numeric matrix (samples x classes), got shape {values.shape}, {values.dtype}"
        )
    if values.dtype.kind != "f":
        values = values.astype(np.float64)
    sums = values.sum(axis=1, dtype=np.float64)
    if not np.isfinite(sums).all():
        raise ValueError(f"{name} has NaN or infinite values, first in row {np.argmin(np.isfinite(sums))}")
    if values.size and values.min() < 0:
        row = int(np.argmax(values.min(axis=1) < 0))
        raise ValueError(f"{name} has a negative value in row {row}; logits must go through a soft-max first")
    tolerance = 1e-3
    wrong = sums > 1 + tolerance if joint else np.abs(sums - 1) > tolerance
    if wrong.any():
        row = int(np.argmax(wrong))
        expected = "at most 1" if joint else "1"
        raise ValueError(f"{name} must sum to {expected} in every row; row {row} sums to {sums[row]:.4g}")
    return values


def _some(labels: pd.Index, most: int = 5) -> str:
    shown = ", ".join(repr(label) for label in labels[:most])
    return shown if len(labels) <= most else f"{shown} and {len(labels) - most} more"
