"""Tables of text for the terminal, Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from cosmo.evaluation.gates import GateResult, LeaveOutGap

_LATEX = {
    "\\": r"\textbackslash ",
    "^": r"\textasciicircum ",
    "~": r"\textasciitilde ",
    "Δ": r"$\Delta$",
    "–": "--",
    **{letter: "\\" + letter for letter in "&%$#_{}"},
}


@dataclass(frozen=True)
class TextTable:
    r"""Table whose cells are text.

    Parameters
    ----------
    title : str
    columns : sequence of str
    rows : sequence of sequence of str
    notes : sequence of str, default=()
        Remarks on single rows.
    align : str, default=""
        A letter, l or r, for each column; by default all but the first are aligned to the right.

    Examples
    --------
    >>> table = TextTable("CUB", ["", "H"], [["p^ZS", "49.6"]])
    >>> print(table.markdown())
    |  | H |
    |---|---:|
    | p^ZS | 49.6 |
    >>> print(table.latex())
    % CUB
    \begin{tabular}{lr}
    \hline
     & H \\
    \hline
    p\textasciicircum ZS & 49.6 \\
    \hline
    \end{tabular}
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    align: str = ""

    @property
    def sides(self) -> str:
        """Alignment of each column."""
        return self.align or "l" + "r" * (len(self.columns) - 1)

    def markdown(self) -> str:
        """Return the table in Markdown, without title and notes."""
        rule = "|" + "".join("---|" if side == "l" else "---:|" for side in self.sides)
        head, *body = (
            "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
            for cells in (self.columns, *self.rows)
        )
        return "\n".join([head, rule, *body])

    def latex(self) -> str:
        """Return a LaTeX `tabular`."""
        head, *body = (
            " & ".join("".join(_LATEX.get(letter, letter) for letter in cell) for cell in cells) + r" \\"
            for cells in (self.columns, *self.rows)
        )
        begin = rf"\begin{{tabular}}{{{self.sides}}}"
        return "\n".join(
            [f"% {self.title}", begin, r"\hline", head, r"\hline", *body, r"\hline", r"\end{tabular}"]
        )


_WAYS = {"alone": "alone", "own gate": "+ own gate", "CS": "+ CS", "COSMO": "+ COSMO"}
_COMPARISON_COLUMNS = ("method", "", "T1", "ts", "tr", "H", "AUSUC", "CPU s", "T1*", "ts / tr / H*", "AUSUC*")


def comparison_table(frame: pd.DataFrame, title: str, left_out: Mapping[str, str]) -> TextTable:
    """Return the table that `cosmo.evaluation.compare.compare` computed, as text.

    Parameters
    ----------
    frame : DataFrame
    title : str
    left_out : mapping of str to str
        Method -> the reason why it has no row.
    """
    is_first = frame["method"] != frame["method"].shift()
    rows = [
        _comparison_row(row, bool(first)) for (_, row), first in zip(frame.iterrows(), is_first, strict=True)
    ]
    notes = [
        f"{method}: published figures: {'; '.join(dict.fromkeys(filter(None, group)))}"
        for method, group in frame.groupby("method", sort=False)["note"]
        if any(group)
    ]
    notes += [f"{method}: left out. {reason}" for method, reason in left_out.items()]
    return TextTable(title, _COMPARISON_COLUMNS, rows, notes, "ll" + "r" * (len(_COMPARISON_COLUMNS) - 2))


def _comparison_row(row: pd.Series, is_first: bool) -> list[str]:
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
        f"{row['t1']:.1f}" if is_first else "",
        f"{row['acc_ts']:.1f}",
        f"{row['acc_tr']:.1f}",
        with_interval("acc_h"),
        with_interval("ausuc"),
        f"{row['cpu_seconds']:.0f}" if is_first else "",
        published("t1") if is_first else "",
        published("acc_ts", "acc_tr", "acc_h"),
        published("ausuc"),
    ]


_GATE_COLUMNS = {
    "auc": "AUC",
    "fpr": "FPR95",
    "ece": "ECE",
    "scaled_ece": "scaled",
    "acc_h": "H",
    "test_auc": "test AUC",
    "test_fpr": "test FPR95",
    "test_acc_h": "test H",
}


def gate_table(results: Iterable[GateResult], *, descriptions: bool = False) -> TextTable:
    """Return the measures of gates as text; `descriptions` adds what each gate is."""
    rows = [
        [
            one.name,
            *(f"{one.measures[key]:.1f}" for key in _GATE_COLUMNS),
            *([one.about] if descriptions else []),
        ]
        for one in results
    ]
    columns = ["gate", *_GATE_COLUMNS.values(), *([""] if descriptions else [])]
    align = "l" + "r" * len(_GATE_COLUMNS) + ("l" if descriptions else "")
    return TextTable("Gating-Val (H: GZSL-Val) and test, percent, no smoothing", columns, rows, align=align)


def odin_table(auc: pd.DataFrame) -> TextTable:
    """Return the AUC of ODIN by perturbation and temperature as text."""
    return TextTable(
        "ODIN, AUC on Gating-Val by size of the perturbation ε and temperature, percent",
        ["ε", *(f"T = {temperature:g}" for temperature in auc.columns)],
        [[f"{epsilon:g}", *(f"{value:.2f}" for value in auc.loc[epsilon])] for epsilon in auc.index],
    )


def leave_out_table(gaps: Mapping[str, LeaveOutGap]) -> TextTable:
    """Return the AUC of the members of leave-out ensembles as text."""
    return TextTable(
        "members of the leave-out ensemble, AUC of own against other classes, percent",
        ["training", "left-out classes, training rows", "left-out classes, other rows", "new classes"],
        [[name, *(f"{100 * value:.1f}" for value in gap)] for name, gap in gaps.items()],
    )
