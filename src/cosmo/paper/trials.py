"""Trials: one figure of the paper, given by experts, combination and search.

The authors' search takes thresholds from a coarse grid, then from one that is dense around the best Acc_H on
validation (`resample_thresholds`); the exact search needs no grid.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from cosmo.classifier.combinations import Combination, GatedMixture, OperatingPoint, Outputs
from cosmo.classifier.ways import CalibratedStacking, make_way
from cosmo.data.splits import gating_split
from cosmo.evaluation.run import CALIBRATED, evaluate, with_bounds
from cosmo.gates import ConfidenceGate
from cosmo.metrics.accuracy import (
    GZSLScores,
    fpr_at_tpr,
    gate_auc,
    gate_intervals,
    gzsl_intervals,
    sampled_ausuc,
    zsl_accuracy,
)
from cosmo.mixture.outputs import ExpertOutputs

CONTENT = tomllib.loads(files("cosmo.paper").joinpath("content.toml").read_text("utf-8"))
"""Words, tables and figures of the document."""


class Missing(LookupError):
    """An input of a result is absent; the message names it."""


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
"""The published grids; `authors_grid` has their exceptions."""


def authors_grid(dataset: str, rule: str) -> tuple[Grid, int]:
    """Return the published grid of a rule, and the density of the fine search, or raise `Missing`."""
    if dataset not in AUTHORS_GRIDS:
        raise Missing(f"a published grid for {dataset}")
    grid = AUTHORS_GRIDS[dataset]
    if (dataset, rule) == ("SUN", "COSMO"):
        grid = grid._replace(thresholds=np.arange(0, 50, 0.2))
    return grid, 300 if (dataset, rule) == ("CUB", "Adaptive-Smoothing") else 100


STACKING_CONSTANTS = np.arange(-1.5, 1.5, 0.02)
"""Constants tried for calibrated stacking."""


class GridResult(NamedTuple):
    """Operating point and results of the grid search."""

    operating_point: OperatingPoint
    validation: GZSLScores
    test: GZSLScores
    ausuc: float


def resample_thresholds(thresholds: ArrayLike, acc_h: ArrayLike, n: int = 100) -> NDArray[np.float64]:
    """Return about `2.15·n` thresholds that are dense where `acc_h` is high.

    On each side of the best of the ascending thresholds, the threshold is interpolated at evenly spaced
    values of Acc_H: few over its lower range, many near the top. The two sides have different shares, as in
    the authors' code.
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

    The gate of `mixture` is fitted; it is not changed. `n` is the density of the fine threshold grid.
    """
    coarse: GatedMixture = clone(mixture, safe=False).set_params(softnesses=grid.softnesses)
    coarse.gate_ = mixture.gate_
    best: tuple[float, float, float, NDArray[np.float64]] | None = None
    for softness, prior_weight, curve in coarse.candidates(validation):
        heights = curve.sample(grid.thresholds)[2]
        if best is None or heights.max() > best[0]:
            best = float(heights.max()), softness, prior_weight, heights
    assert best is not None, "a grid has softnesses"
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


Source = Literal["predictions", "features", "scores"]
SOURCES: dict[str, str] = CONTENT["sources"]
Search = Literal["exact", "authors", "textbook"]
SEARCHES: dict[str, str] = CONTENT["searches"]
Case = tuple[str, str, Source]
"""Data set, zero-shot expert, source."""


@dataclass(frozen=True)
class Trial:
    """An experiment: data, expert, where its predictions are from, rule and search.

    `dataset` and `expert` are names of the paper's tables; `rule` is a key of `WAYS` or `CALIBRATED`.
    """

    dataset: str
    expert: str
    source: Source
    rule: str
    search: Search = "exact"

    @property
    def case(self) -> Case:
        """The experts and their source; the zero-shot expert alone needs no seen expert."""
        alone = self.source == "predictions" and self.rule in ("alone", "CS")
        return self.dataset, self.expert, "scores" if alone else self.source


def fitted(trial: Trial, validation: ExpertOutputs) -> Combination:
    """Return the trial's rule, its gate fitted and its operating point chosen on GZSL-Val."""
    rule = make_way(trial.rule)
    if trial.search == "textbook" and isinstance(getattr(rule, "gate", None), ConfidenceGate):
        rule.set_params(gate=clone(rule.gate).set_params(convention="textbook"))
    if trial.search != "authors" or trial.rule == "alone":
        return rule.fit(validation)
    if isinstance(rule, CalibratedStacking):
        heights = rule.curve(validation).sample(STACKING_CONSTANTS)[2]
        rule.operating_point_ = OperatingPoint(float(STACKING_CONSTANTS[heights.argmax()]))
        return rule
    grid, n = authors_grid(trial.dataset, trial.rule)
    mixture = cast(GatedMixture, rule).fit_gate(validation)
    mixture.operating_point_ = grid_search(mixture, validation, validation, grid, n=n).operating_point
    return mixture


def measure(
    trial: Trial, validation: Outputs, test: ExpertOutputs, rule: Combination | None = None
) -> dict[str, float]:
    """Return every measure of a trial, in percent.

    On test `acc_ts`, `acc_tr`, `acc_h`, `ausuc`, `t1` (unseen samples among unseen classes) and
    `seen_accuracy` (the reverse); on GZSL-Val `val_acc_h`; of rules with a gate `auc` and `fpr` on
    Gating-Val. All but `t1` and `seen_accuracy` with `_low` and `_high`, their 95 % intervals. `rule` is
    fitted; the calibrated one has all held-out rows for GZSL-Val and Gating-Val.
    """
    if rule is None:
        assert isinstance(validation, ExpertOutputs), "rules of the paper are fitted on outputs"
        rule = fitted(trial, validation)
    result = evaluate(trial.rule, rule, validation, test)
    truth = test.classes[test.labels]
    around = result.measures
    if trial.search == "authors":
        assert isinstance(validation, ExpertOutputs), "of the paper"
        around["ausuc"] = _sampled_ausuc(trial, rule, validation, test), result.ausuc_interval
    sides = np.arange(validation.n_seen), validation.n_seen + np.arange(validation.n_unseen)
    val_intervals = gzsl_intervals(validation.labels, rule.predict(validation), *sides)
    around["val_acc_h"] = result.validation.acc_h, val_intervals[2]
    if isinstance(rule, GatedMixture):
        part = slice(None) if trial.rule == CALIBRATED else gating_split(len(validation))[1]
        is_seen, score = validation.is_seen[part], rule.gate_score(validation)[part]
        auc, fpr = gate_intervals(is_seen, score)
        around |= {"auc": (gate_auc(is_seen, score), auc), "fpr": (fpr_at_tpr(is_seen, score), fpr)}
    t1 = zsl_accuracy(truth, test.unseen, test.unseen_classes)
    seen_accuracy = zsl_accuracy(truth, test.seen, test.seen_classes)
    return {**with_bounds(around), "t1": 100 * t1, "seen_accuracy": 100 * seen_accuracy}


def _sampled_ausuc(trial: Trial, rule: Combination, validation: ExpertOutputs, test: ExpertOutputs) -> float:
    """Return the area as the authors computed it."""
    if isinstance(rule, GatedMixture):
        grid, n = authors_grid(trial.dataset, trial.rule)
        return grid_search(rule, validation, test, grid, n=n).ausuc
    # Of stacking: 201 constants, up to the largest score.
    most = max(float(np.max(part)) for part in (test.stacking_seen, test.stacking_unseen))  # type: ignore[arg-type]
    acc_ts, acc_tr, _ = rule.curve(test).sample(np.linspace(-most, most, 201))
    return sampled_ausuc(acc_tr, acc_ts)
