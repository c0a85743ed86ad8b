"""Scores become probabilities."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from cosmo.gates.base import ScoreScale
from cosmo.metrics.calibration import calibration


def test_calibrated_and_in_order():
    rng = np.random.default_rng(0)
    score = rng.normal(7, 1e-4, size=4000)
    is_seen = rng.random(4000) < 1 / (1 + np.exp(-(score - 7) * 2e4))
    proba = ScoreScale().fit(score, is_seen)(score)
    np.testing.assert_array_equal(np.argsort(proba, kind="stable"), np.argsort(score, kind="stable"))
    sure = proba > 0.8
    assert is_seen[sure].mean() == pytest.approx(proba[sure].mean(), abs=0.03)


def test_is_a_logistic_regression_on_standardised_scores():
    rng = np.random.default_rng(0)
    score = rng.normal(3, 5, size=60)
    is_seen = rng.random(60) < expit(score)
    standard = ((score - score.mean()) / score.std())[:, None]
    regression = LogisticRegression(C=1e3).fit(standard, is_seen)
    new = np.array([-2.0, 0.0, 9.0])
    expected = expit(regression.decision_function(((new - score.mean()) / score.std())[:, None]))
    assert abs(regression.intercept_[0]) > 0.5  # so that its sign counts
    np.testing.assert_allclose(ScoreScale().fit(score, is_seen)(new), expected, rtol=1e-9)


def test_useless_scores_keep_their_order():
    score = np.array([1.0, 2.0, 3.0, 4.0])
    scale = ScoreScale().fit(score, np.array([True, True, False, False]))
    assert (np.diff(scale(score)) > 0).all()
    assert scale.slope == 1e-3


def test_constant_scores():
    scale = ScoreScale().fit(np.ones(4), np.array([True, False, True, False]))
    np.testing.assert_allclose(scale(np.ones(2)), 0.5, atol=1e-6)
    assert scale.spread == 1


def test_scaling_repairs_calibration():
    rng = np.random.default_rng(0)
    value = rng.normal(size=4000)
    is_seen = rng.random(4000) < 1 / (1 + np.exp(-3 * value))
    meek = 1 / (1 + np.exp(-value))
    scaled = ScoreScale().fit(meek[:2000], is_seen[:2000])(meek[2000:])
    before, after = (calibration(p, is_seen[2000:]).error for p in (meek[2000:], scaled))
    assert after < before / 3
