"""Labels that do not fit the samples or the descriptions."""

import numpy as np
import pytest

from cosmo import Cosmo
from cosmo.evaluation.evaluate import evaluate_model
from cosmo.experts import ESZSL


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


def test_evaluation(task, model, refused):
    with refused(ValueError, "'yak'"):
        evaluate_model(model, task.X_new, with_label(task.y_new, "yak"))
    with refused(ValueError, "18", "17"):
        evaluate_model(model, task.X_new, task.y_new[:-1])
