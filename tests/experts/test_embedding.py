import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from cosmo import Cosmo
from cosmo.experts import ESZSL, ExpertPair, embedding
from cosmo.experts.embedding import CMT, DEM, learn_neighbourhoods, loop
from cosmo.gates import NoveltyGate
from cosmo.metrics.accuracy import gate_auc, zsl_accuracy

torch = pytest.importorskip("torch")

FAST = CMT(24, hidden=64, learning_rate=3e-3, batch_size=32, temperature=0.1)


@pytest.fixture(scope="module")
def expert(task):
    return clone(FAST).fit(task.X, task.y, task.table)


def by_hand(expert, X):
    w = expert.weights_
    return np.tanh(X / expert.scale_ @ w["W1"] + w["b1"]) @ w["W2"] + w["b2"]


class TestScores:
    def test_squared_distance_to_the_scaled_descriptions(self, expert, task):
        A = task.table.to_numpy() - task.table.loc[task.seen].to_numpy().mean(axis=0)
        A /= np.linalg.norm(A, axis=1, keepdims=True) / np.sqrt(10)
        difference = by_hand(expert, task.X_new)[:, None] - A
        np.testing.assert_allclose(
            expert.scores(task.X_new, task.table), -(difference**2).mean(axis=2), rtol=1e-3, atol=1e-4
        )


class TestNovelty:
    def test_is_the_outlier_probability_of_mapped_samples(self, expert, task):
        known = learn_neighbourhoods(by_hand(expert, task.X).astype(np.float32), 20)
        expected = loop(by_hand(expert, task.X_new).astype(np.float32), known)
        np.testing.assert_allclose(expert.novelty(task.X_new), expected, atol=1e-3)

    def test_higher_for_unseen_classes(self, expert, task):
        rng = np.random.default_rng(0)
        fresh = task.X + 0.1 * rng.normal(size=task.X.shape)
        novelty = expert.novelty(np.concatenate([fresh, task.X_new]))
        assert ((novelty >= 0) & (novelty <= 1)).all()
        is_seen = np.arange(len(novelty)) < len(fresh)
        assert gate_auc(is_seen, 1 - novelty) > 0.75

    def test_neighbours(self, expert, task):
        few = clone(FAST).set_params(neighbours=3).fit(task.X, task.y, task.table)
        np.testing.assert_array_equal(few.scores(task.X, task.table), expert.scores(task.X, task.table))
        assert (few.novelty(task.X_new) != expert.novelty(task.X_new)).any()
        with pytest.raises(ValueError, match="whole number of at least 1, got 0"):
            clone(FAST).set_params(neighbours=0).fit(task.X, task.y, task.table).novelty(task.X)


class TestOutputs:
    def pair(self, expert, task):
        codes = pd.Index(task.seen).get_indexer(task.y)
        return ExpertPair(LogisticRegression().fit(task.X, codes), expert, task.table, task.seen)

    def test_novelty_reaches_the_outputs(self, expert, task):
        assert expert.detects_novelty
        outputs = self.pair(expert, task).outputs(task.X_new, task.y_new)
        np.testing.assert_array_equal(outputs.novelty, expert.novelty(task.X_new))
        np.testing.assert_array_equal(outputs[5:7].novelty, outputs.novelty[5:7])

    def test_other_experts_have_none(self, task):
        other = ESZSL(1.0, 1.0, temperature=0.1).fit(task.X, task.y, task.table)
        assert not other.detects_novelty
        assert self.pair(other, task).outputs(task.X_new).novelty is None

    def test_in_the_classifier(self, task):
        model = Cosmo(task.table, unseen=FAST, gate=NoveltyGate(), smoothing="none", method="paper").fit(
            task.X, task.y
        )
        np.testing.assert_allclose(
            model.explain(task.X_new).gate_score, 1 - model.experts_.unseen.novelty(task.X_new)
        )
        assert model.predict(task.X_new).shape == task.y_new.shape


FAST_DEM = DEM(epochs=100, hidden=64, learning_rate=1e-2, temperature=0.1)


@pytest.fixture(scope="module", params=["cosine", "euclidean"])
def dem(request, task):
    """Return an expert for features that are not negative, as those of networks are."""
    return clone(FAST_DEM).set_params(distance=request.param).fit(np.maximum(task.X, 0), task.y, task.table)


def prototypes(expert, table):
    w = expert.weights_
    a = expert._signatures(table.to_numpy(dtype=np.float32))
    return np.maximum(np.maximum(a @ w["W1"] + w["b1"], 0) @ w["W2"] + w["b2"], 0)


def test_tells_unseen_classes_apart(dem, task):
    scores = dem.scores(np.maximum(task.X_new, 0), task.table.loc[task.unseen])
    assert zsl_accuracy(task.y_new, scores, task.unseen) > 0.6  # chance is 1/8


def test_scores_are_closeness(dem, task):
    X = np.maximum(task.X[:9], 0)
    x, mapped = X / dem.scale_, prototypes(dem, task.table)
    if dem.distance == "euclidean":
        expected = -(np.square(x[:, None] - mapped).mean(axis=2))
    else:
        expected = (x / np.linalg.norm(x, axis=1, keepdims=True)) @ (
            mapped / np.linalg.norm(mapped, axis=1, keepdims=True)
        ).T
    np.testing.assert_allclose(dem.scores(X, task.table), expected, rtol=1e-3, atol=1e-4)


def test_class_means_have_the_gradient_of_all_samples(task):
    """Least squares to the weighted means and to the samples differ by a constant."""
    keep = np.random.default_rng(0).random(len(task.y)) < 0.6  # classes of different size
    X, y = np.maximum(task.X[keep], 0), task.y[keep]
    expert = clone(FAST_DEM).set_params(epochs=1).fit(X, y, task.table)
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
        clone(FAST_DEM).set_params(distance="manhattan").fit(task.X, task.y, task.table)


@pytest.mark.parametrize("name", list(DEM.presets))
def test_presets_are_parameters(name):
    assert DEM(**DEM.presets[name]).open_parameters() == ["epochs", "temperature"]


def naive(rows, known, k, extent=3.0):
    """The published formulas, one sample at a time."""

    def nearest(x, without=None):
        others = [i for i in range(len(known)) if i != without]
        return sorted(others, key=lambda i: math.dist(x, known[i]))[:k]

    def pdist(x, neighbours):
        return extent * math.sqrt(sum(math.dist(x, known[i]) ** 2 for i in neighbours) / k)

    own = [pdist(x, nearest(x, i)) for i, x in enumerate(known)]

    def plof(distance, neighbours):
        return distance / (sum(own[i] for i in neighbours) / k) - 1

    Z = extent * math.sqrt(np.mean([plof(own[i], nearest(x, i)) ** 2 for i, x in enumerate(known)]))
    result = []
    for x in rows:
        neighbours = nearest(x)
        result.append(max(0.0, math.erf(plof(pdist(x, neighbours), neighbours) / (Z * math.sqrt(2)))))
    return result


@pytest.fixture
def clouds():
    """Return two clouds, a dense and a sparse one, and samples from both and from between."""
    rng = np.random.default_rng(0)
    known = np.concatenate([rng.normal(0, 0.3, (40, 4)), rng.normal(6, 1, (50, 4))]).astype(np.float32)
    rows = np.concatenate([rng.normal(0, 0.3, (10, 4)), rng.normal(6, 1, (10, 4)), rng.normal(3, 1, (10, 4))])
    return known, rows.astype(np.float32)


@pytest.mark.parametrize(("k", "extent"), [(1, 3.0), (5, 3.0), (20, 3.0), (20, 1.0), (89, 3.0)])
def test_against_the_formulas(clouds, k, extent):
    known, rows = clouds
    expected = naive(rows.tolist(), known.tolist(), k, extent)
    np.testing.assert_allclose(loop(rows, learn_neighbourhoods(known, k), extent=extent), expected, atol=1e-5)


def test_work_in_parts_changes_nothing(clouds, monkeypatch):
    known, rows = clouds
    whole = loop(rows, learn_neighbourhoods(known))
    monkeypatch.setattr(embedding, "_CHUNK", 3 * len(known))
    np.testing.assert_allclose(loop(rows, learn_neighbourhoods(known)), whole, rtol=1e-6)


def test_far_from_the_origin(clouds):
    """Distances do not drown in the length of the vectors."""
    known, rows = clouds
    near, far = (loop(rows + shift, learn_neighbourhoods(known + shift)) for shift in (0, np.float32(500)))
    np.testing.assert_allclose(far, near, atol=0.02)


def test_few_known_rows():
    known = np.eye(3, dtype=np.float32)
    learned = learn_neighbourhoods(known, k=20)
    assert learned.k == 2
    np.testing.assert_array_equal(loop(np.array([[1, 0, 0], [9, 9, 9]], np.float32), learned), [0, 1])


def test_copies():
    known = np.repeat(np.eye(3, dtype=np.float32), 30, axis=0)
    probability = loop(np.array([[1, 0, 0], [1, 0.1, 0]], np.float32), learn_neighbourhoods(known))
    np.testing.assert_array_equal(probability, [0, 1])
