"""Reliability of mixtures: the probabilities that models return."""

import numpy as np
import pandas as pd
import pytest

from cosmo.classifier.combinations import GatedMixture
from cosmo.gates import MaxSoftmaxGate
from cosmo.metrics.calibration import calibration
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.viz.page.sets import reliability


def made_outputs():
    rng = np.random.default_rng(0)
    target = rng.integers(0, 9, 400)
    seen = rng.dirichlet(np.full(5, 0.4), 400)
    unseen = rng.dirichlet(np.full(5, 0.6), 400)[:, :4]  # joint: the rest is of seen classes
    seen[target < 5, target[target < 5]] += 1
    seen /= seen.sum(axis=1, keepdims=True)
    return ExpertOutputs(pd.Index(range(5)), pd.Index(range(5, 9)), seen, unseen, target=target)


def assert_equal(found, expected):
    np.testing.assert_allclose(found.probability, expected.probability, atol=1e-6)
    np.testing.assert_allclose(found.frequency, expected.frequency, atol=1e-12)
    np.testing.assert_array_equal(found.samples, expected.samples)


@pytest.mark.parametrize("smoothing", ["none", "constant", "adaptive"])
def test_as_the_scores_of_the_mixture(smoothing):
    outputs = made_outputs()
    mixture = GatedMixture(MaxSoftmaxGate(), smoothing=smoothing).fit(outputs)
    scores = mixture.scores(outputs)
    scores /= scores.sum(axis=1, keepdims=True)
    correct = scores.argmax(axis=1) == outputs.labels
    found = reliability(mixture, outputs)
    assert list(found) == ["p(y)", "p(U)"]
    assert_equal(found["p(y)"], calibration(scores.max(axis=1), correct))
    assert_equal(found["p(U)"], calibration(mixture.belief(outputs), ~outputs.is_seen))
    assert found["p(y)"].probability.max() <= 1


@pytest.mark.parametrize("smoothing", ["none", "constant"])
def test_a_summary_gives_the_same(smoothing):
    outputs = made_outputs()
    mixture = GatedMixture(MaxSoftmaxGate(), smoothing=smoothing).fit(outputs)
    found, expected = reliability(mixture, mixture.summary(outputs)), reliability(mixture, outputs)
    for name in ("p(y)", "p(U)"):
        assert_equal(found[name], expected[name])


def test_a_summary_of_adaptive_smoothing_has_no_sum():
    outputs = made_outputs()
    mixture = GatedMixture(MaxSoftmaxGate()).fit(outputs)
    assert list(reliability(mixture, mixture.summary(outputs))) == ["p(U)"]


def test_a_hard_gate():
    outputs = made_outputs()
    mixture = GatedMixture(MaxSoftmaxGate(), smoothing="none", hard=True).fit(outputs)
    assert set(reliability(mixture, outputs)["p(U)"].probability) == {0.0, 1.0}
