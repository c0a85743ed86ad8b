"""Samples and descriptions in one space: with and without what seen classes teach."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from cosmo.data.splits import hold_out
from cosmo.experts import SimilarityExpert, select
from cosmo.metrics.accuracy import zsl_accuracy


class Space:
    """An encoder's view of classes: samples are not where descriptions are, and differ in some directions."""

    def __init__(self, n_classes=40, rows=20, dim=24, shift=0.0, noise=0.3, nuisance=0.0, seed=0):
        rng = np.random.default_rng(seed)
        meaning = rng.normal(size=(n_classes, dim))
        self.table = pd.DataFrame(meaning, index=[f"class {i}" for i in range(n_classes)]).astype(np.float32)
        turn = np.eye(dim) + shift * rng.normal(size=(dim, dim)) / np.sqrt(dim)
        spread = np.full(dim, noise)
        spread[:4] += nuisance
        self.y = np.repeat(self.table.index.to_numpy(dtype=object), rows)
        samples = self.table.loc[self.y].to_numpy() @ turn + spread * rng.normal(size=(len(self.y), dim))
        self.X = samples.astype(np.float32)
        self.unseen = self.table.index[-n_classes // 4 :]
        self.is_seen = ~np.isin(self.y, self.unseen)

    def fitted(self, expert):
        return expert.fit(self.X[self.is_seen], self.y[self.is_seen], self.table)

    def accuracy(self, expert):
        asked = ~self.is_seen
        scores = self.fitted(expert).scores(self.X[asked], self.table.loc[self.unseen])
        return zsl_accuracy(self.y[asked], scores, self.unseen)


PLAIN = SimilarityExpert(0.0, 0.0, temperature=0.1)


class TestPlain:
    def test_is_the_cosine(self):
        space = Space()
        scores = space.fitted(clone(PLAIN)).scores(space.X, space.table)
        A = space.table.to_numpy()
        lengths = np.linalg.norm(space.X, axis=1)[:, None] * np.linalg.norm(A, axis=1)
        np.testing.assert_allclose(scores, space.X @ A.T / lengths, atol=1e-5)
        assert scores.dtype == np.float32


class TestAdaptation:
    def test_learns_where_samples_are(self):
        space = Space(shift=2.0, noise=0.5)
        adapted = SimilarityExpert(0.0, 0.9, temperature=0.1)
        assert space.accuracy(adapted) > space.accuracy(clone(PLAIN)) + 0.15

    def test_ignores_directions_in_which_samples_of_a_class_differ(self):
        space = Space(nuisance=4.0)
        white = SimilarityExpert(0.8, 0.0, temperature=0.1)
        assert space.accuracy(white) > space.accuracy(clone(PLAIN)) + 0.15

    def test_is_chosen_where_it_helps(self):
        space = Space(shift=1.2, noise=0.5, nuisance=2.0)
        chosen = SimilarityExpert()
        assert space.accuracy(chosen) > space.accuracy(clone(PLAIN)) + 0.15
        assert chosen.decided_["whitening"] > 0
        assert chosen.decided_["adapter"] > 0

    def test_whitening_whitens(self):
        space = Space(nuisance=4.0, rows=60)
        expert = space.fitted(SimilarityExpert(0.999, 0.0, temperature=0.1))
        X = space.X[space.is_seen] @ expert.whitener_
        within = X - pd.DataFrame(X).groupby(space.y[space.is_seen]).transform("mean").to_numpy()
        variance = within.var(axis=0)
        assert variance.max() < 1.2 * variance.min()

    def test_ridge_regression_of_steps(self):
        space = Space(shift=1.2)
        expert = space.fitted(SimilarityExpert(0.0, 0.8, temperature=0.1))
        seen = space.table.index.difference(space.unseen, sort=False)
        A = space.table.loc[seen].to_numpy()
        M = pd.DataFrame(space.X).groupby(space.y).mean().loc[seen].to_numpy()
        A, M = A - A.mean(axis=0), M - M.mean(axis=0)
        A, M = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (A, M))
        step = np.linalg.solve(A.T @ A + 0.25 * np.eye(24), A.T @ (M - A))
        np.testing.assert_allclose(expert.step_, step, atol=1e-4)

    def test_the_path_of_candidates_agrees_with_single_fits(self):
        space = Space(shift=1.2, nuisance=2.0)
        X, y = space.X[space.is_seen], space.y[space.is_seen]
        known = space.table.drop(space.unseen)
        held = hold_out(y, seed=0)
        chosen = select(SimilarityExpert(), X, y, known, held)
        single = clone(chosen).fit(X[held.seen_train], y[held.seen_train], known)
        np.testing.assert_array_equal(single.scores(X, known), chosen.scores(X, known))


class TestInput:
    def test_another_space(self):
        space = Space()
        with pytest.raises(
            ValueError, match=r"20 features but the descriptions have 24 columns.*one encoder.*ESZSL"
        ):
            clone(PLAIN).fit(space.X[:, :20], space.y, space.table)
        with pytest.raises(ValueError, match=r"20 features but the descriptions have 24 columns"):
            SimilarityExpert().fit(space.X[:, :20], space.y, space.table)
        with pytest.raises(ValueError, match=r"20 features but the descriptions have 24 columns"):
            space.fitted(clone(PLAIN)).scores(space.X[:, :20], space.table)

    @pytest.mark.parametrize("wrong", [{"whitening": 1.0}, {"adapter": -0.1}, {"adapter": 1.0}])
    def test_strengths_are_shares(self, wrong):
        space = Space()
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be at least 0 and below 1"):
            space.fitted(clone(PLAIN).set_params(**wrong))


class TestPrompts:
    """Several sentences of each class."""

    @pytest.fixture
    def space(self):
        """Pairs of classes made one, each with two descriptions."""
        space = Space(n_classes=48, noise=1.2)
        names = [f"pair {i // 2}" for i in range(48)]
        space.y = pd.Series(names, space.table.index)[space.y].to_numpy()
        sentences = space.table.to_numpy()
        space.wide = pd.DataFrame(sentences.reshape(24, -1), index=names[::2])
        space.table = pd.DataFrame(sentences.reshape(24, 2, -1).mean(axis=1), index=names[::2])
        space.unseen = space.table.index[-6:]
        space.is_seen = ~np.isin(space.y, space.unseen)
        return space

    def test_best_is_the_largest_cosine(self, space):
        expert = clone(PLAIN).set_params(prompts="best").fit(space.X, space.y, space.wide)
        halves = (pd.DataFrame(part, space.wide.index) for part in np.hsplit(space.wide.to_numpy(), 2))
        each = [clone(PLAIN).fit(space.X, space.y, half).scores(space.X, half) for half in halves]
        np.testing.assert_allclose(expert.scores(space.X, space.wide), np.maximum(*each), atol=1e-6)

    def test_better_than_the_average_where_sentences_differ(self, space):
        average = space.accuracy(SimilarityExpert())
        space.table = space.wide
        assert space.accuracy(SimilarityExpert(prompts="best")) > average + 0.05

    def test_one_sentence_each_is_the_same(self, space):
        one, best = (space.fitted(SimilarityExpert(prompts=way)) for way in ("average", "best"))
        np.testing.assert_array_equal(*(e.scores(space.X, space.table) for e in (one, best)))

    @pytest.mark.parametrize(
        ("prompts", "columns", "message"),
        [("average", 48, "24 features but the descriptions have 48 columns"), ("best", 47, "47 columns"),
         ("all", 48, "prompts must be 'average' or 'best'")],
    )  # fmt: skip
    def test_refused(self, space, prompts, columns, message):
        with pytest.raises(ValueError, match=message):
            SimilarityExpert(prompts=prompts).fit(space.X, space.y, space.wide.iloc[:, :columns])
