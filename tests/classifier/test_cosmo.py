"""`Cosmo`, the estimator: behaviour, bad input, and scikit-learn's own checks."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from cosmo import DAP, ESZSL, Cosmo, MaxSoftmaxGate, load
from cosmo.data import load_glyphs
from cosmo.data.splits import Protocol, hold_out
from cosmo.metrics.accuracy import gzsl_scores


@pytest.fixture(scope="module")
def data():
    return load_glyphs(n_classes=40, samples_per_class=15, seed=3)


@pytest.fixture(scope="module")
def fitted(data, train):
    return Cosmo(data.descriptions).fit(*train)


@pytest.fixture
def model(data, fitted):
    """A copy that a test may change."""
    copy = clone(fitted)
    copy.__dict__.update(fitted.__dict__)
    copy.combination_ = clone(fitted.combination_)
    copy.combination_.__dict__.update(fitted.combination_.__dict__)
    return copy


def accuracies(model, test):
    return gzsl_scores(test[1], model.predict(test[0]), model.seen_classes_, model.unseen_classes_)


def test_score_is_acc_h(model, test):
    assert model.score(*test) == pytest.approx(accuracies(model, test).acc_h)


def test_score_of_one_domain_is_its_accuracy(model, data):
    rows = data.split.test_unseen
    truth, guess = data.labels[rows], model.predict(data.features[rows])
    expected = np.mean([(guess[truth == c] == c).mean() for c in truth.unique()])
    assert model.score(data.features[rows], truth) == pytest.approx(expected)


def test_any_labels(data, train, test):
    """Integers with gaps, and rows and table in another order, give the same answers."""
    rename = {label: 7 * i + 100 for i, label in enumerate(data.classes)}
    order = np.random.default_rng(0).permutation(len(data.classes))
    table = data.descriptions.rename(index=rename).iloc[order]
    held = hold_out(train[1], seed=0)
    plain = Cosmo(data.descriptions, hold_out=held).fit(*train).predict(test[0])
    renamed = Cosmo(table, hold_out=held).fit(train[0], train[1].map(rename)).predict(test[0])
    agree = np.mean(pd.Index(plain).map(rename).to_numpy() == renamed)
    assert agree > 0.995  # solvers sum in another order, so a tie may fall the other way


def test_descriptions_as_a_dict(data, train, test, fitted):
    table = {label: row.to_numpy() for label, row in data.descriptions.iterrows()}
    np.testing.assert_array_equal(Cosmo(table).fit(*train).predict(test[0]), fitted.predict(test[0]))


def test_the_parts_can_be_exchanged(data, train, test):
    model = Cosmo(
        data.descriptions,
        seen=make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500)),
        unseen=DAP(C=0.01),
        gate=MaxSoftmaxGate(temperature=3.0),
        smoothing="none",
        softnesses=(0.1, 1.0),
        method="paper",
    ).fit(*train)
    assert model.score(*test) > 0.15
    assert model.operating_point_.softness in (0.1, 1.0)


def test_protocol_and_estimator_agree_on_the_hold_out(data):
    protocol = Protocol(data, seed=11)
    training = protocol.training()
    held = protocol.training_hold_out()
    model = Cosmo(data.descriptions, method="paper", hold_out=held).fit(training.X, training.y)
    outputs = model.validation_outputs_
    np.testing.assert_array_equal(outputs.classes[outputs.labels], data.labels[protocol.hold_out.gzsl_val])


class TestRows:
    """What is asked about is looked at, even where that is left to the experts."""

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("ask", ["predict", "predict_proba", "predict_top"])
    def test_what_is_not_finite_is_refused(self, model, test, bad, ask):
        X = test[0].astype(np.float32)
        X[-1, 3] = bad
        for rows in (X, X[-1:]):
            with pytest.raises(ValueError, match="NaN" if np.isnan(bad) else "infinity"):
                getattr(model, ask)(rows)

    @pytest.mark.filterwarnings("ignore:the matrix subclass")
    def test_a_matrix_is_refused_as_in_training(self, model, test):
        with pytest.raises(TypeError, match=r"np\.matrix"):
            model.predict(np.asmatrix(test[0], dtype=np.float32))

    def test_features_that_are_too_large(self, data, train, test):
        model = Cosmo(data.descriptions, unseen=ESZSL(1.0, 1.0)).fit(*train)
        X = np.full_like(test[0][:2], 3e38, dtype=np.float32)
        with pytest.raises(ValueError, match=r"not finite|NaN or infinite"):
            model.predict(X)

    def test_the_most_probable_classes(self, model, test):
        labels, proba, p_seen = model.predict_top(test[0], 4)
        order = np.argsort(-model.predict_proba(test[0]), axis=1)[:, :4]
        np.testing.assert_array_equal(labels, model.classes_[order])
        np.testing.assert_array_equal(labels[:, 0], model.predict(test[0]))
        np.testing.assert_allclose(proba, -np.sort(-model.predict_proba(test[0]), axis=1)[:, :4])
        np.testing.assert_allclose(p_seen, 1 - model.explain(test[0]).p_unseen)


class TestOperateAt:
    def test_floor_on_seen_accuracy(self, model):
        best = model.combination_.validation_point_
        floor = (1 + best.acc_tr) / 2 * model.validation_curve_.acc_tr.max()
        model.operate_at(min_seen=floor)
        point = model.validation_curve_.at(model.operating_point_.threshold)
        assert point.acc_tr >= floor
        assert point.acc_ts <= best.acc_ts

    def test_by_hand_moves_samples_between_domains(self, model, test):
        everything_seen = model.operate_at(threshold=-1e6).predict(test[0])
        assert np.isin(everything_seen, model.seen_classes_).all()
        everything_unseen = model.operate_at(threshold=1e6).predict(test[0])
        assert np.isin(everything_unseen, model.unseen_classes_).all()


class TestAddClasses:
    def test_a_class_added_later_equals_a_class_known_from_the_start(self, data, train, test):
        late = data.unseen_classes[:3]
        held = hold_out(train[1], seed=0)
        early = Cosmo(data.descriptions, method="paper", hold_out=held).fit(*train)
        grown = Cosmo(data.descriptions.drop(late), method="paper", hold_out=held).fit(*train)
        assert not np.isin(grown.predict(test[0]), late).any()
        grown.add_classes(data.descriptions.loc[late])
        np.testing.assert_array_equal(grown.predict(test[0]), early.predict(test[0]))
        assert np.isin(grown.predict(test[0]), late).any()
        assert grown.predict_proba(test[0]).shape[1] == 40

    def test_from_a_dict_and_with_columns_in_any_order(self, model, data, test):
        row = data.descriptions.loc[[data.unseen_classes[0]]]
        model.add_classes({"new": row.to_numpy()[0]})
        model.add_classes(row.set_axis(["newer"]).iloc[:, ::-1])
        proba = pd.DataFrame(model.predict_proba(test[0]), columns=model.classes_)
        np.testing.assert_allclose(proba["new"], proba["newer"])


@pytest.mark.parametrize("method", ["calibrated", "paper"])
class TestNoUnseenClassYet:
    @pytest.fixture
    def known(self, data):
        return data.descriptions.loc[data.seen_classes]

    def test_predictions_are_of_seen_classes(self, data, train, test, known, method, tmp_path):
        model = Cosmo(known, method=method).fit(*train)
        proba, rows = model.predict_proba(test[0]), data.split.test_seen
        assert proba.shape == (len(test[0]), 28)
        np.testing.assert_allclose(proba.sum(axis=1), 1)
        labels, probabilities, p_seen = model.predict_top(test[0], 2)
        assert (labels[:, 0] == model.predict(test[0])).all()
        np.testing.assert_allclose(probabilities[:, 0], proba.max(axis=1), rtol=1e-6)
        assert (p_seen > 0.999).all()
        assert model.score(data.features[rows], data.labels[rows]) > 0.6
        assert model.reasons(test[0][:1])[0].endswith("no unseen class")
        assert model.explain(test[0][:1]).prediction[0] == labels[0, 0]
        assert model.operate_at(min_unseen=0.3).expected_scores().scores.acc_ts > 0
        model.save(tmp_path / "m.cosmo")
        again = load(tmp_path / "m.cosmo")
        np.testing.assert_array_equal(again.predict_proba(test[0]), proba)

    def test_classes_are_added_later(self, data, train, test, known, method):
        described = Cosmo(data.descriptions, method=method).fit(*train)
        new = data.descriptions.loc[data.unseen_classes]
        later = Cosmo(known, method=method).fit(*train).add_classes(new)
        expected, found = (accuracies(model, test).acc_h for model in (described, later))
        assert later.unseen_classes_.tolist() == new.index.tolist()
        # The paper's method does not depend on unseen classes; the calibrated one takes fewer to come.
        assert found == pytest.approx(expected, abs=1e-6 if method == "paper" else 0.08)

    def test_samples_of_no_class_are_rejected(self, data, train, known, method):
        if method == "paper":
            pytest.skip("has no rejection")
        model = Cosmo(known).fit(*train)
        split = data.split
        known, others = (
            model.conformity(data.features[rows]) for rows in (split.test_seen, split.test_unseen)
        )
        assert (known <= 0.1).mean() <= 0.12
        assert known.mean() > others.mean() + 0.05
        assert {len(one) for one in model.predict_set(data.features[:9])} <= set(range(29))
        with pytest.raises(ValueError, match="no unseen class; add one by add_classes"):
            model.estimate_share(data.features)


class TestBadInput:
    def test_seen_expert_without_probabilities(self, data, train):
        with pytest.raises(TypeError, match="must have predict_proba; LinearSVC has none"):
            Cosmo(data.descriptions, seen=LinearSVC()).fit(*train)

    def test_hold_out_that_leaks_a_class(self, data, train):
        held = hold_out(np.roll(train[1], 1), seed=0)
        with pytest.raises(ValueError, match="held out as unseen has rows in seen_train|without rows"):
            Cosmo(data.descriptions, hold_out=held).fit(*train)


class TestInsideScikitLearn:
    def test_pipeline(self, data, train, test):
        model = make_pipeline(StandardScaler(), Cosmo(data.descriptions)).fit(*train)
        assert model.score(*test) > 0.3

    def test_cross_val_score_on_classes_measures_zero_shot_accuracy(self, data, train):
        """Classes that a fold leaves out become unseen, because the table still has them."""
        scores = cross_val_score(
            Cosmo(data.descriptions, unseen=ESZSL(10, 1)), *train, cv=GroupKFold(2), groups=train[1]
        )
        assert (scores > 2 / 40).all()

    def test_parameters_of_default_experts(self, data, train):
        grid = {"seen__C": [1e-6, 1.0], "unseen__gamma": [10.0], "unseen__lam": [1.0]}
        search = GridSearchCV(Cosmo(data.descriptions), grid, cv=2).fit(*train)
        assert search.best_params_["seen__C"] == 1.0
        assert search.best_estimator_.experts_.seen.C == 1.0
        gated = Cosmo(data.descriptions, method="paper").set_params(gate__temperatures=(1.0,))
        assert gated.gate.temperatures == (1.0,)
        with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
            Cosmo(data.descriptions).set_params(seen__depth=3)

    def test_repr_is_short(self, data):
        assert (
            repr(Cosmo(data.descriptions, rounds=3)) == "Cosmo(descriptions=<DataFrame of 40 x 23>, rounds=3)"
        )
        assert repr(Cosmo({"a": [1], "b": [2]})) == "Cosmo(descriptions=<dict of 2>)"


class DescribedCosmo(Cosmo):
    """Cosmo for scikit-learn's checks, which know nothing of descriptions.

    Every class of `y` is described by a random code, and three classes without samples are added.
    """

    def fit(self, X, y):
        labels = np.asarray(y)
        if self.descriptions is None and labels.ndim <= 2:
            classes = pd.unique(pd.Series(labels.ravel()).dropna())
            numbers = pd.api.types.is_numeric_dtype(classes)
            new = [classes.max() + 1 + i if numbers else f"unseen {i}" for i in range(3)]
            codes = np.random.default_rng(0).random((len(classes) + 3, 6))
            self.descriptions = pd.DataFrame(codes, index=pd.Index([*classes, *new]))
            try:
                return super().fit(X, y)
            finally:
                self.descriptions = None
        return super().fit(X, y)


ANSWERS_UNSEEN = "predicts classes that are not in y, by design"
NOT_APPLICABLE = {
    "check_classifiers_classes": ANSWERS_UNSEEN,
    "check_classifiers_train": ANSWERS_UNSEEN,
}


@parametrize_with_checks([DescribedCosmo()], expected_failed_checks=lambda _: NOT_APPLICABLE)
def test_scikit_learn(estimator, check):
    if check.func.__name__ == "check_methods_subset_invariance":
        pytest.skip("last digits may depend on the batch; tests/properties has the tolerance")
    check(estimator)


def test_folds_train_the_gate_on_every_class_as_unseen(data, train, test):
    fitted = Cosmo(data.descriptions, method="paper").fit(*train)
    model = Cosmo(data.descriptions, folds=3, method="paper").fit(*train)
    one, three = fitted.combination_.gate_, model.combination_.gate_
    assert (one.weights_ != three.weights_).any()
    assert accuracies(model, test).acc_h > 0.3
    # Experts and choices on GZSL-Val are those of the first hold-out.
    np.testing.assert_array_equal(model.validation_outputs_.unseen, fitted.validation_outputs_.unseen)
    np.testing.assert_array_equal(model.outputs(test[0]).seen, fitted.outputs(test[0]).seen)
