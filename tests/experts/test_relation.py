import numpy as np
import pytest
from sklearn.base import clone

from cosmo.experts.relation import ICINESS, RN
from cosmo.metrics.accuracy import zsl_accuracy

torch = pytest.importorskip("torch")

FAST_RN = RN(epochs=64, hidden=64, class_hidden=64, learning_rate=2e-3, temperature=1.0)


@pytest.fixture(scope="module")
def rn(task):
    return clone(FAST_RN).fit(task.X, task.y, task.table)


def tensors(rn, task):
    w = {name: torch.from_numpy(value) for name, value in rn.weights_.items()}
    X = torch.from_numpy(rn._features(task.X[:10]))
    return w, X, torch.from_numpy(rn._signatures(task.table.to_numpy(dtype=np.float32)))


def test_rn_score_of_a_pair(rn, task):
    """Against the concatenation that the formula has."""
    w, X, A = tensors(rn, task)
    e = torch.relu(torch.relu(A @ w["W1"] + w["b1"]) @ w["W2"] + w["b2"])
    M = torch.cat([w["M_class"], w["M_sample"]])
    for sample, label in ((0, 0), (3, 7), (9, 24)):
        single = torch.relu(torch.cat([e[label], X[sample]]) @ M + w["c"]) @ w["w"] + w["bias"]
        got = rn.scores(task.X[sample : sample + 1], task.table.iloc[[label]])
        np.testing.assert_allclose(got, single.numpy().reshape(1, 1), rtol=1e-4, atol=1e-4)


def test_loss_is_the_mean_squared_error_over_classes_of_the_mini_batch(rn, task):
    w, X, A = tensors(rn, task)
    codes = torch.tensor([4, 4, 9, 2, 2, 2, 9, 17, 4, 2])
    present = [2, 4, 9, 17]
    relation = torch.sigmoid(rn._score(w, X, A[present]) - np.log(4))
    one_hot = (codes[:, None] == torch.tensor(present)).float()
    np.testing.assert_allclose(
        rn._loss(w, X, codes, A, None).item(), (relation - one_hot).square().mean().item(), rtol=1e-5
    )


def test_only_the_class_branch_decays(task):
    free, decayed = (
        clone(FAST_RN).set_params(weight_decay=decay, epochs=10).fit(task.X, task.y, task.table).weights_
        for decay in (0.0, 0.1)
    )

    def ratio(name):
        return np.linalg.norm(decayed[name]) / np.linalg.norm(free[name])

    assert ratio("W1") < 0.9
    assert ratio("W2") < 0.9
    assert ratio("M_sample") > 0.95


@pytest.mark.parametrize("name", list(RN.presets))
def test_presets_are_parameters(name):
    assert RN(**RN.presets[name]).open_parameters() == ["temperature"]


FAST_ICINESS = ICINESS(epochs=30, hidden=64, learning_rate=5e-3, temperature=1.0)


@pytest.fixture(scope="module", params=[False, True], ids=["shallow", "deep"])
def iciness(request, task):
    return clone(FAST_ICINESS).set_params(deep=request.param).fit(task.X, task.y, task.table)


def test_tells_unseen_classes_apart(iciness, task):
    scores = iciness.scores(task.X_new, task.table.loc[task.unseen])
    assert zsl_accuracy(task.y_new, scores, task.unseen) > 0.65  # chance is 1/8


def test_score_of_a_pair(iciness, task):
    w = iciness.weights_
    x = iciness._features(task.X[5:6])
    a = iciness._signatures(task.table.to_numpy(dtype=np.float32)[8:9])
    if iciness.deep:
        x, a = np.maximum(x @ w["V_x"] + w["b_x"], 0), np.maximum(a @ w["V_a"] + w["b_a"], 0)
    fused = np.maximum(x @ w["W_x"] + a @ w["W_a"] + w["b"], 0)
    got = iciness.scores(task.X[5:6], task.table.iloc[[8]])
    np.testing.assert_allclose(got[0], fused @ w["w"], rtol=1e-4, atol=1e-4)


def test_training_leaves_units_out_as_the_generator_says(iciness, task):
    w = {name: torch.from_numpy(value) for name, value in iciness.weights_.items()}
    X = torch.from_numpy(iciness._features(task.X[:8]))
    A = torch.from_numpy(iciness._signatures(task.table.to_numpy(dtype=np.float32)))
    codes = torch.arange(8)

    def loss(iciness, seed):
        return iciness._loss(w, X, codes, A, torch.Generator().manual_seed(seed)).item()

    assert loss(iciness, 1) == loss(iciness, 1)
    assert loss(iciness, 1) != loss(iciness, 2)
    whole = clone(iciness).set_params(dropout=0.0)
    assert loss(whole, 1) == loss(whole, 2)
    plain = torch.nn.functional.cross_entropy(iciness._score(w, X, A), codes).item()
    np.testing.assert_allclose(loss(whole, 1), plain, rtol=1e-5)
