import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from cosmo import Cosmo
from cosmo.classifier.combinations import GatedMixture
from cosmo.data.splits import hold_out
from cosmo.experts import ESZSL, ExpertPair, select
from cosmo.experts._outliers import DetectsNovelty, learn_neighbourhoods, loop
from cosmo.experts.cmt import CMT
from cosmo.gates import NoveltyGate
from cosmo.metrics.accuracy import gate_auc

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

    def test_training_fits_the_descriptions(self, task):
        def error(epochs):
            fitted = clone(FAST).set_params(epochs=epochs).fit(task.X, task.y, task.table)
            own = task.seen.get_indexer(task.y)
            return -fitted.scores(task.X, task.table.loc[task.seen])[np.arange(len(own)), own].mean()

        assert error(24) < 0.3 * error(1)


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

    def test_refitting_forgets(self, expert, task):
        again = clone(FAST).fit(task.X[::-1] + 1, task.y[::-1], task.table)
        again.novelty(task.X_new)
        again.fit(task.X, task.y, task.table)
        np.testing.assert_array_equal(again.novelty(task.X_new), expert.novelty(task.X_new))

    def test_survives_pickling(self, expert, task):
        copy = pickle.loads(pickle.dumps(expert))
        np.testing.assert_array_equal(copy.novelty(task.X_new), expert.novelty(task.X_new))

    def test_checks_its_input(self, expert, task):
        with pytest.raises(ValueError, match="row 2, column 0"):
            expert.novelty(np.where(np.arange(len(task.X))[:, None] == 2, np.nan, task.X))

    @pytest.mark.parametrize("epochs", [None, 12])
    def test_selected_experts_have_it(self, task, epochs):
        held = hold_out(task.y, seed=0)
        known = task.table.loc[task.seen]
        chosen = select(clone(FAST).set_params(epochs=epochs), task.X, task.y, known, held)
        single = clone(chosen).fit(task.X[held.seen_train], task.y[held.seen_train], known)
        np.testing.assert_allclose(chosen.novelty(task.X_new), single.novelty(task.X_new), atol=1e-4)


class TestOutputs:
    def pair(self, expert, task):
        codes = pd.Index(task.seen).get_indexer(task.y)
        return ExpertPair(LogisticRegression().fit(task.X, codes), expert, task.table, task.seen)

    def test_novelty_reaches_the_outputs(self, expert, task):
        assert isinstance(expert, DetectsNovelty)
        outputs = self.pair(expert, task).outputs(task.X_new, task.y_new)
        np.testing.assert_array_equal(outputs.novelty, expert.novelty(task.X_new))
        np.testing.assert_array_equal(outputs[5:7].novelty, outputs.novelty[5:7])

    def test_other_experts_have_none(self, task):
        other = ESZSL(1.0, 1.0, temperature=0.1).fit(task.X, task.y, task.table)
        assert not isinstance(other, DetectsNovelty)
        assert self.pair(other, task).outputs(task.X_new).novelty is None

    def test_hard_novelty_detection(self, expert, task):
        X, y = np.concatenate([task.X[::3] + 0.1, task.X_new]), np.concatenate([task.y[::3], task.y_new])
        outputs = self.pair(expert, task).outputs(X, y)
        model = GatedMixture(NoveltyGate(), smoothing="none", hard=True).fit(outputs)
        assert model.validation_point_.acc_h > 0.6

    def test_in_the_classifier(self, task):
        model = Cosmo(task.table, unseen=FAST, gate=NoveltyGate(), smoothing="none").fit(task.X, task.y)
        np.testing.assert_allclose(
            model.explain(task.X_new).gate_score, 1 - model.experts_.unseen.novelty(task.X_new)
        )
        assert model.predict(task.X_new).shape == task.y_new.shape
