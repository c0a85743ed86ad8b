"""Labels that do not fit the samples or the descriptions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cosmo import Cosmo
from cosmo.data import DataError, read_features
from cosmo.evaluation.evaluate import evaluate_model
from cosmo.experts import ESZSL
from cosmo.metrics.accuracy import gzsl_scores


def with_label(y, value):
    y = y.copy()
    y[3] = value
    return y


FAULTS = {
    "too few": (lambda y: y[:-1], ("48", "47")),
    "two dimensions": (lambda y: np.stack([y, y], axis=1), ("one per sample", "ravel()")),
    "None": (lambda y: with_label(y, None), ("no label in row 3", "drop the row")),
    "NaN": (lambda y: with_label(y, np.nan), ("no label in row 3", "drop the row")),
    "a class without description": (lambda y: with_label(y, "yak"), ("'yak'", "add a row")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_training(task, refused, fault):
    change, parts = FAULTS[fault]
    for fit in (
        lambda y: Cosmo(task.table, unseen=ESZSL(1.0, 1.0)).fit(task.X, y),
        lambda y: ESZSL(1.0, 1.0).fit(task.X, y, task.table),
    ):
        with refused(ValueError, *parts):
            fit(change(task.y))


def test_one_class(task, refused):
    ants = task.y == "ant"
    with refused(ValueError, "y has only one class ('ant')", "at least two"):
        Cosmo(task.table).fit(task.X[ants], task.y[ants])


def test_every_described_class_has_samples(task, refused):
    table = task.table.loc[pd.unique(task.y)]
    with refused(ValueError, "no unseen class", "add a row to the descriptions"):
        Cosmo(table).fit(task.X, task.y)


def test_evaluation(task, model, refused):
    with refused(ValueError, "'yak'"):
        evaluate_model(model, task.X_new, with_label(task.y_new, "yak"))
    with refused(ValueError, "18", "17"):
        evaluate_model(model, task.X_new, task.y_new[:-1])


def test_metrics(task, refused):
    seen, unseen = ["ant", "bee", "cat", "dog", "eel", "fox"], ["gnu", "hen", "ibis"]
    with refused(ValueError, "18", "17"):
        gzsl_scores(task.y_new, task.y_new[:-1], seen, unseen)
    with refused(ValueError, "gnu", "both"):
        gzsl_scores(task.y_new, task.y_new, [*seen, "gnu"], unseen)


class TestFiles:
    def test_empty_cell(self, tmp_path: Path, refused):
        path = tmp_path / "a.csv"
        path.write_text("label,f0\nant,1\n,2\n")
        with refused(DataError, str(path), "row 2 has no label", "fill or drop"):
            read_features(path)

    def test_fewer_labels_than_rows(self, tmp_path: Path, task, refused):
        path = tmp_path / "a.npz"
        np.savez(path, X=task.X, y=task.y[:-1].astype(str))
        with refused(DataError, str(path), "48 rows", "labels"):
            read_features(path)
