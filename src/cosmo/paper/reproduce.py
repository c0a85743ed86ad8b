"""Part after part of the paper, from one runner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from cosmo._core.extras import MissingExtra
from cosmo._core.files import write_whole
from cosmo.evaluation.published import published_numbers
from cosmo.paper.document import FROM, Picture, Section, TableOfText, as_latex, shown
from cosmo.paper.figures import PLANE_RULES, draw_planes, draw_splits, draw_walkthrough
from cosmo.paper.inputs import Missing
from cosmo.paper.runner import Runner
from cosmo.paper.tables import TABLES, fill, trials
from cosmo.paper.trials import SOURCES, Search, Source, Trial, fitted
from cosmo.viz.page import paper_view
from cosmo.viz.page.sets import Way
from cosmo.viz.plots import published_points, save_figure

__all__ = ["PARTS", "Reproduction"]

PARTS = {
    **{name: table.title for name, table in TABLES.items()},
    "planes": "Seen-unseen planes",
    "walkthrough": "A walk through one decision",
    "splits": "Cross-validation splits",
    "joint": "Training all parts jointly",
}


@dataclass(frozen=True, eq=False)
class Reproduction:
    """What to reproduce, from what, and where to write it.

    Parameters
    ----------
    runner : Runner
    out : Path
        Tables go to `tables/`, figures to `figures/` in it.
    datasets : sequence of str
    experts : sequence of str, optional
        Only these; names as in the paper.
    sources : sequence of {"predictions", "features", "scores"}, optional
        Only these.
    search : {"exact", "authors", "textbook"}
        How operating points are found.
    sample : int, optional
        Test sample of the walk-through; by default an instructive one.
    """

    runner: Runner
    out: Path
    datasets: Sequence[str]
    experts: Sequence[str] | None = None
    sources: Sequence[Source] | None = None
    search: Search = "exact"
    sample: int | None = None
    numbers: list[pd.DataFrame] = field(default_factory=list)

    def sections(self, names: Sequence[str]) -> list[Section]:
        """Train what the parts need, side by side, then make them one after the other."""
        (self.out / "tables").mkdir(parents=True, exist_ok=True)
        (self.out / "figures").mkdir(exist_ok=True)
        self.runner.prepare(trial for name in names for trial in self._trials(name))
        others: dict[str, Callable[[], Section]] = {
            "planes": self._planes,
            "walkthrough": self._walkthrough,
            "splits": self._splits,
            "joint": self._joint,
        }
        found = []
        for name in names:
            self.runner.report(PARTS[name])
            section = others[name]() if name in others else self._table(name)
            found.append(replace(section, missing=list(dict.fromkeys(section.missing))))
        return found

    def _trials(self, name: str) -> list[Trial]:
        """Return the trials that a part is sure to need."""
        if name in TABLES:
            return trials(name, self.datasets, experts=self.experts, sources=self.sources, search=self.search)
        if name == "planes":
            return [Trial(dataset, *case, "COSMO") for dataset in self.datasets for case in self._cases()]
        return []

    def _table(self, name: str) -> Section:
        frame = fill(
            name,
            self.runner,
            self.datasets,
            experts=self.experts,
            sources=self.sources,
            search=self.search,
        )
        table = TABLES[name]
        if not len(frame):
            return Section(name, table.title, table.caption, missing=["an expert or source of this table"])
        self.numbers.append(frame)
        tables, missing = shown(frame)
        self._write(name, frame, tables)
        found = _findings(name, frame)
        return Section(name, table.title, f"{table.caption} {found}".strip(), tables, missing=missing)

    def _write(self, name: str, frame: pd.DataFrame, tables: Sequence[TableOfText]) -> None:
        folder = self.out / "tables"
        write_whole(folder / f"{name}.csv", frame.to_csv(index=False).encode())
        write_whole(folder / f"{name}.tex", "\n\n".join(map(as_latex, tables)).encode())

    def _draw(self, name: str, draw: Callable[[], Figure], caption: str) -> tuple[list[Picture], list[str]]:
        """Return the picture, or what it would need."""
        try:
            figure = draw()
        except (Missing, MissingExtra) as error:
            return [], [str(error)]
        path = self.out / "figures" / name
        save_figure(figure, path)
        return [Picture(path, caption)], []

    def _cases(self) -> list[tuple[str, Source]]:
        """Return expert and source of each figure; the published predictions first."""
        return [
            (expert, source)
            for expert in self.experts or ("LAGO", "f-CLSWGAN")
            for source in self.sources or ("predictions", "features")
            if source != "scores"
        ]

    def _planes(self) -> Section:
        pictures, missing = [], [] if self._cases() else ["a source of these figures"]
        for expert, source in self._cases():
            drawn, needs = self._draw(
                f"planes-{expert}-{source}",
                partial(draw_planes, self.runner, self.datasets, expert, source, search=self.search),
                f"{expert}, from {source}",
            )
            pictures += drawn
            missing += needs
        text = (
            "Lines are exact curves, squares the operating points chosen on GZSL-Val, triangles and crosses "
            "what was published for non-generative and for generative methods (paper, figure 3, supplement)."
        )
        return Section("planes", PARTS["planes"], text, pictures=pictures, missing=missing)

    def view(self, command: str) -> dict[str, Any] | None:
        """Return the planes of what the sections asked for, as a page has them; None if there is no curve.

        Parameters
        ----------
        command : str
            Named in it.
        """
        sets = [found for dataset in self.datasets if (found := self._plane(dataset)) is not None]
        return paper_view(sets, command) if sets else None

    def _plane(self, dataset: str) -> dict[str, Any] | None:
        known = [(expert, source) for name, expert, source, seen in self.runner.asked
                 if name == dataset and seen == "logistic"]  # fmt: skip
        experts = {expert for expert, _ in self._cases()}
        shown = [
            (expert, source)
            for expert, source in known
            # Scores alone are for want of a seen expert.
            if expert in experts and not (source == "scores" and (expert, "predictions") in known)
        ]
        ways = [way for expert, source in shown for way in self._ways(dataset, expert, source, shown)]
        ways = [way for way in ways if np.array_equal(way.outputs.labels, ways[0].outputs.labels)]
        if not ways:
            return None
        sources = dict.fromkeys(source for _, source in shown)
        return {
            "name": dataset,
            "ways": ways,
            "main": ways[0],
            "classes": ways[0].outputs.classes,
            "facts": [(f"from {FROM[source]}", SOURCES[source]) for source in sources],
            "points": [
                {
                    "name": f"{point.name} (published)",
                    "acc_ts": point.acc_ts,
                    "acc_tr": point.acc_tr,
                    "note": f"{point.kind}, as printed in the paper",
                }
                for point in published_points(dataset)
            ],
        }

    def _ways(
        self, dataset: str, expert: str, source: Source, shown: Sequence[tuple[str, Source]]
    ) -> list[Way]:
        """Return the curves of one expert; its name says the source if there are several in `shown`."""
        validation, test = self.runner.outputs((dataset, expert, source, "logistic"))
        several = [one for one, _ in shown].count(expert) > 1
        family = f"{expert} ({FROM[source]})" if several else expert
        ways = []
        for name, rule in PLANE_RULES.items():
            try:
                found = fitted(Trial(dataset, expert, source, rule, self.search), validation)
            except Missing:  # a grid of the authors
                continue
            ways.append(Way(name.format(family), found, test, validation, family))
        return ways

    def _walkthrough(self) -> Section:
        text = (
            "One test sample: what both experts say, what the gate believes, and the answer without and with "
            "smoothing (paper, supplement A)."
        )
        pictures, missing = [], [] if self._cases() else ["a source of these figures"]
        for dataset in self.datasets:
            for expert, source in self._cases():
                drawn, needs = self._draw(
                    f"walkthrough-{dataset}-{expert}",
                    partial(draw_walkthrough, self.runner, dataset, expert, source, row=self.sample),
                    f"{dataset}, {expert}, from {source}",
                )
                missing += needs
                pictures += drawn
                if drawn:
                    break  # one source will do
        return Section("walkthrough", PARTS["walkthrough"], text, pictures=pictures, missing=missing)

    def _splits(self) -> Section:
        pictures, missing = [], []
        for dataset in self.datasets:
            drawn, needs = self._draw(
                f"splits-{dataset}",
                partial(draw_splits, self.runner, dataset),
                f"Splits of {dataset}",
            )
            pictures += drawn
            missing += needs
        text = "Classes by samples, from the real split (paper, figure 4)."
        return Section("splits", PARTS["splits"], text, pictures=pictures, missing=missing)

    def _joint(self) -> Section:
        tables, missing = [], []
        for dataset in self.datasets:
            try:
                table = self.runner.joint(dataset)
            except (Missing, MissingExtra) as error:
                missing.append(str(error))
                continue
            cells = TableOfText(f"{dataset}, both experts trained here", _joint_cells(table, dataset))
            write_whole(self.out / "tables" / f"joint-{dataset}.csv", table.to_csv().encode())
            write_whole(self.out / "tables" / f"joint-{dataset}.tex", as_latex(cells).encode())
            tables.append(cells)
        text = (
            "Seen expert, unseen expert (bilinear) and gate as one network with one loss (paper, supplement "
            "D). *held out*: classes that play unseen are not the seen expert's; *all seen*: it has them "
            "all, and no sample is left from which the gate could learn what unseen looks like. COSMO trains "
            "its parts apart."
        )
        return Section("joint", PARTS["joint"], text, tables, missing=missing)


_PRINTED_JOINT = {
    "COSMO, trained apart": "seen expert",
    "joint, held out": "joint training without held-out classes",
    "joint, all seen": "joint training with all classes",
}


def _joint_cells(table: pd.DataFrame, dataset: str) -> pd.DataFrame:
    numbers = published_numbers().query("table == 'joint' and dataset == @dataset")
    printed = {(row["method"], row["metric"]): row["value"] for row in numbers.to_dict("records")}
    rows = []
    for name, row in table.iterrows():
        method = _PRINTED_JOINT[str(name)]
        # Of COSMO itself the paper prints the seen expert's accuracy here.
        of_expert = method == "seen expert"
        rows.append(
            {
                "": str(name),
                "ts": f"{100 * row['acc_ts']:.1f}",
                "tr": f"{100 * row['acc_tr']:.1f}",
                "H": f"{100 * row['acc_h']:.1f}",
                "H printed": _text(printed.get((method, "acc_h"))),
                "seen expert": f"{100 * row['seen_expert_accuracy']:.1f}",
                "seen expert printed": _text(printed.get((method, "acc_tr"))) if of_expert else "",
                "gate's AUC": f"{100 * row['gate_auc']:.1f}",
            }
        )
    return pd.DataFrame(rows)


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _findings(name: str, frame: pd.DataFrame) -> str:
    """Return what the numbers say, in words that are computed."""
    wide = frame[frame["missing"] == ""].pivot_table(
        index=["dataset", "expert", "source", "row"], columns="metric", values="value", sort=False
    )
    if not len(wide):
        return ""
    said = []
    for key, part in wide.groupby(level=["dataset", "expert", "source"], sort=False):
        part = part.droplevel([0, 1, 2])
        where = f"{key[0]}, {key[1]}, {key[2]}"
        if name == "combination":
            order = part["acc_h"].sort_values(ascending=False, kind="stable").index
            said.append(f"{where}: {' > '.join(order)}.")
        elif name == "smoothing":
            gain = part["acc_h"]["Adaptive-Smoothing"] - part["acc_h"].drop("Adaptive-Smoothing")
            said.append(
                f"{where}: adaptive over none {gain['No-Smoothing']:+.1f}, over constant "
                f"{gain['Const-Smoothing']:+.1f}."
            )
        elif name == "gap" and key[0] == "CUB" and len(part) > 1:
            said.append(f"{where}: {_extrapolated(part)}")
    return " ".join(said)


def _extrapolated(part: pd.DataFrame) -> str:
    """Say what the line through the measured seen experts gives for one as good as the paper's on CUB."""
    theirs = 72.8
    fitted = {
        metric: np.polynomial.Polynomial.fit(part["seen_accuracy"], part[metric], 1)
        for metric in ("acc_h", "ausuc")
    }
    slopes = {metric: line.convert().coef[1] for metric, line in fitted.items()}
    return (
        f"a point of the seen expert is worth {slopes['acc_h']:.2f} of Acc_H and {slopes['ausuc']:.2f} of "
        f"AUSUC; the line through these rows gives Acc_H {fitted['acc_h'](theirs):.1f} and AUSUC "
        f"{fitted['ausuc'](theirs):.1f} at {theirs} %. The paper printed 50.2 and 35.7."
    )
