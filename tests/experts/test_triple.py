"""TRIPLE: what it minimises, and that the minimum is exact."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from cosmo.data.splits import hold_out
from cosmo.experts import select
from cosmo.experts.triple import TRIPLE
from cosmo.metrics.accuracy import per_class_accuracy


def decided(**parameters):
    return TRIPLE(**{"alpha": 0.1, "beta": 1.0, "rho": 1e-3, "temperature": 0.1, **parameters})


def unit(values):
    return values / np.linalg.norm(values, axis=1, keepdims=True)


def matrices(task, X, y, centre=True):
    """X, A, A_Y and Y as in the docstring, in double precision."""
    seen = task.table.loc[sorted(set(y))]
    A = seen.to_numpy() - (seen.to_numpy().mean(axis=0) if centre else 0)
    Y = (np.asarray(y)[:, None] == seen.index.to_numpy()).astype(float)
    A = unit(A)
    return unit(X.astype(np.float64)), A, Y @ A, Y


@pytest.fixture(scope="module")
def uneven(task):
    """Rows of the task with a different number of each class."""
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(len(task.y))[: len(task.y) * 2 // 3])
    return task.X[rows], task.y[rows]


class TestSolution:
    @pytest.mark.parametrize("centre", [True, False])
    @pytest.mark.parametrize(("alpha", "beta", "rho"), [(0.1, 1.0, 1e-2), (3.0, 0.2, 0.1), (0.0, 0.0, 1.0)])
    def test_gradient_vanishes(self, task, uneven, centre, alpha, beta, rho):
        """Against the derivative of each term, written out."""
        expert = decided(alpha=alpha, beta=beta, rho=rho, centre=centre).fit(*uneven, task.table)
        X, A, A_Y, Y = matrices(task, *uneven, centre=centre)
        P = expert.weights_.astype(np.float64)
        terms = [
            X.T @ (X @ P - A_Y) / len(X),
            alpha * (A_Y @ P.T - X).T @ A_Y / len(X),
            beta * X.T @ (X @ P @ A.T - Y) @ A / len(X),
            rho * P,
        ]
        assert abs(sum(terms)).max() < 1e-5 * max(abs(term).max() for term in terms)

    def test_is_the_minimum(self, task, uneven):
        X, A, A_Y, Y = matrices(task, *uneven)

        def loss(P):
            fits = (X @ P - A_Y, 0.1**0.5 * (A_Y @ P.T - X), X @ P @ A.T - Y)
            return sum((fit**2).sum() for fit in fits) / len(X) + 1e-3 * (P**2).sum()

        P = decided().fit(*uneven, task.table).weights_.astype(np.float64)
        rng = np.random.default_rng(0)
        assert all(loss(P + 0.05 * rng.normal(size=P.shape)) > loss(P) for _ in range(20))

    def test_scores(self, task):
        expert = decided().fit(task.X, task.y, task.table)
        mean = task.table.loc[task.seen].to_numpy().mean(axis=0)
        expected = unit(task.X_new) @ expert.weights_ @ unit(task.table.to_numpy() - mean).T
        np.testing.assert_allclose(expert.scores(task.X_new, task.table), expected, atol=1e-5)

    def test_the_number_of_rows_does_not_matter(self, task):
        """The losses are means, so doubling the data changes nothing."""
        once = decided().fit(task.X, task.y, task.table)
        twice = decided().fit(np.tile(task.X, (2, 1)), np.tile(task.y, 2), task.table)
        np.testing.assert_allclose(twice.weights_, once.weights_, rtol=1e-3, atol=1e-4)

    def test_more_attributes_than_classes(self, task):
        wide = pd.concat([task.table, task.table**2, 1 - task.table], axis=1, keys=list("abc"))
        wide.columns = range(30)
        expert = decided().fit(task.X, task.y, wide)
        guess = task.unseen[expert.scores(task.X_new, wide.loc[task.unseen]).argmax(axis=1)]
        assert per_class_accuracy(task.y_new, guess, task.unseen) > 0.6


class TestSelection:
    def test_candidates_agree_with_single_fits(self, task):
        held = hold_out(task.y, seed=0)
        chosen = select(TRIPLE(), task.X, task.y, task.table.loc[task.seen], held)
        assert chosen.open_parameters() == []
        single = clone(chosen).fit(task.X[held.seen_train], task.y[held.seen_train], task.table)
        np.testing.assert_allclose(single.weights_, chosen.weights_, rtol=1e-4, atol=1e-5)

    def test_keeps_what_is_given(self, task):
        held = hold_out(task.y, seed=0)
        chosen = select(TRIPLE(beta=0.7), task.X, task.y, task.table.loc[task.seen], held)
        assert chosen.beta == 0.7
        assert chosen.alpha in TRIPLE.grid["alpha"]
        assert chosen.rho in TRIPLE.grid["rho"]

    def test_learns_combinations_far_above_chance(self, task):
        expert = TRIPLE().fit(task.X, task.y, task.table)
        guess = task.unseen[expert.scores(task.X_new, task.table.loc[task.unseen]).argmax(axis=1)]
        assert per_class_accuracy(task.y_new, guess, task.unseen) > 0.6  # chance is 1/8


class TestInput:
    def test_a_class_like_the_mean_is_scored(self, task):
        expert = decided().fit(task.X, task.y, task.table)
        mean = task.table.loc[task.seen].mean().to_frame("mean").T
        assert np.isfinite(expert.scores(task.X_new, mean)).all()

    @pytest.mark.parametrize(("name", "value"), [("alpha", -1.0), ("beta", np.nan), ("rho", 0.0)])
    def test_parameter_errors(self, task, name, value):
        with pytest.raises(ValueError, match=f"{name} must"):
            decided(**{name: value}).fit(task.X, task.y, task.table)
