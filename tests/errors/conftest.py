"""A small task: nine described animals, six of them with samples."""

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from cosmo import fit_model
from cosmo.experts import ESZSL

SEEN = ["ant", "bee", "cat", "dog", "eel", "fox"]
ORDER = ["ant", "gnu", "bee", "cat", "hen", "dog", "eel", "ibis", "fox"]


@pytest.fixture(scope="session")
def clean():
    """Features X, labels y and descriptions for training; X_new and y_new of all nine classes."""
    rng = np.random.default_rng(0)
    columns = [f"{group}::{name}" for group in ("colour", "size") for name in ("a", "b", "c")]
    table = pd.DataFrame(rng.random((9, 6)), index=pd.Index(ORDER, dtype=object), columns=columns)
    mixing = rng.normal(size=(6, 6))

    def draw(labels):
        rows = table.loc[labels].to_numpy() @ mixing + 0.1 * rng.normal(size=(len(labels), 6))
        return rows.astype(np.float32)

    y, y_new = np.repeat(np.array(SEEN, dtype=object), 8), np.repeat(np.array(ORDER, dtype=object), 2)
    return SimpleNamespace(X=draw(y), y=y, table=table, X_new=draw(y_new), y_new=y_new)


@pytest.fixture
def task(clean):
    """A copy of the task that a test may damage."""
    return SimpleNamespace(**{name: value.copy() for name, value in vars(clean).items()})


@pytest.fixture(scope="session")
def model(clean):
    return fit_model(clean.X, clean.y, clean.table, unseen=ESZSL(1.0, 1.0))


@pytest.fixture(scope="session")
def refused():
    """Context manager: an error of this type, whose message contains all these parts."""

    @contextmanager
    def check(kind, *parts):
        with pytest.raises(kind) as caught:
            yield
        missing = [part for part in parts if part.lower() not in str(caught.value).lower()]
        assert not missing, f"{missing} not in: {caught.value}"

    return check
