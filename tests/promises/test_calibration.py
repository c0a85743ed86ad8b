"""Calibration errors: what is calibrated has no more than chance gives, what is not is caught."""

from __future__ import annotations

import json

import numpy as np
import pytest

from cosmo.classifier.combinations import GatedMixture
from cosmo.evaluation.calibration import answer_calibration, calibration, gate_calibration
from cosmo.gates import ConfidenceGate


@pytest.mark.parametrize("n", [150, 3000])
def test_perfect_probabilities_have_the_error_of_chance(n):
    rng = np.random.default_rng(0)
    errors, chances = [], []
    for _ in range(200):
        proba = rng.beta(2, 1, n)
        found = calibration(proba, rng.random(n) < proba)
        errors.append(found.error)
        chances.append(found.chance)
    assert np.mean(errors) == pytest.approx(np.mean(chances), rel=0.1)


@pytest.mark.parametrize("power", [0.5, 2.0], ids=["too sure", "not sure enough"])
def test_what_is_off_is_found_with_its_size(power):
    rng = np.random.default_rng(1)
    proba = rng.uniform(0.05, 0.95, 20_000)
    found = calibration(proba**power, rng.random(len(proba)) < proba)
    assert found.error == pytest.approx(np.abs(proba**power - proba).mean(), abs=3 * found.chance)
    assert found.error > 5 * found.chance
    assert np.sign(found.excess) == (1 if power < 1 else -1)


def test_bins_are_of_equal_mass_and_order_does_not_matter():
    rng = np.random.default_rng(2)
    proba, true = rng.random(100), rng.random(100) < 0.5
    found = calibration(proba, true, bins=10)
    assert (found.rows == 10).all()
    assert (np.diff(found.probability) > 0).all()
    order = rng.permutation(100)
    assert calibration(proba[order], true[order], bins=10).error == found.error
    alike = calibration(np.full(100, 0.3), true)
    assert alike.rows.tolist() == [100]
    assert alike.error == pytest.approx(abs(0.3 - true.mean()))


def test_few_samples_and_wrong_ones():
    assert calibration([0.2, 0.9], [False, True], bins=15).rows.sum() == 2
    for proba, true in (([], []), ([0.5], [True, False]), ([[0.5]], [[True]])):
        with pytest.raises(ValueError, match="one probability"):
            calibration(proba, true)
    for wrong in (1.1, -0.1, np.nan):
        with pytest.raises(ValueError, match="from 0 to 1"):
            calibration([wrong], [True])
    with pytest.raises(ValueError, match="at least 1"):
        calibration([0.5], [True], bins=0)


def test_of_a_model(simulations):
    world, rng = simulations.World(20, 10), np.random.default_rng(0)
    mixture = GatedMixture(ConfidenceGate()).fit(world.draw(20, rng))
    fresh = world.draw(60, rng)
    answer, gate = answer_calibration(mixture, fresh), gate_calibration(mixture, fresh)
    right = (mixture.predict(fresh) == fresh.labels).mean()
    assert np.average(answer.share, weights=answer.rows) == pytest.approx(right)
    assert np.average(gate.share, weights=gate.rows) == pytest.approx((~fresh.is_seen).mean())
    assert 0 < gate.error < 0.5
    document = json.loads(json.dumps(answer.to_dict()))
    assert document["error"] == answer.error
    assert sum(one["samples"] for one in document["bins"]) == len(fresh)
