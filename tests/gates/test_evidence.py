"""The evidence gate."""

import numpy as np
import pytest
from labelled import outputs
from scipy.special import expit, softmax
from scipy.stats import entropy
from sklearn.linear_model import LogisticRegression

from cosmo import ESZSL, Cosmo
from cosmo.data import load_glyphs
from cosmo.gates import EvidenceGate
from cosmo.metrics.accuracy import gate_auc


@pytest.fixture(scope="module")
def data():
    return load_glyphs(n_classes=60, samples_per_class=20)


def fitted(data, gate, **options):
    train = data.split.trainval
    return Cosmo(data.descriptions, gate=gate, **options, method="paper").fit(
        data.features[train], data.labels[train]
    )


def neighbourhood(X, codes, x):
    """Distances and cosine of one sample, from the definition."""
    classes = np.unique(codes)
    means = np.array([X[codes == c].mean(axis=0) for c in classes])
    spread = np.sqrt(((X - means[np.searchsorted(classes, codes)]) ** 2).mean(axis=0))
    spread = np.maximum(spread, 1e-3 * spread.max())
    distances = np.sort(np.sqrt((((x - means) / spread) ** 2).mean(axis=1)))
    centre = means.mean(axis=0)
    a, b = (x - centre) / spread, (means - centre) / spread
    cosine = (b @ a / np.linalg.norm(a) / np.linalg.norm(b, axis=1)).max()
    return [distances[0], distances[1], distances[0] / distances[1], cosine]


@pytest.mark.parametrize("frozen", [False, True])
def test_neighbourhood_of_unequal_classes(frozen):
    rng = np.random.default_rng(0)
    codes = rng.permutation(np.repeat([9, 2, 5, 7], [4, 10, 25, 40]))
    X = rng.normal(size=(10, 3))[codes] + rng.normal(size=(79, 3)) * [0.5, 1, 4]
    X[:, 0] = codes / 100 if frozen else X[:, 0]  # a feature that does not vary within classes
    new = np.vstack([X[:6] + 0.3, 0.25 * X[:6]])
    found = EvidenceGate().observer().fit(None, X.astype(np.float32), codes).evidence(new.astype(np.float32))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, [neighbourhood(X, codes, x) for x in new], rtol=1e-3, atol=1e-5)


def test_near_the_centre_of_all_classes_the_cosine_is_still_one():
    X = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]], dtype=np.float32)
    observer = EvidenceGate().observer().fit(None, X, np.arange(4))
    np.testing.assert_array_equal(observer.spread, [1, 1])  # nothing varies within classes
    for learned in (observer.spread, observer.centre, observer.means):
        assert learned.dtype == np.float32  # like the features, or every product would copy them
    found = observer.evidence(np.array([[1e-3, 0], [0, 0], [1, 0]], dtype=np.float32))
    np.testing.assert_allclose(found[:, 3], [1, 0, 1], atol=1e-6)
    np.testing.assert_allclose(found[1], [np.sqrt(0.5), np.sqrt(0.5), 1, 0])
    np.testing.assert_allclose(found[2], [0, 1, 0, 1], atol=1e-6)


def test_one_class_is_its_own_second():
    X = np.array([[0, 0], [2, 0], [0, 2], [2, 2]], dtype=np.float32)
    found = EvidenceGate().observer().fit(None, X, np.zeros(4, dtype=int)).evidence(X + np.float32(1))
    np.testing.assert_allclose(found[:, 0], found[:, 1])
    np.testing.assert_allclose(found[:, 2], [0, 1, 1, 1], atol=1e-6)


def test_energy_of_two_classes_is_the_decision_value():
    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    codes = (X[:, 0] > 0).astype(int)
    seen = LogisticRegression().fit(X, codes)
    found = EvidenceGate().observer().fit(seen, X, codes).evidence(X)
    np.testing.assert_array_equal(found[:, 4], seen.decision_function(X).astype(np.float64))


SEEN = np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6], [1.0, 0.0, 0.0]])
UNSEEN = np.array([[0.05, 0.1], [0.3, 0.0], [0.0, 0.0]])
EVIDENCE = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def test_inputs_by_hand():
    found = EvidenceGate(k=2).features(outputs(SEEN, UNSEEN, evidence=EVIDENCE))
    tempered = softmax(np.log(SEEN + 1e-12) / 3, axis=1)
    tops = np.hstack([np.sort(part, axis=1)[:, ::-1][:, :2] for part in (SEEN, tempered, UNSEEN)])
    mass = UNSEEN.sum(axis=1)
    own = np.column_stack(
        [
            entropy(SEEN, axis=1),
            entropy([[1 / 3, 2 / 3], [1, 0], [0.5, 0.5]], axis=1),
            np.log((np.array([0.6, 0.6, 1]) + 1e-6) / (np.array([0.3, 0.2, 0]) + 1e-6)),
            mass,
            np.log((mass + 1e-6) / (1 - mass + 1e-6)),
        ]
    )
    np.testing.assert_allclose(found, np.hstack([tops, np.log(tops + 1e-6), own, EVIDENCE]), atol=1e-12)


def test_inputs_are_float64():
    single = outputs(SEEN.astype(np.float32), UNSEEN.astype(np.float32), evidence=EVIDENCE)
    double = outputs(single.seen.astype(np.float64), single.unseen.astype(np.float64), evidence=EVIDENCE)
    np.testing.assert_array_equal(EvidenceGate().features(single), EvidenceGate().features(double))


def test_one_probability_is_enough():
    assert EvidenceGate(k=1).features(outputs(SEEN, UNSEEN, evidence=EVIDENCE)).shape == (3, 6 + 5 + 2)


def test_is_a_logistic_regression_on_standardised_inputs():
    rng = np.random.default_rng(0)
    is_seen = rng.random(120) < 0.7
    seen = rng.dirichlet([0.3] * 4, 120) * 0.5 + 0.5 * np.eye(4)[0] * is_seen[:, None]
    seen /= seen.sum(axis=1, keepdims=True)
    evidence = np.column_stack([np.full(120, 7.0), rng.normal(5 * is_seen, 9)])  # one that never varies
    out = outputs(seen, rng.dirichlet([0.5] * 4, 120)[:, :3], is_seen, evidence=evidence)
    gate = EvidenceGate(C=0.05)
    assert gate.fit(out[:60], out[60:]) is gate
    inputs = gate.features(out)
    spread = inputs.std(axis=0)
    standard = (inputs - inputs.mean(axis=0)) / np.where(spread > 0, spread, 1)
    regression = LogisticRegression(C=0.05, max_iter=2000).fit(standard, is_seen)
    np.testing.assert_allclose(gate.score(out), expit(regression.decision_function(standard)), rtol=1e-6)
    assert gate.spread_[-2] == 1


def test_defaults():
    assert EvidenceGate().get_params() == {"k": 5, "C": 0.01}


def test_without_evidence():
    message = (
        "^EvidenceGate reads the samples themselves, but these outputs have no evidence; "
        "compute them by an ExpertPair, or a Cosmo, that has this gate$"
    )
    with pytest.raises(ValueError, match=message):
        EvidenceGate().features(outputs(SEEN, UNSEEN))


@pytest.mark.parametrize("is_seen", [True, False])
def test_one_domain_only(is_seen):
    message = "^the gate needs held-out samples of both seen and unseen classes$"
    with pytest.raises(ValueError, match=message):
        EvidenceGate().fit(outputs(SEEN, UNSEEN, np.full(3, is_seen), evidence=EVIDENCE))


@pytest.mark.parametrize(("k", "message"), [(0, "at least 1, got 0"), (1.5, r"a whole number, got 1\.5")])
def test_k_must_be_a_positive_whole_number(k, message):
    with pytest.raises(ValueError, match=f"^k must be {message}$"):
        EvidenceGate(k=k).features(outputs(SEEN, UNSEEN, evidence=EVIDENCE))


def test_energy_where_the_seen_expert_has_logits():
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    codes = np.repeat([0, 1, 2], 20)
    seen = LogisticRegression().fit(X, codes)
    found = EvidenceGate().observer().fit(seen, X, codes).evidence(X)
    assert found.shape == (60, 5)
    np.testing.assert_allclose(found[:, 4], np.log(np.exp(seen.decision_function(X)).sum(axis=1)), rtol=1e-4)


def test_new_classes_do_not_disturb_it(data):
    model = fitted(data, EvidenceGate())
    before = model.outputs(data.features[:5]).evidence
    model.add_classes({"new": data.descriptions.mean()})  # not one that ties with another
    np.testing.assert_array_equal(model.outputs(data.features[:5]).evidence, before)


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
