"""TRIPLE: what it minimises, and that all three parts of it matter."""

import numpy as np
import pytest
from sklearn.base import clone

from cosmo.experts.relation import TRIPLE

torch = pytest.importorskip("torch")

FAST = TRIPLE(20, hidden=64, learning_rate=3e-3, temperature=0.1)


def fit(task, **parameters):
    return clone(FAST).set_params(**parameters).fit(task.X, task.y, task.table)


@pytest.fixture(scope="module")
def expert(task):
    return fit(task)


def lifted(expert, X):
    return np.maximum(expert._features(X) @ expert.weights_["W"] + expert.weights_["b"], 0)


def test_scores_by_hand(expert, task):
    A = expert._signatures(task.table.to_numpy(dtype=np.float32))
    expected = lifted(expert, task.X_new) @ expert.weights_["P"] @ A.T / A.shape[1]
    np.testing.assert_allclose(expert.scores(task.X_new, task.table), expected, rtol=1e-3, atol=1e-4)


def test_loss_by_hand(task):
    expert = fit(task, epochs=1, alpha=0.3, beta=0.7, sharpness=4.0)
    codes = task.seen.get_indexer(task.y)
    table = task.table.loc[task.seen]
    A = expert._signatures(table.to_numpy(dtype=np.float32))
    z, P = lifted(expert, task.X), expert.weights_["P"]
    logits = 4 * expert.scores(task.X, table)
    own = logits[np.arange(len(codes)), codes]
    expected = (np.log(np.exp(logits).sum(axis=1)) - own).mean()
    expected += 0.3 * np.square(z @ P - A[codes]).mean() + 0.7 * np.square(A[codes] @ P.T - z).mean()
    weights = {name: torch.from_numpy(value) for name, value in expert.weights_.items()}
    X, A = torch.from_numpy(expert._features(task.X)), torch.from_numpy(A)
    loss = expert._loss(weights, X, torch.from_numpy(codes), A, torch.Generator())
    assert float(loss) == pytest.approx(expected, rel=1e-4)


def test_regressions_do_what_they_weigh(expert, task):
    """Each weight lowers its own error on the training rows."""
    A = expert._signatures(task.table.loc[task.y].to_numpy(dtype=np.float32))

    def errors(expert):
        z, P = lifted(expert, task.X), expert.weights_["P"]
        return np.square(z @ P - A).mean(), np.square(A @ P.T - z).mean()

    assert errors(fit(task, alpha=3.0))[0] < errors(fit(task, alpha=0.0))[0]
    assert errors(fit(task, beta=3.0))[1] < errors(fit(task, beta=0.0))[1]
