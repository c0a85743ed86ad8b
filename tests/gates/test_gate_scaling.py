"""Scores become probabilities."""

import numpy as np
import pytest

from cosmo.gates.scaling import ScoreScale, calibration_error


def test_calibrated_and_in_order():
    rng = np.random.default_rng(0)
    score = rng.normal(7, 1e-4, size=4000)
    is_seen = rng.random(4000) < 1 / (1 + np.exp(-(score - 7) * 2e4))
    proba = ScoreScale().fit(score, is_seen)(score)
    np.testing.assert_array_equal(np.argsort(proba, kind="stable"), np.argsort(score, kind="stable"))
    sure = proba > 0.8
    assert is_seen[sure].mean() == pytest.approx(proba[sure].mean(), abs=0.03)


def test_useless_scores_keep_their_order():
    score = np.array([1.0, 2.0, 3.0, 4.0])
    proba = ScoreScale().fit(score, np.array([True, True, False, False]))(score)
    assert (np.diff(proba) > 0).all()


def test_constant_scores():
    proba = ScoreScale().fit(np.ones(4), np.array([True, False, True, False]))(np.ones(2))
    np.testing.assert_allclose(proba, 0.5, atol=1e-6)


def test_one_domain_only():
    with pytest.raises(ValueError, match="both seen and unseen"):
        ScoreScale().fit(np.ones(3), np.ones(3, dtype=bool))


def test_calibration_error():
    """Two bins, three samples in the one, one in the other."""
    is_seen = np.array([True, True, False, False])
    error = calibration_error(is_seen, np.array([0.9, 0.92, 0.94, 0.2]))
    assert error == pytest.approx((3 * abs(0.92 - 2 / 3) + 0.2) / 4)
    assert calibration_error(is_seen, np.array([1.0, 1.0, 0.0, 0.0])) == 0


def test_scaling_repairs_calibration():
    rng = np.random.default_rng(0)
    value = rng.normal(size=4000)
    is_seen = rng.random(4000) < 1 / (1 + np.exp(-3 * value))
    meek = 1 / (1 + np.exp(-value))
    scaled = ScoreScale().fit(meek[:2000], is_seen[:2000])(meek[2000:])
    before, after = (calibration_error(is_seen[2000:], p) for p in (meek[2000:], scaled))
    assert after < before / 3
