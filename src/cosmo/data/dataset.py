"""Data sets: samples, labels, class descriptions and a split."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from cosmo._core.validation import as_class_index, check_descriptions, check_features, encode_labels, listed


class DataError(ValueError):
    """Raised for a data file or data set that cannot be used."""


class ItemError(ValueError):
    """Raised for one sample, a text or an image, that cannot be used."""


@dataclass(frozen=True, eq=False)
class Split:
    """Row numbers, from 0, of training and test rows.

    Parameters
    ----------
    trainval, test_seen, test_unseen : array of int
        Training rows; test rows of the same classes; rows of the unseen classes.
    train, val : array of int, default=None
        Rows of training and validation classes. As published they contain rows of `test_seen`, which
        `cosmo.data.splits` removes.

    Examples
    --------
    >>> Split(trainval=[0, 1, 2], test_seen=[3], test_unseen=[4, 5]).trainval
    array([0, 1, 2])
    """

    trainval: NDArray[np.intp]
    test_seen: NDArray[np.intp]
    test_unseen: NDArray[np.intp]
    train: NDArray[np.intp] | None = None
    val: NDArray[np.intp] | None = None

    def __post_init__(self) -> None:
        for part in fields(self):
            rows = getattr(self, part.name)
            if rows is None:
                continue
            rows = np.asarray(rows)
            if rows.size == 0:
                rows = rows.astype(np.intp)
            if rows.ndim != 1 or rows.dtype.kind not in "iu":
                raise DataError(
                    f"split.{part.name} must be a 1-D array of row numbers, got {rows.dtype} {rows.shape}"
                )
            if len(np.unique(rows)) != len(rows):
                raise DataError(f"split.{part.name} names a row more than once")
            object.__setattr__(self, part.name, rows.astype(np.intp))
        if (self.train is None) != (self.val is None):
            raise DataError("split.train and split.val come together: give both or neither")

    def check(self, codes: NDArray[np.intp], classes: pd.Index) -> None:
        """Raise DataError if rows or classes overlap."""
        n = len(codes)
        for part in fields(self):
            rows = getattr(self, part.name)
            outside = [] if rows is None else rows[(rows < 0) | (rows >= n)]
            if len(outside):
                raise DataError(f"split.{part.name} points to row {outside[0]}, but there are {n} samples")
        if self.trainval.size == 0:
            raise DataError("split.trainval is empty: there are no training rows")
        for one, other in combinations(("trainval", "test_seen", "test_unseen"), 2):
            common = np.intersect1d(getattr(self, one), getattr(self, other))
            if common.size:
                raise DataError(
                    f"split.{one} and split.{other} share {common.size} rows, such as row {common[0]}"
                )
        trained = np.unique(codes[self.trainval])
        both = np.intersect1d(trained, codes[self.test_unseen])
        if both.size:
            raise DataError(f"a class is both seen and unseen: {listed(classes[both])}")
        untrained = np.setdiff1d(codes[self.test_seen], trained)
        if untrained.size:
            raise DataError(
                f"split.test_seen has classes without training rows: {listed(classes[untrained])}"
            )
        if len(trained) < 2:
            raise DataError(f"only one seen class ({listed(classes[trained])}); at least two are needed")
        if len(trained) == len(classes):
            raise DataError("no unseen class: every described class has training rows")
        if self.train is not None and self.val is not None:
            both = np.intersect1d(codes[self.train], codes[self.val])
            if both.size:
                raise DataError(f"a class is in both split.train and split.val: {listed(classes[both])}")
            for name, rows in (("train", self.train), ("val", self.val)):
                leaked = np.setdiff1d(codes[rows], trained)
                if leaked.size:
                    raise DataError(f"split.{name} has unseen classes: {listed(classes[leaked])}")


class GZSLDataset:
    """A data set for generalized zero-shot learning, validated on construction.

    Parameters
    ----------
    features : array of shape (n_samples, n_features)
        Converted to float32; a float32 or memory-mapped array is not copied.
    labels : sequence of hashable, length n_samples
        Class of each sample: strings, or integers in any range.
    descriptions : DataFrame of shape (n_classes, n_attributes)
        Index = class label. Two column levels are (group, attribute).
    split : Split
        Training and test rows. Classes without a row in `split.trainval` are unseen.
    sample_names, texts : sequence of str, default=None
        One entry per sample.
    images : array of shape (n_samples, height, width[, channels]), default=None
        Shown in reports.
    name : str, default="data"
        Shown in reports.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> table = pd.DataFrame([[1, 0], [0, 1], [1, 1]], index=["cat", "dog", "fox"])
    >>> data = GZSLDataset(np.eye(5, 4), ["cat", "cat", "dog", "dog", "fox"], table,
    ...                    Split(trainval=[0, 2], test_seen=[1, 3], test_unseen=[4]))
    >>> list(data.seen_classes), list(data.unseen_classes)
    (['cat', 'dog'], ['fox'])
    """

    def __init__(
        self,
        features: ArrayLike,
        labels: Sequence[Hashable] | NDArray[Any] | pd.Index,
        descriptions: pd.DataFrame | Mapping[Hashable, Sequence[float]],
        split: Split,
        *,
        sample_names: Sequence[str] | None = None,
        images: NDArray[Any] | None = None,
        texts: Sequence[str] | None = None,
        name: str = "data",
    ) -> None:
        try:
            self.features = check_features(features)
            self.labels = as_class_index(labels)
            self.descriptions = check_descriptions(descriptions)
            for what, values in (
                ("labels", self.labels),
                ("sample_names", sample_names),
                ("images", images),
                ("texts", texts),
            ):
                if values is not None and len(values) != len(self.features):
                    raise DataError(f"{len(self.features)} feature rows but {len(values)} {what}")
            self.codes = encode_labels(self.labels, self.descriptions.index)
            split.check(self.codes, self.descriptions.index)
        except (ValueError, TypeError) as error:
            raise DataError(f"{name}: {error}") from error
        self.split = split
        self.sample_names = sample_names
        self.images = images
        self.texts = texts
        self.name = name

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        return (
            f"GZSLDataset({self.name!r}: {len(self)} samples x {self.features.shape[1]} features, "
            f"{len(self.seen_classes)} seen + {len(self.unseen_classes)} unseen classes, "
            f"{self.descriptions.shape[1]} attributes)"
        )

    def with_roots(self) -> GZSLDataset:
        """Return the data set with square roots of features, which must not be negative.

        Features after a rectifier are skewed; linear experts are more accurate on their roots.
        """
        if self.features.min(initial=0) < 0:
            row, column = np.argwhere(self.features < 0)[0]
            raise DataError(f"{self.name}: row {row}, column {column} is negative and has no square root")
        names = ("labels", "descriptions", "split", "sample_names", "images", "texts", "name")
        unchanged: dict[str, Any] = {name: getattr(self, name) for name in names}
        return GZSLDataset(np.sqrt(self.features), **unchanged)

    @property
    def classes(self) -> pd.Index:
        """All described classes, in the order of the table."""
        return self.descriptions.index

    @property
    def seen_classes(self) -> pd.Index:
        """Classes with training rows, in the order of the table."""
        return self.classes[self._is_seen]

    @property
    def unseen_classes(self) -> pd.Index:
        """Classes without training rows, in the order of the table."""
        return self.classes[~self._is_seen]

    @property
    def _is_seen(self) -> NDArray[np.bool_]:
        seen = np.zeros(len(self.classes), dtype=bool)
        seen[self.codes[self.split.trainval]] = True
        return seen
