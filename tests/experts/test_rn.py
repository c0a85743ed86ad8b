import numpy as np
import pytest
from sklearn.base import clone

from cosmo.experts.rn import RN
from cosmo.metrics.accuracy import zsl_accuracy

torch = pytest.importorskip("torch")

FAST = RN(epochs=64, hidden=64, class_hidden=64, learning_rate=2e-3, temperature=1.0)


@pytest.fixture(scope="module")
def expert(task):
    return clone(FAST).fit(task.X, task.y, task.table)


def tensors(expert, task):
    w = {name: torch.from_numpy(value) for name, value in expert.weights_.items()}
    X = torch.from_numpy(expert._features(task.X[:10]))
    return w, X, torch.from_numpy(expert._signatures(task.table.to_numpy(dtype=np.float32)))


def test_tells_unseen_classes_apart(expert, task):
    scores = expert.scores(task.X_new, task.table.loc[task.unseen])
    assert zsl_accuracy(task.y_new, scores, task.unseen) > 0.7  # chance is 1/8


def test_score_of_a_pair(expert, task):
    """Against the concatenation that the formula has."""
    w, X, A = tensors(expert, task)
    e = torch.relu(torch.relu(A @ w["W1"] + w["b1"]) @ w["W2"] + w["b2"])
    M = torch.cat([w["M_class"], w["M_sample"]])
    for sample, label in ((0, 0), (3, 7), (9, 24)):
        single = torch.relu(torch.cat([e[label], X[sample]]) @ M + w["c"]) @ w["w"] + w["bias"]
        got = expert.scores(task.X[sample : sample + 1], task.table.iloc[[label]])
        np.testing.assert_allclose(got, single.numpy().reshape(1, 1), rtol=1e-4, atol=1e-4)


def test_loss_is_the_mean_squared_error_over_classes_of_the_mini_batch(expert, task):
    w, X, A = tensors(expert, task)
    codes = torch.tensor([4, 4, 9, 2, 2, 2, 9, 17, 4, 2])
    present = [2, 4, 9, 17]
    relation = torch.sigmoid(expert._score(w, X, A[present]) - np.log(4))
    one_hot = (codes[:, None] == torch.tensor(present)).float()
    np.testing.assert_allclose(
        expert._loss(w, X, codes, A, None).item(), (relation - one_hot).square().mean().item(), rtol=1e-5
    )


def test_only_the_class_branch_decays(task):
    free, decayed = (
        clone(FAST).set_params(weight_decay=decay, epochs=10).fit(task.X, task.y, task.table).weights_
        for decay in (0.0, 0.1)
    )

    def ratio(name):
        return np.linalg.norm(decayed[name]) / np.linalg.norm(free[name])

    assert ratio("W1") < 0.9
    assert ratio("W2") < 0.9
    assert ratio("M_sample") > 0.95


def test_class_hidden_must_be_a_whole_number(task):
    with pytest.raises(ValueError, match="class_hidden must be a whole number of at least 1, got 0"):
        clone(FAST).set_params(class_hidden=0).fit(task.X, task.y, task.table)


@pytest.mark.parametrize("name", list(RN.presets))
def test_presets_are_parameters(name):
    assert RN(**RN.presets[name]).open_parameters() == ["temperature"]
