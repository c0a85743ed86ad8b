"""Experts made of other objects: any with `fit` and `scores`, and stored predictions."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV

from cosmo import Cosmo
from cosmo.data.splits import hold_out
from cosmo.experts import ESZSL, PrecomputedExpert, SoftmaxRegression, UnseenExpert, select
from cosmo.experts.base import as_unseen_expert
from cosmo.experts.composed import AdaptedExpert


class Ridge(BaseEstimator):
    grid = {"alpha": (1e-3, 1.0, 1e6)}  # noqa: RUF012

    def __init__(self, alpha=None):
        self.alpha = alpha

    def fit(self, X, y, descriptions):
        gram = X.T @ X + self.alpha * np.eye(X.shape[1])
        self.weights_ = np.linalg.solve(gram, X.T @ descriptions.loc[y].to_numpy())

    def scores(self, X, descriptions):
        classes = descriptions.to_numpy()
        return 2 * X @ self.weights_ @ classes.T - (classes**2).sum(axis=1)


class Narrow(Ridge):
    def scores(self, X, descriptions):
        return super().scores(X, descriptions)[:, 0]


class Empty(UnseenExpert):
    def scores(self, X, descriptions):
        return X


def test_own_experts_are_adapted_and_others_are_not(task):
    for expert in (ESZSL(), PrecomputedExpert(task.table), AdaptedExpert(Ridge())):
        assert as_unseen_expert(expert) is expert
    assert isinstance(as_unseen_expert(Ridge()), AdaptedExpert)


def test_parameters_are_chosen_on_held_out_classes(task):
    expert = AdaptedExpert(Ridge())
    assert expert.open_parameters() == ["expert__alpha", "temperature"]
    chosen = select(expert, task.X, task.y, task.table, hold_out(task.y))
    assert chosen.expert.alpha in Ridge.grid["alpha"][:2]  # 1e6 leaves nothing but a mean
    assert expert.expert.alpha is None
    again = clone(chosen).fit(task.X, task.y, task.table)
    assert again.decided_ == {"expert__alpha": chosen.expert.alpha, "temperature": chosen.temperature}
    guess = task.unseen[again.scores(task.X_new, task.table.loc[task.unseen]).argmax(axis=1)]
    assert (guess == task.y_new).mean() > 0.6  # chance is 1/8


def test_cosmo_takes_it_and_fits_a_copy(task):
    mine = Ridge(1.0)
    model = Cosmo(task.table, seen=SoftmaxRegression(), unseen=mine).fit(task.X, task.y)
    assert not hasattr(mine, "weights_")
    assert model.score(task.X_new, task.y_new) > 0.3  # chance is 1/25
    search = GridSearchCV(clone(model), {"unseen__alpha": [1.0, 1e9]}, cv=2).fit(task.X, task.y)
    assert search.best_params_["unseen__alpha"] in (1.0, 1e9)


def test_errors_name_what_is_missing(task):
    with pytest.raises(TypeError, match="SoftmaxRegression has no scores"):
        Cosmo(task.table, unseen=SoftmaxRegression()).fit(task.X, task.y)
    with pytest.raises(ValueError, match=r"scores of Narrow must have .*\(105, 17\); got \(105,\)"):
        Cosmo(task.table, seen=SoftmaxRegression(), unseen=Narrow(1.0), rounds=2).fit(task.X, task.y)
    with pytest.raises(TypeError, match="Empty has no fit"):
        Cosmo(task.table, seen=SoftmaxRegression(), unseen=Empty()).fit(task.X, task.y)


STORED = pd.DataFrame([[0.7, 0.2, 0.1], [0.1, 0.1, 0.6]], index=[10, 20], columns=["a", "b", "z"])


def test_looks_rows_and_classes_up_in_any_order():
    expert = PrecomputedExpert(STORED).fit([10], ["a"], STORED.T)
    found = expert.predict_proba([20, 10, 20], pd.DataFrame(index=["z", "a"]))
    np.testing.assert_allclose(found, [[0.6, 0.1], [0.1, 0.7], [0.6, 0.1]])


@pytest.mark.parametrize(("row", "name", "missing"), [(11, "a", "row .*11"), (10, "q", "class 'q'")])
def test_not_stored(row, name, missing):
    with pytest.raises(ValueError, match=f"no stored prediction for {missing}"):
        PrecomputedExpert(STORED).scores([row], pd.DataFrame(index=[name]))


@pytest.mark.parametrize("bad", [STORED * -1, STORED * 3, STORED * np.nan])
def test_not_probabilities(bad):
    with pytest.raises(ValueError, match="proba"):
        PrecomputedExpert(bad).fit([10], ["a"], STORED.T)


def test_a_table_is_needed():
    with pytest.raises(TypeError, match="proba .*DataFrame"):
        PrecomputedExpert(STORED.to_numpy()).fit([10], ["a"], STORED.T)
