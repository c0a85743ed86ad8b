"""SynC: what it promises as an unseen expert, its loss, and its closed forms."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime
from sklearn.base import clone
from sklearn.svm import LinearSVC

from cosmo.data.splits import hold_out
from cosmo.experts import select
from cosmo.experts.classifiers import SynC, one_vs_other_loss


def decided(**parameters):
    return SynC(**{"lam": 1e-4, "rho": 1.0, "temperature": 0.1, **parameters})


def test_candidates_agree_with_single_fits(task):
    held = hold_out(task.y, seed=0)
    chosen = select(SynC(), task.X, task.y, task.table.loc[task.seen], held)
    assert chosen.open_parameters() == []
    single = clone(chosen).fit(task.X[held.seen_train], task.y[held.seen_train], task.table)
    np.testing.assert_allclose(single.classifiers(task.table), chosen.classifiers(task.table), atol=1e-6)


class TestInput:
    def test_descriptions_of_one_direction(self, task):
        table = task.table * 0 + np.arange(1, 26)[:, None]
        with pytest.raises(ValueError, match="all descriptions have the same direction"):
            decided(centre=False).fit(task.X, task.y, table)

    def test_one_class(self, task):
        one = task.y == task.seen[0]
        with pytest.raises(ValueError, match="at least two are needed"):
            decided().fit(task.X[one], task.y[one], task.table)

    def test_a_class_far_from_all_others(self, task):
        """All similarities underflow, yet their shares are defined."""
        expert = decided(rho=1e4).fit(task.X, task.y, task.table)
        far = pd.DataFrame(-np.ones((1, 10)), index=["far"], columns=task.table.columns)
        assert np.isfinite(expert.scores(task.X_new, far)).all()


class TestClassifiers:
    def test_gradient(self):
        rng = np.random.default_rng(0)
        X, codes, penalty = rng.normal(size=(20, 4)), rng.integers(3, size=20), rng.random(4)
        W = rng.normal(size=12)
        gradient = one_vs_other_loss(W, X, codes, penalty)[1]
        numeric = approx_fprime(W, lambda w: one_vs_other_loss(w, X, codes, penalty)[0], 1e-7)
        np.testing.assert_allclose(gradient, numeric, atol=1e-5)

    def test_loss(self):
        """Against the formula, written out."""
        rng = np.random.default_rng(1)
        X, codes, W = rng.normal(size=(20, 4)), rng.integers(3, size=20), rng.normal(size=(4, 3))
        t = np.where(codes[:, None] == np.arange(3), 1, -1)
        expected = (np.maximum(0, 1 - t * (X @ W)) ** 2).mean() + 0.3 / 2 * (W**2).sum()
        assert one_vs_other_loss(W.ravel(), X, codes, np.full(4, 0.3))[0] == pytest.approx(expected)

    @pytest.mark.parametrize("lam", [1e-2, 1e-4])
    def test_seen_classifiers_are_squared_hinge_machines(self, task, lam):
        """One of the jointly fitted classifiers against scikit-learn's, at a well conditioned similarity."""
        expert = decided(lam=lam, rho=8.0).fit(task.X, task.y, task.table)
        X = task.X / np.linalg.norm(task.X, axis=1, keepdims=True)
        C = 1 / (lam * len(X) * len(task.seen))
        machine = LinearSVC(C=C, fit_intercept=False, dual=False, tol=1e-8, max_iter=10_000)
        single = machine.fit(X, task.y == task.seen[4]).coef_[0]
        found = expert.classifiers(task.table.loc[task.seen])[4]
        np.testing.assert_allclose(found, single, atol=1e-2 * np.abs(single).max())

    def test_mixtures_at_seen_classes_are_the_classifiers(self, task):
        """So ρ makes no difference there, as long as the similarities are well conditioned."""
        known = task.table.loc[task.seen]
        sharp, soft = (decided(rho=rho).fit(task.X, task.y, task.table) for rho in (30.0, 3.0))
        np.testing.assert_allclose(sharp.classifiers(known), soft.classifiers(known), atol=1e-8)
        np.testing.assert_allclose(sharp.classifiers(known), sharp.phantoms_, atol=1e-3)

    @pytest.mark.parametrize("centre", [True, False])
    def test_signatures_have_unit_median_distance(self, task, centre):
        expert = decided(centre=centre).fit(task.X, task.y, task.table * 7)
        gaps = np.linalg.norm(expert.signatures_[:, None] - expert.signatures_, axis=2)
        assert np.median(gaps[gaps > 1e-9]) == pytest.approx(1)
