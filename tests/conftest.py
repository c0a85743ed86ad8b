"""Settings for all tests."""

import signal

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says nothing about the code on a busy machine.
settings.register_profile("cosmo", deadline=None)
settings.load_profile("cosmo")

# A mutation tester runs each test many times in one process, on differing copies of the code.
settings.register_profile(
    "mutants", suppress_health_check=[HealthCheck.differing_executors], deadline=None, database=None
)

# Shells let what they start in the background ignore Ctrl-C, and so would the programs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Files with slow tests start first, so that no worker is left with one of them at the end.
SLOW = (
    "tests/real/",
    "tests/test_examples",
    "tests/test_glyphs",
    "tests/errors/test_interrupts",
    "tests/browser/",
)


@pytest.fixture(scope="session")
def data():
    """The built-in data set, smaller."""
    from cosmo.data import load_glyphs

    return load_glyphs(n_classes=40, samples_per_class=12)


@pytest.fixture(scope="module")
def train(data):
    """Training rows and their labels."""
    rows = data.split.trainval
    return data.features[rows], data.labels[rows]


@pytest.fixture(scope="module")
def test(data):
    """Test rows, seen classes first, and their labels."""
    rows = np.concatenate([data.split.test_seen, data.split.test_unseen])
    return data.features[rows], data.labels[rows]


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: not item.nodeid.startswith(SLOW))
