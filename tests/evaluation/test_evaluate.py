"""A model measured on labelled samples."""

import numpy as np
import pandas as pd
import pytest

from cosmo.data import load_glyphs
from cosmo.evaluation.evaluate import evaluate_model
from cosmo.io.model import fit_model
from cosmo.metrics.accuracy import gzsl_intervals, gzsl_scores


@pytest.fixture(scope="module")
def data():
    return load_glyphs(n_classes=24, samples_per_class=10)


@pytest.fixture(scope="module")
def model(data, train):
    return fit_model(*train, data.descriptions)


def rows(data):
    return np.concatenate([data.split.test_seen, data.split.test_unseen])


def test_all_classes(model, data):
    test = rows(data)
    X, y = data.features[test], data.labels[test]
    found = evaluate_model(model, X, y)
    guess = model.predict(X)
    parts = y, guess, data.seen_classes, data.unseen_classes
    assert found.scores == pytest.approx(gzsl_scores(*parts))
    for one, other in zip(found.intervals, gzsl_intervals(*parts), strict=True):
        assert one == pytest.approx(other, abs=0.02)
    curve = model.cosmo.combination_.curve(model.cosmo.outputs(X, y))
    assert found.ausuc == pytest.approx(curve.area)
    np.testing.assert_array_equal(found.outputs.labels, model.cosmo.outputs(X, y).labels)
    assert list(found.outputs.classes[model.cosmo.combination_.predict(found.outputs)]) == list(guess)
    assert found.ausuc_interval.low <= found.ausuc <= found.ausuc_interval.high
    told = model.predict_frame(X, top=1)
    assert list(found.predictions["prediction"]) == list(guess)
    for name in ("probability", "p_seen"):
        assert found.predictions[name].to_numpy() == pytest.approx(told[name].to_numpy())


def test_confusions_add_up(model, data):
    test = rows(data)
    found = evaluate_model(model, data.features[test], data.labels[test])
    wrong = found.predictions[found.predictions["label"] != found.predictions["prediction"]]
    assert len(wrong) > 0
    assert found.confusions["samples"].sum() == len(wrong)
    assert found.confusions["samples"].is_monotonic_decreasing
    for name, row in found.classes.iterrows():
        mistakes = wrong[wrong["label"] == name]["prediction"].value_counts()
        assert row["times"] == (mistakes.iloc[0] if len(mistakes) else 0)
        assert row["accuracy"] == pytest.approx(1 - len(mistakes.index.repeat(mistakes)) / row["samples"])


def test_labels_as_they_are_written_elsewhere():
    data = load_glyphs(n_classes=24, samples_per_class=8)
    train, test = data.split.trainval, data.split.test_unseen
    table = data.descriptions.set_axis(range(24))
    model = fit_model(data.features[train], data.codes[train], table)
    one = evaluate_model(model, data.features[test], data.codes[test])
    other = evaluate_model(model, data.features[test], pd.Index(data.codes[test]).astype(str))
    assert one.scores.acc_ts == other.scores.acc_ts > 0
    assert np.isnan(one.scores.acc_tr)
    assert one.to_dict()["acc_tr"] is None
    assert isinstance(one.to_dict()["classes"][0]["class"], int)
