"""`Cosmo` with its default method, from samples to probabilities."""

import numpy as np
import pandas as pd
import pytest

from cosmo import Cosmo, MaxSoftmaxGate
from cosmo.experts import ESZSL
from cosmo.gates.calibrated import CalibratedGate
from cosmo.metrics.accuracy import gzsl_scores


@pytest.fixture(scope="module")
def model(data, train):
    return Cosmo(data.descriptions).fit(*train)


class Toy:
    """Classes that are points in the space of attributes, with a linear map to features."""

    def __init__(self, n_seen, n_unseen, rows=10, seed=0):
        rng = np.random.default_rng(seed)
        names = [f"class {k}" for k in range(n_seen + n_unseen)]
        self.table = pd.DataFrame(rng.random((len(names), 6)), index=names)
        mixing = rng.normal(size=(6, 12))

        def draw(labels):
            return self.table.loc[labels].to_numpy() @ mixing + 0.2 * rng.normal(size=(len(labels), 12))

        self.y, self.y_test = np.repeat(names[:n_seen], rows), np.repeat(names, 6)
        self.X, self.X_test = draw(self.y), draw(self.y_test)

    def fit(self, **options):
        return Cosmo(self.table, unseen=ESZSL(1.0, 1.0, temperature=0.1), **options).fit(self.X, self.y)


def check_probabilities(model, X):
    """Check that rows are distributions whose best class is predicted, and return them."""
    proba = model.predict_proba(X)
    assert np.isfinite(proba).all()
    assert proba.min() >= 0
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X))
    return proba


class TestPrediction:
    def test_probabilities(self, model, test):
        assert check_probabilities(model, test[0]).shape == (len(test[0]), 40)

    @pytest.mark.parametrize("share", [0.001, 0.2, 0.9])
    def test_at_another_share(self, data, train, test, share):
        toy = Toy(8, 3)
        check_probabilities(toy.fit().operate_at(unseen_share=share), toy.X_test)

    def test_both_domains_are_recognised(self, model, test):
        scores = gzsl_scores(test[1], model.predict(test[0]), model.seen_classes_, model.unseen_classes_)
        assert scores.acc_ts > 0.25
        assert scores.acc_tr > 0.25

    def test_the_explanation_multiplies_out(self, model, test):
        steps = model.explain(test[0])
        expected = np.hstack(
            [steps.seen * (1 - steps.p_unseen)[:, None], steps.unseen * steps.p_unseen[:, None]]
        )
        np.testing.assert_allclose(steps.proba, expected, rtol=1e-5, atol=1e-9)
        for expert in (steps.seen, steps.unseen):
            np.testing.assert_allclose(expert.sum(axis=1), 1, rtol=1e-5)
        np.testing.assert_array_equal(steps.prediction, model.predict(test[0]))

    def test_the_mass_of_unseen_classes_is_the_gates(self, model, test):
        unseen = np.isin(model.classes_, model.unseen_classes_)
        p_unseen = model.predict_proba(test[0])[:, unseen].sum(axis=1)
        np.testing.assert_allclose(p_unseen, model.explain(test[0]).p_unseen, rtol=1e-5)


class TestAddedClasses:
    def test_gate_and_point_stay(self):
        toy = Toy(8, 3)
        model = toy.fit()
        gate, point, proba = model.combination_.gate_, model.operating_point_, model.predict_proba(toy.X_test)
        parameters = [*gate.weights_, gate.bias_, *gate.mean_, *gate.spread_]
        temperatures = model.experts_.temperatures
        model.add_classes(toy.table.iloc[:2].set_axis(["new", "newer"]) + 0.3)
        assert model.combination_.gate_ is gate
        assert [*gate.weights_, gate.bias_, *gate.mean_, *gate.spread_] == parameters
        assert model.operating_point_ == point
        assert model.experts_.temperatures == temperatures
        after = check_probabilities(model, toy.X_test)
        assert after.shape == (len(toy.X_test), 13)
        # Seen classes share p(S) as before.
        ratio = after[:, :8] / after[:, :8].sum(axis=1, keepdims=True)
        np.testing.assert_allclose(ratio, proba[:, :8] / proba[:, :8].sum(axis=1, keepdims=True), rtol=1e-3)

    def test_copies_of_all_unseen_classes_leave_the_gate_where_it_is(self):
        toy = Toy(8, 3)
        model = toy.fit()
        before = model.explain(toy.X_test)
        model.add_classes(toy.table.iloc[8:].set_axis(["a copy", "another", "a third"]))
        after = model.explain(toy.X_test)
        np.testing.assert_allclose(after.p_unseen, before.p_unseen, rtol=1e-4)
        np.testing.assert_allclose(after.unseen[:, :3], before.unseen / 2, rtol=1e-4, atol=1e-7)


class TestParameters:
    def test_calibrated_is_the_default(self, model):
        assert model.method == "calibrated"
        assert isinstance(model.combination_.gate_, CalibratedGate)
        assert model.operating_point_.softness == 1
        assert model.operating_point_.prior_weight == 0

    @pytest.mark.parametrize(
        "option",
        [{"gate": MaxSoftmaxGate()}, {"smoothing": "none"}, {"folds": 3}],
        ids=lambda o: next(iter(o)),
    )
    def test_choices_of_the_paper(self, option):
        with pytest.raises(ValueError, match="choices of the paper: add method='paper'"):
            Toy(4, 2).fit(**option)
        assert Toy(6, 2).fit(method="paper", **option).combination_.unseen_share is None


class TestSmallTasks:
    @pytest.mark.parametrize(
        ("n_seen", "n_unseen"), [(2, 1), (2, 5), (3, 1), (3, 4), (5, 1), (12, 1), (4, 30)]
    )
    def test_few_classes(self, n_seen, n_unseen):
        toy = Toy(n_seen, n_unseen)
        model = toy.fit()
        check_probabilities(model, toy.X_test)
        assert np.isfinite(model.operating_point_.threshold)
        assert 0 < model.combination_.unseen_share < 1
        assert all(0 <= value <= 1 for value in model.expected_scores().scores)
        assert np.abs(model.explain(toy.X_test).gate_score).max() < 1e4

    def test_two_seen_classes_are_told_apart(self):
        """One class is left in each round: its probability of one says nothing about the temperature."""
        toy = Toy(2, 1)
        model = toy.fit()
        assert model.experts_.temperatures.seen == 1
        rows = np.isin(toy.y_test, model.seen_classes_)
        steps = model.explain(toy.X_test[rows])
        truth = model.seen_classes_.get_indexer(toy.y_test[rows])
        assert (steps.seen[np.arange(len(truth)), truth] > 0.7).mean() > 0.9

    def test_too_few_classes_for_a_gate_are_told(self, caplog):
        for n_seen, told in ((2, True), (12, False)):
            caplog.clear()
            Toy(n_seen, 2).fit()
            assert ("seen classes are too few to fit the gate" in caplog.text) == told

    def test_one_unseen_class_is_recognised(self):
        toy = Toy(12, 1)
        model = toy.fit()
        assert model.score(toy.X_test, toy.y_test) > 0.6
        steps = model.explain(toy.X_test)
        np.testing.assert_array_equal(steps.unseen, 1)

    def test_only_one_row_of_each_class(self):
        toy = Toy(8, 2, rows=1)
        with pytest.raises(ValueError, match="no class has two rows"):
            toy.fit()

    @pytest.mark.parametrize("value", [0.0, 1.0, -1000.0])
    def test_constant_features(self, value):
        toy = Toy(6, 2)
        toy.X = np.full_like(toy.X, value)
        proba = check_probabilities(toy.fit(), toy.X)
        np.testing.assert_allclose(proba, proba[:1].repeat(len(proba), axis=0), rtol=1e-5)
        np.testing.assert_allclose(proba[:, :6], proba[:, :1].repeat(6, axis=1), rtol=1e-3)


class TestLeaks:
    @staticmethod
    def changed(table, unseen, how):
        other, rng = table.copy(), np.random.default_rng(0)
        if how == "permuted":
            other.loc[unseen] = rng.permutation(table.loc[unseen].to_numpy())
        elif how == "other values":
            other.loc[unseen] = rng.random(table.loc[unseen].shape, dtype=np.float32)
        elif how == "other names":
            other = other.rename(index={name: f"{name}, once more" for name in unseen})
        else:  # other places
            other = pd.concat([other.loc[unseen], other.drop(index=unseen)])
        return other

    @pytest.mark.parametrize("how", ["permuted", "other values", "other names", "other places"])
    def test_descriptions_of_unseen_classes_influence_no_choice(self, data, train, model, how):
        other = Cosmo(self.changed(data.descriptions, model.unseen_classes_, how)).fit(*train)
        one, two = model.combination_, other.combination_
        assert one.operating_point_ == two.operating_point_
        assert model.experts_.temperatures == other.experts_.temperatures
        for name in ("mean_", "spread_", "weights_", "bias_", "bias_error_"):
            np.testing.assert_array_equal(getattr(one.gate_, name), getattr(two.gate_, name))
        assert repr(model.experts_.unseen) == repr(other.experts_.unseen)
        assert repr(model.experts_.seen) == repr(other.experts_.seen)
        np.testing.assert_array_equal(
            model.validation_outputs_.gate_score, other.validation_outputs_.gate_score
        )
