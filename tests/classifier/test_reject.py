"""Unknown samples and prediction sets of a fitted model."""

import numpy as np
import pytest

from cosmo import Cosmo
from cosmo.data import load_glyphs
from cosmo.gates.calibrated import domain_weights


@pytest.fixture(scope="module")
def data():
    return load_glyphs(n_classes=60, samples_per_class=24)


@pytest.fixture(scope="module")
def model(data, train):
    return Cosmo(data.descriptions).fit(*train)


@pytest.fixture(scope="module")
def test(data):
    rows = np.concatenate([data.split.test_seen, data.split.test_unseen])
    return data.features[rows], data.labels[rows].to_numpy()


@pytest.fixture(scope="module")
def noise(data):
    rng = np.random.default_rng(0)
    return rng.permuted(data.features[:200], axis=1)  # the same values in another order


def test_rejects_noise_more_than_samples(model, test, noise):
    X, y = test
    known, unknown = (model.predict(rows, reject=0.1) == "unknown" for rows in (X, noise))
    is_seen = np.isin(y, model.seen_classes_)
    assert known[is_seen].mean() < 0.2
    assert known[~is_seen].mean() < 0.25
    assert unknown.mean() > 0.9
    kept = model.predict(X)
    assert (model.predict(X, reject=0.1)[~known] == kept[~known]).all()


def test_accuracy_of_answers(model, test):
    X, y = test
    answers = model.predict(X, accuracy=0.8, unknown=None)
    given = np.array([answer is not None for answer in answers])
    assert 0.05 < given.mean() < 1
    assert (answers == y)[given].mean() > (model.predict(X) == y).mean()
    with pytest.raises(ValueError, match=r"no share of the answers has an accuracy of 0\.9999"):
        model.predict(X, accuracy=0.9999)


def test_sets_cover_the_held_out_samples(model, test):
    X, y = test
    sets = model.predict_set(X, alpha=0.2)
    inside = np.array([label in one for label, one in zip(y, sets, strict=True)])
    is_seen = np.isin(y, model.seen_classes_)
    assert inside[is_seen].mean() > 0.7
    assert inside[~is_seen].mean() > 0.7
    assert np.mean([len(one) for one in sets]) < 12
    best = model.predict(X)
    assert all(
        len(one) == 0 or one[0] == first for one, first in zip(sets, best, strict=True) if first in one
    )
    larger = model.predict_set(X, alpha=0.05)
    assert all(set(one) <= set(more) for one, more in zip(sets, larger, strict=True))


def test_weights_of_the_rows_belong_to_their_domain(model):
    rejection, validation = model.rejection()
    assert len(rejection.known) == len(rejection.own) == len(validation)
    weights = domain_weights([validation])
    assert weights[validation.is_seen].sum() == pytest.approx(1)
    assert ((rejection.own >= 0) & (rejection.own <= 1)).all()
    assert rejection.own.mean() > 0.3


def test_reasons(model, test):
    lines = model.reasons(test[0][:50])
    answers, proba = model.predict(test[0][:50]), model.predict_proba(test[0][:50])
    for line, answer, row in zip(lines, answers, proba, strict=True):
        domain = "seen" if answer in model.seen_classes_ else "unseen"
        assert line.startswith(f"{domain}: best among ")
        assert f"({row.max():.2f})" in line
        other = np.isin(model.classes_, model.seen_classes_) == (domain == "unseen")
        assert row[other].max() <= float(line.rpartition(" ")[2]) < row[other].max() + 0.0101


@pytest.mark.parametrize("share", [0, 1, -0.1, 5])
def test_shares(model, test, share):
    for use in (
        lambda: model.predict(test[0][:1], reject=share),
        lambda: model.predict(test[0][:1], accuracy=share),
        lambda: model.predict_set(test[0][:1], alpha=share),
    ):
        with pytest.raises(ValueError, match="is a share between 0 and 1"):
            use()


def test_name_of_a_class(model, test):
    with pytest.raises(ValueError, match="is a class of the model"):
        model.predict(test[0], reject=0.1, unknown=model.classes_[0])


def test_models_without_thresholds(data, train, test):
    paper = Cosmo(data.descriptions, method="paper").fit(*train)
    for use in (lambda: paper.predict(test[0], reject=0.1), lambda: paper.predict_set(test[0])):
        with pytest.raises(ValueError, match="cannot reject: fit it again"):
            use()
    assert paper.reasons(test[0][:1])[0].count("best among") == 1


def test_new_classes_are_known(data, train, test, model):
    from copy import copy

    left = model.unseen_classes_[:3]
    fewer = copy(model)
    fewer = Cosmo(data.descriptions.drop(index=left)).fit(*train)
    rows = test[0][np.isin(test[1], left)]
    before = fewer.conformity(rows).mean()
    fewer.add_classes(data.descriptions.loc[left])
    assert fewer.conformity(rows).mean() > before
