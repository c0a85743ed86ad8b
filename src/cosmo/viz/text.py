"""Tables of results, for the terminal, Markdown, LaTeX and the page, and documents made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any

import jinja2
import numpy as np
import pandas as pd
from scipy.special import expit

if TYPE_CHECKING:
    from cosmo.classifier._prediction import Explanation
    from cosmo.classifier.combinations import OperatingPoint
    from cosmo.evaluation.compare import GateResult
    from cosmo.evaluation.evaluate import ModelEvaluation
    from cosmo.evaluation.run import Experiment
    from cosmo.metrics.accuracy import Interval
    from cosmo.mixture.curve import SeenUnseenCurve

MEASURES = (
    "Acc_ts: accuracy on new (unseen) classes; Acc_tr: on known (seen) classes; both are means over classes, "
    "and a sample may be taken for any class. Acc_H, the balanced score: their harmonic mean. AUSUC: area "
    "under the seen-unseen curve, over all operating points."
)
_TEMPLATES = files("cosmo.viz").joinpath("templates")
_LATEX = {
    "\\": r"\textbackslash ",
    "^": r"\textasciicircum ",
    "~": r"\textasciitilde ",
    "Δ": r"$\Delta$",
    "–": "--",
    **{letter: "\\" + letter for letter in "&%$#_{}"},
}


Cell = str | float | None


@dataclass(frozen=True)
class TextTable:
    r"""Table of texts and numbers; numbers are printed with one decimal.

    `align` has a letter, l or r, for each column; by default all but the first are aligned to the right.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    notes: Sequence[str] = ()
    align: str = ""

    @property
    def sides(self) -> str:
        """Alignment of each column."""
        return self.align or "l" + "r" * (len(self.columns) - 1)

    @property
    def texts(self) -> list[list[str]]:
        """Rows as text."""
        return [[_text(cell) for cell in row] for row in self.rows]

    def markdown(self) -> str:
        """Return the table in Markdown, without title and notes."""
        rule = "|" + "".join("---|" if side == "l" else "---:|" for side in self.sides)
        head, *body = (
            "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
            for cells in (self.columns, *self.texts)
        )
        return "\n".join([head, rule, *body])

    def latex(self) -> str:
        """Return a LaTeX `tabular`."""
        head, *body = (
            " & ".join("".join(_LATEX.get(letter, letter) for letter in cell) for cell in cells) + r" \\"
            for cells in (self.columns, *self.texts)
        )
        begin = rf"\begin{{tabular}}{{{self.sides}}}"
        return "\n".join(
            [f"% {self.title}", begin, r"\hline", head, r"\hline", *body, r"\hline", r"\end{tabular}"]
        )

    def page(self, *notes: str) -> dict[str, Any]:
        """Return the table as the page shows it, with further notes."""
        rows = [[round(cell, 6) if isinstance(cell, float) else cell for cell in row] for row in self.rows]
        note = " ".join((*self.notes, *notes))
        return {"title": self.title, "columns": list(self.columns), "rows": rows, "note": note}


def fill_template(template: Traversable, **values: Any) -> str:
    """Return a template of jinja with its values; those of an HTML page are escaped."""
    environment = jinja2.Environment(
        autoescape=template.name.endswith(".html"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.from_string(template.read_text("utf-8")).render(**values)


def _text(cell: Cell) -> str:
    return "-" if cell is None else f"{cell:.1f}" if isinstance(cell, float) else str(cell)


def _percent(value: float) -> float | None:
    return None if np.isnan(value) else float(100 * value)


def _interval(interval: Interval) -> str:
    return "" if np.isnan(interval.low) else f"{100 * interval.low:.1f} – {100 * interval.high:.1f}"


_WAYS = {
    "alone": "alone",
    "own gate": "+ own gate",
    "CS": "+ CS",
    "COSMO": "+ COSMO",
    "calibrated": "+ COSMO, calibrated",
}
_COMPARISON_COLUMNS = ("method", "", "T1", "ts", "tr", "H", "AUSUC", "CPU s", "T1*", "ts / tr / H*", "AUSUC*")


def comparison_table(frame: pd.DataFrame, title: str, left_out: Mapping[str, str] | None = None) -> TextTable:
    """Return the table of `cosmo.evaluation.compare.compare`; `left_out` has reasons by method."""
    is_first = frame["method"] != frame["method"].shift()
    rows = [
        _comparison_row(row, bool(first)) for (_, row), first in zip(frame.iterrows(), is_first, strict=True)
    ]
    notes = [
        f"{method}: published figures: {'; '.join(dict.fromkeys(filter(None, group)))}"
        for method, group in frame.groupby("method", sort=False)["note"]
        if any(group)
    ]
    notes += [f"{method}: left out. {reason}" for method, reason in (left_out or {}).items()]
    return TextTable(title, _COMPARISON_COLUMNS, rows, notes, "ll" + "r" * (len(_COMPARISON_COLUMNS) - 2))


def _comparison_row(row: pd.Series, is_first: bool) -> list[Cell]:
    def with_interval(name: str) -> str:
        return f"{row[name]:.1f} ({row[name + '_low']:.1f}–{row[name + '_high']:.1f})"

    def published(*names: str) -> str:
        values = [row[f"published_{name}"] for name in names]
        if pd.isna(values).all():
            return ""
        return " / ".join("–" if pd.isna(value) else f"{value:.1f}" for value in values)

    return [
        row["method"] if is_first else "",
        _WAYS[row["way"]],
        row["t1"] if is_first else "",
        row["acc_ts"],
        row["acc_tr"],
        with_interval("acc_h"),
        with_interval("ausuc"),
        f"{row['cpu_seconds']:.0f}" if is_first else "",
        published("t1") if is_first else "",
        published("acc_ts", "acc_tr", "acc_h"),
        published("ausuc"),
    ]


def comparison_document(
    name: str, command: str, seen: str, tables: Mapping[str, TextTable], frames: Mapping[str, pd.DataFrame]
) -> str:
    """Return comparisons as Markdown; `tables` and `frames` are by file of descriptions."""
    minutes = {
        key: frame.drop_duplicates("method")["cpu_seconds"].sum() / 60 for key, frame in frames.items()
    }
    return fill_template(
        _TEMPLATES / "comparison.md", name=name, command=command, seen=seen, tables=tables, minutes=minutes
    )


_GATE_COLUMNS = {"auc": "AUC", "fpr": "FPR95", "ece": "ECE", "scaled_ece": "scaled", "acc_h": "H"}
_GATE_COLUMNS |= {"test_auc": "test AUC", "test_fpr": "test FPR95", "test_acc_h": "test H"}


def gate_table(results: Iterable[GateResult], *, descriptions: bool = False) -> TextTable:
    """Return the measures of gates as text; `descriptions` adds what each gate is."""
    rows: list[list[Cell]] = [
        [one.name, *(one.measures[key] for key in _GATE_COLUMNS), *([one.about] if descriptions else [])]
        for one in results
    ]
    columns = ["gate", *_GATE_COLUMNS.values(), *([""] if descriptions else [])]
    align = "l" + "r" * len(_GATE_COLUMNS) + ("l" if descriptions else "")
    return TextTable("Gating-Val (H: GZSL-Val) and test, percent, no smoothing", columns, rows, align=align)


def gate_document(name: str, command: str, results: Sequence[GateResult]) -> str:
    """Return a comparison of gates as Markdown."""
    table = gate_table(results, descriptions=True)
    return fill_template(_TEMPLATES / "gates.md", name=name, command=command, table=table)


def run_table(experiment: Experiment) -> TextTable:
    """Return the accuracies of one run."""
    return TextTable(
        f"{experiment.dataset.name}: test accuracy in percent",
        ["method", "Acc_ts", "Acc_tr", "Acc_H", "95 % interval", "AUSUC", "95 % interval"],
        [
            [
                one.name,
                *map(_percent, one.scores),
                _interval(one.intervals[2]),
                _percent(one.ausuc),
                _interval(one.ausuc_interval),
            ]
            for one in experiment.evaluations
        ],
        [MEASURES],
    )


def summary_table(summary: pd.DataFrame, title: str = "mean of the seeds") -> TextTable:
    """Return the means over seeds (`cosmo.evaluation.run.summarise`)."""
    measures = ("Acc_ts", "Acc_tr", "Acc_H", "AUSUC")
    rows = []
    for method, row in summary.iterrows():
        means = [f"{row['mean', name]:.1f} ± {row['±', name]:.1f}" for name in measures]
        leads = [f"{row['lead', name]:.1f} ± {row['lead ±', name]:.1f}" for name in measures[2:]]
        rows.append([str(method), *means, *leads])
    rows[-1][-2:] = ["", ""]  # the lead of the last row over itself
    return TextTable(
        f"{title}, percent, ± 95 % interval; lead = {rows[-1][0]} minus the row, seed by seed",
        ["method", *measures, "lead Acc_H", "lead AUSUC"],
        rows,
        [MEASURES],
    )


def accuracy_table(found: ModelEvaluation) -> TextTable:
    """Return the accuracies of an evaluation."""
    rows = [
        [name, _percent(value), missing if np.isnan(value) else _interval(interval)]
        for name, missing, (value, interval) in zip(
            ("new classes (Acc_ts)", "known classes (Acc_tr)", "balanced (Acc_H)", "all points (AUSUC)"),
            ("no such samples", "no such samples", "needs both", "needs both"),
            found.measures.values(),
            strict=True,
        )
    ]
    return TextTable("test accuracy in percent", ["measure", "percent", "95 % interval"], rows, [MEASURES])


def baselines_table(found: ModelEvaluation) -> TextTable:
    """Return the accuracies of an evaluation beside those of simpler rules."""
    lines = {"this model": [*found.scores, found.ausuc]} | {
        name: row.tolist()
        for name, row in zip(found.baselines.index, found.baselines.to_numpy(), strict=True)
    }
    rows = [
        [name, *("-" if np.isnan(value) else _percent(value) for value in (tr, ts, h, area))]
        for name, (ts, tr, h, area) in lines.items()
    ]
    return TextTable("for comparison, percent", ["", "known", "new", "balanced", "AUSUC"], rows)


def confusions_table(found: ModelEvaluation) -> TextTable:
    """Return the most frequent confusions of an evaluation."""
    rows = [
        [str(truth), str(predicted), times]
        for truth, predicted, times in found.confusions.head(20).to_numpy().tolist()
    ]
    notes = ["At the operating point of the model."]
    return TextTable("most frequent mistakes", ["true class", "predicted", "times"], rows, notes)


def worst_classes_table(found: ModelEvaluation, n_classes: int) -> TextTable:
    """Return the classes of least accuracy as text."""
    rows = [
        [
            str(label),
            row["domain"],
            row["samples"],
            100 * row["accuracy"],
            f"{row['taken_for']} ({row['times']})" if row["times"] else "",
        ]
        for label, row in found.classes.head(n_classes).iterrows()
    ]
    columns = ["class", "", "samples", "accuracy", "most often taken for"]
    return TextTable("worst classes", columns, rows, align="llrrl")


def curve_table(curve: SeenUnseenCurve, threshold: float, *, share: bool = False) -> TextTable:
    """Return points of the curve around a threshold, about five percent of seen accuracy apart.

    With `share`, thresholds are log-odds and shown as shares of unseen samples.
    """
    at = curve.at(threshold)
    near = {
        int(np.lexsort((-curve.acc_ts, np.abs(curve.acc_tr - (at.acc_tr + step)).round(9)))[0])
        for step in np.arange(-4, 5) * 0.05
    }
    points = {(float(curve.thresholds[k]), *curve.at(float(curve.thresholds[k]))) for k in near}
    points = {one for one in points if one[1:] != tuple(at)} | {(threshold, *at)}

    def show(value: float) -> str:
        return f"{100 * expit(value):.3g} %" if share else f"{value:.4g}"

    rows = [
        [show(value), *map(_percent, (acc_tr, acc_ts, acc_h)), "<- chosen" if value == threshold else ""]
        for value, acc_ts, acc_tr, acc_h in sorted(points)
    ]
    return TextTable(
        f"held-out samples, percent; area under the curve (AUSUC) {100 * curve.area:.1f}",
        ["unseen share" if share else "threshold", "seen (Acc_tr)", "unseen (Acc_ts)", "Acc_H", ""],
        rows,
        align="rrrrl",
    )


def explanation_text(
    explanation: Explanation, i: int, point: OperatingPoint, top: int, *, share: bool = False
) -> str:
    """Return the steps from the experts to the prediction of sample `i`, with its `top` classes."""
    table = explanation.table(i)
    prediction = table.iloc[0]

    def best(domain: str, column: str) -> str:
        part = table[table["domain"] == domain].sort_values(column, ascending=False, kind="stable").head(3)
        return ", ".join(f"{name} {value:.3f}" for name, value in part[column].items())

    lines = [f"  1. Seen expert:    {best('seen', 'expert')}"]
    if len(explanation.unseen_classes):
        lines.append(f"     Unseen expert:  {best('unseen', 'expert')}")
    domain = f"{table.index[0]} ({prediction['domain']} class), probability {prediction['result']:.3f}"
    p_seen = 1 - explanation.p_unseen[i]
    if share:
        gate = p_seen if prediction["domain"] == "seen" else 1 - p_seen
        lines += [
            f"  2. Gate: p(seen) {p_seen:.3f}, with an expected share of unseen samples of "
            f"{100 * expit(point.threshold):.3g} %",
            f"  3. Prediction: {domain} = {prediction['expert']:.3f} x {gate:.3f}",
        ]
    else:
        lines += [
            f"  2. Gate: p(seen) {p_seen:.3f} (score {explanation.gate_score[i]:.3f}, "
            f"threshold {point.threshold:.3f}, softness {point.softness:g})",
            f"  3. After smoothing:  {best('seen', 'smoothed')} (seen)",
            f"                       {best('unseen', 'smoothed')} (unseen); scores, which may exceed 1",
            f"  4. Prediction: {domain}",
        ]
    listing = table.head(top).to_string(float_format="{:.3f}".format)
    return "\n".join([*lines, "", *(f"     {line}" for line in listing.splitlines()), ""])
