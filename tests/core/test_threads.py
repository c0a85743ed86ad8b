"""One BLAS thread for small work."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from cosmo import Cosmo
from cosmo._core import parallel as threads
from cosmo._core.parallel import blas_threads
from cosmo.experts import ESZSL


def counts():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def several():
    with threadpool_limits(2, user_api="blas"):
        if counts() != {2}:
            pytest.skip("this BLAS has one thread")
        yield


def test_small_work_uses_one_thread():
    first, second = blas_threads(100), blas_threads(100)
    with pytest.raises(RuntimeError), blas_threads(100):
        raise RuntimeError
    assert counts() == {2}
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # as another thread would: not in the order of entry
    assert counts() == {1}
    second.__exit__(None, None, None)
    assert counts() == {2}


def test_large_work_uses_all(monkeypatch):
    monkeypatch.setattr(threads, "_LARGE", 100)
    with blas_threads(100):
        assert counts() == {2}


def test_fit_uses_one_thread():
    found = []

    class Watched(ESZSL):
        def _fit(self, *args, **kwargs):
            found.append(counts())
            super()._fit(*args, **kwargs)

        def scores(self, *args):
            found.append(counts())
            return super().scores(*args)

    rng = np.random.default_rng(0)
    table = {k: rng.normal(size=3) for k in range(6)}
    y = np.repeat(np.arange(5), 8)
    X = np.array([table[k] for k in y]) @ rng.normal(size=(3, 4)) + rng.normal(size=(40, 4))
    Cosmo(table, unseen=Watched(1.0, 1.0), rounds=2).fit(X, y)
    assert len(found) > 2
    assert {*map(frozenset, found)} == {frozenset({1})}
    assert counts() == {2}
