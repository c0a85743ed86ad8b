import numpy as np
import pytest
from sklearn.base import clone

from cosmo.experts.dem import DEM
from cosmo.metrics.accuracy import zsl_accuracy

torch = pytest.importorskip("torch")

FAST = DEM(epochs=100, hidden=64, learning_rate=1e-2, temperature=0.1)


@pytest.fixture(scope="module", params=["cosine", "euclidean"])
def expert(request, task):
    """Return an expert for features that are not negative, as those of networks are."""
    return clone(FAST).set_params(distance=request.param).fit(np.maximum(task.X, 0), task.y, task.table)


def prototypes(expert, table):
    w = expert.weights_
    a = expert._signatures(table.to_numpy(dtype=np.float32))
    return np.maximum(np.maximum(a @ w["W1"] + w["b1"], 0) @ w["W2"] + w["b2"], 0)


def test_tells_unseen_classes_apart(expert, task):
    scores = expert.scores(np.maximum(task.X_new, 0), task.table.loc[task.unseen])
    assert zsl_accuracy(task.y_new, scores, task.unseen) > 0.6  # chance is 1/8


def test_scores_are_closeness(expert, task):
    X = np.maximum(task.X[:9], 0)
    x, mapped = X / expert.scale_, prototypes(expert, task.table)
    if expert.distance == "euclidean":
        expected = -(np.square(x[:, None] - mapped).mean(axis=2))
    else:
        expected = (x / np.linalg.norm(x, axis=1, keepdims=True)) @ (
            mapped / np.linalg.norm(mapped, axis=1, keepdims=True)
        ).T
    np.testing.assert_allclose(expert.scores(X, task.table), expected, rtol=1e-3, atol=1e-4)


def test_class_means_have_the_gradient_of_all_samples(task):
    """Least squares to the weighted means and to the samples differ by a constant."""
    keep = np.random.default_rng(0).random(len(task.y)) < 0.6  # classes of different size
    X, y = np.maximum(task.X[keep], 0), task.y[keep]
    expert = clone(FAST).set_params(epochs=1).fit(X, y, task.table)
    table = task.table.loc[np.unique(y)]
    codes = torch.from_numpy(table.index.get_indexer(y))
    A, rows = torch.from_numpy(expert._signatures(table.to_numpy(dtype=np.float32))), X / expert.scale_
    means, classes = (torch.from_numpy(part) for part in expert._examples(rows, codes.numpy()))
    gradients = []
    for loss in (
        lambda w: expert._loss(w, means, classes, A, None),
        lambda w: (expert._embed(w, A[codes]) - torch.from_numpy(rows)).square().mean(),
    ):
        w = {name: torch.tensor(value, requires_grad=True) for name, value in expert.weights_.items()}
        loss(w).backward()
        gradients.append({name: tensor.grad.numpy() for name, tensor in w.items()})
    for name, value in gradients[0].items():
        np.testing.assert_allclose(value, gradients[1][name], atol=1e-5)


def test_unknown_distance(task):
    with pytest.raises(ValueError, match="distance must be 'cosine' or 'euclidean', got 'manhattan'"):
        clone(FAST).set_params(distance="manhattan").fit(task.X, task.y, task.table)


@pytest.mark.parametrize("name", list(DEM.presets))
def test_presets_are_parameters(name):
    assert DEM(**DEM.presets[name]).open_parameters() == ["epochs", "temperature"]
