"""The authors' grid search: thresholds from a coarse grid, then from a finer one.

It is for comparison with the exact curve, which needs no grid. The best Acc_H on a coarse grid of softness
and threshold is found on validation; a grid that is dense around it (`resample_thresholds`) gives the final
threshold and the test AUSUC.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from cosmo.classifier.combinations import GatedMixture, OperatingPoint
from cosmo.metrics.accuracy import GZSLScores, sampled_ausuc
from cosmo.mixture.outputs import ExpertOutputs

__all__ = [
    "AUTHORS_GRIDS",
    "STACKING_CONSTANTS",
    "grid_search",
]


class Grid(NamedTuple):
    """Softnesses and thresholds of the coarse search."""

    softnesses: tuple[float, ...]
    thresholds: NDArray[np.float64]


AUTHORS_GRIDS = {
    "CUB": Grid((0.1, 0.3, 1.0, 3.0), np.arange(-2.5, 2.5, 0.1)),
    "FLO": Grid((0.1, 0.3, 1.0, 3.0), np.arange(-2.5, 2.5, 0.1)),
    "SUN": Grid((0.1, 0.3, 1.0, 3.0, 10.0), np.arange(-2.5, 20, 0.2)),
    "AWA1": Grid(
        (0.003, 0.01, 0.03, 0.1),
        np.concatenate([np.arange(0, 0.7, 0.05), np.arange(0.7, 1.2, 0.005), np.arange(1.2, 2, 0.05)]),
    ),
}
"""The published grids. SUN with the confidence-based gate and adaptive smoothing used 0 to 50 instead."""

STACKING_CONSTANTS = np.arange(-1.5, 1.5, 0.02)
"""Constants tried for calibrated stacking."""


class GridResult(NamedTuple):
    """Operating point and results of the grid search."""

    operating_point: OperatingPoint
    validation: GZSLScores
    test: GZSLScores
    ausuc: float


def resample_thresholds(thresholds: ArrayLike, acc_h: ArrayLike, n: int = 100) -> NDArray[np.float64]:
    """Return thresholds that are dense where `acc_h` is high.

    On each side of the best threshold, the threshold is interpolated at evenly spaced values of Acc_H: few
    over its lower range, many near the top. The two sides have different shares, as in the authors' code.

    Parameters
    ----------
    thresholds, acc_h : arrays of shape (n_thresholds,)
        At least three thresholds, ascending, and the Acc_H of each.
    n : int, default=100
        About `2.15·n` thresholds are returned.

    Examples
    --------
    >>> fine = resample_thresholds([0.0, 0.5, 1.0], [0.0, 1.0, 0.0], n=8)
    >>> len(fine), float(fine.min()), float(fine.max())
    (15, 0.0, 1.0)
    """
    beta, h = np.asarray(thresholds, dtype=np.float64), np.asarray(acc_h, dtype=np.float64)
    if beta.ndim != 1 or beta.shape != h.shape or len(beta) < 3:
        raise ValueError(f"need at least three thresholds and as many values, got {beta.shape} and {h.shape}")
    top = int(np.clip(np.argmax(h), 1, len(h) - 2))

    def branch(part: slice, low: tuple[float, int], high: tuple[float, int]) -> NDArray[np.float64]:
        order = np.argsort(h[part], kind="stable")
        heights, betas = h[part][order], beta[part][order]
        floor, span = heights[0], heights[-1] - heights[0]
        targets = np.concatenate(
            [
                np.linspace(floor, floor + low[0] * span, low[1]),
                np.linspace(floor + high[0] * span, heights[-1], high[1]),
            ]
        )
        return np.interp(targets, heights, betas)

    rising = branch(slice(None, top + 1), (0.9, round(0.25 * n)), (0.9, round(0.75 * n)))
    falling = branch(slice(top, None), (0.9, round(0.25 * n)), (0.75, round(0.9 * n)))
    return np.unique(np.concatenate([rising, falling]))


def grid_search(
    mixture: GatedMixture, validation: ExpertOutputs, test: ExpertOutputs, grid: Grid, *, n: int = 100
) -> GridResult:
    """Choose softness, prior weight and threshold on `validation` as the authors did; report on `test`.

    Parameters
    ----------
    mixture : GatedMixture
        With a fitted gate; it is not changed.
    validation, test : ExpertOutputs
        Labelled.
    grid : Grid
        One of `AUTHORS_GRIDS`, or your own.
    n : int, default=100
        Density of the fine threshold grid.
    """
    coarse: GatedMixture = clone(mixture, safe=False).set_params(softnesses=grid.softnesses)
    coarse.gate_ = mixture.gate_
    best: tuple[float, float, float, NDArray[np.float64]] | None = None
    for softness, prior_weight, curve in coarse.candidates(validation):
        heights = curve.sample(grid.thresholds)[2]
        if best is None or heights.max() > best[0]:
            best = float(heights.max()), softness, prior_weight, heights
    if best is None:
        raise ValueError("the grid is empty")
    _, softness, prior_weight, heights = best
    fine = resample_thresholds(grid.thresholds, heights, n)
    coarse.operating_point_ = OperatingPoint(0.0, softness, prior_weight)
    on_validation = coarse.curve(validation).sample(fine)
    on_test = coarse.curve(test).sample(fine)
    chosen = int(np.argmax(on_validation[2]))
    return GridResult(
        OperatingPoint(float(fine[chosen]), softness, prior_weight),
        GZSLScores(*(float(values[chosen]) for values in on_validation)),
        GZSLScores(*(float(values[chosen]) for values in on_test)),
        sampled_ausuc(on_test[1], on_test[0]),
    )
