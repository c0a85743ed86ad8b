"""Invariances of a fitted classifier and its experts: subsets, orders and names of samples and classes."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from cosmo import Cosmo
from cosmo.experts import DAP, ESZSL, SimilarityExpert, SynC

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=10, deadline=None)

CLASSES = [f"class {i}" for i in range(10)]
SEEN = CLASSES[:7]
EXPERTS = {
    "eszsl": ESZSL(1.0, 1.0, temperature=0.1),
    "dap": DAP(0.01, temperature=1.0),
    "sync": SynC(2.0**-16, 1.0, temperature=0.1),
    "similarity": SimilarityExpert(0.5, 0.5, temperature=0.1),
}


class Task:
    """Ten classes in twelve dimensions, seven of them with samples."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.table = pd.DataFrame(rng.normal(size=(10, 12)), index=pd.Index(CLASSES, dtype=object))
        self.y = np.repeat(np.array(SEEN, dtype=object), 9)
        self.y_new = np.repeat(np.array(CLASSES, dtype=object), 4)
        noise = rng.normal(size=(len(self.y) + len(self.y_new), 12))
        rows = self.table.loc[np.r_[self.y, self.y_new]].to_numpy() + 0.7 * noise
        self.X, self.X_new = np.split(rows.astype(np.float32), [len(self.y)])


@cache
def task():
    return Task()


@cache
def model():
    return Cosmo(task().table, unseen=clone(EXPERTS["eszsl"])).fit(task().X, task().y)


@cache
def expert(name):
    return clone(EXPERTS[name]).fit(task().X, task().y, task().table)


class TestClassifier:
    @few
    @given(seeds)
    def test_probabilities_are_distributions(self, seed):
        rows = 3 * np.random.default_rng(seed).normal(size=(9, 12))
        proba = model().predict_proba(rows)
        assert (proba >= 0).all()
        np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-6)
        np.testing.assert_array_equal(model().classes_[proba.argmax(axis=1)], model().predict(rows))

    @few
    @given(seeds, st.integers(1, 39))
    def test_batches(self, seed, size):
        """The last digits may depend on the batch, the prediction does not."""
        order, rows = np.random.default_rng(seed).permutation(40), task().X_new
        parts = [rows[order[start : start + size]] for start in range(0, 40, size)]
        labels = np.concatenate([model().predict(part) for part in parts])
        np.testing.assert_array_equal(labels, model().predict(rows)[order])
        proba = np.concatenate([model().predict_proba(part) for part in parts])
        np.testing.assert_allclose(proba, model().predict_proba(rows)[order], rtol=1e-4, atol=1e-5)

    @settings(max_examples=5, deadline=None)
    @given(seeds)
    def test_names_and_order_of_classes(self, seed):
        rng = np.random.default_rng(seed)
        names = dict(zip(CLASSES, rng.permutation(10).tolist(), strict=True))
        table = task().table.rename(index=names).iloc[rng.permutation(10)]
        other = Cosmo(table, unseen=clone(EXPERTS["eszsl"])).fit(task().X, [names[one] for one in task().y])
        expected = [names[one] for one in model().predict(task().X_new)]
        assert other.predict(task().X_new).tolist() == expected

    @few
    @given(seeds, st.integers(2, 5))
    def test_number_of_threads(self, seed, threads):
        rows = np.random.default_rng(seed).normal(size=(500, 12)).astype(np.float32)
        with threadpool_limits(1):
            alone = model().predict(rows)
        with threadpool_limits(threads):
            np.testing.assert_array_equal(model().predict(rows), alone)


@pytest.mark.parametrize("name", EXPERTS)
class TestExperts:
    @few
    @given(seed=seeds, size=st.integers(1, 4))
    def test_new_class_keeps_the_ranking_of_others(self, name, seed, size):
        rng = np.random.default_rng(seed)
        new = pd.DataFrame(rng.normal(size=(size, 12)), index=[f"new {i}" for i in range(size)])
        table = pd.concat([task().table, new]).iloc[rng.permutation(10 + size)]
        before = expert(name).predict_proba(task().X_new, task().table)
        after = expert(name).predict_proba(task().X_new, table)[:, table.index.get_indexer(CLASSES)]
        np.testing.assert_allclose(after / after.sum(axis=1, keepdims=True), before, rtol=1e-3, atol=1e-6)
        clear = np.abs(before[:, :, None] - before[:, None, :]) > 1e-5
        same = (after[:, :, None] > after[:, None, :]) == (before[:, :, None] > before[:, None, :])
        assert same[clear].all()
