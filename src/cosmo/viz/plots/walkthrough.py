"""Gate scores, reliability diagrams, the walk-through of one decision, and cross-validation splits."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import NDArray
from scipy.stats import rankdata

from cosmo._core.validation import as_class_index
from cosmo.classifier._prediction import Explanation
from cosmo.data.dataset import Split
from cosmo.data.splits import HoldOut
from cosmo.evaluation.compare import GateResult
from cosmo.metrics.calibration import Calibration
from cosmo.mixture.smoothing import conditional, total_probability
from cosmo.viz.plots import LINES, SEEN, UNSEEN, shorten


def plot_gates(results: Sequence[GateResult], *, title: str = "") -> Figure:
    """Draw the distribution of each gate's test scores for seen and unseen classes.

    Horizontal: the share of all samples with a lower score, so that gates on different scales compare.
    """
    columns = min(3, len(results))
    rows = -(-len(results) // columns)
    figure = Figure(figsize=(max(3.2 * columns, 4.0), 2.4 * rows + 0.5), layout="constrained")
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    bins = np.linspace(0, 100, 26)
    for one, place in zip(results, axes, strict=False):
        share = 100 * (rankdata(one.scores) - 0.5) / len(one.scores)
        for seen, colour, hatch in ((True, SEEN, ""), (False, UNSEEN, "//")):
            label = f"{'seen' if seen else 'unseen'} classes"
            part = share[one.is_seen == seen]
            place.hist(part, bins, density=True, histtype="step", color=colour, linewidth=1.4, label=label)
            place.hist(part, bins, density=True, color=colour, alpha=0.25, hatch=hatch)
        name = f"{shorten(one.name, 30)}: AUC {one.measures['test_auc']:.1f}"
        place.set_title(name, fontsize=9, parse_math=False)
        place.set_yticks([])
    for place in axes[len(results) :]:
        place.set_visible(False)
    axes[0].legend(fontsize=7, loc="upper left")
    figure.supxlabel("rank of the gate's score on test (%), right = seen", fontsize=9)
    figure.supylabel("samples of each kind", fontsize=9)
    figure.suptitle(title, parse_math=False)
    return figure


def plot_reliability(curves: Mapping[str, Calibration], *, title: str = "") -> Figure:
    """Draw a reliability diagram for each calibration curve.

    Each point is a bin of equally many samples. Titles state the expected calibration error (ECE) and, as
    "by chance", that of perfectly calibrated probabilities on as many samples.
    """
    figure = Figure(figsize=(4.2 * len(curves), 4.6), layout="constrained")
    places = figure.subplots(1, len(curves), squeeze=False).ravel()
    line = LINES[0]
    for axes, (name, curve) in zip(places, curves.items(), strict=True):
        axes.plot([0, 100], [0, 100], color="#777777", linewidth=0.9, linestyle=(0, (3, 3)))
        axes.plot(
            100 * curve.probability,
            100 * curve.frequency,
            color=line.colour,
            linewidth=line.width,
            marker="o",
            markersize=5,
            clip_on=False,
        )
        axes.set(xlim=(0, 100), ylim=(0, 100), aspect="equal")
        axes.set(xlabel="predicted probability (%)", ylabel="observed frequency (%)")
        error = f"ECE {100 * curve.error:.1f} %, by chance {100 * curve.chance:.1f} %"
        axes.set_title(f"{name}: {error}", fontsize=10, parse_math=False)
        axes.spines[["right", "top"]].set_visible(False)
    if title:
        figure.suptitle(title, parse_math=False)
    return figure


def plot_walkthrough(
    explanation: Explanation,
    i: int = 0,
    *,
    truth: Hashable | None = None,
    other: Explanation | None = None,
    top: int = 5,
    title: str = "",
) -> Figure:
    """Draw the prediction of one sample step by step, with `top` classes per panel.

    Rows of the paper's method: (a) probabilities of the experts, `p(y,S)` and `p(y,U)`, and of the gate;
    (b) conditional probabilities and the prediction without smoothing; (c) the same with smoothing. `other`
    explains the same samples by a model without smoothing, which has its own operating point; by default row
    (b) is the same model without smoothing. The calibrated method has one row: `p(y|S)`, `p(y|U)`, the gate,
    and their product. The true class has a thick frame, and its name is bold and marked ▸.
    """
    drawing = _Drawing(explanation, truth, top)
    if explanation.smoothed_seen is explanation.seen:
        figure = Figure(figsize=(13.0, 1.6 + 0.26 * max(top, 3)), layout="constrained")
        _draw_product(figure.subplots(1, 4), drawing, explanation, i)
    else:
        figure = Figure(figsize=(11.0, 2.2 + 0.72 * max(top, 3)), layout="constrained")
        _draw_stages(figure.subplots(3, 3), drawing, explanation, i, other)
    known = "" if truth is None else f"▸ true class: {shorten(truth, 40)}"
    figure.suptitle("\n".join(filter(None, [title, known])), fontsize=10, parse_math=False)
    domains = [
        Patch(facecolor=SEEN, label="seen class"),
        Patch(facecolor=UNSEEN, hatch="///", label="unseen class"),
        Patch(facecolor="white", edgecolor="black", linewidth=2, label="true class"),
    ]
    shown = domains[: 2 if truth is None else 3]
    figure.legend(handles=shown, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    return figure


def _draw_product(places: NDArray[Any], drawing: _Drawing, explanation: Explanation, i: int) -> None:
    """Draw one row: both experts, the gate, and the result."""
    seen, unseen = explanation.seen[i], explanation.unseen[i]
    drawing.column(places[:1], explanation.seen_classes, [seen], ["seen expert, p(y|S)"])
    drawing.column(places[1:2], explanation.unseen_classes, [unseen], ["unseen expert, p(y|U)"])
    _draw_gate(places[2], float(explanation.p_unseen[i]), None)
    drawing.answers(places[3:], [explanation.proba[i]])


def _draw_stages(
    places: NDArray[Any], drawing: _Drawing, one: Explanation, i: int, other: Explanation | None
) -> None:
    """Draw three rows: experts and gate, without smoothing, with smoothing."""
    plain = _without_smoothing(one) if other is None else other
    seen = one.seen[i], plain.smoothed_seen[i], one.smoothed_seen[i]
    unseen = one.unseen[i], plain.smoothed_unseen[i], one.smoothed_unseen[i]
    for column, classes, values, domain in (
        (0, one.seen_classes, seen, "seen"),
        (1, one.unseen_classes, unseen, "unseen"),
    ):
        letter = domain[0].upper()
        titles = f"{domain} expert, p(y,{letter})", f"p(y|{letter})", f"smoothed, p'(y|{letter})"
        drawing.column(places[:, column], classes, values, titles)
    _draw_gate(places[0, 2], float(one.p_unseen[i]), None if other is None else float(plain.p_unseen[i]))
    drawing.answers(places[1:, 2], [plain.proba[i], one.proba[i]])
    names = ("(a) experts\nand gate", "(b) without\nsmoothing", "(c) with\nsmoothing")
    for axes, name in zip(places[:, 0], names, strict=True):
        axes.set_ylabel(name, fontsize=9, fontweight="bold", labelpad=8)


def _without_smoothing(one: Explanation) -> Explanation:
    seen, unseen = conditional(one.seen), conditional(one.unseen)
    proba = total_probability(seen, unseen, one.p_unseen)
    return replace(one, smoothed_seen=seen, smoothed_unseen=unseen, proba=proba)


class _Drawing:
    """Bars of classes, coloured by domain, with the true class marked."""

    def __init__(self, explanation: Explanation, truth: Hashable | None, top: int) -> None:
        self.seen_classes, self.classes = explanation.seen_classes, explanation.classes
        self.truth, self.top = truth, top

    def column(
        self,
        places: NDArray[Any],
        classes: pd.Index,
        values: Sequence[NDArray[Any]],
        titles: Sequence[str],
    ) -> None:
        """Draw the panels of one expert, with the same classes and scale in all rows."""
        shown = self.best(classes, values[0])
        most = max(float(one[shown].max()) for one in values)
        for axes, one, name in zip(places, values, titles, strict=True):
            self.bars(axes, classes, one, shown, most)
            axes.set_title(name, fontsize=9)

    def answers(self, places: NDArray[np.object_], values: list[NDArray[np.float64]]) -> None:
        """Draw the final distributions on one scale."""
        most = max(float(one.max()) for one in values)
        for axes, one in zip(places, values, strict=True):
            shown = self.best(self.classes, one)
            self.bars(axes, self.classes, one, shown, most)
            answer = self.classes[int(one.argmax())]
            verdict = "" if self.truth is None else " (right)" if answer == self.truth else " (wrong)"
            text = f"answer: {shorten(answer, 26)}{verdict}"
            axes.set_title(text, loc="right", fontsize=9, fontweight="bold", parse_math=False)

    def best(self, classes: pd.Index, values: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return positions of the largest values, with the true class if it is one of these classes."""
        order = np.argsort(-values, kind="stable")
        rank = np.flatnonzero(classes[order] == self.truth)
        if rank.size and rank[0] >= self.top:
            return np.append(order[: self.top - 1], order[rank])
        return order[: self.top]

    def bars(
        self, axes: Axes, classes: pd.Index, values: NDArray[np.float64], shown: NDArray[np.intp], most: float
    ) -> None:
        """Draw the classes at the positions `shown`."""
        names = []
        for place, k in enumerate(shown):
            one, value = classes[k], float(values[k])
            seen, true = one in self.seen_classes, one == self.truth
            _bar(axes, place, value, seen=seen, true=true)
            rank = int((values > value).sum())
            suffix = f" (#{rank + 1})" if rank > place else ""
            names.append(f"{'▸ ' if true else ''}{shorten(one, 26)}{suffix}")
        axes.set_yticks(range(len(names)), names)
        for label, k in zip(axes.get_yticklabels(), shown, strict=True):
            weight = "bold" if classes[k] == self.truth else "normal"
            label.set(fontsize=8, parse_math=False, fontweight=weight)
        _finish(axes, most, self.top)


def _bar(axes: Axes, place: int, value: float, *, seen: bool, true: bool = False) -> None:
    colour, hatch = (SEEN, "") if seen else (UNSEEN, "///")
    frame = 2 if true else 0
    axes.barh(place, value, height=0.72, color=colour, hatch=hatch, edgecolor="black", linewidth=frame)
    text = f"{value:.3f}" if value >= 0.0005 or value == 0 else "< 0.001"
    axes.annotate(text, (value, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=7.5)


def _draw_gate(axes: Axes, p_unseen: float, plain: float | None) -> None:
    """Draw the probabilities of the gate; `plain` is that of the model without smoothing."""
    probabilities = {"p(S)": 1 - p_unseen, "p(U)": p_unseen}
    if plain is not None:
        both = {"b": plain, "c": p_unseen}
        probabilities = {
            f"p({side}) of ({row})": value if side == "U" else 1 - value
            for row, value in both.items()
            for side in "SU"
        }
    for place, (name, value) in enumerate(probabilities.items()):
        _bar(axes, place, value, seen=name.startswith("p(S)"))
    axes.set_yticks(range(len(probabilities)), list(probabilities), fontsize=8)
    axes.set_title("gate, p(S) and p(U)", fontsize=9)
    _finish(axes, 1.0, max(len(probabilities), 3))
    axes.set_xticks([0, 0.5, 1])


def _finish(axes: Axes, most: float, slots: int) -> None:
    axes.set(xlim=(0, 1.25 * most or 1.0), ylim=(slots - 0.4, -0.6))
    axes.tick_params(axis="x", labelsize=7)
    axes.tick_params(axis="y", length=0)
    axes.spines[["right", "top"]].set_visible(False)


_PARTS = {
    "Seen-Train": "#9BCFEF",
    "Seen-Val": "#F0CFE0",
    "Unseen-Val": "#D995BB",
    "Test, seen": "#DDDDDD",
    "Test, unseen": "#F2C063",
}
_EDGE: dict[str, Any] = {"edgecolor": "#444444", "linewidth": 0.8}
_HATCH = "//"  # of Gating-Val
_MIN_HEIGHT = 0.07  # of the figure, so that the name of a band with few classes fits


def plot_hold_out(labels: Iterable[Hashable], split: Split, hold_out: HoldOut, *, title: str = "") -> Figure:
    """Draw splits as rectangles of classes by samples; the legend has their numbers of rows and classes.

    The height of a band is its number of classes, the width of a rectangle its rows per class, so areas are
    proportional to numbers of rows; only very thin bands are higher, for their name. GZSL-Val, in pink, is
    Seen-Val and Unseen-Val; the hatched end of each is in Gating-Val, the rest in Gating-Train.
    """
    frame = _hold_out_rows(as_class_index(labels), split, hold_out)
    figure = Figure(figsize=(9.0, 4.8), layout="constrained")
    axes = figure.add_subplot()
    n_classes = frame.groupby("band", observed=False)["class"].nunique()
    heights = np.maximum(n_classes, _MIN_HEIGHT * n_classes.sum()).astype(float)
    middles = np.cumsum(heights) - heights / 2
    left = dict.fromkeys(n_classes.index, 0.0)
    pieces = frame.groupby(["band", "part", "gating"], observed=True).size()
    for (band, part, is_gating), n_rows in zip(pieces.index.tolist(), pieces, strict=True):
        width = n_rows / n_classes[band]
        look = {**_EDGE, "color": _PARTS[part], "hatch": _HATCH if is_gating else None}
        axes.barh(middles[band], width, heights[band], left[band], **look)
        left[band] += width
    axes.set_yticks(middles, [_count(n, f"{band} class") for band, n in n_classes.items()])
    axes.tick_params(axis="y", length=0, labelsize=9)
    axes.set(xlim=(0, 1.004 * max(left.values())), ylim=(heights.sum(), 0))
    axes.set_xlabel("samples per class, on average")
    axes.set_title(title, parse_math=False)
    axes.spines[["right", "top"]].set_visible(False)
    held = frame[frame["part"].isin(["Seen-Val", "Unseen-Val"])]
    pink = {"facecolor": "#E5B2CE"}
    entries = [
        *(
            _entry(str(part), rows, facecolor=_PARTS[str(part)])
            for part, rows in frame.groupby("part", observed=True)
        ),
        _entry("GZSL-Val = Seen-Val + Unseen-Val", held, **pink),
        _entry("Gating-Train, plain", held[~held["gating"]], **pink),
        _entry("Gating-Val, hatched", held[held["gating"]], hatch=_HATCH, **pink),
    ]
    look = {"handlelength": 2.4, "handleheight": 1.2}
    figure.legend(handles=entries, loc="outside lower center", ncols=2, fontsize=8.5, frameon=False, **look)
    return figure


def _hold_out_rows(labels: pd.Index, split: Split, hold_out: HoldOut) -> pd.DataFrame:
    """Return class, part, band and whether it is in Gating-Val of each row."""
    hold_out.check(labels)
    rows = [hold_out.seen_train, hold_out.seen_val, hold_out.unseen_val, split.test_seen, split.test_unseen]
    places = np.concatenate(rows)
    part = np.repeat([*_PARTS], [len(one) for one in rows])
    classes = labels[places]
    bands = [classes.isin(labels[hold_out.seen_train]), part == "Test, unseen"]
    band = np.select(bands, ["training", "unseen"], "validation")
    return pd.DataFrame(
        {
            "class": classes,
            "part": pd.Categorical(part, [*_PARTS]),
            "band": pd.Categorical(band, ["training", "validation", "unseen"]),
            "gating": np.isin(places, hold_out.gating_val),
        }
    )


def _entry(name: str, rows: pd.DataFrame, **look: Any) -> Patch:
    label = f"{name}: {_count(len(rows), 'row')} of {_count(rows['class'].nunique(), 'class')}"
    return Patch(label=label, **_EDGE, **look)


def _count(n: int, what: str) -> str:
    plural = what if n == 1 else f"{what}es" if what.endswith("s") else f"{what}s"
    return f"{n:,} {plural}"
