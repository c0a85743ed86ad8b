"""Published predictions of experts, for the rows of a stage."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo._core.validation import check_probabilities
from cosmo.data._tablefile import read_npz
from cosmo.data.dataset import DataError


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
    about = _load(path, names, ["seen_val_seed"])
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
        values = check_probabilities(_load(predicted, [entry])[entry], name=entry, joint=True)
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


def _load(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
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
