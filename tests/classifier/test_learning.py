"""Learning from samples after the training, and the exemplar buffer."""

from copy import copy

import numpy as np
import pandas as pd
import pytest
from scipy.special import logit
from sklearn.naive_bayes import GaussianNB

from cosmo import ESZSL, Cosmo, discover, export_onnx, fit_model
from cosmo.classifier import _learning
from cosmo.classifier._learning import ExemplarBuffer, learn
from cosmo.data import load_glyphs
from cosmo.experts import GaussianExpert, make_seen_expert
from cosmo.gates import make_gate
from cosmo.io.model import Model
from cosmo.metrics.accuracy import per_class_accuracy


@pytest.fixture(scope="module")
def data():
    return load_glyphs(n_classes=50, samples_per_class=24, seed=5)


def fitted(data, **options):
    train = data.split.trainval
    options = {"unseen": ESZSL(1.0, 1.0), **options}
    return Cosmo(data.descriptions, **options).fit(data.features[train], data.labels[train])


@pytest.fixture(scope="module")
def cosmo(data):
    return fitted(data)


@pytest.fixture
def model(data, cosmo):
    return copied(data, cosmo)


def copied(data, cosmo):
    """A model whose operating point and experts may change."""
    train = data.split.trainval
    codes = cosmo.seen_classes_.get_indexer(data.labels[train])
    one = copy(cosmo)
    one.combination_ = copy(cosmo.combination_)
    return Model(one, exemplars=ExemplarBuffer.draw(data.features[train], codes, 20))


def samples_of(data, labels, n, skip=0):
    """Row numbers of n samples of each class."""
    return np.concatenate([np.flatnonzero(data.labels == label)[skip : skip + n] for label in labels])


def taught(model, data, rows):
    return model.learn(data.features[rows], data.labels[rows])


def test_without_a_correction_nothing_changes_but_the_share(data, model, monkeypatch):
    """A class by its description has the same probability on either side of the gate."""
    monkeypatch.setattr(_learning, "_VARIANCE", 1e-12)
    monkeypatch.setattr(_learning, "_BIAS_VARIANCE", 1e-12)
    before, share = model.cosmo.predict_proba(data.features), model.cosmo.combination_.unseen_share
    new, odds = data.unseen_classes[:3], share / (1 - share) / len(data.unseen_classes)
    for label in new:
        taught(model, data, samples_of(data, [label], 4))
    np.testing.assert_allclose(model.cosmo.predict_proba(data.features), before, atol=1e-6)
    # Every class without a training has the share `odds`, relative to that of all others together.
    left = odds * (len(data.unseen_classes) - 3)
    assert model.cosmo.combination_.unseen_share == pytest.approx(left / (1 + 3 * odds + left))


def test_others_keep_their_probabilities_relative_to_each_other(data, model):
    before = model.cosmo.predict_proba(data.features)
    label = data.unseen_classes[1]
    taught(model, data, samples_of(data, [label], 4))  # too few for the unseen expert
    after, others = model.cosmo.predict_proba(data.features), model.cosmo.classes_ != label
    before, after = (part[:, others] / part[:, others].sum(axis=1, keepdims=True) for part in (before, after))
    np.testing.assert_allclose(after, before, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [{}, {"seen": make_seen_expert("discriminant-logistic"), "unseen": GaussianExpert(0.2, 0.1, 0.3)}],
)
def test_few_samples_improve_a_class_and_keep_the_others(data, options):
    """Of each class alone; the mean over all unseen classes."""
    cosmo, found = fitted(data, **options), []
    for label in data.unseen_classes:
        test = samples_of(data, [label], 12, skip=12)
        rest = data.split.test_unseen[data.labels[data.split.test_unseen] != label]
        parts = (test, rest, data.split.test_seen)
        models = [copied(data, cosmo), *(copied(data, cosmo) for _ in range(4))]
        for model, n in zip(models[1:], (1, 2, 5, 12), strict=True):
            taught(model, data, samples_of(data, [label], n))
        found.append(
            [
                [
                    per_class_accuracy(data.labels[p], m.predict(data.features[p]), data.labels[p].unique())
                    for p in parts
                ]
                for m in models
            ]
        )
    change = np.mean(found, axis=0)[1:] - np.mean(found, axis=0)[0]
    assert (change[:, 0] > -0.01).all()
    assert change[-1, 0] > 0.04
    assert (change[:, 1:] > -0.01).all()


def test_two_batches_are_about_as_good_as_one(data, model, cosmo):
    label = data.unseen_classes[0]
    first, second = samples_of(data, [label], 3), samples_of(data, [label], 9, skip=3)
    test = data.features[samples_of(data, [label], 12, skip=12)]
    other, column = copied(data, cosmo), list(model.cosmo.classes_).index(label)
    early = taught(model, data, first).cosmo.predict_proba(test)[:, column].mean()
    taught(model, data, second)
    taught(other, data, np.append(first, second))
    late, at_once = (one.cosmo.predict_proba(test)[:, column] for one in (model, other))
    assert late.mean() > early
    np.testing.assert_allclose(late, at_once, atol=0.02)
    assert model.exemplars.counts[-1] == 12


def test_the_unseen_expert_learns_about_other_classes(data, cosmo, tmp_path):
    """From five samples of a class; files keep it."""
    model, new = copied(data, cosmo), data.unseen_classes[:5]
    assert taught(model, data, samples_of(data, new, 4)).cosmo.experts_.update is None
    taught(model, data, samples_of(data, new, 12, skip=4))
    others = data.unseen_classes[5:]
    rows = np.flatnonzero(data.labels.isin(others))
    table, before = data.descriptions.loc[others], cosmo.experts_
    scores = [before.unseen.scores(data.features[rows], table)]
    scores.append(scores[0] + model.cosmo.experts_.update.scores(data.features[rows], table))
    first, second = (np.mean(others[one.argmax(axis=1)] == data.labels[rows]) for one in scores)
    assert second > first
    model.save(tmp_path / "m.cosmo")
    loaded = Model.load(tmp_path / "m.cosmo").cosmo.predict_proba(data.features)
    np.testing.assert_allclose(loaded, model.cosmo.predict_proba(data.features), atol=1e-5)


def test_a_seen_class_follows_its_samples(data, model):
    """Here the class has changed: its samples are mixtures with another class."""
    label, other = data.seen_classes[:2]
    n = min(len(samples_of(data, [label], 24)), len(samples_of(data, [other], 24)))
    rows = (data.features[samples_of(data, [label], n)] + data.features[samples_of(data, [other], n)]) / 2
    before = (model.predict(rows[10:]) == label).mean()
    seen = data.split.test_seen
    kept = (model.predict(data.features[seen]) == data.labels[seen]).mean()
    model.learn(rows[:10], [label] * 10)
    assert (model.predict(rows[10:]) == label).mean() > before
    assert (model.predict(data.features[seen]) == data.labels[seen]).mean() > kept - 0.01
    assert label in model.cosmo.seen_classes_
    assert model.cosmo.experts_.n_promoted == 0


@pytest.mark.parametrize(
    ("options", "least"),
    [
        ({"seen": GaussianNB()}, 0.0),
        ({"seen": make_seen_expert("knn")}, 0.1),
        # The paper's gate is not made for it.
        *(
            ({"method": "paper", "gate": make_gate(gate)}, -0.2)
            for gate in ("confidence", "odin", "evidence")
        ),
    ],
)
def test_any_seen_expert_and_method(data, options, least):
    cosmo = fitted(data, **options)
    new = data.unseen_classes[:3]
    test = samples_of(data, new, 12, skip=12)
    model = copied(data, cosmo)
    before, classes = np.mean(model.predict(data.features[test]) == data.labels[test]), cosmo.classes_
    taught(model, data, samples_of(data, new, 12))
    assert np.mean(model.predict(data.features[test]) == data.labels[test]) > before + least
    assert model.cosmo.seen_classes_[-3:].tolist() == new.tolist()
    assert model.cosmo.experts_.unseen is cosmo.experts_.unseen
    proba = model.cosmo.predict_proba(data.features[test])
    assert proba.shape == (len(test), len(classes))
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)


def test_samples_of_learned_classes_are_rejected_no_more_often(data, model):
    new = data.unseen_classes[:6]
    test = data.features[samples_of(data, new, 12, skip=12)]
    noise = np.random.default_rng(0).normal(size=(200, test.shape[1])) * 3 * data.features.std(axis=0)
    before = [(model.cosmo.predict(X, reject=0.1) == "unknown").mean() for X in (test, noise)]
    taught(model, data, samples_of(data, new, 12))
    after = [(model.cosmo.predict(X, reject=0.1) == "unknown").mean() for X in (test, noise)]
    assert after[0] <= before[0] + 0.02
    assert after[1] == pytest.approx(before[1], abs=0.1)
    assert before[1] > 0.5


def test_the_operating_point_can_be_set_afterwards(data, model):
    taught(model, data, samples_of(data, data.unseen_classes[:4], 5))
    shares = [model.cosmo.operate_at(unseen_share=share).predict_proba(data.features) for share in (0.1, 0.6)]
    unseen = np.isin(model.cosmo.classes_, model.cosmo.unseen_classes_)
    odds = [logit(np.clip(one[:, unseen].sum(axis=1), 1e-9, 1 - 1e-9)) for one in shares]
    inside = np.abs(odds[0]) < 10
    np.testing.assert_allclose((odds[1] - odds[0])[inside], logit(0.6) - logit(0.1), rtol=1e-3)
    is_unseen = ~data.labels.isin(model.cosmo.seen_classes_)
    rows = np.append(data.split.test_seen, np.flatnonzero(is_unseen))
    estimate = model.cosmo.estimate_share(data.features[rows])
    assert estimate.low <= is_unseen[rows].mean() <= estimate.high
    assert estimate.known


def test_all_unseen_classes_may_be_learned(data, model):
    """Then there is no gate; classes that are added later have one again."""
    label, rows = data.unseen_classes[0], samples_of(data, data.unseen_classes, 12)
    test = samples_of(data, data.unseen_classes, 12, skip=12)
    before = np.mean(model.predict(data.features[test]) == data.labels[test])
    taught(model, data, rows)
    assert len(model.cosmo.unseen_classes_) == 0
    proba = model.cosmo.predict_proba(data.features[test])
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    accuracy = np.mean(model.predict(data.features[test]) == data.labels[test])
    assert accuracy > before
    model.add_classes(data.descriptions.loc[[label]].set_axis(["new"], axis=0))
    assert np.mean(model.predict(data.features[test]) == data.labels[test]) > accuracy - 0.05
    seen = data.split.test_seen[:5]
    assert taught(model, data, seen).cosmo.unseen_classes_.tolist() == ["new"]


def test_a_model_without_unseen_classes_learns(data, train):
    known = data.descriptions.loc[data.seen_classes]
    cosmo = Cosmo(known, unseen=ESZSL(1.0, 1.0)).fit(*train)
    model, rows = copied(data, cosmo), samples_of(data, data.seen_classes[:1], 3)
    column = list(cosmo.classes_).index(data.seen_classes[0])
    before = model.cosmo.predict_proba(data.features[rows])[:, column]
    taught(model, data, rows)
    after = model.cosmo.predict_proba(data.features[rows])[:, column]
    assert (after > before).all()


def test_exemplars_are_in_half_precision_where_possible():
    X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    codes = np.repeat([0, 1], [45, 5])
    exemplars = ExemplarBuffer.draw(X, codes, 8)
    assert np.bincount(exemplars.codes).tolist() == [8, 5]
    assert exemplars.weights.sum() == pytest.approx(50)
    assert exemplars.rows.dtype == np.float16
    for scale in (1e6, 1e-6):  # too large or too small for half precision
        rows = ExemplarBuffer.draw(scale * X, codes, 8).rows
        assert rows.dtype == np.float32
        assert np.isin(rows, scale * X).all()


def test_exemplars_of_more_samples():
    X = np.arange(20.0).reshape(10, 2)
    exemplars = ExemplarBuffer.draw(X, np.repeat([0, 1], 5), 3).with_rows(X[:4] + 20, np.array([2, 2, 2, 0]))
    assert np.bincount(exemplars.codes).tolist() == [4, 3, 3]
    assert exemplars.counts.tolist() == [6, 5, 3]
    latest = exemplars.latest(3)
    assert np.bincount(latest.codes).tolist() == [3, 3, 3]
    assert latest.counts.tolist() == [6, 5, 3]
    np.testing.assert_array_equal(latest.rows[-1], [26, 27])


@pytest.mark.parametrize(
    "change", [{"rows": np.zeros(4)}, {"rows": np.zeros((4, 2), int)}, {"codes": np.zeros(3, int)},
               {"codes": np.array([0, 0, 0, 0])}, {"counts": np.ones((2, 1), int)}],
)  # fmt: skip
def test_inconsistent_exemplars(change):
    parts = {
        "rows": np.zeros((4, 2)),
        "codes": np.array([0, 0, 1, 1]),
        "counts": np.array([9, 9]),
        "per_class": 2,
    }
    ExemplarBuffer(**parts)
    with pytest.raises(ValueError, match="an exemplar buffer needs"):
        ExemplarBuffer(**{**parts, **change})


def test_constant_rows_and_one_exemplar_per_class(data, cosmo):
    """Distances to class means are then zero."""
    train = data.split.trainval
    codes = cosmo.seen_classes_.get_indexer(data.labels[train])
    mixture, label = copy(cosmo.combination_), data.unseen_classes[0]
    rows = samples_of(data, [label], 2)
    for X in (data.features[train], np.ones_like(data.features[train])):
        buffer = ExemplarBuffer.draw(X, codes, 1)
        pair, _ = learn(cosmo.experts_, mixture, data.features[rows], pd.Index([label] * 2), buffer)
        assert np.isfinite(pair.corrections.weights).all()


class TestWithoutTraining:
    """Models whose classes had descriptions only."""

    @pytest.fixture
    def space(self):
        """Descriptions, rows and labels of ten classes in one space; rows are far from descriptions."""
        rng = np.random.default_rng(0)
        table = pd.DataFrame(rng.normal(size=(10, 16)), index=list("abcdefghij"))
        table /= np.linalg.norm(table, axis=1, keepdims=True)
        y = np.repeat(table.index, 40)
        steps = 0.5 * rng.normal(size=16) / 4 + 0.7 * rng.normal(size=(10, 16)) / 4
        X = (table + steps).loc[y].to_numpy() + rng.normal(size=(len(y), 16)) / 4
        return table, X.astype(np.float32), y

    def test_without_a_correction_nothing_changes(self, space, monkeypatch):
        monkeypatch.setattr(_learning, "_VARIANCE", 1e-12)
        monkeypatch.setattr(_learning, "_BIAS_VARIANCE", 1e-12)
        table, X, y = space
        model, all_at_once = (fit_model([], [], part) for part in (table.iloc[:8], table))
        model.learn(X[40:50], y[40:50]).learn(X[:10], y[:10])
        assert model.cosmo.combination_.unseen_share == pytest.approx(6 / 8)
        model.add_classes(table.iloc[8:])
        assert model.cosmo.combination_.unseen_share == pytest.approx(8 / 10)
        model.learn(X[320:325], y[320:325])
        assert model.cosmo.combination_.unseen_share == pytest.approx(7 / 10)
        proba = (one.cosmo.predict_proba(X) for one in (model, all_at_once))
        np.testing.assert_allclose(*proba, atol=1e-6)

    @pytest.mark.parametrize("n", [1, 3, 20])
    def test_samples_improve_a_class_and_others_stay(self, space, n):
        table, X, y = space
        test = np.arange(len(y)) % 40 >= 20
        before = fit_model([], [], table).cosmo.predict(X)
        own, other = [], []
        for label in table.index:
            rows = np.flatnonzero(y == label)[:n]
            after = fit_model([], [], table).learn(X[rows], y[rows]).cosmo.predict(X)
            for change, part in ((own, test & (y == label)), (other, test & (y != label))):
                change.append((after == y)[part].mean() - (before == y)[part].mean())
        assert np.mean(own) > (0.03 if n == 20 else 0)
        assert np.mean(other) > -0.01

    def test_what_needs_a_training_is_refused(self, space, tmp_path):
        table, X, y = space
        model, message = fit_model([], [], table), "fit it again with labelled samples of at least four"
        assert (model.predict_frame(X)["p_seen"] == 0).all()
        for attempt in (
            lambda: model.predict_frame(X, reject=0.1),
            lambda: model.cosmo.predict_set(X),
            lambda: discover(model, X),
            lambda: export_onnx(model, tmp_path / "m.onnx"),
        ):
            with pytest.raises(ValueError, match=message):
                attempt()
            model.learn(X[:20], y[:20])

    def test_all_classes_and_a_file(self, space, tmp_path):
        table, X, y = space
        test = np.arange(len(y)) % 40 >= 20
        model = fit_model([], [], table)
        before = (model.predict(X[test]) == y[test]).mean()
        model.learn(X[~test], y[~test])
        assert model.exemplars.counts.tolist() == [20] * 10
        assert (model.predict(X[test]) == y[test]).mean() > before + 0.05
        model.save(tmp_path / "m.cosmo")
        loaded = Model.load(tmp_path / "m.cosmo").learn(X[:1], y[:1]).add_classes({"k": [1.0] * 16})
        loaded.learn(X[:2] + 1, ["k", "k"])
        assert len(loaded.cosmo.unseen_classes_) == 0
        np.testing.assert_allclose(loaded.cosmo.predict_proba(X).sum(axis=1), 1)
