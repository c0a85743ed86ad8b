"""Approximate inverses of the Hessian of a multinomial logistic regression, for conjugate gradients.

The regression has rows A, shape (n_rows, n_columns), the first column of which is 1 and bears the intercepts;
probabilities P, shape (n_classes, n_rows); and C, the weight of the rows against the penalty `|W|² / 2`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import strsv
from scipy.linalg.lapack import spotrf

__all__ = ["ByRows", "Diagonal", "factor"]

Array = NDArray[np.float32]

_TOP = 3  # rows that precondition a class, as a multiple of those that it has on average
_TAIL = 0.3  # how much of the spread of all other rows preconditions a class


class Diagonal:
    """The inverse of the Hessian, class by class, as if columns were not correlated."""

    def __init__(self, A: Array, P: Array, C: float) -> None:
        curvature = np.float32(C / len(A)) * (P - P * P).sum(axis=1)
        penalty = np.ones(A.shape[1], dtype=np.float32)
        penalty[0] = 1e-6  # of the intercepts there is none, but a curvature may vanish
        self.scale = 1 / (penalty + curvature[:, None] * np.einsum("nd,nd->d", A, A))

    def solve(self, g: Array) -> Array:
        """Return the product with g."""
        return _centred(g * self.scale)


class ByRows:
    """An approximate inverse of the Hessian, class by class, of some of the rows.

    With these rows as U and their curvature as w, the Hessian of a class is about `S + U' diag(w) U`. The
    diagonal S is the penalty, and something for the other rows. If a class has fewer rows than there are
    columns, they are those with most curvature, and a matrix of the rows is factored (Woodbury's identity).
    Else they are a sample, and that matrix is.
    """

    def __init__(self, A: Array, P: Array, C: float) -> None:
        n_rows, n_columns = A.shape
        n_top = min(_TOP * n_rows // len(P) + 1, n_rows)
        penalty = np.ones(n_columns, dtype=np.float32)
        spread = np.float32(_TAIL / n_rows) * np.einsum("nd,nd->d", A, A)
        penalty[0], spread[0] = 0, 1
        sizes = np.einsum("nd,nd->n", A, A)
        self.scale = np.empty((len(P), n_columns), dtype=np.float32)  # by which S becomes 1
        self.rows, self.factors = [], []
        for k, w in enumerate(np.float32(C) * (P - P * P)):
            rows, w, rest = _top(w, sizes, 2 * n_top) if n_top < n_columns else _sample(w, n_top)
            self.scale[k] = 1 / np.sqrt(penalty + np.float32(rest) * spread)
            U = A[rows]
            U *= self.scale[k]
            if n_top < n_columns:
                matrix = U @ U.T
                diagonal = np.einsum("mm->m", matrix)
                # Single precision bears no larger differences of curvature than this.
                diagonal += 1 / np.clip(w, 1e-9, 1e3 / (diagonal + 1e-6))
                self.rows.append(U)
            else:
                U *= np.sqrt(w)[:, None]
                matrix = U.T @ U
                np.einsum("dd->d", matrix)[...] += 1
            self.factors.append(factor(matrix))

    def solve(self, g: Array) -> Array:
        """Return the product with g."""
        g = g * self.scale
        # A class at a time, whose rows stay in the cache between their two products.
        for k, factor in enumerate(self.factors):
            if self.rows:
                g[k] -= _solved(factor, self.rows[k] @ g[k]) @ self.rows[k]
            else:
                g[k] = _solved(factor, g[k])
        g *= self.scale
        return _centred(g)


def _centred(step: Array) -> Array:
    """Take off what all classes have in common, which changes nothing but the penalty."""
    step -= step.mean(axis=0)
    return step


def _top(w: Array, sizes: Array, n_most: int) -> tuple[NDArray[np.intp], Array, float]:
    """Return rows whose curvature exceeds the penalty's, their weights, and the weight of the others.

    There is at least one, and at most `n_most`.
    """
    curvature = w * sizes
    rows = np.flatnonzero(curvature > 1)
    if not 0 < len(rows) <= n_most:
        first = len(w) - min(max(len(rows), 1), n_most)
        rows = np.argpartition(curvature, first)[first:]
    total, top = float(w.sum()), w[rows]
    return rows, top, max(total - float(top.sum()), 1e-3 * total + 1e-6)


def _sample(w: Array, n_most: int) -> tuple[NDArray[np.intp], Array, float]:
    """Return at most `n_most` rows that stand for all, their weights, and the least of these."""
    least = float(w.sum()) / n_most
    for _ in range(4):
        least = float(np.minimum(w, least).sum()) / n_most
    least += 1e-6
    # Rows of less are taken each time that their sum has grown by this, others always.
    passed = np.floor(np.cumsum(np.minimum(w / least, 1), dtype=np.float64) + 1e-6)
    rows = np.flatnonzero(np.diff(passed, prepend=0))
    return rows, np.maximum(w[rows], np.float32(least)), least


def factor(matrix: Array) -> Array:
    """Return upper triangular R, `R' R` being the positive definite matrix, which gets lost."""
    # Row by row is column by column of the transpose, which is the same matrix.
    factor: Array = spotrf(matrix.T, overwrite_a=True)[0]
    return factor


def _solved(factor: Array, b: Array) -> Array:
    """Return x of `R' R x = b`; there are too few columns for an inverse to pay."""
    x: Array = strsv(factor, strsv(factor, b, trans=1), overwrite_x=True)
    return x
