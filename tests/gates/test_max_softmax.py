from __future__ import annotations

import numpy as np
import pytest
from labelled import outputs
from scipy.special import softmax

from cosmo.gates import MaxSoftmaxGate

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


def test_nothing_is_learned():
    gate = MaxSoftmaxGate()
    before = gate.score(OUT)
    assert gate.fit(OUT) is gate
    np.testing.assert_array_equal(gate.score(OUT), before)


def test_tuning_returns_a_copy():
    gate = MaxSoftmaxGate(3.0)
    tuned = gate.tuned(OUT[:1], OUT[1:])
    assert tuned is not gate
    assert tuned.temperature == 3.0


def test_scores_are_float64():
    score = MaxSoftmaxGate(3.0).score(outputs(SEEN.astype(np.float32), UNSEEN.astype(np.float32)))
    assert score.dtype == np.float64
    assert (
        MaxSoftmaxGate().score(outputs(SEEN.astype(np.float32), UNSEEN.astype(np.float32))).dtype
        == np.float64
    )
    np.testing.assert_allclose(score, MaxSoftmaxGate(3.0).score(OUT), rtol=1e-6)


@pytest.mark.parametrize("temperature", [0.0, -2.0])
def test_temperature_must_be_positive(temperature: float):
    with pytest.raises(ValueError, match="temperature must be positive"):
        MaxSoftmaxGate(temperature).score(OUT)
