"""The evidence gate."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from cosmo import ESZSL, Cosmo
from cosmo.data import load_glyphs
from cosmo.gates import EvidenceGate
from cosmo.metrics import gate_auc


@pytest.fixture(scope="module")
def data():
    return load_glyphs(n_classes=60, samples_per_class=20)


def fitted(data, gate, **options):
    train = data.split.trainval
    return Cosmo(data.descriptions, gate=gate, **options).fit(data.features[train], data.labels[train])


def test_tells_seen_from_unseen_on_test(data):
    rows = np.r_[data.split.test_seen, data.split.test_unseen]
    model = fitted(data, EvidenceGate())
    outputs = model.outputs(data.features[rows], data.labels[rows])
    assert gate_auc(outputs.is_seen, model.combination_.gate_.score(outputs)) > 0.7


def test_distances():
    """Nearest and second nearest class mean, in units of the spread within classes."""
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0.0], [10.0, 0.0], [0.0, 30.0]], 200, axis=0) + rng.normal(size=(600, 2)) * [1, 3]
    codes = np.repeat([5, 7, 9], 200)
    observer = EvidenceGate().observer().fit(KNeighborsClassifier(), X.astype(np.float32), codes)
    first, second, ratio, cosine = observer.evidence(np.array([[0.0, 3.0]], dtype=np.float32))[0]
    assert first == pytest.approx(1 / np.sqrt(2), rel=0.15)
    assert second == pytest.approx(9 / np.sqrt(2), rel=0.1)
    assert ratio == pytest.approx(first / second)
    assert -1 <= cosine <= 1


def test_energy_where_the_seen_expert_has_logits():
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    codes = np.repeat([0, 1, 2], 20)
    seen = LogisticRegression().fit(X, codes)
    found = EvidenceGate().observer().fit(seen, X, codes).evidence(X)
    assert found.shape == (60, 5)
    np.testing.assert_allclose(found[:, 4], np.log(np.exp(seen.decision_function(X)).sum(axis=1)), rtol=1e-4)


def test_constant_feature_and_two_classes():
    X = np.c_[np.ones(20), np.r_[np.zeros(10), np.ones(10)]].astype(np.float32)
    seen = LogisticRegression().fit(X, np.repeat([0, 1], 10))
    found = EvidenceGate().observer().fit(seen, X, np.repeat([0, 1], 10)).evidence(X)
    assert np.isfinite(found).all()


def test_any_seen_expert(data):
    model = fitted(data, EvidenceGate(), seen=KNeighborsClassifier(3))
    assert np.isfinite(model.predict_proba(data.features[:3])).all()


def test_new_classes_do_not_disturb_it(data):
    model = fitted(data, EvidenceGate())
    before = model.outputs(data.features[:5]).evidence
    model.add_classes({"new": data.descriptions.iloc[0]})
    np.testing.assert_array_equal(model.outputs(data.features[:5]).evidence, before)


def test_k_must_be_positive(data):
    with pytest.raises(ValueError, match="k must be at least 1"):
        fitted(data, EvidenceGate(k=0))


def test_pools_hold_outs_with_other_classes(data):
    """Whatever the classes are, two hold-outs count like one with all their rows."""
    one, other = (
        fitted(data, EvidenceGate(), random_state=seed, unseen=ESZSL(1.0, 1.0, temperature=0.05))
        for seed in (0, 1)
    )
    parts = [model.validation_outputs_ for model in (one, other)]
    assert not parts[0].seen_classes.equals(parts[1].seen_classes)
    gate = EvidenceGate().fit(*parts)
    inputs = np.concatenate([gate.features(part) for part in parts])
    np.testing.assert_allclose(gate.mean_, inputs.mean(axis=0))
    assert np.mean([gate_auc(part.is_seen, gate.score(part)) for part in parts]) > 0.7
