"""Signs that a test would be answered by what leaked into training, not by what was learned."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

from cosmo._core.validation import as_class_index, check_features
from cosmo.data.dataset import GZSLDataset

__all__ = ["Leak", "dataset_leaks", "find_leaks"]

_LABEL_LIKE = 1e-4  # variance within classes, as a share of all, below which a feature is a label
_STEP = 0.1  # of the step between evenly spaced classes: from here on two values are different
_CLASSES = 5  # below, a trait can have a value for each class
_NEAR = 0.1  # of the usual distance to the nearest neighbour: a copy, but for noise
_ENOUGH = 20  # rows, or degrees of freedom, below which chance can look like a leak
_SAMPLED = 1000  # rows that neighbours are looked for


class Leak(NamedTuple):
    """One suspicion: its kind, how many rows, columns or classes it is about, and what to tell."""

    kind: Literal["label column", "row number", "near copies", "descriptions of test rows"]
    number: int
    text: str


def find_leaks(
    X: ArrayLike,
    y: Iterable[Hashable],
    test_X: ArrayLike | None = None,
    test_y: Iterable[Hashable] | None = None,
    descriptions: pd.DataFrame | None = None,
    *,
    columns: Iterable[Hashable] | None = None,
) -> list[Leak]:
    """Look for labels among features, noisy copies of training rows in the test, descriptions of test rows.

    Equal rows are found by `cosmo check`, and rows or classes on the wrong side by `Split.check`,
    `HoldOut.check` and `Protocol`.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Training rows.
    y : labels, length n_samples
    test_X, test_y : the same for test rows, optional
    descriptions : DataFrame of shape (n_classes, n_attributes), optional
        Index = class.
    columns : sequence of length n_features, optional
        Names of the features.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat(np.arange(5), 10)
    >>> [leak.kind for leak in find_leaks(np.column_stack([rng.normal(size=(50, 3)), labels]), labels)]
    ['label column']
    """
    rows = check_features(X, name="training rows")
    codes, _ = pd.factorize(as_class_index(y))
    names = pd.Index(range(rows.shape[1]) if columns is None else list(columns))
    found = [*_label_columns(rows, codes, names), *_row_numbers(rows, names)]
    if test_X is not None:
        test = check_features(test_X, name="test rows")
        if test.shape[1] != rows.shape[1]:
            raise ValueError(f"test rows have {test.shape[1]} features, training rows {rows.shape[1]}")
        found += _near_copies(rows, test)
        if test_y is not None and descriptions is not None and descriptions.shape[1] == rows.shape[1]:
            found += _descriptions(test, as_class_index(test_y), descriptions)
    return found


def dataset_leaks(dataset: GZSLDataset) -> list[Leak]:
    """Return `find_leaks` of a data set's training and test rows; nothing may be chosen by it.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> dataset_leaks(load_glyphs(n_classes=24, samples_per_class=5))
    []
    """
    split = dataset.split
    test = np.concatenate([split.test_seen, split.test_unseen])
    train = np.sort(split.trainval)
    return find_leaks(
        dataset.features[train],
        dataset.labels[train],
        dataset.features[test],
        dataset.labels[test],
        dataset.descriptions,
    )


def _label_columns(rows: NDArray[Any], codes: NDArray[np.intp], names: pd.Index) -> Iterator[Leak]:
    """A feature with one value for each class is the label in other words; so are columns for one class each.

    One that is the same within all classes but parts only some of them may well be a trait of theirs.
    """
    counts = np.bincount(codes)
    if len(rows) - len(counts) < _ENOUGH or len(counts) < _CLASSES:
        return
    order = np.argsort(codes, kind="stable")
    centred = rows[order].astype(np.float64)
    centred -= centred.mean(axis=0)
    whole = np.square(centred).sum(axis=0)
    means = np.add.reduceat(centred, np.cumsum(counts) - counts, axis=0) / counts[:, None]
    within = whole - np.square(means * np.sqrt(counts)[:, None]).sum(axis=0)
    flat = np.flatnonzero((whole > 0) & (within < _LABEL_LIKE * whole))
    width = means[:, flat].max(axis=0) - means[:, flat].min(axis=0)
    steps = np.diff(np.sort(means[:, flat], axis=0), axis=0) > _STEP / len(counts) * width
    n_levels = 1 + steps.sum(axis=0)
    # Of two values, one is a single class's if the first or the last step is the only one.
    alone = flat[(n_levels == 2) & (steps[0] | steps[-1])]
    away = np.abs(means[:, alone] - np.median(means[:, alone], axis=0)).argmax(axis=0)
    one_hot = alone if len(np.unique(away)) >= len(counts) - 1 else alone[:0]
    bad = np.concatenate([flat[n_levels == len(counts)], one_hot])
    if len(bad):
        yield Leak(
            "label column",
            len(bad),
            f"{_n(len(bad), 'feature')}, such as {names[bad[0]]!r}, the same for all samples of a class and "
            "different between classes: is the label among the features? Leave it out",
        )


def _row_numbers(rows: NDArray[Any], names: pd.Index) -> Iterator[Leak]:
    """A feature that rises or falls from each row to the next tells where a row stood in the file."""
    if len(rows) < _ENOUGH:
        return
    rises = np.ones(rows.shape[1], dtype=bool)
    falls = rises.copy()
    for step in range(0, len(rows) - 1, 512):
        change = np.diff(rows[step : step + 513], axis=0)
        rises &= (change > 0).all(axis=0)
        falls &= (change < 0).all(axis=0)
        if not (rises | falls).any():
            return
    bad = np.flatnonzero(rises | falls)
    yield Leak(
        "row number",
        len(bad),
        f"{_n(len(bad), 'feature')}, such as {names[bad[0]]!r}, in the order of the rows: a row number or a "
        "time says which class a sample is of where files are sorted by class; leave it out",
    )


def _near_copies(rows: NDArray[Any], test: NDArray[Any]) -> Iterator[Leak]:
    """A test row much nearer to a training row than those are to each other is one of them, but for noise."""
    if len(rows) < _ENOUGH or not len(test) or rows.shape[1] < 2:
        return
    generator = np.random.default_rng(0)
    spread = rows.std(axis=0, dtype=np.float64)
    scale = np.divide(1, spread, out=np.zeros_like(spread), where=spread > 0).astype(np.float32)
    known = rows * scale
    some = np.sort(generator.permutation(len(rows))[:_SAMPLED])
    asked = np.sort(generator.permutation(len(test))[:_SAMPLED])
    usual = np.median(_nearest(known[some], known, itself=some))
    distance = _nearest(test[asked] * scale, known)
    # Equal rows are another check's; where most training rows are copies there is no usual distance.
    near = (distance < _NEAR * usual) & (distance > 0)
    if near.any():
        of = "" if len(asked) == len(test) else f" of the {len(asked)} looked at"
        yield Leak(
            "near copies",
            int(near.sum()),
            f"{_n(int(near.sum()), 'test sample')}{of}, the first is row {asked[near.argmax()] + 1}, all but "
            "equal to training samples, so accuracies will look too good; keep copies on one side",
        )


def _nearest(
    rows: NDArray[Any], known: NDArray[Any], itself: NDArray[np.intp] | None = None
) -> NDArray[np.float64]:
    """Return the distance of each row to the nearest of `known`, but for its own place there."""
    norms = np.square(known).sum(axis=1)
    nearest = np.empty(len(rows), dtype=np.intp)
    for step in range(0, len(rows), 256):
        squares = norms - 2 * rows[step : step + 256] @ known.T
        if itself is not None:
            places = itself[step : step + 256]
            squares[np.arange(len(places)), places] = np.inf
        nearest[step : step + 256] = squares.argmin(axis=1)
    # The product above is too coarse for copies; between two rows the distance is exact.
    difference = rows.astype(np.float64) - known[nearest]
    distance: NDArray[np.float64] = np.sqrt(np.square(difference).sum(axis=1))
    return distance


def _descriptions(test: NDArray[Any], labels: pd.Index, descriptions: pd.DataFrame) -> Iterator[Leak]:
    """A description nearer to the mean of test rows than the class's true mean can be is made from them.

    The mean of n rows is off by the variance over n; what was written without looking at them cannot be
    nearer, but by a chance that is tiny in many dimensions. A common factor is allowed for.
    """
    bad = []
    for label in descriptions.index.intersection(labels):
        own = test[labels == label].astype(np.float64)
        if len(own) < 2:
            continue
        mean, variance = own.mean(axis=0), own.var(axis=0, ddof=1)
        told = descriptions.loc[label].to_numpy(np.float64)
        size = np.square(mean).sum()
        factor = told @ mean / size if size > 0 else 0.0
        if factor <= 0 or not variance.any():
            continue
        error = factor**2 * variance / len(own)
        freedom = error.sum() ** 2 / np.square(error).sum()
        if freedom < _ENOUGH:
            continue
        limit = chi2.ppf(1e-6, freedom) / freedom * error.sum()
        if np.square(told - factor * mean).sum() < limit:
            bad.append(label)
    if bad:
        yield Leak(
            "descriptions of test rows",
            len(bad),
            f"{_n(len(bad), 'description')}, such as that of {bad[0]!r}, the average of the class's test "
            "samples: the test would measure what it gave away; describe classes without looking at it",
        )


def _n(count: int, what: str) -> str:
    return f"{count} {what} is" if count == 1 else f"{count} {what}s are"
