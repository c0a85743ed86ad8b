"""Validation of samples, labels and descriptions, with errors that name the position of a bad value."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from cosmo._core.validation import as_class_index, check_descriptions, check_features, encode_labels

Descriptions = pd.DataFrame | Mapping[Hashable, Sequence[float]]


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
