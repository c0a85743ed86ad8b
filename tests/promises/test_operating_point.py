"""Minimum accuracy chosen on one draw of samples, measured on other samples of the same classes."""

import numpy as np
import pytest
from scipy.stats import binom

from cosmo.gates import ConfidenceGate
from cosmo.metrics.accuracy import accuracy_bound, accuracy_to_reach

SIZES = (40, 20, 8)
REPEATS = 100


@pytest.fixture(scope="module")
def plain(simulations):
    return simulations.kept_floors(SIZES, REPEATS).dropna()


@pytest.fixture(scope="module")
def sure(simulations):
    return simulations.kept_floors(SIZES, REPEATS, confidence=0.95).dropna()


def test_minimum_without_confidence(plain, least):
    assert (plain["validation"] >= 0.75 - 1e-9).all()
    # It holds in about two of three draws.
    assert (plain["fresh"] >= 0.75).mean() < least(0.95, len(plain))


def test_error_is_that_of_the_sample(plain):
    error = np.sqrt(0.75 * 0.25 / (SIZES[0] * SIZES[2]))
    assert abs((plain["fresh"] - plain["validation"]).mean()) < error
    assert plain["fresh"].std() < 2 * error


def test_minimum_with_confidence(sure, least):
    assert len(sure) > 0.9 * REPEATS
    assert (sure["fresh"] >= 0.75).mean() >= least(0.95, len(sure))


def test_gate_fitted_on_the_same_rows(simulations, least):
    found = simulations.kept_floors((40, 20, 8), 16, confidence=0.95, gate=ConfidenceGate()).dropna()
    assert (found["fresh"] >= 0.75).mean() >= least(0.95, len(found))


def test_bound_has_its_confidence(least):
    rng = np.random.default_rng(0)
    accuracy, rows = rng.beta(6, 2, 20), np.full(20, 5)
    measured = (rng.binomial(rows, accuracy, (2000, 20)) / rows).mean(axis=1)
    kept = np.mean([accuracy_bound(one, rows) <= accuracy.mean() for one in measured])
    assert kept >= least(0.95, 2000)
    # It is not too conservative: at 80 % confidence it fails sometimes.
    lax = np.mean([accuracy_bound(one, rows, 0.8) <= accuracy.mean() for one in measured])
    assert lax <= binom.ppf(0.999, 2000, 0.93) / 2000


@pytest.mark.parametrize("floor", [0.0, 0.3, 0.75, 0.99])
@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_accuracy_to_reach_inverts_the_bound(floor, confidence):
    rows = [3, 8, 40]
    reach = accuracy_to_reach(floor, rows, confidence)
    assert reach >= floor
    if reach <= 1:
        assert accuracy_bound(reach, rows, confidence) == pytest.approx(floor)


def test_confidence_outside_0_to_1():
    for wrong in (0, 1, 95):
        with pytest.raises(ValueError, match="confidence is a share between 0 and 1"):
            accuracy_to_reach(0.75, [5, 5], wrong)
