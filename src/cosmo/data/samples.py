"""Samples of any kind, as they are read: feature rows, texts or pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from cosmo.data.dataset import DataError
from cosmo.data.images import read_image_folder, read_image_table
from cosmo.data.tables import read_features, read_texts

__all__ = ["Kind", "ProjectData", "SampleSet", "read_samples"]

Kind = Literal["features", "text", "images"]


@dataclass(frozen=True, eq=False)
class SampleSet:
    """Samples as they were read, and their classes if they came with them.

    Parameters
    ----------
    items : DataFrame or array of feature rows, list of texts, or list of paths of pictures
    labels : Index of length n_samples, or None

    Examples
    --------
    >>> few = SampleSet(["hello", "bye", "see you"], pd.Index(["greet", "leave", "leave"]))
    >>> few.take([0, 2]).items
    ['hello', 'see you']
    """

    items: Any
    labels: pd.Index | None

    def __len__(self) -> int:
        return len(self.items)

    def take(self, rows: Any) -> SampleSet:
        """Return the samples at these positions."""
        if isinstance(self.items, pd.DataFrame):
            items: Any = self.items.iloc[rows]
        elif isinstance(self.items, np.ndarray):
            items = self.items[rows]
        else:
            items = [self.items[row] for row in rows]
        return SampleSet(items, None if self.labels is None else self.labels[rows])

    def labelled(self, source: object) -> pd.Index:
        """Return the labels, which must be there; `source` is named if they are not."""
        if self.labels is None:
            raise DataError(
                f"{source}: there are no labels; say which column has them (label, or --label), "
                "sort pictures into a folder for each class, or give an .npz the array y"
            )
        return self.labels


@dataclass(frozen=True, eq=False)
class ProjectData:
    """What a project names, read.

    Parameters
    ----------
    kind : {"features", "text", "images"}
    train : SampleSet
        Labelled samples to learn from.
    test : SampleSet or None
        Labelled samples that are held back.
    descriptions : DataFrame of numbers or Series of str
        Index = class.
    """

    kind: Kind
    train: SampleSet
    test: SampleSet | None
    descriptions: pd.DataFrame | pd.Series


def read_samples(
    source: str | Path,
    kind: Kind,
    *,
    label: str | None = None,
    text: str | None = None,
    image: str | None = None,
    features: str | tuple[str, ...] | None = None,
    labels: str | Path | None = None,
) -> SampleSet:
    r"""Read samples of a kind from a file or folder; see `cosmo.io.project.Project` for the parameters.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "few.csv").write_text("text,label\nhello,greet\n")
    ...     read_samples(Path(folder, "few.csv"), "text").items
    ['hello']
    """
    source = Path(source)
    if not source.exists():
        raise DataError(f"{source}: no such file or folder")
    if kind == "images":
        if source.is_dir():
            return SampleSet(*read_image_folder(source))
        return SampleSet(*read_image_table(source, image=image, label=label))
    if source.is_dir():
        raise DataError(f"{source}: a folder has pictures; {kind} come from a file")
    if kind == "text":
        return SampleSet(*read_texts(source, text=text, label=label))
    try:
        return SampleSet(*read_features(source, label=label, features=features, labels=labels))
    except DataError as error:
        if "no column for features" not in str(error):
            raise
        raise DataError(
            f"{error}; name the column of texts (text, --text) or pictures (image, --image)"
        ) from error
