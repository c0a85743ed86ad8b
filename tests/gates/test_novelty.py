from __future__ import annotations

import numpy as np
import pytest
from labelled import outputs

from cosmo.classifier.combinations import GatedMixture
from cosmo.gates import MaxSoftmaxGate, NoveltyGate, make_gate
from cosmo.metrics.accuracy import gzsl_scores
from cosmo.mixture.smoothing import combine

RNG = np.random.default_rng(0)
IS_SEEN = np.arange(90) % 2 == 0
NOVELTY = np.clip(RNG.normal(np.where(IS_SEEN, 0.3, 0.7), 0.2), 0, 1)
OUT = outputs(RNG.dirichlet([0.3] * 5, 90), 0.5 * RNG.dirichlet([0.3] * 4, 90), IS_SEEN, novelty=NOVELTY)


def test_one_minus_the_novelty():
    gate = make_gate("novelty")
    np.testing.assert_array_equal(gate.score(OUT), 1 - NOVELTY)
    np.testing.assert_array_equal(gate.score(OUT[::2]), 1 - NOVELTY[::2])


def test_nothing_is_learned():
    gate = NoveltyGate()
    assert gate.fit(OUT) is gate
    assert gate.tuned(OUT[:45], OUT[45:]) is not gate


@pytest.mark.parametrize("smoothing", ["none", "adaptive"])
def test_outputs_without_novelty(smoothing):
    bare = outputs(OUT.seen, OUT.unseen, IS_SEEN)
    message = (
        "^the gate needs an unseen expert that detects novelty, and this one does not; "
        "use CMT, or another gate$"
    )
    with pytest.raises(ValueError, match=message):
        GatedMixture(NoveltyGate(), smoothing=smoothing).fit(bare)
    GatedMixture(MaxSoftmaxGate(), smoothing=smoothing).fit(bare)


def test_the_hard_form_gives_samples_above_a_threshold_to_the_unseen_expert():
    model = GatedMixture(NoveltyGate(), smoothing="none", hard=True).fit(OUT)
    threshold = 1 - model.operating_point_.threshold
    expected = np.where(threshold < NOVELTY, 5 + OUT.unseen.argmax(axis=1), OUT.seen.argmax(axis=1))
    np.testing.assert_array_equal(model.predict(OUT), expected)
    assert 0 < (model.predict(OUT) < 5).mean() < 1


def test_the_hard_threshold_is_the_best_one():
    def h(threshold):
        guess = np.where(threshold < NOVELTY, 5 + OUT.unseen.argmax(axis=1), OUT.seen.argmax(axis=1))
        return gzsl_scores(OUT.labels, guess, np.arange(5), np.arange(5, 9)).acc_h

    model = GatedMixture(NoveltyGate(), smoothing="none", hard=True).fit(OUT)
    assert model.validation_point_.acc_h == pytest.approx(max(h(t) for t in [*NOVELTY, -1.0, 2.0]))


def test_the_soft_form_is_total_probability():
    scores = combine(OUT.seen, OUT.unseen, NOVELTY, smoothing="none")
    unseen = OUT.unseen / OUT.unseen.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(scores[:, :5], (1 - NOVELTY[:, None]) * OUT.seen)
    np.testing.assert_allclose(scores[:, 5:], NOVELTY[:, None] * unseen)


@pytest.mark.parametrize(
    ("novelty", "says"),
    [
        (np.full(90, 1.5), "novelty must be a number from 0 to 1 for every sample"),
        (np.full(90, np.nan), "novelty of sample 0 is nan"),
        (np.full(3, 0.5), "novelty must be one number per sample, 90 in all"),
    ],
)
def test_novelty_is_a_probability_for_every_sample(novelty, says):
    with pytest.raises(ValueError, match=says):
        outputs(OUT.seen, OUT.unseen, novelty=novelty)
