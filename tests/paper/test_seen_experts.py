from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from cosmo.data import GZSLDataset
from cosmo.paper.seen_experts import SEEN, SquareRoot, Thinned


class Remembers(LogisticRegression):  # type: ignore[misc]
    """Keeps the rows that it was given."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Remembers:
        self.rows_ = X[:, 0].astype(int)
        return super().fit(X / len(X), y)  # scaled, so that it converges


class TestThinned:
    @given(st.lists(st.integers(1, 12), min_size=2, max_size=5), st.floats(0.01, 1.0))
    @example([7, 1, 11, 11, 11], 1.0)
    def test_every_class_keeps_its_share(self, sizes: list[int], share: float):
        y = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
        X = np.arange(len(y), dtype=float)[:, None]
        thinned = Thinned(Remembers(), share).fit(X, y)
        kept = np.bincount(y[thinned.classifier_.rows_], minlength=len(sizes))
        assert thinned.n_rows_ == kept.sum()
        for size, count in zip(sizes, kept, strict=True):
            assert max(1, size * share - 1) <= count <= min(size, size * share + 1)

    def test_all_rows(self):
        X, y = np.arange(10.0)[:, None], np.repeat([0, 1], 5)
        np.testing.assert_array_equal(Thinned(Remembers(), 1.0).fit(X, y).classifier_.rows_, np.arange(10))

    def test_evenly_spaced(self):
        X, y = np.arange(12.0)[:, None], np.repeat([0, 1], 6)
        np.testing.assert_array_equal(Thinned(Remembers(), 1 / 3).fit(X, y).classifier_.rows_, [0, 3, 6, 9])

    def test_is_a_classifier(self):
        X, y = np.r_[np.zeros(4), np.ones(4)][:, None], np.repeat(["a", "b"], 4)
        model = Thinned(LogisticRegression(), 0.5).fit(X, y)
        assert list(model.classes_) == ["a", "b"]
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
        assert list(model.predict(X)) == list(y)


def test_square_roots_of_what_is_negative_are_zero():
    np.testing.assert_array_equal(SquareRoot().fit_transform(np.array([[-4.0, 9.0]])), [[0.0, 3.0]])


def test_the_papers_seen_expert_is_the_first():
    assert next(iter(SEEN)) == "logistic"


@pytest.mark.parametrize("name", SEEN)
def test_all_are_better_than_chance_and_can_be_cloned(name: str, data: GZSLDataset):
    train, test = data.split.trainval, data.split.test_seen
    model = clone(SEEN[name]).fit(data.features[train], data.codes[train])
    assert (model.predict(data.features[test]) == data.codes[test]).mean() > 0.3
    assert not hasattr(SEEN[name], "classes_")
