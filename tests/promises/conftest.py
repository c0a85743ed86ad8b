"""The simulations of `benchmarks/promises.py`, with fewer draws."""

import importlib.util
from pathlib import Path

import pytest
from scipy.stats import binom


@pytest.fixture(scope="session")
def simulations():
    path = Path(__file__).parents[2] / "benchmarks" / "promises.py"
    spec = importlib.util.spec_from_file_location("promises_simulations", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def least():
    """Quantile 0.001 of the observed rate in `repeats` draws with a true `rate`."""

    def smallest(rate, repeats):
        return float(binom.ppf(1e-3, repeats, rate)) / repeats

    return smallest
