"""Calibration errors: those of calibrated probabilities are due to chance, others are found."""

import numpy as np
import pytest

from cosmo.metrics.calibration import calibration


@pytest.mark.parametrize("n", [150, 3000])
def test_calibrated_probabilities(n):
    rng = np.random.default_rng(0)
    errors, chances = [], []
    for _ in range(200):
        proba = rng.beta(2, 1, n)
        curve = calibration(proba, rng.random(n) < proba)
        errors.append(curve.error)
        chances.append(curve.chance)
    assert np.mean(errors) == pytest.approx(np.mean(chances), rel=0.1)


@pytest.mark.parametrize("power", [0.5, 2.0], ids=["overconfident", "underconfident"])
def test_miscalibration_is_measured(power):
    rng = np.random.default_rng(1)
    proba = rng.uniform(0.05, 0.95, 20_000)
    curve = calibration(proba**power, rng.random(len(proba)) < proba)
    assert curve.error == pytest.approx(np.abs(proba**power - proba).mean(), abs=3 * curve.chance)
    assert curve.error > 5 * curve.chance
    assert np.sign(curve.excess) == (1 if power < 1 else -1)


def test_bins_have_equal_mass_whatever_the_order():
    rng = np.random.default_rng(2)
    proba, true = rng.random(100), rng.random(100) < 0.5
    curve = calibration(proba, true, bins=10)
    assert (curve.samples == 10).all()
    assert (np.diff(curve.probability) > 0).all()
    order = rng.permutation(100)
    assert calibration(proba[order], true[order], bins=10).error == curve.error
    alike = calibration(np.full(100, 0.3), true)
    assert alike.samples.tolist() == [100]
    assert alike.error == pytest.approx(abs(0.3 - true.mean()))


def test_invalid_input():
    assert calibration([0.2, 0.9], [False, True], bins=15).samples.sum() == 2
    for proba, outcome in (([], []), ([0.5], [True, False]), ([[0.5]], [[True]])):
        with pytest.raises(ValueError, match="one entry per sample"):
            calibration(proba, outcome)
    for value in (1.1, -0.1, np.nan):
        with pytest.raises(ValueError, match="between 0 and 1"):
            calibration([value], [True])
    with pytest.raises(ValueError, match="at least 1"):
        calibration([0.5], [True], bins=0)
