"""Rejection on labelled samples."""

import numpy as np
import pytest

from cosmo import Cosmo
from cosmo.data import load_glyphs
from cosmo.evaluation.evaluate import class_weights, evaluate_unknown, false_positives, risk


def test_false_positives():
    score, is_known = np.array([1, 2, 3, 4, 0.5, 3.5]), np.array([True] * 4 + [False] * 2)
    assert false_positives(score, is_known, np.ones(6)) == 0.5
    assert false_positives(-score, is_known, np.ones(6)) == 1


def test_classes_count_the_same():
    assert class_weights(np.array(["a", "a", None, "b"], dtype=object)).tolist() == [0.5, 0.5, 1, 1]


def test_risk_grows_with_wrong_answers():
    score, wrong = np.arange(10.0), np.arange(10) < 3
    assert [risk(score, wrong, np.ones(10), share) for share in (0.5, 0.7, 1)] == [0, 0, 0.3]


def test_a_model():
    data = load_glyphs(n_classes=40, samples_per_class=20)
    train, test = data.split.trainval, np.concatenate([data.split.test_seen, data.split.test_unseen])
    model = Cosmo(data.descriptions).fit(data.features[train], data.labels[train])
    noise = np.random.default_rng(0).permuted(data.features[:100], axis=1)
    X = np.concatenate([data.features[test], noise])
    labels = [*data.labels[test], *["other"] * 100]
    found = evaluate_unknown(model, X, labels, "other", reject=0.1)
    assert found.auroc > 0.9
    assert found.table.sum(axis=1).to_numpy() == pytest.approx(np.ones(3))
    assert found.table.loc["unknown", "unknown"] > 0.8
    assert found.to_dict()["answers"]["seen"]["seen"] == found.table.loc["seen", "seen"]
    assert found.risk[0.2] < found.risk[1.0]
    with pytest.raises(ValueError, match="labelled 'none' are needed"):
        evaluate_unknown(model, X[:-100], labels[:-100], "none")
