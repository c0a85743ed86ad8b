"""The battery accepts what `Cosmo` can use and names what is wrong with the rest."""

import numpy as np
import pytest
from compositional import Task
from sklearn.base import BaseEstimator

from cosmo.experts import ESZSL, LAGO, UnseenExpert
from cosmo.gates import GATES, Gate, make_gate
from cosmo.testing import check_gate, check_unseen_expert


class Ridge:
    """Not a subclass of anything."""

    def fit(self, X, y, descriptions):
        gram = X.T @ X + np.eye(X.shape[1])
        self.weights = np.linalg.solve(gram, X.T @ descriptions.loc[y].to_numpy())

    def scores(self, X, descriptions):
        return X @ self.weights @ descriptions.to_numpy().T


class Subclass(UnseenExpert):
    """With the two methods of the contract only."""

    fit, scores = Ridge.fit, Ridge.scores


class WrongShape(Ridge):
    def scores(self, X, descriptions):
        return super().scores(X, descriptions).T


class OneTable(Ridge):
    """Learns its classes at fit."""

    def fit(self, X, y, descriptions):
        super().fit(X, y, descriptions)
        self.table = descriptions

    def scores(self, X, descriptions):
        return super().scores(X, self.table)[:, : len(descriptions)]


class Batch(Ridge):
    def scores(self, X, descriptions):
        return super().scores(X - X.mean(axis=0), descriptions)


class Changes(Ridge):
    def fit(self, X, y, descriptions):
        super().fit(X, y, descriptions)
        X *= 2


class Remembers(Ridge):
    total = 0

    def fit(self, X, y, descriptions):
        super().fit(X, y, descriptions)
        self.total = self.weights = self.total + self.weights


class NotFinite(Ridge):
    def scores(self, X, descriptions):
        return np.log(super().scores(X, descriptions) * 0)


class Lambda(Ridge):
    def fit(self, X, y, descriptions):
        super().fit(X, y, descriptions)
        self.function = lambda: 0


@pytest.mark.parametrize("expert", [Ridge(), Subclass(), ESZSL()])
def test_accepts_experts(expert):
    check_unseen_expert(expert)


def test_takes_samples_of_another_kind():
    task = Task()
    check_unseen_expert(LAGO(epochs=2), task.X, task.y, task.table.loc[task.seen])


@pytest.mark.parametrize(
    ("expert", "rule"),
    [
        (WrongShape(), "a row for each sample and a column for each class"),
        (OneTable(), "in its order"),
        (Batch(), "does not depend on the other samples"),
        (Changes(), "leave X, y and the descriptions unchanged"),
        (Remembers(), "a second fit forgets the first"),
        (NotFinite(), "finite"),
    ],
)
def test_names_what_is_wrong_with_an_expert(expert, rule):
    with np.errstate(all="ignore"), pytest.raises(AssertionError, match=rule):
        check_unseen_expert(expert)


def test_experts_must_be_picklable_and_have_both_methods():
    with pytest.raises(AttributeError, match="pickle"):
        check_unseen_expert(Lambda())
    with pytest.raises(TypeError, match=r"dict has no fit and no scores"):
        check_unseen_expert({})


@pytest.mark.parametrize("name", sorted(set(GATES) - {"novelty"}))  # needs an expert that detects novelty
def test_accepts_gates(name):
    check_gate(make_gate(name))


class Backwards(Gate):
    def fit(self, *outputs):
        return self

    def score(self, outputs):
        return 1 - outputs.seen.max(axis=1)


class FirstClass(Backwards):
    def score(self, outputs):
        return outputs.seen.max(axis=1) - 0.1 * outputs.seen[:, 0]


class Rank(Backwards):
    def score(self, outputs):
        return outputs.seen.max(axis=1).argsort().argsort().astype(float)


class ClassNames(BaseEstimator):
    fit, score = Backwards.fit, Backwards.score


@pytest.mark.parametrize(
    ("gate", "rule"),
    [
        (Backwards(), "larger scores than others"),
        (FirstClass(), "order of classes"),
        (Rank(), "does not depend on the other samples"),
        (ClassNames(), "a subclass of cosmo.gates.Gate"),
    ],
)
def test_names_what_is_wrong_with_a_gate(gate, rule):
    with pytest.raises(AssertionError, match=rule):
        check_gate(gate)
