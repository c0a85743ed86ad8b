"""The tables of a page, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from cosmo.evaluation.evaluate import ModelEvaluation
from cosmo.metrics.accuracy import GZSLScores
from cosmo.viz.page.packing import plain
from cosmo.viz.page.sets import Way

__all__ = [
    "CHOSEN",
    "accuracies_table",
    "comparison_table",
    "curves_table",
    "mistakes_table",
    "percent",
    "published_points",
    "results_table",
    "summary_table",
    "way_name",
]

_MEASURES = (
    "Acc_ts: accuracy on unseen classes; Acc_tr: on seen classes; both per class, predicted among all "
    "classes, in percent. Acc_H: their harmonic mean. AUSUC: area under the exact seen-unseen curve."
)
CHOSEN = "Operating points were chosen on held-out training data; the test set was opened once."
_INTERVALS = "Intervals (95 %) resample rows within classes."

Table = dict[str, Any]


def results_table(results: Sequence[Mapping[str, Any]]) -> Table:
    """Return the rows of `Experiment.to_dict`, with intervals."""
    return {
        "title": "Ways of combining the experts, on test",
        "columns": ["method", "Acc_ts", "Acc_tr", "Acc_H", "95 % interval", "AUSUC", "95 % interval"],
        "rows": [
            [
                row["name"],
                *(_rounded(100 * row[name]) for name in GZSLScores._fields),
                _interval(row["acc_h_95"]),
                _rounded(100 * row["ausuc"]),
                _interval(row["ausuc_95"]),
            ]
            for row in results
        ],
        "note": f"{_MEASURES} {CHOSEN} {_INTERVALS}",
    }


def accuracies_table(found: ModelEvaluation) -> Table:
    """Return the accuracies of a model, with intervals."""
    measures = zip(
        ("Acc_ts (unseen)", "Acc_tr (seen)", "Acc_H", "AUSUC"),
        (*found.scores, found.ausuc),
        (*found.intervals, found.ausuc_interval),
        strict=True,
    )
    return {
        "title": "Accuracies",
        "columns": ["measure", "percent", "95 % interval"],
        "rows": [[label, _rounded(100 * value), _interval(around)] for label, value, around in measures],
        "note": f"{_MEASURES} Classes without samples do not count. {_INTERVALS}",
    }


def mistakes_table(found: ModelEvaluation, most: int = 20) -> Table:
    """Return the most frequent confusions of a model."""
    mistakes = found.confusions.head(most).to_numpy().tolist()
    return {
        "title": "Most frequent mistakes",
        "columns": ["truth", "taken for", "times"],
        "rows": [[str(truth), str(guess), times] for truth, guess, times in mistakes],
        "note": "At the operating point of the model.",
    }


def _rounded(value: float) -> float | None:
    return plain(round(float(value), 6))


def percent(share: float | None) -> str:
    """Return a share as text."""
    return "not known" if share is None else f"{100 * share:.1f} %"


def _interval(around: Sequence[float | None]) -> str:
    low, high = (plain(value) for value in around)
    return "" if low is None or high is None else f"{100 * low:.1f} – {100 * high:.1f}"


def summary_table(summary: pd.DataFrame) -> Table:
    """Return means over repetitions, see `cosmo.evaluation.run.summarise`."""
    columns = ("Acc_ts", "Acc_tr", "Acc_H", "AUSUC")

    def cell(row: pd.Series, block: str, name: str) -> str:
        return f"{row[block, name]:.1f} ± {row['±' if block == 'mean' else 'lead ±', name]:.1f}"

    return {
        "title": "Means of the repetitions",
        "columns": ["method", *columns, "lead in Acc_H", "lead in AUSUC"],
        "rows": [
            [
                str(method),
                *(cell(row, "mean", name) for name in columns),
                *("" if method == summary.index[-1] else cell(row, "lead", name) for name in columns[2:]),
            ]
            for method, row in summary.iterrows()
        ],
        "note": "Percent, ± 95 % interval over seeds; lead: the last row minus the row, seed by seed. Curves "
        "and samples are those of the first seed.",
    }


def comparison_table(table: pd.DataFrame) -> Table:
    """Return the table of `cosmo.evaluation.compare.compare`, beside what was published."""
    measures = {"T1": "t1", "Acc_ts": "acc_ts", "Acc_tr": "acc_tr", "Acc_H": "acc_h", "AUSUC": "ausuc"}
    notes = dict.fromkeys(
        f"{row['method']}, {row['way']}: {row['note']}" for _, row in table.iterrows() if row["note"]
    )
    return {
        "title": "All methods, on test",
        "columns": [
            "method",
            "way",
            *measures,
            "Acc_H, 95 %",
            "AUSUC, 95 %",
            "CPU s",
            *(f"{name} published" for name in measures),
        ],
        "rows": [
            [
                row["method"],
                row["way"],
                *(_rounded(row[key]) for key in measures.values()),
                *(f"{row[f'{key}_low']:.1f} – {row[f'{key}_high']:.1f}" for key in ("acc_h", "ausuc")),
                _rounded(row["cpu_seconds"]),
                *(_rounded(row[f"published_{key}"]) for key in measures.values()),
            ]
            for _, row in table.iterrows()
        ],
        "note": f"{_MEASURES} T1: unseen samples among unseen classes. {_INTERVALS} CPU s: choosing "
        "parameters and training, both stages. Published figures are on other features (ResNet-101), so only "
        f"order and rough size compare. {' '.join(f'{note}.' for note in notes)}".strip(),
    }


def way_name(method: str, way: str) -> str:
    """Return what a way of using a method is called.

    Examples
    --------
    >>> way_name("LAGO", "alone"), way_name("LAGO", "COSMO")
    ('LAGO', 'LAGO + COSMO')
    """
    return method if way == "alone" else f"{method} + {way}"


def published_points(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the published points of the same table, where both accuracies are known."""
    known = table.dropna(subset=["published_acc_ts", "published_acc_tr"])
    return [
        {
            "name": f"{way_name(row['method'], row['way'])} (published)",
            "acc_ts": row["published_acc_ts"] / 100,
            "acc_tr": row["published_acc_tr"] / 100,
            "note": "; ".join(filter(None, ["as published, on other features", row["note"]])),
        }
        for _, row in known.iterrows()
    ]


def curves_table(ways: Sequence[Way]) -> Table:
    """Return the accuracies at the chosen points."""
    rows = []
    for way in ways:
        curve = way.combination.curve(way.outputs)
        at = curve.at(way.combination.operating_point_.threshold)
        rows.append([way.name, *(_rounded(100 * value) for value in (*at, curve.area))])
    return {
        "title": "At the chosen points, on test",
        "columns": ["method", "Acc_ts", "Acc_tr", "Acc_H", "AUSUC"],
        "rows": rows,
        "note": _MEASURES,
    }
