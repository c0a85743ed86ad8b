import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import entropy
from sklearn.base import clone

from cosmo.data.splits import hold_out
from cosmo.experts import select
from cosmo.experts._network import NetworkExpert
from cosmo.experts.embedding import DCN

FAST = DCN(30, sharpness=5.0, hidden=64, learning_rate=3e-3, temperature=1.0)


@pytest.fixture(scope="module")
def expert(task):
    return clone(FAST).fit(task.X, task.y, task.table)


def fit(task, table=None, **parameters):
    table = task.table if table is None else table
    return clone(FAST).set_params(**parameters).fit(task.X, task.y, table)


def test_scores_by_hand(expert, task):
    w = expert.weights_
    X = (task.X_new - task.X.mean(axis=0)) / task.X.std(axis=0)
    X /= ((task.X - task.X.mean(axis=0)) / task.X.std(axis=0)).max()
    mapped = np.tanh(np.maximum(X @ w["W1"] + w["b1"], 0) @ w["W2"] + w["b2"])
    c = 10 * np.tanh(task.table / np.sqrt(2)).to_numpy()
    np.testing.assert_allclose(expert.scores(task.X_new, task.table), 5 * mapped @ c.T, rtol=1e-3, atol=1e-3)


def test_the_loss_by_hand(expert, task):
    """Cross-entropy over seen classes plus the weighted entropy over the others."""
    import torch

    silent = fit(task, epochs=1, dropout=0.0, entropy_sharpness=2.0, entropy_weight=0.7)
    weights = {name: torch.from_numpy(value) for name, value in silent.weights_.items()}
    codes = task.seen.get_indexer(task.y)
    seen = silent.scores(task.X, task.table.loc[task.seen])
    unseen = silent.scores(task.X, task.table.loc[task.unseen]) / 5 * 2
    expected = -np.log(softmax(seen, axis=1)[np.arange(len(codes)), codes]).mean()
    expected += 0.7 * entropy(softmax(unseen, axis=1), axis=1).mean()
    loss = silent._loss(
        weights,
        torch.from_numpy(silent._features(task.X)),
        torch.from_numpy(codes),
        torch.from_numpy(silent._signatures(task.table.loc[task.seen].to_numpy(dtype=np.float32))),
        torch.Generator(),
    )
    assert float(loss) == pytest.approx(expected, rel=1e-4)


class TestUnseenClasses:
    def spread(self, expert, task):
        return entropy(softmax(expert.scores(task.X, task.table.loc[task.unseen]), axis=1), axis=1).mean()

    def test_the_regulariser_lowers_their_entropy(self, expert, task):
        free = fit(task, entropy_weight=0.0)
        strong = fit(task, entropy_weight=3.0, entropy_sharpness=1.0)
        assert self.spread(strong, task) < 0.8 * self.spread(free, task)

    def test_they_matter_through_training_only(self, expert, task):
        other = task.table.copy()
        other.loc[task.unseen] = np.random.default_rng(0).random((len(task.unseen), 10))
        trained = fit(task, other, entropy_sharpness=1.0), fit(task, entropy_sharpness=1.0)
        assert (trained[0].weights_["W1"] != trained[1].weights_["W1"]).any()
        without = fit(task, other, entropy_weight=0.0), fit(task, entropy_weight=0.0)
        for name in without[0].weights_:
            np.testing.assert_array_equal(without[0].weights_[name], without[1].weights_[name])

    def test_none_described(self, task):
        table = task.table.loc[task.seen]
        alone, without = fit(task, table), fit(task, entropy_weight=0.0)
        assert alone.others_.shape == (0, 10)
        np.testing.assert_array_equal(
            alone.scores(task.X_new, task.table), without.scores(task.X_new, task.table)
        )

    def test_held_out_classes_stand_for_them_in_selection(self, task):
        held = hold_out(task.y, seed=0)
        known = task.table.loc[task.seen]
        open_ = clone(FAST).set_params(epochs=None, entropy_sharpness=1.0)
        chosen = select(open_, task.X, task.y, known, held)
        assert len(chosen.others_) == len(np.unique(task.y[held.unseen_val]))
        y_train = task.y[held.seen_train]
        table = task.table.loc[np.unique(np.concatenate([y_train, task.y[held.unseen_val]]))]
        single = clone(chosen).fit(task.X[held.seen_train], y_train, table)
        np.testing.assert_allclose(
            single.scores(task.X_new, task.table), chosen.scores(task.X_new, task.table), rtol=1e-3, atol=1e-3
        )


class TestDropout:
    def test_changes_the_training_and_is_off_afterwards(self, expert, task):
        without = fit(task, dropout=0.0)
        assert (without.weights_["W1"] != expert.weights_["W1"]).any()
        np.testing.assert_array_equal(
            expert.scores(task.X_new, task.table), expert.scores(task.X_new, task.table)
        )


@pytest.mark.parametrize("name", list(DCN.presets))
def test_presets(name):
    expert = DCN(**DCN.presets[name])
    assert expert.learning_rate == 1e-4
    assert (expert.entropy_weight == 0) == name.endswith("zsl")
    assert isinstance(expert, NetworkExpert)
