"""The paper's figures, from the same trials as its tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from cosmo._core.extras import MissingExtra
from cosmo.classifier.combinations import Combination, GatedMixture
from cosmo.classifier.explain import explain
from cosmo.data.splits import Protocol, authors_hold_out
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.paper.inputs import Missing
from cosmo.paper.runner import Runner
from cosmo.paper.trials import Search, Source, Trial, fitted
from cosmo.viz.plots import (
    PlanePanel,
    plot_hold_out,
    plot_planes,
    plot_splits,
    plot_walkthrough,
    published_points,
)

__all__ = ["PLANE_RULES", "draw_planes", "draw_splits", "draw_walkthrough", "instructive"]

PLANE_RULES = {"COSMO + {}": "COSMO", "CS + {}": "CS", "{}": "alone"}
_STANDS = {"LAGO": ("LAGO", "CS + LAGO"), "f-CLSWGAN": ("f-CLSWGAN*",)}  # drawn by us, not as published


def _fit(runner: Runner, trial: Trial) -> tuple[Combination, ExpertOutputs, ExpertOutputs]:
    validation, test = runner.outputs(trial.case)
    return fitted(trial, validation), validation, test


def draw_planes(
    runner: Runner, datasets: Sequence[str], expert: str, source: Source, *, search: Search = "exact"
) -> Figure:
    """Draw the seen-unseen plane of each data set for one expert: curves, chosen and published points.

    Where a curve cannot be computed it is left out. Data sets without any are drawn for the authors' own
    predictions, as in the paper, with published points only.

    Raises
    ------
    Missing
        If there is nothing to draw, neither curves nor published points.
    """
    panels, needs = [], []
    for dataset in datasets:
        curves, chosen = {}, {}
        for name, rule in PLANE_RULES.items():
            trial = Trial(dataset, expert, source, rule, search)
            try:
                fit, _, test = _fit(runner, trial)
            except (Missing, MissingExtra) as error:
                needs.append(str(error))
                continue
            curve = fit.curve(test)
            chosen[name.format(expert)] = curve.at(fit.operating_point_.threshold)
            if rule != "alone":  # its curve is that of CS
                curves[name.format(expert)] = curve
        drawn = _STANDS.get(expert, (expert,)) if chosen else ()
        points = published_points(dataset, leave_out=drawn)
        if curves or (points and source == "predictions"):
            what = "" if curves else " (published points only)"
            panels.append(PlanePanel(dataset + what, curves, chosen, points))
    if not panels:
        raise Missing("; ".join(dict.fromkeys(needs)))
    return plot_planes(panels)


def instructive(test: ExpertOutputs, smoothed: NDArray[np.intp], plain: NDArray[np.intp]) -> int:
    """Return the sample that smoothing turns from wrong to right and of which the experts are surest.

    Preferably one of a seen class: that is the paper's example, where a distractor among the unseen classes
    wins without smoothing.

    Parameters
    ----------
    test : ExpertOutputs
        Labelled.
    smoothed, plain : array of shape (n_samples,)
        Columns of both answers.

    Examples
    --------
    >>> import pandas as pd
    >>> seen, unseen = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]]), np.full((3, 1), 0.5)
    >>> test = ExpertOutputs(pd.Index(["a", "b"]), pd.Index(["z"]), seen, unseen, target=np.array([0, 0, 0]))
    >>> instructive(test, np.array([0, 0, 0]), np.array([0, 2, 2]))
    1
    """
    turned = np.flatnonzero((smoothed == test.labels) & (plain != test.labels))
    if len(turned) == 0:
        raise Missing("a sample that smoothing turns from wrong to right; name one")
    best_seen, best_unseen = test.best("adaptive")
    sure = np.where(test.is_seen, 1 + best_seen, best_unseen)
    return int(turned[np.argmax(sure[turned])])


def draw_walkthrough(
    runner: Runner, dataset: str, expert: str, source: Source, *, row: int | None = None
) -> Figure:
    """Draw one test sample's way through COSMO, with and without smoothing.

    Parameters
    ----------
    row : int, optional
        Position among the test samples (those of seen classes first). Default: the one that `instructive`
        finds.
    """
    smoothed, _, test = _fit(runner, Trial(dataset, expert, source, "COSMO"))
    plain, _, _ = _fit(runner, Trial(dataset, expert, source, "CB-Gating-3"))
    if row is None:
        row = instructive(test, smoothed.predict(test), plain.predict(test))
    if not 0 <= row < len(test):
        raise ValueError(f"{dataset} has {len(test)} test samples, numbered from 0; there is no {row}")
    one = test[np.array([row])]
    return plot_walkthrough(
        explain(cast(GatedMixture, smoothed), one),
        truth=one.classes[one.labels[0]],
        other=explain(cast(GatedMixture, plain), one),
        title=f"{dataset}, COSMO + {expert}: test sample {row}",
    )


def draw_splits(runner: Runner, dataset: str) -> Figure:
    """Draw the cross-validation splits of a data set with their counts."""
    holding = runner.holdings[dataset]
    title = f"{dataset}: cross-validation splits"
    try:
        return plot_splits(Protocol(runner.dataset(dataset), seed=holding.seed), title=title)
    except Missing:  # no features: the split alone does, where it names the validation classes
        labels, split = holding.split()
        if split.train is None:
            raise
        return plot_hold_out(labels, split, authors_hold_out(split, holding.seed), title=title)
