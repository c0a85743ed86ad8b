"""Hold-out splits of the paper, and a protocol that seals the test set.

At the *validation* stage some seen classes are held out as unseen: experts are trained on Seen-Train, and the
gate and all parameters are chosen on GZSL-Val. At the *test* stage experts are trained on all training rows.

=============  ==========================================================================
Seen-Train     training rows of the validation stage
Seen-Val       other rows of the same classes
Unseen-Val     rows of held-out classes
GZSL-Val       Seen-Val, then Unseen-Val
Gating-Val     rows 0, 3, 6, ... of GZSL-Val; Gating-Train: its other rows
Test           rows of seen classes held back by the data set, and rows of unseen classes
=============  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from cosmo._core.validation import as_class_index, as_number, check_shares
from cosmo.data.dataset import GZSLDataset, Split

PUBLISHED_SEEDS = {"AWA1": 1003, "CUB": 1002, "SUN": 1004, "FLO": 1000}
"""Seeds of Seen-Val that the paper's code documents."""


class SealedTestError(RuntimeError):
    """Raised when test rows or unseen classes would be used for fitting or selection."""


def gating_split(n_rows: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the positions of Gating-Train and Gating-Val within GZSL-Val."""
    rows = np.arange(n_rows)
    return rows[rows % 3 != 0], rows[rows % 3 == 0]


@dataclass(frozen=True, eq=False)
class HoldOut:
    """Row numbers of Seen-Train, Seen-Val and Unseen-Val.

    Parameters
    ----------
    seen_train, seen_val, unseen_val : array of int
        See the table on top of this module.

    Examples
    --------
    >>> held = HoldOut(seen_train=[0, 1, 2], seen_val=[3, 4], unseen_val=[5, 6])
    >>> held.gzsl_val, held.gating_train, held.gating_val
    (array([3, 4, 5, 6]), array([4, 5]), array([3, 6]))
    """

    seen_train: NDArray[np.intp]
    seen_val: NDArray[np.intp]
    unseen_val: NDArray[np.intp]

    def __post_init__(self) -> None:
        for name in ("seen_train", "seen_val", "unseen_val"):
            rows = np.asarray(getattr(self, name))
            if rows.ndim != 1 or len(rows) == 0 or rows.dtype.kind not in "iu" or rows.min() < 0:
                raise ValueError(
                    f"{name} must be a non-empty list of row numbers, got {rows.dtype} {rows.shape}"
                )
            object.__setattr__(self, name, rows.astype(np.intp))
        if len(np.unique(np.concatenate([self.seen_train, self.gzsl_val]))) != len(self):
            raise ValueError("seen_train, seen_val and unseen_val share rows")

    def __len__(self) -> int:
        return len(self.seen_train) + len(self.seen_val) + len(self.unseen_val)

    @property
    def gzsl_val(self) -> NDArray[np.intp]:
        """Seen-Val, then Unseen-Val."""
        return np.concatenate([self.seen_val, self.unseen_val])

    @property
    def gating_val(self) -> NDArray[np.intp]:
        """Every third row of GZSL-Val."""
        return self.gzsl_val[gating_split(len(self.gzsl_val))[1]]

    @property
    def gating_train(self) -> NDArray[np.intp]:
        """The rows of GZSL-Val that are not in Gating-Val."""
        return self.gzsl_val[gating_split(len(self.gzsl_val))[0]]

    def within(self, rows: ArrayLike) -> HoldOut:
        """Return the same hold-out in positions of the subset `rows`."""
        position = pd.Index(np.asarray(rows))
        parts = [position.get_indexer(part) for part in (self.seen_train, self.seen_val, self.unseen_val)]
        if any((part < 0).any() for part in parts):
            raise ValueError("the hold-out has rows outside the subset")
        return HoldOut(*parts)

    def check(self, labels: Iterable[Hashable]) -> None:
        """Raise ValueError if the rows contradict the labels."""
        codes, _ = pd.factorize(as_class_index(labels))
        if max(part.max() for part in (self.seen_train, self.gzsl_val)) >= len(codes):
            raise ValueError(f"the hold-out points beyond the {len(codes)} rows")
        if np.intersect1d(codes[self.seen_train], codes[self.unseen_val]).size:
            raise ValueError("a class held out as unseen has rows in seen_train")
        if np.setdiff1d(codes[self.seen_val], codes[self.seen_train]).size:
            raise ValueError("seen_val has a class without rows in seen_train")


def hold_out(
    labels: Iterable[Hashable], *, classes: float = 1 / 3, rows: float = 1 / 4, seed: int | None = 0
) -> HoldOut:
    """Hold out classes, and rows of the other classes, at random.

    Parameters
    ----------
    labels : sequence of length n_samples
    classes : float, default=1/3
        Share of classes held out as unseen: at least one, and not all.
    rows : float, default=1/4
        Share of rows of each other class for Seen-Val; at least one row stays in Seen-Train.
    seed : int, default=0

    Returns
    -------
    HoldOut

    Examples
    --------
    >>> held = hold_out(list("aaaabbbbcccc"), seed=1)
    >>> len(held.seen_train), len(held.seen_val), len(held.unseen_val)
    (6, 2, 4)
    """
    codes, n_classes = _factorize(labels)
    check_shares(classes=classes, rows=rows)
    generator = np.random.default_rng(seed)
    n_held = min(max(1, round(n_classes * classes)), n_classes - 1)
    held = np.zeros(n_classes, dtype=bool)
    held[generator.permutation(n_classes)[:n_held]] = True
    return _hold_out_classes(codes, held, rows, generator)


def further_folds(
    labels: Iterable[Hashable], first: HoldOut, n_folds: int, *, seed: int | None = 0
) -> list[HoldOut]:
    """Return `n_folds` - 1 hold-outs in which every class of `first.seen_train` is held out once.

    None of them validates on rows of Gating-Val of `first`, so a gate fitted on all can be evaluated there.
    """
    codes, n_classes = _factorize(labels)
    trained = np.unique(codes[first.seen_train])
    n_folds = as_number(n_folds, name="folds", whole=True)
    if not 1 <= n_folds <= len(trained) + 1:
        raise ValueError(f"folds must be between 1 and {len(trained) + 1}, got {n_folds}")
    generator = np.random.default_rng(seed)
    fold = generator.permutation(len(trained)) % max(n_folds - 1, 1)
    share = len(first.seen_val) / (len(first.seen_val) + len(first.seen_train))
    rows = np.setdiff1d(np.arange(len(codes)), first.gating_val)
    folds = []
    for k in range(n_folds - 1):
        held = np.isin(np.arange(n_classes), trained[fold == k])
        part = _hold_out_classes(codes[rows], held, share, generator)
        spare = first.gating_val[~held[codes[first.gating_val]]]
        train = np.union1d(rows[part.seen_train], spare)
        folds.append(HoldOut(train, rows[part.seen_val], rows[part.unseen_val]))
    return folds


def authors_hold_out(split: Split, seed: int) -> HoldOut:
    """Return the hold-out of the paper's authors, row for row; `PUBLISHED_SEEDS` has their seeds.

    Seen-Val has as many rows as `split.test_seen`, but at most half of the candidates.
    """
    if split.train is None or split.val is None:
        raise ValueError("this split has no train / val classes; use hold_out instead")
    # The iteration order of this set of 1-based rows is part of the published draw.
    trainval = set((split.trainval + 1).tolist())
    candidates = list(trainval.intersection((split.train + 1).tolist()))
    size = min(len(split.test_seen), len(candidates) // 2)
    if size == 0:
        raise ValueError("Seen-Val would be empty: the split has no test_seen rows or too few training rows")
    drawn = np.random.RandomState(seed).choice(candidates, size, replace=False) - 1
    return HoldOut(
        seen_train=np.setdiff1d(np.array(candidates) - 1, drawn),
        seen_val=np.sort(drawn),
        unseen_val=np.intersect1d(split.val, split.trainval),
    )


class Samples(NamedTuple):
    """Features, labels and row numbers of some samples."""

    X: NDArray[np.float32]
    y: pd.Index
    rows: NDArray[np.intp]


class Protocol:
    """Access to the rows of a data set that opens the test set once, at the end.

    Parameters
    ----------
    dataset : GZSLDataset
    seed : int, default=0
        Seed of Seen-Val and, if the data set has no validation classes, of those.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> protocol = Protocol(load_glyphs(n_classes=40, samples_per_class=8))
    >>> protocol.samples(protocol.dataset.split.test_seen)
    Traceback (most recent call last):
    ...
    cosmo.data.splits.SealedTestError: ... rows are outside the training rows; ...
    >>> test = protocol.open_test()
    >>> len(test.X) == len(test.y)
    True
    """

    def __init__(self, dataset: GZSLDataset, *, seed: int = 0) -> None:
        self.dataset = dataset
        self.seed = seed
        split = dataset.split
        if split.train is not None and len(split.test_seen):
            self.hold_out = authors_hold_out(split, seed)
        else:
            held = hold_out(dataset.labels[split.trainval], seed=seed)
            self.hold_out = HoldOut(
                *(split.trainval[part] for part in (held.seen_train, held.seen_val, held.unseen_val))
            )
        self.hold_out.check(dataset.labels)
        self.opened = False

    def samples(self, rows: ArrayLike) -> Samples:
        """Return training rows; raise SealedTestError for test rows or after `open_test`."""
        rows = np.asarray(rows)
        if rows.dtype.kind not in "iu":
            raise TypeError(f"rows must be row numbers, got {rows.dtype}; use np.flatnonzero on a mask")
        if self.opened:
            raise SealedTestError("the test set is open, so fitting is over; start again with a new Protocol")
        outside = np.setdiff1d(rows, self.dataset.split.trainval)
        if outside.size:
            raise SealedTestError(
                f"{outside.size} of {rows.size} rows are outside the training rows; drop them"
            )
        return self._take(rows)

    def training(self) -> Samples:
        """Return all training rows, sorted."""
        return self.samples(np.sort(self.dataset.split.trainval))

    def training_hold_out(self) -> HoldOut:
        """Return the validation stage in positions of `training()`."""
        return self.hold_out.within(np.sort(self.dataset.split.trainval))

    def check_labels(self, labels: Iterable[Hashable]) -> None:
        """Raise SealedTestError if any label is an unseen class."""
        leaked = as_class_index(labels).intersection(self.dataset.unseen_classes)
        if len(leaked):
            raise SealedTestError(f"{leaked[0]!r} is an unseen class; its samples belong to the test only")

    def test_features(self) -> NDArray[np.float32]:
        """Return the features of the test rows, to compute predictions; the labels stay sealed."""
        return self.dataset.features[self._test_rows()]

    def open_test(self) -> Samples:
        """Return the test rows, seen then unseen, once; `samples` raises afterwards."""
        if self.opened:
            raise SealedTestError("the test set was opened already; a Protocol is for one evaluation")
        rows = self._test_rows()
        self.opened = True
        return self._take(rows)

    def _test_rows(self) -> NDArray[np.intp]:
        split = self.dataset.split
        if len(split.test_seen) == 0 or len(split.test_unseen) == 0:
            raise ValueError("the split has no test rows of seen classes or none of unseen classes")
        return np.concatenate([np.sort(split.test_seen), np.sort(split.test_unseen)])

    def _take(self, rows: NDArray[np.intp]) -> Samples:
        return Samples(self.dataset.features[rows], self.dataset.labels[rows], rows)


def _factorize(labels: Iterable[Hashable]) -> tuple[NDArray[np.intp], int]:
    codes, classes = pd.factorize(as_class_index(labels))
    if (codes < 0).any():
        raise ValueError(f"labels have none in row {np.argmax(codes < 0)}; fill it in or drop the row")
    if len(classes) < 2:
        raise ValueError(f"holding out a class needs at least two classes, got {len(classes)}; add samples")
    return codes, len(classes)


def _hold_out_classes(
    codes: NDArray[np.intp], held: NDArray[np.bool_], rows: float, generator: np.random.Generator
) -> HoldOut:
    """Hold out classes by mask, and a share of the rows of each other class."""
    shuffled = generator.permutation(len(codes))
    shuffled = shuffled[np.argsort(codes[shuffled], kind="stable")]
    sizes = np.bincount(codes, minlength=len(held))
    rank = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    n_val = np.minimum(np.maximum(np.rint(sizes * rows), 1), sizes - 1)
    by_class = np.repeat(np.arange(len(held)), sizes)
    is_val = rank < n_val[by_class]
    is_held = held[by_class]
    seen_val = np.sort(shuffled[is_val & ~is_held])
    if len(seen_val) == 0:
        raise ValueError("no class has two rows, so none can be held out for validation; add samples")
    return HoldOut(np.sort(shuffled[~is_val & ~is_held]), seen_val, np.sort(shuffled[is_held]))
