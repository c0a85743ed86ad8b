"""LoOP: the probability that a sample lies outside a set of others.

Kriegel, Kröger, Schubert & Zimek, "LoOP: local outlier probabilities", CIKM 2009.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

__all__ = ["Neighbourhoods", "learn_neighbourhoods", "loop"]

_CHUNK = 1 << 23  # distances held at once


class Neighbourhoods(NamedTuple):
    """What `loop` needs to know of the samples it compares with.

    Parameters
    ----------
    rows : array of shape (n_rows, n_dimensions)
    spread : array of shape (n_rows,)
        Root mean squared distance of each row to its nearest other rows.
    unit : float
        Root mean square, over all rows, of how much `spread` exceeds that of the neighbours.
    k : int
        Neighbours looked at.
    """

    rows: NDArray[np.float32]
    spread: NDArray[np.float64]
    unit: float
    k: int


def learn_neighbourhoods(rows: NDArray[np.float32], k: int = 20) -> Neighbourhoods:
    """Return the neighbourhoods among `rows`; with few of them, all others are neighbours."""
    if int(k) != k or k < 1:
        raise ValueError(f"k must be a whole number of at least 1, got {k}")
    if len(rows) < 2:
        raise ValueError(f"neighbourhoods need at least two rows, got {len(rows)}")
    k = min(int(k), len(rows) - 1)
    spread, nearest = _nearest(rows, rows, k, themselves=True)
    excess = _excess(spread, spread[nearest].mean(axis=1))
    finite = excess[np.isfinite(excess)]  # a row among copies of one other is infinitely far out
    return Neighbourhoods(rows, spread, float(np.sqrt(np.mean(finite**2))), k)


def loop(rows: NDArray[np.float32], known: Neighbourhoods, *, extent: float = 3.0) -> NDArray[np.float64]:
    """Return the local outlier probability of each row among the known ones.

    A row is the further out, the more its distance to its nearest known rows exceeds the distances that
    those have among themselves. With `extent` λ, an excess of λ times the usual one is one standard
    deviation of a Gaussian.

    Parameters
    ----------
    rows : array of shape (n_samples, n_dimensions)
    known : Neighbourhoods
    extent : float

    Examples
    --------
    >>> grid = np.stack(np.meshgrid(range(9), range(9)), axis=-1).reshape(-1, 2).astype(np.float32)
    >>> known = learn_neighbourhoods(grid, k=4)
    >>> loop(np.array([[4.5, 4.5], [30.0, 30.0]], dtype=np.float32), known)
    array([0., 1.])
    """
    spread, nearest = _nearest(rows, known.rows, known.k)
    excess = _excess(spread, known.spread[nearest].mean(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        deviations = np.where(excess == 0, 0.0, excess / (extent * known.unit))
    probability: NDArray[np.float64] = np.maximum(erf(deviations / np.sqrt(2)), 0.0)
    return probability


def _excess(spread: NDArray[np.float64], around: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `spread / around - 1`; nothing exceeds nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(spread == around, 0.0, spread / around - 1)


def _nearest(
    rows: NDArray[np.float32], known: NDArray[np.float32], k: int, *, themselves: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return the root mean squared distance to the k nearest known rows, and which they are.

    With `themselves`, `rows` are the known rows, and none is its own neighbour.
    """
    centre = known.mean(axis=0)  # the short form of a distance loses digits far from the origin
    known = known - centre
    square = np.einsum("ij,ij->i", known, known)
    spread, nearest = np.empty(len(rows)), np.empty((len(rows), k), dtype=np.intp)
    step = max(1, _CHUNK // len(known))
    for start in range(0, len(rows), step):
        part = rows[start : start + step] - centre
        distance = square - 2 * (part @ known.T)
        if themselves:
            distance[np.arange(len(part)), np.arange(start, start + len(part))] = np.inf
        nearest[start : start + step] = np.argpartition(distance, k - 1, axis=1)[:, :k]
        for i, row in enumerate(part, start):  # and digits of copies; what counts is computed in full
            spread[i] = np.sqrt(np.square(known[nearest[i]] - row).sum(axis=1).mean())
    return spread, nearest
