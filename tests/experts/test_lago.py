"""LAGO: its formulas and gradients, and what it promises on a task with two groups of attributes."""

import logging

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from cosmo.data.splits import hold_out
from cosmo.experts import _and_or as and_or
from cosmo.experts import select
from cosmo.experts.lago import LAGO
from cosmo.metrics.accuracy import per_class_accuracy

VARIANTS = ("singletons", "semantic-hard", "semantic-soft", "k-soft")
EPOCHS = 30


def make(variant, **parameters):
    return LAGO(variant, **{"epochs": EPOCHS, "n_groups": 4, "batch_size": 32, **parameters})


@pytest.fixture(scope="module", params=VARIANTS)
def expert(request, task):
    return make(request.param).fit(task.X, task.y, task.table)


def accuracy(expert, task):
    guess = task.unseen[expert.scores(task.X_new, task.table.loc[task.unseen]).argmax(axis=1)]
    return per_class_accuracy(task.y_new, guess, task.unseen)


class Small:
    """Random weights and descriptions in float64, five attributes in two groups that do not lie together."""

    def __init__(self, variant, **parameters):
        rng = np.random.default_rng(3)
        self.expert = make(variant, n_groups=3, **parameters)
        self.columns = pd.MultiIndex.from_arrays([list("aabab"), range(5)])
        self.expert.columns_ = self.columns
        self.expert.percent_, self.expert.scale_ = False, np.float32(1)
        self.raw = rng.random((4, 5))
        self.u = self.expert._probabilities_of(self.raw)
        self.X, self.codes = rng.normal(size=(6, 3)), np.array([0, 3, 1, 1, 2, 0])
        start = self.expert._start(3, rng)
        V = None if start.V is None else start.V + rng.normal(size=start.V.shape)
        self.weights = and_or.Weights(rng.normal(size=(3, 5)), rng.normal(size=5), V)
        target = self.expert._semantic_gamma() if variant == "semantic-soft" else None
        self.parameters = {"weight_decay": 0.3, "class_decay": 0.2, "group_prior": 0.7}
        self.loss = and_or.Loss(self.u, gain=self.expert.gain, target=target, **self.parameters)

    def gamma(self):
        if self.weights.V is not None:
            powers = np.exp(self.expert.gain * self.weights.V)
            return powers / powers.sum(axis=1, keepdims=True)
        return np.eye(5) if self.expert.variant == "singletons" else np.eye(2)[[0, 0, 1, 0, 1]]

    def literal(self):
        """Return p(z|x) by the formulas, one number at a time."""
        u, gamma = self.raw.copy(), self.gamma()
        if self.expert.variant.startswith("semantic"):
            for z in range(4):
                for group in ([0, 1, 3], [2, 4]):
                    u[z, group] /= max(1, u[z, group].sum())
        prior = u.mean()
        p = np.ones((6, 4))
        for i in range(6):
            q = 1 / (1 + np.exp(-(self.X[i] @ self.weights.W + self.weights.b)))
            for z in range(4):
                for k in range(gamma.shape[1]):
                    present = sum(gamma[m, k] * u[z, m] / prior * q[m] for m in range(5))
                    none = np.prod([1 - u[z, m] * gamma[m, k] for m in range(5)])
                    background = np.prod([1 - prior * gamma[m, k] for m in range(5)])
                    p[i, z] *= present + none / background
        return p / p.sum(axis=1, keepdims=True)

    def full_loss(self):
        """Return the loss with all its penalties, the long way."""
        data = -np.log(self.literal()[np.arange(6), self.codes]).mean()
        W, b = self.weights.W, self.weights.b
        total = data + 0.3 * ((W**2).sum() + (b**2).sum()) + 0.2 * ((W @ self.u.T) ** 2).sum()
        if self.loss.target is not None:
            total += 0.7 * ((self.gamma() - self.loss.target) ** 2).sum()
        return total

    def numerical(self, array, eps=1e-6):
        gradient = np.empty_like(array)
        for at in np.ndindex(array.shape):
            value = array[at]
            array[at] = value + eps
            above = self.full_loss()
            array[at] = value - eps
            gradient[at] = (above - self.full_loss()) / (2 * eps)
            array[at] = value
        return gradient


@pytest.mark.parametrize("variant", VARIANTS)
class TestFormulas:
    def test_probabilities(self, variant):
        small = Small(variant)
        small.expert.weights_ = small.weights
        table = pd.DataFrame(small.raw, columns=small.columns)
        np.testing.assert_allclose(small.expert.predict_proba(small.X, table), small.literal(), rtol=1e-5)

    def test_gradients(self, variant):
        small = Small(variant)
        gates = small.expert._gates(small.u, small.weights)
        value, dW, db = small.loss.detectors(small.X, small.codes, gates, small.weights)
        assert value == pytest.approx(-np.log(small.literal()[np.arange(6), small.codes]).mean(), rel=1e-9)
        np.testing.assert_allclose(dW, small.numerical(small.weights.W), rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(db, small.numerical(small.weights.b), rtol=1e-6, atol=1e-8)
        if small.weights.V is not None:
            Q = small.weights.detect(small.X)
            again, dV = small.loss.grouping(Q, small.codes, small.weights.V)
            assert again == pytest.approx(value, rel=1e-9)
            np.testing.assert_allclose(dV, small.numerical(small.weights.V), rtol=1e-5, atol=1e-8)


def test_learns_combinations_far_above_chance(expert, task):
    assert accuracy(expert, task) > 0.6  # chance is 1/8


def test_probabilities_are_distributions_over_the_classes_asked_about(expert, task):
    for table in (task.table, task.table.loc[task.unseen], task.table.iloc[:3]):
        proba = expert.predict_proba(task.X_new, table)
        assert proba.dtype == np.float32
        np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)
        np.testing.assert_array_equal(np.exp(expert.scores(task.X_new, table)), proba)


def test_a_class_of_zeros_is_a_background_class(expert, task):
    table = pd.concat([task.table, pd.DataFrame([[0.0] * 10], index=["none"], columns=task.table.columns)])
    scores = expert.scores(task.X_new, table)
    assert np.isfinite(scores).all()
    assert (np.exp(scores[:, -1]) > 0).any()
    nothing = expert.predict_proba(task.X_new, table.iloc[[-1]])
    np.testing.assert_allclose(nothing, 1)


def test_percentages_are_divided_by_100(expert, task):
    percent = clone(expert).fit(task.X, task.y, 100 * task.table)
    np.testing.assert_allclose(
        percent.scores(task.X_new, 100 * task.table),
        expert.scores(task.X_new, task.table),
        rtol=1e-3,
        atol=1e-3,
    )
    with pytest.raises(ValueError, match="must be in 0..1, as those of the training; got 0 to 100"):
        expert.scores(task.X_new, 100 * task.table)


def test_scale_of_features_does_not_matter(expert, task):
    scaled = clone(expert).fit(task.X * 1024, task.y, task.table)
    np.testing.assert_allclose(
        scaled.predict_proba(task.X_new * 1024, task.table),
        expert.predict_proba(task.X_new, task.table),
        atol=1e-4,
    )


def test_values_of_a_group_are_normalised_in_semantic_variants_only():
    raw = np.array([[0.5, 0.5, 0.2, 1.0, 0.2]])
    hard, single = Small("semantic-hard").expert, Small("singletons").expert
    np.testing.assert_allclose(hard._probabilities_of(raw), [[0.25, 0.25, 0.2, 0.5, 0.2]])
    np.testing.assert_array_equal(single._probabilities_of(raw), raw)


@pytest.mark.parametrize("variant", ["semantic-hard", "semantic-soft"])
def test_epochs_are_chosen_on_held_out_classes(variant, task, caplog, monkeypatch):
    monkeypatch.setattr(LAGO, "grid", {"epochs": (1, 5, 20)})
    held = hold_out(task.y, seed=0)
    with caplog.at_level(logging.INFO, logger="cosmo"):
        chosen = select(make(variant, epochs=None), task.X, task.y, task.table, held)
    assert len(caplog.records) == 2  # after 10 and 20 epochs: one training serves all
    assert chosen.epochs in (5, 20)
    assert chosen.decided_ == {"epochs": chosen.epochs}
    again = select(clone(chosen), task.X, task.y, task.table, held)
    np.testing.assert_array_equal(again.scores(task.X_new, task.table), chosen.scores(task.X_new, task.table))


class TestInput:
    @pytest.mark.parametrize("value", [0.0, 1.0])
    @pytest.mark.parametrize("variant", VARIANTS)
    def test_descriptions_all_alike(self, variant, value, task):
        table = task.table * 0 + value
        expert = make(variant, epochs=3).fit(task.X, task.y, table)
        np.testing.assert_allclose(expert.predict_proba(task.X, table), 1 / len(table), rtol=1e-4)

    def test_columns_of_one_level(self, task):
        plain = task.table.droplevel(0, axis=1).set_axis(range(10), axis=1)
        for variant in ("semantic-hard", "semantic-soft"):
            with pytest.raises(ValueError, match="needs groups of attributes.*one level only.*'k-soft'"):
                make(variant).fit(task.X, task.y, plain)
        for variant in ("singletons", "k-soft"):
            make(variant, epochs=1).fit(task.X, task.y, plain)

    @pytest.mark.parametrize("change", [lambda t: t - 0.1, lambda t: t * 101, lambda t: -t])
    def test_not_probabilities(self, change, task):
        with pytest.raises(ValueError, match="values must be in 0..1 .or percentages in 0..100., got"):
            make("singletons").fit(task.X, task.y, change(task.table))

    def test_rows_of_unit_length(self, task):
        normalised = task.table / np.sqrt(2)
        with pytest.raises(ValueError, match="scaled to unit length.*original=True"):
            make("singletons").fit(task.X, task.y, normalised)

    def test_bad_parameters(self, task):
        with pytest.raises(ValueError, match="unknown variant 'hard'; choose from singletons, semantic-hard"):
            make("hard").fit(task.X, task.y, task.table)
        with pytest.raises(ValueError, match="epochs must be a whole number of at least 1, got 0"):
            make("singletons", epochs=0).fit(task.X, task.y, task.table)


class TestPrincipalAxes:
    @pytest.mark.parametrize("shape", [(60, 8), (8, 60)], ids=["tall", "wide"])
    def test_axes(self, shape):
        rng = np.random.default_rng(0)
        X = (rng.normal(size=shape) * np.linspace(1, 5, shape[1]) + 3).astype(np.float32)
        mean, axes = and_or.principal_axes(X, 5)
        Z = (X - mean) @ axes
        variances = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[:5][::-1] ** 2 / len(X)
        expected = np.diag(variances / (variances + 3 * variances.mean()))
        np.testing.assert_allclose(Z.T @ Z / len(X), expected, atol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_neutral_bias_prefers_classes_less_than_zero_does(variant):
    small = Small(variant)
    gates = small.expert._gates(small.u, small.weights)
    bias = and_or.neutral_bias(small.u, gates)
    odds = np.log(small.u.mean() / (1 - small.u.mean()))
    assert min(odds, 0) <= bias <= max(odds, 0)

    def spread(b):
        return np.log(gates(np.full((1, 5), 1 / (1 + np.exp(-b))))).sum(axis=1).std()

    assert spread(bias) <= min(spread(0), spread(odds)) + 1e-12


def test_average_weighs_late_steps_more():
    weights = and_or.Weights(np.zeros((1, 1), np.float32), np.zeros(1, np.float32), None)
    average = and_or.Average(weights)
    for value in (1, 2, 3):
        weights.W[:], weights.b[:] = value, -value
        average.update()
    # The t-th step has a share in proportion to t(t + 1)(t + 2): 6, 24, 60.
    expected = (6 * 1 + 24 * 2 + 60 * 3) / 90
    mean = average.weights()
    np.testing.assert_allclose([mean.W[0, 0], mean.b[0]], [expected, -expected], rtol=1e-6)


def test_training_ends_when_accuracy_no_longer_improves(task):
    def epochs(accuracies):
        done = []
        for candidate in make("semantic-hard", epochs=None)._candidates(task.X, codes, table):
            done.append(candidate.epochs)
            if len(done) <= len(accuracies):
                candidate.accuracy_ = accuracies[len(done) - 1]
        return done

    codes, table = np.searchsorted(task.seen, task.y), task.table.loc[task.seen]
    assert epochs([0.5, 0.6, 0.6, 0.5, 0.4]) == [1, 2, 3, 4, 5]
    assert epochs([]) == list(LAGO.grid["epochs"])


class TestPresets:
    @pytest.mark.parametrize("name", LAGO.presets)
    def test_constructs(self, name, task):
        expert = LAGO(**LAGO.presets[name])
        assert expert.open_parameters() == []
        assert name.split()[1] == expert.variant
        expert.set_params(epochs=1).fit(task.X, task.y, task.table)
