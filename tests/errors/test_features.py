"""Features that cannot be used: the error names the input, the place and the remedy."""

from contextlib import nullcontext, suppress

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy import sparse

from cosmo import Cosmo, fit_model
from cosmo.experts import ESZSL


def with_value(value):
    def change(X):
        X = X.astype(object) if isinstance(value, str) else X.copy()
        X[3, 1] = value
        return X

    return change


def masked(X):
    mask = np.zeros(X.shape, dtype=bool)
    mask[3] = True
    return np.ma.masked_array(X, mask)


# How X is damaged, and what the message must contain besides the name of the input.
FAULTS = {
    "NaN": (with_value(np.nan), ("row 3", "column 1", "nan", "drop or impute")),
    "infinity": (with_value(np.inf), ("row 3", "column 1", "inf", "drop or impute")),
    "too large for float32": (lambda X: X * np.float64(1e39), ("row 0", "drop or impute")),
    "text": (with_value("red"), ("numbers", "astype(float)")),
    "sparse": (sparse.csr_matrix, ("sparse", "toarray()")),
    "masked": (masked, ("masked", "fill")),
    "one dimension": (lambda X: X[:, 0], ("2 dimensions", "reshape(1, -1)")),
    "three dimensions": (lambda X: X[:, :, None], ("2 dimensions",)),
    "no columns": (lambda X: X[:, :0], ("no columns", "at least one")),
    "ragged": (lambda X: [*X[:-1].tolist(), X[-1, :-1].tolist()], ("same length",)),
}


@pytest.mark.parametrize("fault", FAULTS)
class TestEveryEntryPoint:
    def check(self, refused, fault, name, use, X):
        change, parts = FAULTS[fault]
        with refused(TypeError if fault == "sparse" else ValueError, name, *parts):
            use(change(X))

    def test_training(self, task, refused, fault):
        for name, use in {
            "X": lambda X: Cosmo(task.table, unseen=ESZSL(1.0, 1.0)).fit(X, task.y),
            "samples" if fault in ("sparse", "masked", "ragged") else "X": (
                lambda X: fit_model(X, task.y, task.table)
            ),
        }.items():
            self.check(refused, fault, name, use, task.X)
        self.check(refused, fault, "X", lambda X: ESZSL(1.0, 1.0).fit(X, task.y, task.table), task.X)

    def test_prediction(self, task, model, refused, fault):
        for use in (model.cosmo.predict, model.cosmo.predict_proba, model.cosmo.explain):
            self.check(refused, fault, "X", use, task.X_new)
        self.check(refused, fault, "", model.predict_frame, task.X_new)
        self.check(refused, fault, "samples", lambda X: model.learn(X, ["gnu"] * len(task.X_new)), task.X_new)


def test_wrong_number_of_features(task, model, refused):
    for use in (model.cosmo.predict, model.predict_frame):
        with refused(ValueError, "X", "5 features", "6"):
            use(task.X_new[:, :5])
    with refused(ValueError, "samples", "5 columns", "6"):
        model.learn(task.X_new[:, :5], ["gnu"] * len(task.X_new))


def test_no_samples(task, model, refused):
    with refused(ValueError, "X", "0 sample(s)"):
        Cosmo(task.table).fit(task.X[:0], task.y[:0])
    with refused(ValueError, "X", "0 sample(s)"):
        model.cosmo.predict(task.X_new[:0])
    with refused(ValueError, "no samples"):
        model.learn(task.X_new[:0], [])


@pytest.mark.parametrize(
    "change",
    [
        lambda X: X.astype(np.float64),
        lambda X: X.astype(object),
        lambda X: X.tolist(),
        np.asfortranarray,
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    ],
    ids=["float64", "objects", "lists", "Fortran order", "strided"],
)
def test_other_containers_of_the_same_numbers(task, model, change):
    X = change(task.X_new)
    np.testing.assert_array_equal(model.cosmo.predict(X), model.cosmo.predict(task.X_new))


def test_input_is_not_changed(task, clean):
    task.X.flags.writeable = task.X_new.flags.writeable = False
    fitted = Cosmo(task.table, unseen=ESZSL(1.0, 1.0)).fit(task.X, task.y)
    fitted.predict_proba(task.X_new)
    pd.testing.assert_frame_equal(task.table, clean.table)
    assert (task.y == clean.y).all()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(npst.arrays(np.float64, st.tuples(st.integers(0, 3), st.integers(4, 7)), elements=st.floats(width=64)))
def test_any_matrix_gives_a_distribution_or_a_value_error(model, X):
    usable = X.shape[1] == 6 and len(X) > 0 and (np.abs(X) < 1e15).all()
    with nullcontext() if usable else suppress(ValueError):
        proba = model.cosmo.predict_proba(X)
        assert proba.shape == (len(X), 9)
        np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-4)
