"""Gates without training."""

import numpy as np
import pytest
from labelled import outputs
from scipy.special import softmax

from cosmo.classifier.combinations import GatedMixture
from cosmo.gates import MaxSoftmaxGate, NoveltyGate, make_gate
from cosmo.metrics.accuracy import gzsl_scores
from cosmo.mixture.smoothing import combine

SEEN = np.array([[0.7, 0.2, 0.1], [0.3, 0.4, 0.3]])
UNSEEN = np.array([[0.5], [0.1]])
OUT = outputs(SEEN, UNSEEN, np.array([True, False]))


def test_the_largest_probability():
    np.testing.assert_array_equal(MaxSoftmaxGate().score(OUT), [0.7, 0.4])


def test_temperature():
    expected = softmax(np.log(SEEN) / 3, axis=1).max(axis=1)
    np.testing.assert_allclose(MaxSoftmaxGate(3.0).score(OUT), expected)
    assert (expected < [0.7, 0.4]).all()


def test_temperature_can_change_the_ranking():
    # A clear winner over many small classes against a close race of two.
    seen = np.array([[0.5, 0.1, 0.1, 0.1, 0.1, 0.1], [0.49, 0.48, 0.0075, 0.0075, 0.0075, 0.0075]])
    one, three = (MaxSoftmaxGate(t).score(outputs(seen, np.zeros((2, 1)))) for t in (1.0, 3.0))
    assert one[0] > one[1]
    assert three[0] < three[1]


def test_the_unseen_expert_is_not_read():
    gate = MaxSoftmaxGate(2.0)
    np.testing.assert_array_equal(gate.score(OUT), gate.score(outputs(SEEN, 0 * UNSEEN)))


def test_tuning_returns_a_copy():
    gate = MaxSoftmaxGate(3.0)
    tuned = gate.tuned(OUT[:1], OUT[1:])
    assert tuned is not gate
    assert tuned.temperature == 3.0


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_scores_are_float64(temperature):
    single = outputs(SEEN.astype(np.float32), UNSEEN.astype(np.float32))
    assert MaxSoftmaxGate(temperature).score(single).dtype == np.float64


@pytest.mark.parametrize("temperature", [0.0, -2.0])
def test_temperature_must_be_positive(temperature):
    with pytest.raises(ValueError, match="temperature must be positive"):
        MaxSoftmaxGate(temperature).score(OUT)


RNG = np.random.default_rng(0)
IS_SEEN = np.arange(90) % 2 == 0
NOVELTY = np.clip(RNG.normal(np.where(IS_SEEN, 0.3, 0.7), 0.2), 0, 1)
NOVEL = outputs(RNG.dirichlet([0.3] * 5, 90), 0.5 * RNG.dirichlet([0.3] * 4, 90), IS_SEEN, novelty=NOVELTY)


def test_one_minus_the_novelty():
    gate = make_gate("novelty")
    np.testing.assert_array_equal(gate.score(NOVEL), 1 - NOVELTY)
    np.testing.assert_array_equal(gate.score(NOVEL[::2]), 1 - NOVELTY[::2])


def test_nothing_is_learned():
    gate = NoveltyGate()
    assert gate.fit(NOVEL) is gate
    assert gate.tuned(NOVEL[:45], NOVEL[45:]) is not gate


@pytest.mark.parametrize("smoothing", ["none", "adaptive"])
def test_outputs_without_novelty(smoothing):
    bare = outputs(NOVEL.seen, NOVEL.unseen, IS_SEEN)
    message = (
        "^the gate needs an unseen expert that detects novelty, and this one does not; "
        "use CMT, or another gate$"
    )
    with pytest.raises(ValueError, match=message):
        GatedMixture(NoveltyGate(), smoothing=smoothing).fit(bare)
    GatedMixture(MaxSoftmaxGate(), smoothing=smoothing).fit(bare)


def test_the_hard_form_gives_samples_above_a_threshold_to_the_unseen_expert():
    model = GatedMixture(NoveltyGate(), smoothing="none", hard=True).fit(NOVEL)
    threshold = 1 - model.operating_point_.threshold
    expected = np.where(threshold < NOVELTY, 5 + NOVEL.unseen.argmax(axis=1), NOVEL.seen.argmax(axis=1))
    np.testing.assert_array_equal(model.predict(NOVEL), expected)
    assert 0 < (model.predict(NOVEL) < 5).mean() < 1


def test_the_hard_threshold_is_the_best_one():
    def h(threshold):
        guess = np.where(threshold < NOVELTY, 5 + NOVEL.unseen.argmax(axis=1), NOVEL.seen.argmax(axis=1))
        return gzsl_scores(NOVEL.labels, guess, np.arange(5), np.arange(5, 9)).acc_h

    model = GatedMixture(NoveltyGate(), smoothing="none", hard=True).fit(NOVEL)
    assert model.validation_point_.acc_h == pytest.approx(max(h(t) for t in [*NOVELTY, -1.0, 2.0]))


def test_the_soft_form_is_total_probability():
    scores = combine(NOVEL.seen, NOVEL.unseen, NOVELTY, smoothing="none")
    unseen = NOVEL.unseen / NOVEL.unseen.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(scores[:, :5], (1 - NOVELTY[:, None]) * NOVEL.seen)
    np.testing.assert_allclose(scores[:, 5:], NOVELTY[:, None] * unseen)
