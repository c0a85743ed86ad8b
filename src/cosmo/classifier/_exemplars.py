"""A few training rows that a model keeps, for the day when it learns another class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Rehearsal"]


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """A few training rows of each seen class, from which a new class is told apart later.

    Parameters
    ----------
    rows : array of shape (n_rows, n_features)
        Half precision where that is precise enough.
    codes : array of int, shape (n_rows,)
        Class of each row, a position among the seen classes.
    counts : array of int, shape (n_seen,)
        How many training rows each class had.
    most : int
        Rows kept of a class.

    Examples
    --------
    >>> X, codes = np.arange(12.0).reshape(6, 2), np.array([0, 0, 0, 0, 1, 1])
    >>> few = Rehearsal.draw(X, codes, 2)
    >>> few.rows.shape, few.codes, few.weights
    ((4, 2), array([0, 0, 1, 1]), array([2., 2., 1., 1.]))
    """

    rows: NDArray[Any]
    codes: NDArray[np.integer[Any]]
    counts: NDArray[np.integer[Any]]
    most: int

    def __post_init__(self) -> None:
        n_seen = len(self.counts)
        if self.rows.ndim != 2 or self.rows.dtype.kind != "f" or self.codes.shape != (len(self.rows),):
            raise ValueError("a rehearsal set needs rows of numbers, and one code for each")
        if self.counts.ndim != 1 or self.counts.dtype.kind not in "iu":
            raise ValueError("a rehearsal set needs one count for each class")
        if set(np.unique(self.codes)) != set(range(n_seen)):
            raise ValueError(f"a rehearsal set needs rows of each of its {n_seen} classes")

    @classmethod
    def draw(cls, X: NDArray[Any], codes: NDArray[np.integer[Any]], most: int, *, seed: int = 0) -> Rehearsal:
        """Draw at most `most` rows of each class."""
        counts = np.bincount(codes)
        order = np.random.default_rng(seed).permutation(len(codes))
        order = order[np.argsort(codes[order], kind="stable")]
        rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        kept = order[rank < most]
        return cls(_compact(X[kept]), codes[kept], counts, most)

    @property
    def weights(self) -> NDArray[np.float64]:
        """How many training rows each row stands for."""
        return (self.counts / np.bincount(self.codes))[self.codes]

    def extended(self, X: NDArray[Any]) -> Rehearsal:
        """Return a set with one more class."""
        code, kept = len(self.counts), X[: self.most]
        return Rehearsal(
            _compact(np.concatenate([self.rows.astype(np.float32), kept])),
            np.append(self.codes, np.full(len(kept), code)),
            np.append(self.counts, len(X)),
            self.most,
        )


def _compact(rows: NDArray[Any]) -> NDArray[Any]:
    with np.errstate(over="ignore"):
        half = rows.astype(np.float16)
    exact = np.abs(half - rows).max(initial=0) <= 1e-3 * np.abs(rows).max(initial=0)  # not if it overflows
    return half if exact else rows.astype(np.float32)
