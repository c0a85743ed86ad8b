"""Coverage of 95 % intervals, where the truth is known.

A test fails if the observed coverage has a probability below 0.001 under a true coverage of 92 %. Intervals
of half the length cover about two times of three, which the tests detect.
"""

import numpy as np
import pytest

from cosmo.metrics.accuracy import plausible_accuracies

RATE = 0.92
ROWS = {
    "15 rows": (20, 10, 15, 15),
    "unequal sides": (10, 40, 30, 12),
    "5 rows": (20, 10, 5, 5),
    "3 rows": (10, 5, 3, 3),
}


@pytest.mark.parametrize("sizes", ROWS.values(), ids=ROWS)
def test_accuracies(simulations, least, sizes):
    assert (simulations.accuracy_coverage(sizes, 150) >= least(RATE, 150)).all()


def test_accuracy_intervals_of_half_the_length(simulations, least):
    assert (simulations.accuracy_coverage(ROWS["15 rows"], 100, stretch=0.5) < least(RATE, 100)).all()


@pytest.mark.parametrize("rows", ["15 rows", "5 rows", "3 rows"])
def test_area(simulations, least, rows):
    assert simulations.area_coverage(ROWS[rows], 80) >= least(RATE, 80)


@pytest.mark.parametrize("spread", [0.0, 0.5], ids=["classes alike", "classes that differ"])
def test_gates(simulations, least, spread):
    assert (simulations.gate_coverage((20, 10, 5, 5), 80, spread=spread) >= least(RATE, 80)).all()


def test_gate_intervals_of_half_the_length(simulations, least):
    found = simulations.gate_coverage((20, 10, 5, 5), 60, spread=0.0, stretch=0.5)
    assert (found < least(RATE, 60)).all()


FEW = {
    "5 rows": ([5] * 20, (6, 2)),
    "3 rows": ([3] * 10, (6, 2)),
    "2 rows": ([2] * 50, (2, 2)),
    "1 row": ([1] * 20, (2, 2)),
    "nearly all right": ([5] * 20, (60, 1)),
    "nearly all wrong": ([5] * 5, (1, 20)),
}


@pytest.mark.parametrize(("rows", "shape"), FEW.values(), ids=FEW)
def test_plausible_accuracies(least, rows, shape):
    rng = np.random.default_rng(0)
    accuracy, rows = rng.beta(*shape, len(rows)), np.array(rows)
    truth, found = accuracy.mean(), 0
    for _ in range(400):
        drawn = plausible_accuracies(rng.binomial(rows, accuracy), rows, 1000, rng)
        low, high = np.quantile(drawn, [0.025, 0.975])
        found += low <= truth <= high
    assert found / 400 >= least(RATE, 400)


def test_classes_without_rows_count_as_missed():
    rng = np.random.default_rng(0)
    drawn = plausible_accuracies(np.array([40, 0]), np.array([40, 0]), 500, rng)
    assert 0.4 < drawn.min() < drawn.max() <= 0.5
    assert (plausible_accuracies(np.array([0]), np.array([0]), 5, rng) == 0).all()
