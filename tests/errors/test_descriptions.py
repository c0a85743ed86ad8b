"""Descriptions that cannot be used."""

import numpy as np
import pandas as pd
import pytest

from cosmo import Cosmo
from cosmo.experts import ESZSL


def with_value(value):
    def change(table):
        table = table.astype(object) if isinstance(value, str) else table.copy()
        table.iloc[3, 1] = value
        return table

    return change


FAULTS = {
    "NaN": (with_value(np.nan), ("class 'cat'", "'colour::b'", "fill it in or drop")),
    "infinity": (with_value(np.inf), ("class 'cat'", "'colour::b'", "fill it in or drop")),
    "text": (with_value("red"), ("'red'", "numbers")),
    "no rows": (lambda table: table.iloc[:0], ("empty", "a row for each class")),
    "no columns": (lambda table: table.iloc[:, :0], ("empty", "a column for each attribute")),
    "a class twice": (
        lambda table: pd.concat([table, table.iloc[:1]]),
        ("more than once", "'ant'", "keep one"),
    ),
    "no name": (lambda table: table.rename(index={"gnu": None}), ("row 1", "name the class or drop")),
    "a class missing": (lambda table: table.iloc[1:], ("without a description: 'ant'", "add a row")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_training(task, refused, fault):
    change, parts = FAULTS[fault]
    with refused(ValueError, *parts):
        Cosmo(change(task.table)).fit(task.X, task.y)
    with refused(ValueError, *parts):
        ESZSL(1.0, 1.0).fit(task.X, task.y, change(task.table))


def test_something_else(task, refused):
    with refused(TypeError, "descriptions", "DataFrame", "ndarray"):
        Cosmo(task.table.to_numpy()).fit(task.X, task.y)
    with refused(ValueError, "descriptions", "one row per class"):
        Cosmo().fit(task.X, task.y)
    with refused(ValueError, "descriptions", "same length"):
        Cosmo({"ant": [1, 0], "bee": [1]}).fit(task.X, task.y)


def test_new_classes(task, model, refused):
    new = task.table.iloc[:1].rename(index={"ant": "jay"})
    with refused(ValueError, "6 attributes"):
        model.cosmo.add_classes(new.iloc[:, :5])
    with refused(ValueError, "ant"):
        model.cosmo.add_classes(task.table.iloc[:1])
    expert = ESZSL(1.0, 1.0).fit(task.X, task.y, task.table)
    with refused(ValueError, "6 attributes", "5"):
        expert.predict_proba(task.X_new, task.table.iloc[:, :5])
    with refused(ValueError, "same order"):
        expert.predict_proba(task.X_new, task.table.iloc[:, ::-1])


def test_order_of_classes_and_attributes_does_not_matter(task, clean):
    """Names count, not positions: columns of another order were once taken as they came."""
    new = clean.table.iloc[[0]].rename(index={"ant": "jay"}) * 0.9

    def probabilities(change):
        fitted = Cosmo(task.table, unseen=ESZSL(1.0, 1.0)).fit(task.X, task.y).add_classes(change(new))
        return pd.DataFrame(fitted.predict_proba(task.X_new), columns=fitted.classes_)

    pd.testing.assert_frame_equal(
        probabilities(lambda t: t), probabilities(lambda t: t.iloc[:, ::-1]), rtol=1e-3, atol=1e-4
    )
    one = Cosmo(task.table, unseen=ESZSL(1.0, 1.0)).fit(task.X, task.y)
    other = Cosmo(task.table.iloc[::-1], unseen=ESZSL(1.0, 1.0)).fit(task.X, task.y)
    assert (one.predict(task.X_new) == other.predict(task.X_new)).all()
