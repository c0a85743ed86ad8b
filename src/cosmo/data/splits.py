"""The paper's cross-validation splits, and a test set that stays sealed until it is opened on purpose.

Two stages share one recipe. At the *validation* stage some seen classes play unseen: experts learn from
Seen-Train and are looked at on GZSL-Val = Seen-Val + Unseen-Val. There the gate is trained and every
choice is made. At the *test* stage the experts learn from all training rows, and nothing is chosen.

=============  ==========================================================================
Seen-Train     rows of the training classes that the validation-stage experts learn from
Seen-Val       other rows of the same classes
Unseen-Val     rows of held-out classes
GZSL-Val       Seen-Val, then Unseen-Val
Gating-Val     rows 0, 3, 6, ... of GZSL-Val;  Gating-Train: its other rows
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

from cosmo._core.validation import as_class_index, as_number
from cosmo.data.dataset import GZSLDataset, Split

__all__ = [
    "PUBLISHED_SEEDS",
    "HoldOut",
    "Protocol",
    "Samples",
    "SealedTestError",
    "authors_hold_out",
    "class_folds",
    "further_folds",
    "gating_split",
    "hold_out",
]

PUBLISHED_SEEDS = {"AWA1": 1003, "CUB": 1002, "SUN": 1004, "FLO": 1000}
"""Seeds that the paper's code documents for the draw of Seen-Val."""


class SealedTestError(RuntimeError):
    """Test rows or unseen classes were about to be used for fitting or selection."""


def gating_split(n_rows: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the positions of Gating-Train and Gating-Val within a GZSL-Val of `n_rows` rows.

    Examples
    --------
    >>> gating_split(5)
    (array([1, 2, 4]), array([0, 3]))
    """
    rows = np.arange(n_rows)
    return rows[rows % 3 != 0], rows[rows % 3 == 0]


@dataclass(frozen=True, eq=False)
class HoldOut:
    """Which rows the validation stage learns from and which it is looked at with.

    Parameters
    ----------
    seen_train, seen_val, unseen_val : array of int
        Row numbers; see the table on top of this module.

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
                    f"{name} must be a non-empty list of row numbers from 0, got {rows.dtype} {rows.shape}"
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
            raise ValueError("the hold-out names rows outside the given ones")
        return HoldOut(*parts)

    def check(self, labels: Iterable[Hashable]) -> None:
        """Raise where the rows contradict the labels they are for."""
        codes, _ = pd.factorize(as_class_index(labels))
        if max(part.max() for part in (self.seen_train, self.gzsl_val)) >= len(codes):
            raise ValueError(f"the hold-out points beyond the {len(codes)} rows given")
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
    classes : float
        Share of the classes that play unseen (at least one, and one stays).
    rows : float
        Share of every remaining class's rows that become Seen-Val; a class keeps at least one row.

    Examples
    --------
    >>> held = hold_out(list("aaaabbbbcccc"), seed=1)
    >>> len(held.seen_train), len(held.seen_val), len(held.unseen_val)
    (6, 2, 4)
    """
    codes, n_classes = _factorize(labels)
    _check_share(classes=classes, rows=rows)
    generator = np.random.default_rng(seed)
    n_held = min(max(1, round(n_classes * classes)), n_classes - 1)
    held = np.zeros(n_classes, dtype=bool)
    held[generator.permutation(n_classes)[:n_held]] = True
    return _hold_out_classes(codes, held, rows, generator)


def class_folds(
    labels: Iterable[Hashable], n_splits: int = 3, *, rows: float = 1 / 4, seed: int | None = 0
) -> list[HoldOut]:
    """Return hold-outs in which every class plays unseen exactly once.

    Examples
    --------
    >>> [len(held.unseen_val) for held in class_folds(list("aabbccdd"), n_splits=2)]
    [4, 4]
    """
    codes, n_classes = _factorize(labels)
    _check_share(rows=rows)
    n_splits = as_number(n_splits, name="n_splits", whole=True)
    if not 2 <= n_splits <= n_classes:
        raise ValueError(f"n_splits must be between 2 and the number of classes, {n_classes}; got {n_splits}")
    generator = np.random.default_rng(seed)
    fold = generator.permutation(n_classes) % n_splits
    return [_hold_out_classes(codes, fold == k, rows, generator) for k in range(n_splits)]


def further_folds(
    labels: Iterable[Hashable], first: HoldOut, n_folds: int, *, seed: int | None = 0
) -> list[HoldOut]:
    """Return hold-outs in which every class that `first` keeps plays unseen once.

    None of them looks at a row of Gating-Val of `first`: a gate that learns from all can be measured there.

    Parameters
    ----------
    labels : sequence of length n_samples
    first : HoldOut
    n_folds : int
        Number of hold-outs with `first`; 1 asks for no others.

    Examples
    --------
    >>> labels = list("aaaaabbbbbccccc")
    >>> first = hold_out(labels)
    >>> [sorted({labels[i] for i in held.unseen_val}) for held in (first, *further_folds(labels, first, 3))]
    [['c'], ['a'], ['b']]
    """
    codes, n_classes = _factorize(labels)
    kept = np.unique(codes[first.seen_train])
    n_folds = as_number(n_folds, name="folds", whole=True)
    if not 1 <= n_folds <= len(kept) + 1:
        raise ValueError(
            f"folds must be between 1 and {len(kept) + 1}, the number of classes that the first hold-out "
            f"trains on, plus one; got {n_folds}"
        )
    generator = np.random.default_rng(seed)
    fold = generator.permutation(len(kept)) % max(n_folds - 1, 1)
    share = len(first.seen_val) / (len(first.seen_val) + len(first.seen_train))
    rows = np.setdiff1d(np.arange(len(codes)), first.gating_val)
    found = []
    for k in range(n_folds - 1):
        held = np.isin(np.arange(n_classes), kept[fold == k])
        part = _hold_out_classes(codes[rows], held, share, generator)
        spare = first.gating_val[~held[codes[first.gating_val]]]
        train = np.union1d(rows[part.seen_train], spare)
        found.append(HoldOut(train, rows[part.seen_val], rows[part.unseen_val]))
    return found


def authors_hold_out(split: Split, seed: int) -> HoldOut:
    """Return the validation stage as the paper's authors draw it, row for row.

    Seen-Val has as many rows as `split.test_seen` (at most half of the candidates). The draw walks the
    candidates in the order of a Python set of 1-based row numbers, filled in the order of the file;
    that order is part of the published draw.

    Parameters
    ----------
    split : Split
        With `train` and `val`.
    seed : int
        `PUBLISHED_SEEDS` has those of the paper's code.
    """
    if split.train is None or split.val is None:
        raise ValueError("this split has no train / val classes; use hold_out instead")
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
    """Hands out a data set's rows by purpose and keeps the test rows sealed.

    Parameters
    ----------
    dataset : GZSLDataset
    seed : int
        Draws Seen-Val (and, if the data set does not name validation classes, those too).

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
        """Return training rows; test rows, and any row after the test was opened, raise."""
        rows = np.asarray(rows)
        if rows.dtype.kind not in "iu":
            raise TypeError(f"rows must be row numbers, got {rows.dtype}; use np.flatnonzero on a mask")
        if self.opened:
            raise SealedTestError(
                "the test set of this protocol is open: fitting or selection would look at it; "
                "start over with a new Protocol"
            )
        outside = np.setdiff1d(rows, self.dataset.split.trainval)
        if outside.size:
            raise SealedTestError(
                f"{outside.size} of {rows.size} rows are outside the training rows; they may not be used "
                "for fitting or selection (open_test() hands out the test rows, once)"
            )
        return self._take(rows)

    def training(self) -> Samples:
        """Return all training rows, sorted."""
        return self.samples(np.sort(self.dataset.split.trainval))

    def training_hold_out(self) -> HoldOut:
        """Return the validation stage in positions of `training()`."""
        return self.hold_out.within(np.sort(self.dataset.split.trainval))

    def check_labels(self, labels: Iterable[Hashable]) -> None:
        """Raise if any of `labels` is an unseen class: it may not appear in fitting or selection."""
        leaked = as_class_index(labels).intersection(self.dataset.unseen_classes)
        if len(leaked):
            raise SealedTestError(f"{leaked[0]!r} is an unseen class; its samples belong to the test only")

    def test_features(self) -> NDArray[np.float32]:
        """Return the features of the test rows, to compute predictions; the labels stay sealed."""
        return self.dataset.features[self._test_rows()]

    def open_test(self) -> Samples:
        """Break the seal: return the test rows (seen, then unseen), once; fitting is over after this."""
        if self.opened:
            raise SealedTestError("the test set was opened already; one Protocol is for one evaluation")
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


def _check_share(**shares: float) -> None:
    for name, share in shares.items():
        if not 0 < as_number(share, name=name) < 1:
            raise ValueError(f"{name} is a share between 0 and 1, got {share}")


def _hold_out_classes(
    codes: NDArray[np.intp], held: NDArray[np.bool_], rows: float, generator: np.random.Generator
) -> HoldOut:
    shuffled = generator.permutation(len(codes))
    shuffled = shuffled[np.argsort(codes[shuffled], kind="stable")]
    sizes = np.bincount(codes, minlength=len(held))
    rank = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    wanted = np.minimum(np.maximum(np.rint(sizes * rows), 1), sizes - 1)
    by_class = np.repeat(np.arange(len(held)), sizes)
    is_val = rank < wanted[by_class]
    is_held = held[by_class]
    seen_val = np.sort(shuffled[is_val & ~is_held])
    if len(seen_val) == 0:
        raise ValueError("no class has two rows, so none can be held out for validation; add samples")
    return HoldOut(np.sort(shuffled[~is_val & ~is_held]), seen_val, np.sort(shuffled[is_held]))
