"""The ODIN gate."""

import numpy as np
import pytest
from labelled import outputs
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from cosmo import Cosmo
from cosmo.gates import LeaveOutGate, OdinGate
from cosmo.gates.base import ScoreScale
from cosmo.gates.odin import logits_of, perturbed_confidence, perturbed_logits
from cosmo.metrics.accuracy import gate_auc


@pytest.fixture(scope="module")
def classifier():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 6)).astype(np.float32)
    X[:, 0] += np.repeat([0, 2, 4], 30)
    y = np.repeat([0, 1, 2], 30)
    return X, LogisticRegression().fit(X, y)


def naive(X, classifier, spread, temperature, epsilon):
    """A push along a numerical gradient of log p at the temperature, one sample at a time."""

    def log_p(x, column):
        logits = classifier.decision_function(x[None])[0]
        return np.log(softmax(logits / temperature))[column]

    result = []
    for x in X.astype(np.float64):
        best = classifier.decision_function(x[None])[0].argmax()
        steps = 1e-3 * np.eye(len(x))
        gradient = np.array([log_p(x + step, best) - log_p(x - step, best) for step in steps])
        moved = x + epsilon * spread * np.sign(gradient)
        result.append(softmax(classifier.decision_function(moved[None])[0] / temperature).max())
    return np.array(result)


@pytest.mark.parametrize(("temperature", "epsilon"), [(1.0, 0.0), (1.0, 0.1), (10.0, 0.3)])
def test_closed_form_agrees_with_a_numerical_push(classifier, temperature, epsilon):
    X, model = classifier
    spread = X.std(axis=0)
    found = perturbed_confidence(X[:20], logits_of(model), spread, [(temperature, epsilon)])[:, 0]
    expected = naive(X[:20], model, spread, temperature, epsilon)
    np.testing.assert_allclose(np.exp(found / temperature) / 3, expected, rtol=1e-3)


def test_many_settings_agree_with_single_ones(classifier):
    X, model = classifier
    logits = logits_of(model)
    settings = [(1.0, 0.0), (3.0, 0.01), (1.0, 0.1)]
    together = perturbed_confidence(X, logits, X.std(axis=0), settings)
    for column, setting in enumerate(settings):
        alone = perturbed_confidence(X, logits, X.std(axis=0), [setting])
        np.testing.assert_array_equal(together[:, column], alone[:, 0])


def test_without_push_the_order_is_that_of_max_softmax(classifier):
    X, model = classifier
    found = perturbed_confidence(X, logits_of(model), X.std(axis=0), [(1.0, 0.0)])[:, 0]
    np.testing.assert_array_equal(np.argsort(found), np.argsort(model.predict_proba(X).max(axis=1)))


def test_network_seen_expert(data):
    """Its pushes raise the confidence, as they are meant to, and the gate works inside the whole."""
    train = data.split.trainval
    seen = MLPClassifier((32,), max_iter=60, alpha=1.0, random_state=0, early_stopping=True)
    gate = OdinGate(temperature=3.0)
    model = Cosmo(data.descriptions, seen=seen, gate=gate, method="paper").fit(
        data.features[train], data.labels[train]
    )
    pushes = gate.observer().fit(model.experts_.seen, data.features[train], np.zeros(len(train), dtype=int))
    confidence = pushes._confidence(data.features[data.split.test_seen])
    at = [epsilon for _, epsilon in gate.settings()].index
    assert (confidence[:, at(1e-3)] > confidence[:, at(0.0)]).mean() > 0.95
    assert np.isfinite(model.predict_proba(data.features[:3])).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ((0.0, 0.1), r"temperature must be positive, got 0\.0"),
        ((np.nan, 0.1), "temperature must be a number, got nan"),
        ((1.0, -1.0), r"epsilon must not be negative, got -1\.0"),
        ((1.0, np.inf), "epsilon must not be negative, got inf"),
        ((1.0, np.nan), "epsilon must be a number, got nan"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        OdinGate(*parameters).observer()


def test_evidence_is_measured_from_its_mean_over_the_training_rows(classifier):
    X, model = classifier
    settings = OdinGate(temperature=3.0).settings()
    found = OdinGate(temperature=3.0).observer().fit(model, X, np.zeros(len(X), dtype=int)).evidence(X)
    confidence = perturbed_confidence(X, logits_of(model), X.std(axis=0), settings)
    np.testing.assert_allclose(found, confidence - confidence.mean(axis=0), atol=1e-9)


def test_tuned_reads_the_column_of_largest_auc_and_fits_its_scale():
    rng = np.random.default_rng(0)
    is_seen = np.arange(80) % 2 == 0
    evidence = rng.normal(size=(80, 8))
    evidence[:, 5] += 2 * is_seen
    experts = rng.dirichlet([1.0] * 3, 80), 0.5 * rng.dirichlet([1.0] * 2, 80)
    out = outputs(*experts, is_seen, evidence=evidence)
    gate = OdinGate(temperature=3.0)
    tuned = gate.tuned(out[:40], out[40:])
    assert not hasattr(gate, "column_")
    assert tuned.column_ == 5
    assert tuned.chosen_ == (3.0, 1e-2)
    for one, column in ((tuned, 5), (OdinGate(1.0, 0.0), 0)):
        expected = ScoreScale().fit(evidence[:, column], is_seen)(evidence[:, column])
        np.testing.assert_allclose(one.fit(out[:30], out[30:]).score(out), expected)


def test_chooses_the_best_setting_on_gating_val(data, train):
    model = Cosmo(data.descriptions, gate=OdinGate(), method="paper").fit(*train)
    gate = model.combination_.gate_
    assert gate.chosen_ in OdinGate().settings()
    outputs = model.validation_outputs_
    score = gate.score(outputs)
    assert ((score > 0) & (score < 1)).all()
    evidence = outputs.evidence[:, gate.column_]
    assert gate_auc(outputs.is_seen, score) == pytest.approx(gate_auc(outputs.is_seen, evidence))


def test_needs_evidence(data, train):
    model = Cosmo(data.descriptions, method="paper").fit(*train)
    found = model.validation_outputs_
    for gate in (OdinGate(1.0, 0.0), LeaveOutGate()):
        with pytest.raises(ValueError, match=f"{type(gate).__name__} reads the samples themselves"):
            gate.fit(found)
    with pytest.raises(ValueError, match="OdinGate reads the samples themselves"):
        OdinGate().tuned(found, found)


def test_logits_are_of_single_precision_and_networks_are_pushed(classifier):
    X, model = classifier
    network = MLPClassifier((5,), max_iter=30, random_state=0)
    with pytest.warns(match="converge"):
        logits = logits_of(network.fit(X, model.predict(X)))
    spread, start = X.std(axis=0), logits(X)
    assert {part.dtype for one in (logits, logits_of(model)) for pair in one.layers for part in pair} == {
        start.dtype
    }
    assert start.dtype == np.float32
    slope = np.eye(3)[start.argmax(axis=1)] - softmax(start / 2, axis=1)
    direction = spread * np.sign(logits.pull_back(X, slope))
    (moved,) = perturbed_logits(X, logits, spread, 2.0, [0.1])
    np.testing.assert_allclose(moved, logits(X + 0.1 * direction), rtol=1e-4, atol=1e-5)
