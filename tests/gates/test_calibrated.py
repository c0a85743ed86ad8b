import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from cosmo.gates.calibrated import CalibratedGate, domain_weights
from cosmo.metrics.accuracy import gate_auc
from cosmo.metrics.calibration import calibration
from cosmo.mixture.outputs import ExpertOutputs

N_SEEN, N_UNSEEN = 4, 3


def outputs(evidence, target, n_seen=N_SEEN):
    """Outputs of a gate's inputs; the probabilities do not matter."""
    seen = np.full((len(target), n_seen), 1 / n_seen)
    unseen = np.full((len(target), N_UNSEEN), 1 / N_UNSEEN)
    names = pd.RangeIndex(n_seen), pd.RangeIndex(n_seen, n_seen + N_UNSEEN)
    return ExpertOutputs(*names, seen, unseen, evidence=evidence, target=target)


def gaussian(n=400, seed=0, shift=0.0):
    """Two Gaussians, whose log-odds of "unseen" are `2 · input 1 - 2` at equal prior."""
    rng = np.random.default_rng(seed)
    target = np.r_[np.arange(n) % N_SEEN, N_SEEN + np.arange(n) % N_UNSEEN]
    evidence = rng.normal(size=(2 * n, 4))
    evidence[:, 1] += 2.0 * (target >= N_SEEN) + shift
    return outputs(evidence, target)


def true_score(out):
    return 2 - 2 * out.evidence[:, 1]


class TestScore:
    def test_recovers_the_log_odds_of_gaussians(self):
        gate, fresh = CalibratedGate(C=1000).fit(gaussian(4000)), gaussian(2000, seed=1)
        assert np.abs(gate.score(fresh) - true_score(fresh)).mean() < 0.15

    def test_is_calibrated(self):
        gate, fresh = CalibratedGate().fit(gaussian(1000)), gaussian(4000, seed=1)
        curve = calibration(expit(gate.score(fresh)), fresh.is_seen)
        assert curve.error < 0.03

    def test_is_at_equal_prior_whatever_the_numbers_of_samples(self):
        out = gaussian(4000)
        rows = np.flatnonzero(out.is_seen | (np.arange(len(out)) % 8 == 0))
        gate, fresh = CalibratedGate(C=1000).fit(out[rows]), gaussian(2000, seed=1)
        assert np.abs(gate.score(fresh) - true_score(fresh)).mean() < 0.25

    def test_is_linear_in_the_inputs(self):
        gate, out = CalibratedGate().fit(gaussian()), gaussian(seed=1)
        rows = (out.evidence - gate.mean_) / gate.spread_
        np.testing.assert_allclose(gate.score(out), -(rows @ gate.weights_ + gate.bias_))

    @given(st.floats(0.01, 100), st.floats(-50, 50))
    @settings(max_examples=20)
    def test_units_of_the_inputs_do_not_matter(self, unit, offset):
        out = gaussian(100)
        moved = outputs(out.evidence * [1, unit, 1, 1] + [0, offset, 0, 0], out.target)
        one, two = (CalibratedGate().fit(part).score(part) for part in (out, moved))
        np.testing.assert_allclose(one, two, atol=0.02)

    def test_another_number_of_classes(self):
        gate, out = CalibratedGate().fit(gaussian()), gaussian(seed=1)
        more = outputs(out.evidence, np.where(out.is_seen, out.target, out.target + 20), N_SEEN + 20)
        np.testing.assert_array_equal(gate.score(more), gate.score(out))

    @pytest.mark.parametrize("C", [0.02, 1.0])
    def test_is_a_weighted_logistic_regression(self, C):
        out = gaussian(60)
        gate = CalibratedGate(C=C).fit(out)
        rows, weights = (out.evidence - gate.mean_) / gate.spread_, 7 * domain_weights([out])
        truth = LogisticRegression(C=C, tol=1e-8).fit(rows, ~out.is_seen, sample_weight=weights)
        np.testing.assert_allclose(
            [*gate.weights_, gate.bias_], [*truth.coef_[0], *truth.intercept_], atol=2e-3
        )

    def test_a_shift_of_learned_classes_is_subtracted(self):
        gate, out = CalibratedGate().fit(gaussian()), gaussian(seed=1)
        shift = np.linspace(-1, 1, len(out))
        shifted = outputs(np.column_stack([out.evidence, shift]), out.target)
        np.testing.assert_allclose(gate.score(shifted), gate.score(out) - shift)


class TestWeights:
    def test_repeating_the_rows_of_a_class_changes_nothing(self):
        out = gaussian(60)
        again = np.repeat(np.arange(len(out)), np.where(np.isin(out.target, [1, N_SEEN + 2]), 5, 1))
        one, two = (CalibratedGate().fit(part) for part in (out, out[again]))
        np.testing.assert_allclose(one.weights_, two.weights_, atol=1e-4)
        np.testing.assert_allclose([*one.mean_, *one.spread_], [*two.mean_, *two.spread_])
        assert one.bias_ == pytest.approx(two.bias_, abs=1e-4)

    def test_each_class_and_each_domain_count_the_same(self):
        rng = np.random.default_rng(0)
        target = np.r_[np.arange(N_SEEN + N_UNSEEN), rng.integers(0, N_SEEN + N_UNSEEN, 50)]
        weights = domain_weights([outputs(None, target)])
        totals = np.bincount(target, weights=weights)
        np.testing.assert_allclose(totals, [1 / N_SEEN] * N_SEEN + [1 / N_UNSEEN] * N_UNSEEN)

    def test_pooled_rounds_count_the_same(self):
        parts = [outputs(None, np.repeat(np.arange(N_SEEN + N_UNSEEN), n)) for n in (1, 9)]
        weights = domain_weights(parts)
        assert weights.sum() == pytest.approx(2)
        assert weights[: len(parts[0])].sum() == pytest.approx(1)

    def test_several_rounds_are_pooled(self):
        out = gaussian()
        half = np.arange(len(out)) % 2 == 0
        one, two = CalibratedGate().fit(out), CalibratedGate().fit(out[half], out[~half])
        np.testing.assert_allclose(one.weights_, two.weights_, atol=0.02)
        assert two.bias_error_ == 0


class TestBias:
    @pytest.mark.parametrize("shift", [-1.5, 0.0, 0.4])
    def test_recovers_a_known_shift(self, shift):
        """An input that is larger by `shift` adds `2 · shift` to the log-odds, which the bias takes back."""
        gate = CalibratedGate(C=1000).fit(gaussian(4000))
        assert gate.bias_on([gaussian(4000, seed=1, shift=shift)]) == pytest.approx(-2 * shift, abs=0.15)

    def test_recovers_a_known_factor(self):
        """With half the weights, log-odds need the factor 2; a constant is added before it."""
        out = gaussian()
        gate = CalibratedGate(C=1e6).fit(out)
        gate.weights_, gate.bias_ = gate.weights_ / 2, gate.bias_ / 2 + 0.7
        np.testing.assert_allclose(gate.correction_on([out]), [np.log(2), -0.7], atol=0.01)

    def test_the_same_samples_with_another_bias(self):
        out = gaussian()
        gate = CalibratedGate().fit(out)
        gate.bias_ += 0.7
        assert gate.bias_on([out]) == pytest.approx(-0.7, abs=1e-3)

    def test_a_bias_leaves_the_factor_as_it_is(self):
        gate, out = CalibratedGate().fit(gaussian()), gaussian(seed=1)
        wide = outputs(out.evidence * np.where(out.is_seen, 1, 3)[:, None], out.target)
        bias = gate.bias_on([wide])
        p_unseen, weights = expit(bias - gate.score(wide)), domain_weights([wide])
        assert weights @ p_unseen == pytest.approx(weights @ ~wide.is_seen, abs=1e-3)  # the best bias alone
        assert abs(bias - gate.correction_on([wide])[1]) > 0.02

    @pytest.mark.parametrize(("shift", "factor"), [(-20, 1e-3), (20, 1e3)])
    def test_corrections_are_bounded(self, shift, factor):
        out = gaussian()
        gate = CalibratedGate(C=1e6).fit(out)
        gate.bias_ += shift
        assert gate.bias_on([out]) == pytest.approx(-8 * np.sign(shift))
        gate.bias_ -= shift
        gate.weights_, gate.bias_ = gate.weights_ * factor, gate.bias_ * factor
        assert gate.correction_on([out])[0] == pytest.approx(-np.sign(np.log(factor)))

    def test_none_on_the_training_rows(self):
        out = gaussian()
        assert CalibratedGate().fit(out).bias_on([out]) == pytest.approx(0, abs=1e-3)

    def test_one_domain_only(self):
        out = gaussian()
        gate = CalibratedGate().fit(out)
        with pytest.raises(ValueError, match="both seen and unseen"):
            gate.bias_on([out[out.is_seen]])


class TestConstantInputs:
    @pytest.mark.parametrize("value", [0.0, 12.0, 0.1, -1e6])
    def test_all(self, value):
        out = gaussian()
        constant = outputs(np.full_like(out.evidence, value), out.target)
        np.testing.assert_allclose(CalibratedGate().fit(constant).score(constant), 0, atol=1e-6)

    @pytest.mark.parametrize("value", [12.0, 0.1, -np.log(3)])
    def test_one_of_them_has_no_influence(self, value):
        """The means of equal numbers differ from them in the last digit, which must not be scaled up."""
        out = gaussian(101)
        evidence = out.evidence.copy()
        evidence[:, 0] = value
        gate = CalibratedGate().fit(outputs(evidence, out.target))
        plain = gate.score(outputs(evidence, out.target))
        evidence[:, 0] += 1
        np.testing.assert_allclose(gate.score(outputs(evidence, out.target)), plain, atol=1e-6)
        assert gate_auc(out.is_seen, plain) > 0.9

    @pytest.mark.parametrize(
        ("mean", "spread", "counts"), [(1e6, 0.5, False), (1e6, 2.0, True), (0, 1.5e-6, True)]
    )
    def test_spread_below_a_millionth_of_the_size_is_rounding(self, mean, spread, counts):
        out = gaussian(100)
        alternating = np.where(np.arange(len(out)) % 2, 1.0, -1.0)  # as often in every class
        evidence = np.column_stack([mean + spread * alternating, out.evidence[:, 1:]])
        found = CalibratedGate().fit(outputs(evidence, out.target)).spread_[0]
        assert found == pytest.approx(spread if counts else 1.0, rel=1e-3)


class TestBadInput:
    @pytest.mark.parametrize("C", [0, -1.0])
    def test_c_must_be_positive(self, C):
        with pytest.raises(ValueError, match=rf"^C must be positive, got {C}$"):
            CalibratedGate(C=C).fit(gaussian(20))

    def test_c_must_be_a_number(self):
        with pytest.raises(TypeError, match="C must be a number"):
            CalibratedGate(C="much").fit(gaussian(20))
        with pytest.raises(ValueError, match="C must be a number"):
            CalibratedGate(C=float("nan")).fit(gaussian(20))

    def test_missing_evidence(self):
        out = gaussian(20)
        bare = outputs(None, out.target)
        with pytest.raises(ValueError, match="CalibratedGate .* no evidence"):
            CalibratedGate().fit(bare)
        with pytest.raises(ValueError, match="CalibratedGate .* no evidence"):
            CalibratedGate().fit(out).score(bare)

    @pytest.mark.parametrize("value", [True, False])
    def test_one_domain_only(self, value):
        out = gaussian()
        with pytest.raises(ValueError, match="both seen and unseen classes"):
            CalibratedGate().fit(out[out.is_seen == value])


class TestEstimator:
    def test_defaults(self):
        assert CalibratedGate().get_params() == {"C": 10.0}
        assert CalibratedGate.log_odds
