"""Sections of the reproduction: the paper's tables and figures, from one runner."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import cast

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from cosmo._core import MissingExtra
from cosmo._core.files import write_atomic
from cosmo.classifier._prediction import explain
from cosmo.classifier.combinations import Combination, GatedMixture
from cosmo.data.splits import Protocol, authors_hold_out
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.paper.document import TABLES, Picture, Section, Selection, fill, text_tables, trials
from cosmo.paper.runner import Runner
from cosmo.paper.trials import CONTENT, Missing, Source, Trial, fitted
from cosmo.viz.plots import save_figure
from cosmo.viz.plots.plane import PlanePanel, plot_planes, published_points
from cosmo.viz.plots.walkthrough import plot_hold_out, plot_walkthrough

logger = logging.getLogger(__name__)

_FIGURES = CONTENT["figures"]
PARTS = {name: part["title"] for name, part in (CONTENT["tables"] | _FIGURES).items()}
_PLANE_RULES = {"COSMO + {}": "COSMO", "CS + {}": "CS", "{}": "alone"}
# Published points that the curves of an expert replace.
_REPLACED_POINTS = {"LAGO": ("LAGO", "CS + LAGO"), "f-CLSWGAN": ("f-CLSWGAN*",)}

_Drawing = tuple[str, str, str, Callable[[], Figure]]
"""Key, of which the first that can be drawn is enough; file, caption and function."""


@dataclass(frozen=True, eq=False)
class Reproduction:
    """Parts of the paper to reproduce, and the folder to write them to: `tables/` and `figures/` in it.

    `sample` is the test sample of the walk-through, by default one that smoothing corrects.
    """

    runner: Runner
    out: Path
    selected: Selection
    sample: int | None = None

    def sections(self, names: Sequence[str]) -> list[Section]:
        """Train what the parts need, in parallel, then return the parts one by one."""
        (self.out / "tables").mkdir(parents=True, exist_ok=True)
        (self.out / "figures").mkdir(exist_ok=True)
        self.runner.prepare(trial for name in names for trial in self._trials(name))
        found = []
        for name in names:
            logger.info(PARTS[name])
            section = self._table(name) if name in TABLES else self._figures(name)
            found.append(replace(section, missing=list(dict.fromkeys(section.missing))))
        return found

    def _trials(self, name: str) -> list[Trial]:
        """Return the trials that a part needs in any case."""
        if name in TABLES:
            return trials(name, self.selected)
        if name == "planes":
            return [
                Trial(dataset, *case, "COSMO") for dataset in self.selected.datasets for case in self._cases()
            ]
        return []

    def _table(self, name: str) -> Section:
        frame = fill(name, self.runner, self.selected)
        table = TABLES[name]
        if not len(frame):
            return Section(name, table.title, table.caption, missing=["an expert or source of this table"])
        tables, missing = text_tables(frame)
        latex = "\n\n".join(one.latex() for one in tables)
        for suffix, content in (("csv", frame.to_csv(index=False)), ("tex", latex)):
            write_atomic(self.out / "tables" / f"{name}.{suffix}", content.encode())
        return Section(name, table.title, table.caption, tables, missing=missing)

    def _figures(self, name: str) -> Section:
        pictures: dict[str, Picture] = {}
        drawings = list(getattr(self, f"_draw_{name}")())
        missing = [] if drawings else ["a source of these figures"]
        for key, file, caption, draw in drawings:
            if key in pictures:
                continue
            path = self.out / "figures" / file
            try:
                save_figure(draw(), path)
                pictures[key] = Picture(path, caption)
            except (Missing, MissingExtra) as error:
                missing.append(str(error))
        return Section(
            name, PARTS[name], _FIGURES[name]["text"], pictures=[*pictures.values()], missing=missing
        )

    def _cases(self) -> list[tuple[str, Source]]:
        """Return expert and source of each figure, published predictions first."""
        return [
            (expert, source)
            for expert in self.selected.experts or ("LAGO", "f-CLSWGAN")
            for source in self.selected.sources or ("predictions", "features")
            if source != "scores"
        ]

    def _draw_planes(self) -> Iterator[_Drawing]:
        for expert, source in self._cases():
            file, caption = f"planes-{expert}-{source}", f"{expert}, from {source}"
            yield file, file, caption, partial(draw_planes, self.runner, self.selected, expert, source)

    def _draw_walkthrough(self) -> Iterator[_Drawing]:
        for dataset, (expert, source) in product(self.selected.datasets, self._cases()):
            file, caption = f"walkthrough-{dataset}-{expert}", f"{dataset}, {expert}, from {source}"
            draw = partial(draw_walkthrough, self.runner, dataset, expert, source, row=self.sample)
            yield dataset, file, caption, draw

    def _draw_splits(self) -> Iterator[_Drawing]:
        for dataset in self.selected.datasets:
            draw = partial(draw_splits, self.runner, dataset)
            yield dataset, f"splits-{dataset}", f"Splits of {dataset}", draw


# --- figures ---


def _fit(runner: Runner, trial: Trial) -> tuple[Combination, ExpertOutputs]:
    validation, test = runner.outputs(trial.case)
    return fitted(trial, validation), test


def draw_planes(runner: Runner, selected: Selection, expert: str, source: Source) -> Figure:
    """Draw the seen-unseen plane of each data set for one expert; raise `Missing` if there is nothing.

    Curves that cannot be computed are left out. Data sets without any curve are drawn with published points
    only, for the authors' predictions.
    """
    panels, needs = [], []
    for dataset in selected.datasets:
        curves, chosen = {}, {}
        for name, rule in _PLANE_RULES.items():
            try:
                fit, test = _fit(runner, Trial(dataset, expert, source, rule, selected.search))
            except (Missing, MissingExtra) as error:
                needs.append(str(error))
                continue
            curve = fit.curve(test)
            chosen[name.format(expert)] = curve.at(fit.operating_point_.threshold)
            if rule != "alone":  # its curve is that of CS
                curves[name.format(expert)] = curve
        replaced = _REPLACED_POINTS.get(expert, (expert,)) if chosen else ()
        points = published_points(dataset, leave_out=replaced)
        if curves or (points and source == "predictions"):
            title = dataset if curves else f"{dataset} (published points only)"
            panels.append(PlanePanel(title, curves, chosen, points))
    if not panels:
        raise Missing("; ".join(dict.fromkeys(needs)))
    return plot_planes(panels)


def corrected_sample(test: ExpertOutputs, smoothed: NDArray[np.intp], plain: NDArray[np.intp]) -> int:
    """Return the sample with the surest expert among those that smoothing corrects.

    Samples of seen classes come first, as in the paper's example. `smoothed` and `plain` are the columns of
    the predictions with and without smoothing.
    """
    corrected = np.flatnonzero((smoothed == test.labels) & (plain != test.labels))
    if len(corrected) == 0:
        raise Missing("a sample that smoothing corrects; name one")
    best_seen, best_unseen = test.best("adaptive")
    confidence = np.where(test.is_seen, 1 + best_seen, best_unseen)
    return int(corrected[np.argmax(confidence[corrected])])


def draw_walkthrough(
    runner: Runner, dataset: str, expert: str, source: Source, *, row: int | None = None
) -> Figure:
    """Draw how COSMO classifies a test sample (default: `corrected_sample`), with and without smoothing."""
    smoothed, test = _fit(runner, Trial(dataset, expert, source, "COSMO"))
    plain, _ = _fit(runner, Trial(dataset, expert, source, "CB-Gating-3"))
    if row is None:
        row = corrected_sample(test, smoothed.predict(test), plain.predict(test))
    if not 0 <= row < len(test):
        raise ValueError(f"{dataset} has test samples 0 to {len(test) - 1}; there is no {row}")
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
        data = runner.dataset(dataset)
        return plot_hold_out(data.labels, data.split, Protocol(data, seed=holding.seed).hold_out, title=title)
    except Missing:  # without features, a split with validation classes is enough
        labels, split = runner.split(dataset)
        if split.train is None:
            raise
        return plot_hold_out(labels, split, authors_hold_out(split, holding.seed), title=title)
