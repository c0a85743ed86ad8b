import numpy as np
import pytest
from sklearn.base import clone

from cosmo.experts.iciness import ICINESS
from cosmo.metrics.accuracy import zsl_accuracy

torch = pytest.importorskip("torch")

FAST = ICINESS(epochs=30, hidden=64, learning_rate=5e-3, temperature=1.0)


@pytest.fixture(scope="module", params=[False, True], ids=["shallow", "deep"])
def expert(request, task):
    return clone(FAST).set_params(deep=request.param).fit(task.X, task.y, task.table)


def test_tells_unseen_classes_apart(expert, task):
    scores = expert.scores(task.X_new, task.table.loc[task.unseen])
    assert zsl_accuracy(task.y_new, scores, task.unseen) > 0.65  # chance is 1/8


def test_score_of_a_pair(expert, task):
    w = expert.weights_
    x = expert._features(task.X[5:6])
    a = expert._signatures(task.table.to_numpy(dtype=np.float32)[8:9])
    if expert.deep:
        x, a = np.maximum(x @ w["V_x"] + w["b_x"], 0), np.maximum(a @ w["V_a"] + w["b_a"], 0)
    fused = np.maximum(x @ w["W_x"] + a @ w["W_a"] + w["b"], 0)
    got = expert.scores(task.X[5:6], task.table.iloc[[8]])
    np.testing.assert_allclose(got[0], fused @ w["w"], rtol=1e-4, atol=1e-4)


def test_scoring_leaves_nothing_out(expert, task):
    one, again = (expert.scores(task.X_new, task.table) for _ in range(2))
    np.testing.assert_array_equal(one, again)


def test_training_leaves_units_out_as_the_generator_says(expert, task):
    w = {name: torch.from_numpy(value) for name, value in expert.weights_.items()}
    X = torch.from_numpy(expert._features(task.X[:8]))
    A = torch.from_numpy(expert._signatures(task.table.to_numpy(dtype=np.float32)))
    codes = torch.arange(8)

    def loss(expert, seed):
        return expert._loss(w, X, codes, A, torch.Generator().manual_seed(seed)).item()

    assert loss(expert, 1) == loss(expert, 1)
    assert loss(expert, 1) != loss(expert, 2)
    whole = clone(expert).set_params(dropout=0.0)
    assert loss(whole, 1) == loss(whole, 2)
    plain = torch.nn.functional.cross_entropy(expert._score(w, X, A), codes).item()
    np.testing.assert_allclose(loss(whole, 1), plain, rtol=1e-5)


@pytest.mark.parametrize("dropout", [-0.1, 1.0, float("nan")])
def test_dropout_must_be_a_share(task, dropout):
    with pytest.raises(ValueError, match="dropout must be at least 0 and below 1"):
        clone(FAST).set_params(dropout=dropout).fit(task.X, task.y, task.table)
