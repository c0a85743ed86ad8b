"""Stored predictions behind the expert contract."""

import numpy as np
import pandas as pd
import pytest

from cosmo.experts import PrecomputedExpert

TABLE = pd.DataFrame([[0.7, 0.2, 0.1], [0.1, 0.1, 0.6]], index=[10, 20], columns=["a", "b", "z"])


def test_looks_rows_and_classes_up_in_any_order():
    expert = PrecomputedExpert(TABLE).fit([10], ["a"], TABLE.T)
    found = expert.predict_proba([20, 10, 20], pd.DataFrame(index=["z", "a"]))
    np.testing.assert_allclose(found, [[0.6, 0.1], [0.1, 0.7], [0.6, 0.1]])


def test_column_vector_of_rows():
    found = PrecomputedExpert(TABLE).predict_proba([[10], [20]], pd.DataFrame(index=["b"]))
    np.testing.assert_allclose(found, [[0.2], [0.1]])


def test_unknown_row():
    with pytest.raises(ValueError, match="no stored prediction for row"):
        PrecomputedExpert(TABLE).scores([11], pd.DataFrame(index=["a"]))


def test_unknown_class():
    with pytest.raises(ValueError, match="no stored prediction for class 'q'"):
        PrecomputedExpert(TABLE).scores([10], pd.DataFrame(index=["q"]))


@pytest.mark.parametrize("bad", [TABLE * -1, TABLE * 3, TABLE * np.nan])
def test_not_probabilities(bad):
    with pytest.raises(ValueError, match="proba"):
        PrecomputedExpert(bad).fit([10], ["a"], TABLE.T)


def test_a_table_is_needed():
    with pytest.raises(TypeError, match="proba .*DataFrame"):
        PrecomputedExpert(TABLE.to_numpy()).fit([10], ["a"], TABLE.T)
