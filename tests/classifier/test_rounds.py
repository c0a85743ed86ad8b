"""The calibrated method on the scores of hold-out rounds, and the rounds themselves."""

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config

from cosmo import Cosmo
from cosmo.classifier import _calibrate, _methods
from cosmo.classifier._calibrate import RoundScores, Scores, calibrate, fit_temperatures, pool
from cosmo.data.rounds import deployment_rounds
from cosmo.data.splits import hold_out
from cosmo.experts import ESZSL, SoftmaxRegression
from cosmo.experts.pair import fit_seen_expert
from cosmo.metrics.accuracy import gate_auc, harmonic_mean
from cosmo.metrics.calibration import calibration

N_SEEN, N_HELD = 12, 3
SIGNAL = 2.0  # of the true class, in standard deviations of the scores


def simulate(held, rng, rows=40):
    """Scores of a round in which experts favour the true class; half of the rows are unseen."""
    seen = np.setdiff1d(np.arange(N_SEEN), held)
    n = rows * len(held)
    target = np.r_[np.arange(n) % len(seen), len(seen) + np.arange(n) % len(held)]
    truth = np.eye(N_SEEN)[target]
    logits = 2 * SIGNAL * truth[:, : len(seen)] + rng.normal(size=(2 * n, len(seen)))
    scores = 0.1 * (SIGNAL * truth + rng.normal(size=truth.shape))
    return Scores(
        seen, held, logits.astype(np.float32), scores.astype(np.float32), target, np.ones(len(target))
    )


def simulated_rounds(seed, n_rounds=4):
    rng = np.random.default_rng(seed)
    turns = rng.permutation(N_SEEN).reshape(n_rounds, -1)
    return [RoundScores([simulate(np.sort(held), rng)], [], [], (9, 9), []) for held in turns]


def fitted(rounds):
    return calibrate(rounds, np.arange(N_SEEN))


def with_unseen(part, shift):
    """Return scores with a constant added to those of unseen classes."""
    scores = part.scores.copy()
    scores[:, len(part.seen) :] += shift
    return part._replace(scores=scores)


def with_noise(part, size):
    """Return outputs that tell the domains apart less well."""
    rng = np.random.default_rng(1)
    logits, scores = (
        values + size * values.std() * rng.normal(size=values.shape) for values in (part.logits, part.scores)
    )
    return part._replace(logits=logits.astype(np.float32), scores=scores.astype(np.float32))


class TestPool:
    @pytest.mark.parametrize("seed", [None, 0])
    def test_accuracies_are_those_of_the_rounds(self, seed):
        rounds = simulated_rounds(0)
        order = np.arange(N_SEEN) if seed is None else np.random.default_rng(seed).permutation(N_SEEN)
        mixture = fitted(rounds).mixture
        groups = [group for one in rounds for group in one.groups]
        outputs = [group.outputs(fit_temperatures(groups)) for group in groups]
        pooled = pool([mixture.summary(one) for one in outputs], groups, order)
        assert (pooled.n_seen, pooled.n_unseen) == (N_SEEN, N_SEEN)

        right = np.zeros((2, N_SEEN))
        rows = np.zeros((2, N_SEEN))
        for out in outputs:
            truth = out.classes.to_numpy()[out.target]
            as_seen = out.seen_classes.to_numpy()[out.seen.argmax(axis=1)]
            as_unseen = out.unseen_classes.to_numpy()[out.unseen.argmax(axis=1)]
            guess = np.where(mixture.takes_for_unseen(out), as_unseen, as_seen)
            for k, mask in enumerate((out.is_seen, ~out.is_seen)):
                np.add.at(right[k], truth[mask], guess[mask] == truth[mask])
                np.add.at(rows[k], truth[mask], 1)
        by_hand = right / rows

        hit = mixture.predict(pooled) == pooled.target
        found = np.array([hit[pooled.target == column].mean() for column in range(2 * N_SEEN)])
        np.testing.assert_allclose(found.reshape(2, -1)[:, order], by_hand)
        point = mixture.curve(pooled).at(mixture.operating_point_.threshold)
        assert point.acc_tr == pytest.approx(by_hand[0].mean())
        assert point.acc_ts == pytest.approx(by_hand[1].mean())
        assert 0.3 < by_hand.mean() < 1

    def test_classes_that_are_never_held_out_have_no_unseen_column(self):
        rounds = simulated_rounds(0)[:2]
        groups = [group for one in rounds for group in one.groups]
        pooled = fitted(rounds).validation
        assert (pooled.n_seen, pooled.n_unseen) == (N_SEEN, 2 * N_HELD)
        held = np.unique(np.concatenate([one.unseen for one in groups]))
        unseen = held[pooled.target[~pooled.is_seen] - N_SEEN]
        np.testing.assert_array_equal(
            unseen, np.concatenate([one.unseen[one.target[one.target >= 9] - 9] for one in groups])
        )


class TestCalibrate:
    def test_p_unseen_is_calibrated(self):
        found, rng = fitted(simulated_rounds(0)), np.random.default_rng(1)
        mixture = found.mixture.expect_share(0.5)
        fresh = [simulate(np.arange(k, k + N_HELD), rng, rows=200) for k in range(9)]
        outputs = [part.outputs(found.temperatures) for part in fresh]
        belief = np.concatenate([mixture.belief(out) for out in outputs])
        is_seen = np.concatenate([out.is_seen for out in outputs])
        assert gate_auc(is_seen, -belief) > 0.8
        assert calibration(belief, ~is_seen).error < 0.04

    def test_class_probabilities_are_calibrated(self):
        found, rng = fitted(simulated_rounds(0)), np.random.default_rng(1)
        mixture = found.mixture.expect_share(0.5)
        fresh = [simulate(np.arange(k, k + N_HELD), rng, rows=200) for k in range(9)]
        best, right = [], []
        for part in fresh:
            scores = mixture.scores(part.outputs(found.temperatures))
            best.append(scores.max(axis=1) / scores.sum(axis=1))
            right.append(scores.argmax(axis=1) == part.target)
        assert calibration(np.concatenate(best), np.concatenate(right)).error < 0.05

    def test_the_point_is_the_best_in_the_mean_over_errors_of_the_bias(self):
        mixture, validation = fitted(simulated_rounds(0))[1:]
        curve, best = mixture.curve(validation), mixture.validation_point_

        def expected(threshold):
            moved = np.linspace(-4, 4, 81) * mixture.bias_error
            ts, tr, _ = curve.sample(threshold + moved)
            weights = np.exp(-((np.linspace(-4, 4, 81) / 2) ** 2) / 2)
            return harmonic_mean(np.average(ts, weights=weights), np.average(tr, weights=weights))

        assert mixture.bias_error > 0
        assert expected(best.threshold) > max(expected(best.threshold + k) for k in (-1, -0.5, 0.5, 1))
        mixture.gate_.bias_error_ = 0.0
        assert mixture.operate_at(validation).validation_point_ == curve.best()
        assert mixture.operating_point_.softness == 1

    def test_the_unit_of_scores_does_not_matter(self):
        rounds = simulated_rounds(0)
        scaled = [
            one._replace(groups=[part._replace(scores=100 * part.scores) for part in one.groups])
            for one in rounds
        ]
        one, two = fitted(rounds), fitted(scaled)
        assert two.temperatures.unseen == pytest.approx(100 * one.temperatures.unseen, rel=1e-2)
        np.testing.assert_allclose(one.validation.gate_score, two.validation.gate_score, atol=0.05)

    def test_the_bias_error_is_the_spread_between_rounds(self):
        """Rounds whose unseen classes have other scores by a constant need another bias."""
        rounds = simulated_rounds(0)
        shifts = (-0.2, 0.2, -0.2, 0.2)
        differing = [
            one._replace(groups=[with_unseen(part, shift) for part in one.groups])
            for one, shift in zip(rounds, shifts, strict=True)
        ]
        errors = [fitted(part).mixture.bias_error for part in (rounds, differing)]
        assert errors[1] > 2 * errors[0]


class TestTrend:
    @staticmethod
    def rounds(shift, n_classes=(9, 10)):
        return [
            one._replace(
                before=one.groups, after=[with_unseen(g, shift) for g in one.groups], n_classes=n_classes
            )
            for one in simulated_rounds(0)
        ]

    @pytest.mark.parametrize("shift", [-0.1, 0.1])
    def test_a_known_change_of_scores_is_extrapolated(self, shift):
        """If unseen classes gain with more training classes, the bias for "unseen" falls."""
        plain, moved = fitted(simulated_rounds(0)), fitted(self.rounds(shift))
        gate = plain.mixture.gate_
        slope = (gate.weights_ / gate.spread_)[1:3].sum() / plain.temperatures.gate
        factor = (1 / 9 - 1 / 12) / (1 / 9 - 1 / 10)
        change = moved.mixture.gate_.bias_ - gate.bias_
        assert np.sign(change) == -np.sign(shift)
        assert change == pytest.approx(-factor * shift * slope, rel=0.01)
        assert moved.mixture.bias_error >= abs(change) / 2

    def test_a_known_change_of_the_slope_counts_as_measured(self):
        """Where experts with more training classes tell domains apart less, log-odds become smaller."""
        plain, noisy = (
            [
                one._replace(
                    before=one.groups, after=[with_noise(g, size) for g in one.groups], n_classes=(9, 10)
                )
                for one in simulated_rounds(0)
            ]
            for size in (0.0, 0.5)
        )
        weights = [fitted(rounds).mixture.gate_.weights_ for rounds in (plain, noisy)]
        factor = weights[1] / weights[0]
        np.testing.assert_allclose(factor, factor[0])
        assert 0.3 < factor[0] < 0.8

    def test_the_validation_outputs_are_those_of_the_rounds(self):
        plain, moved = fitted(simulated_rounds(0)), fitted(self.rounds(0.1))
        np.testing.assert_array_equal(plain.validation.gate_score, moved.validation.gate_score)

    def test_the_same_number_of_training_classes_says_nothing(self):
        plain, moved = fitted(simulated_rounds(0)), fitted(self.rounds(0.1, (9, 9)))
        assert moved.mixture.gate_.bias_ == plain.mixture.gate_.bias_

    @pytest.mark.parametrize(("fewest", "larger"), [(5, False), (N_HELD, True)])
    def test_the_temperature_changes_only_if_enough_classes_are_offered(self, monkeypatch, fewest, larger):
        monkeypatch.setattr(_calibrate, "_FEWEST", fewest)
        sharper = [
            one._replace(after=[part._replace(scores=2 * part.scores) for part in one.after])
            for one in self.rounds(0.0)
        ]
        plain, moved = fitted(simulated_rounds(0)).temperatures, fitted(sharper).temperatures
        assert moved.gate == plain.gate
        assert moved.seen == plain.seen
        factor = (1 / 9 - 1 / 12) / (1 / 9 - 1 / 10)
        assert moved.unseen / plain.unseen == pytest.approx(2**factor if larger else 1, rel=0.01)


@pytest.fixture(scope="module")
def task():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.random((16, 8)), index=[f"class {k}" for k in range(16)])
    y = np.repeat(table.index[:12], 10)
    X = table.loc[y].to_numpy() @ rng.normal(size=(8, 20)) + 0.3 * rng.normal(size=(len(y), 20))
    return table, X.astype(np.float32), y


class TestFit:
    @staticmethod
    def fit(task, **options):
        table, X, y = task
        return Cosmo(table, **{"unseen": ESZSL(1.0, 1.0, temperature=0.1), **options}).fit(X, y)

    @staticmethod
    def same(one, two):
        gates = one.combination_.gate_, two.combination_.gate_
        return (
            one.operating_point_ == two.operating_point_
            and one.experts_.temperatures == two.experts_.temperatures
            and np.array_equal(gates[0].weights_, gates[1].weights_)
            and gates[0].bias_ == gates[1].bias_
        )

    def test_rounds_at_the_same_time_give_the_same_model(self, task):
        with parallel_config(backend="threading"):  # Processes would take seconds to start.
            assert self.same(self.fit(task), self.fit(task, n_jobs=2))

    def test_number_of_rounds(self, task, monkeypatch):
        drawn = []

        def record(*args, **options):
            drawn.append(deployment_rounds(*args, **options))
            return drawn[-1]

        class SlowESZSL(ESZSL):
            slow: ClassVar[bool] = True

        monkeypatch.setattr(_methods, "deployment_rounds", record)
        self.fit(task)
        self.fit(task, rounds=2)
        self.fit(task, unseen=SlowESZSL(1.0, 1.0, temperature=0.1), rounds=3)
        assert [len(rounds) for rounds in drawn] == [4, 2, 3]
        assert [bool(rounds[0].halves) for rounds in drawn] == [True, True, False]

    def test_the_seen_expert_is_cross_fitted_beside_slow_experts(self, task, monkeypatch):
        """On no row that it is scored on, and on nearly as many rows as in the end."""
        _, rows, y = task
        held, codes = hold_out(y, rows=0.5, seed=0), np.unique(y, return_inverse=True)[1]
        fitted = []

        def spy(seen, X, codes):
            fitted.append(X)
            return fit_seen_expert(seen, X, codes)

        monkeypatch.setattr(_methods, "fit_seen_expert", spy)
        found = _methods._held_out(SoftmaxRegression(), rows, codes, held, folds=3)
        assert all(
            len(X) == pytest.approx(len(held.seen_train) + 2 / 3 * len(held.seen_val), abs=1) for X in fitted
        )
        scored = [(rows[held.seen_val][:, None] == X[None]).all(axis=2).any(axis=1) for X in fitted]
        assert (np.sum(scored, axis=0) == 2).all()
        seen = np.isin(found.target, found.known)
        assert (found.known[found.logits.argmax(axis=1)] == found.target)[seen].mean() > 0.9

    @pytest.mark.parametrize("temperature", [0.1, None])
    def test_slow_experts_are_fitted_twice(self, task, monkeypatch, temperature):
        """On the hold-out, where their parameters are chosen, and on all rows."""
        fits, calibrated = [], []

        class SlowESZSL(ESZSL):
            slow: ClassVar[bool] = True

            def _fit(self, X, codes, attributes, **decided):
                fits.append(len(attributes))
                super()._fit(X, codes, attributes, **decided)

            def _candidates(self, X, codes, table):
                fits.append(len(table))
                return super()._candidates(X, codes, table)

        def record(rounds, columns):
            calibrated.extend(rounds)
            return calibrate(rounds, columns)

        monkeypatch.setattr(_methods, "calibrate", record)
        model = self.fit(task, unseen=SlowESZSL(1.0, 1.0, temperature=temperature))
        assert fits == [8, 12]
        # 4 of 12 classes are held out; beside 8 others, 3 are in the proportion of the task.
        assert [len(one.groups[0].unseen) for one in calibrated] == [3, 3]
        validation, temperatures = model.validation_outputs_, model.experts_.temperatures
        assert (validation.n_seen, validation.n_unseen) == (8, 4)
        assert temperatures.unseen == temperatures.gate
        assert model.predict_proba(task[1]).shape == (120, 16)

    def test_validation_has_every_class_in_both_roles(self, task):
        model = self.fit(task)
        validation = model.validation_outputs_
        assert (validation.n_seen, validation.n_unseen) == (12, 12)
        assert np.unique(validation.target).tolist() == list(range(24))
