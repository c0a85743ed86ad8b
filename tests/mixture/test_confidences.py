import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, logsumexp, softmax

from cosmo.mixture.confidences import (
    CONFIDENCES,
    Temperatures,
    calibrated,
    pooled_temperature,
    support,
    with_samples,
)

temperatures = st.builds(Temperatures, *[st.floats(0.1, 10)] * 3, st.floats(0, 1))
seeds = st.integers(0, 10_000)


def draw(seed, n_seen, n_unseen, n=6):
    rng = np.random.default_rng(seed)
    return 3 * rng.normal(size=(n, n_seen)), 2 * rng.normal(size=(n, n_seen + n_unseen))


class TestCalibrated:
    @given(seeds, st.integers(2, 7), st.integers(1, 7), temperatures)
    def test_against_the_formulas(self, seed, n_seen, n_unseen, t):
        logits, scores = draw(seed, n_seen, n_unseen)
        seen, unseen, confidences = calibrated(logits, scores, t)
        np.testing.assert_allclose(seen, softmax(logits / t.seen, axis=1), atol=1e-12)
        sharp, wide = (softmax(scores[:, n_seen:] / (k * t.unseen), axis=1) for k in (1, 2))
        np.testing.assert_allclose(unseen, (1 - t.flat) * sharp + t.flat * wide, atol=1e-12)

        logs = log_softmax(logits / t.seen, axis=1)
        choice = logs.argmax(axis=1)
        others = [logsumexp(np.delete(row, best)) for row, best in zip(logs, choice, strict=True)]
        s, u = scores[:, :n_seen] / t.gate, scores[:, n_seen:] / t.gate

        def log_mean(values):
            return logsumexp(values, axis=1) - np.log(values.shape[1])

        expected = [
            np.minimum(logs.max(axis=1) - others, 12),
            u.max(axis=1) - s.max(axis=1),
            log_mean(u) - log_mean(s),
            s.max(axis=1) - s[np.arange(len(s)), choice],
        ]
        np.testing.assert_allclose(confidences, np.column_stack(expected), rtol=1e-6, atol=1e-9)
        assert confidences.shape[1] == len(CONFIDENCES)

    @given(seeds, st.integers(1, 9), st.integers(1, 9), temperatures)
    def test_rows_of_single_precision_sum_to_one(self, seed, n_seen, n_unseen, t):
        logits, scores = (part.astype(np.float32) for part in draw(seed, n_seen, n_unseen))
        seen, unseen, confidences = calibrated(logits, scores, t)
        assert seen.dtype == unseen.dtype == np.float32
        assert confidences.dtype == np.float64
        for part in (seen, unseen):
            assert part.min() >= 0
            np.testing.assert_allclose(part.sum(axis=1), 1, rtol=1e-5)

    @given(seeds, st.floats(-50, 50), temperatures)
    def test_a_constant_added_to_all_scores_changes_nothing(self, seed, constant, t):
        logits, scores = draw(seed, 5, 3)
        plain, moved = calibrated(logits, scores, t), calibrated(logits + 1, scores + constant, t)
        for one, other in zip(plain, moved, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)

    @given(seeds, st.integers(2, 5), temperatures)
    def test_duplicates_of_all_classes_change_no_comparison_of_domains(self, seed, times, t):
        logits, scores = draw(seed, 4, 3)
        both = [np.tile(part, times) for part in (scores[:, :4], scores[:, 4:])]
        plain = calibrated(logits, scores, t)[2]
        many = calibrated(np.tile(logits, times), np.hstack(both), t)[2]
        np.testing.assert_allclose(many[:, 1:], plain[:, 1:], atol=1e-9)
        assert (many[:, 0] < plain[:, 0]).all()  # A copy of the best class is as probable as itself.

    def test_more_unseen_classes_like_the_others_leave_the_log_mean(self):
        logits, scores = draw(0, 4, 3)
        more = np.hstack([scores, scores[:, 4:]])
        plain, other = (calibrated(logits, s, Temperatures(1, 1, 1))[2] for s in (scores, more))
        np.testing.assert_allclose(other, plain)

    def test_the_input_is_left_alone(self):
        logits, scores = draw(0, 4, 3)
        before = logits.copy(), scores.copy()
        calibrated(logits, scores, Temperatures(0.5, 2.0, 3.0))
        np.testing.assert_array_equal(logits, before[0])
        np.testing.assert_array_equal(scores, before[1])

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("value", [0.0, -1e6, 1e6])
    def test_constant_scores(self, value, dtype):
        logits, scores = np.full((2, 4), value, dtype), np.full((2, 7), value, dtype)
        seen, unseen, confidences = calibrated(logits, scores, Temperatures(0.01, 0.1, 3.0))
        np.testing.assert_allclose(seen, 1 / 4, rtol=1e-6)
        np.testing.assert_allclose(unseen, 1 / 3, rtol=1e-6)
        np.testing.assert_allclose(confidences, [[-np.log(3), 0, 0, 0]] * 2, atol=1e-6)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_one_seen_and_one_unseen_class(self, dtype):
        logits, scores = np.zeros((2, 1), dtype), np.array([[1, 3], [2, -1]], dtype)
        seen, unseen, confidences = calibrated(logits, scores, Temperatures(1.0, 1.0, 2.0))
        np.testing.assert_array_equal(seen, [[1], [1]])
        np.testing.assert_array_equal(unseen, [[1], [1]])
        np.testing.assert_allclose(confidences, [[12, 1, 1, 0], [12, -1.5, -1.5, 0]], rtol=1e-6)

    def test_sure_experts_are_finite(self):
        logits = np.array([[5000.0, 0.0], [0.0, -5000.0]], np.float32)
        scores = np.array([[4000.0, 0.0, -4000.0], [0.0, -9000.0, 9000.0]], np.float32)
        seen, unseen, confidences = calibrated(logits, scores, Temperatures(0.1, 0.1, 0.1))
        np.testing.assert_array_equal(seen, [[1, 0], [1, 0]])
        np.testing.assert_array_equal(unseen, [[1], [1]])
        assert np.isfinite(confidences).all()
        np.testing.assert_allclose(confidences[:, 0], 12)


def labelled(temperature, n, n_classes, rng):
    """Scores, and true classes that follow their soft-max at a temperature."""
    scores = 3 * rng.normal(size=(n, n_classes))
    proba = softmax(scores / temperature, axis=1)
    target = (proba.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return scores, target, np.ones(n)


class TestPooledTemperature:
    @pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
    def test_recovers_the_temperature_of_simulated_labels(self, temperature):
        rng = np.random.default_rng(0)
        blocks = [labelled(temperature, 3000, n_classes, rng) for n_classes in (2, 5, 20)]
        assert pooled_temperature(blocks) == pytest.approx(temperature, rel=0.05)

    @settings(max_examples=30)
    @given(seeds, st.floats(1e-6, 1e6))
    def test_has_the_unit_of_the_scores(self, seed, unit):
        scores, target, weights = labelled(1.5, 200, 4, np.random.default_rng(seed))
        plain = pooled_temperature([(scores, target, weights)])
        assert pooled_temperature([(unit * scores, target, weights)]) == pytest.approx(unit * plain, rel=2e-3)

    def test_weights_are_repetitions(self):
        rng = np.random.default_rng(1)
        scores, target, _ = labelled(2.0, 300, 4, rng)
        times = rng.integers(0, 4, 300)
        repeated = np.repeat(scores, times, axis=0), np.repeat(target, times), np.ones(times.sum())
        weighted = pooled_temperature([(scores, target, times.astype(float))])
        assert weighted == pytest.approx(pooled_temperature([repeated]), rel=2e-3)
        assert weighted != pytest.approx(pooled_temperature([(scores, target, np.ones(300))]), rel=2e-3)

    def test_blocks_are_pooled(self):
        rng = np.random.default_rng(2)
        sharp, flat = labelled(0.5, 500, 4, rng), labelled(5.0, 500, 4, rng)
        apart = pooled_temperature([sharp]), pooled_temperature([flat])
        together = pooled_temperature([sharp, flat])
        assert apart[0] < together < apart[1]
        rows = (np.concatenate(parts) for parts in zip(sharp, flat, strict=True))
        assert together == pytest.approx(pooled_temperature([tuple(rows)]), rel=2e-3)

    def test_an_empty_block_changes_nothing(self):
        block = labelled(2.0, 300, 4, np.random.default_rng(3))
        empty = np.empty((0, 7)), np.empty(0, int), np.empty(0)
        assert pooled_temperature([empty, block]) == pooled_temperature([block])

    @pytest.mark.parametrize("scores", [np.zeros((6, 3)), np.full((6, 3), 7.0), np.arange(6.0)[:, None]])
    def test_scores_that_say_nothing_leave_the_temperature_at_one(self, scores):
        """Every temperature is equally likely: equal scores, or one class only."""
        target = np.arange(6) % scores.shape[1]
        assert pooled_temperature([(scores, target, np.ones(6))]) == 1

    def test_half_a_sample_of_a_random_class_counts(self):
        """Four right samples of two classes whose scores differ by 1: p = (4 + 1/4) / (4 + 1/2) = 17/18."""
        scores = np.tile([1.0, 0.0], (4, 1))
        found = pooled_temperature([(scores, np.zeros(4, int), np.ones(4))])
        assert found == pytest.approx(1 / np.log(17), rel=1e-3)

    def test_more_random_samples_can_be_asked_for(self):
        """Half as many as the four: p = (4 + 1) / (4 + 2); a tenth is less than the half sample."""
        block = np.tile([1.0, 0.0], (4, 1)), np.zeros(4, int), np.ones(4)
        assert pooled_temperature([block], 0.1) == pytest.approx(pooled_temperature([block]))
        assert pooled_temperature([block], 0.5) == pytest.approx(1 / np.log(5), rel=1e-3)

    def test_a_wide_part_is_fitted_with_a_smaller_temperature(self):
        scores, target, weights = labelled(1.0, 3000, 5, np.random.default_rng(0))
        _, others, _ = labelled(2.0, 3000, 5, np.random.default_rng(0))
        target = np.where(np.arange(3000) % 10 < 3, others, target)
        assert pooled_temperature([(scores, target, weights)], flat=0.3) == pytest.approx(1, rel=0.05)
        assert pooled_temperature([(scores, target, weights)]) > 1.1

    def test_single_precision(self):
        scores, target, weights = labelled(2.0, 300, 4, np.random.default_rng(4))
        single = pooled_temperature([(scores.astype(np.float32), target, weights)])
        assert single == pytest.approx(pooled_temperature([(scores, target, weights)]), rel=1e-3)


class TestWithSamples:
    @staticmethod
    def parts(n_trained=3, n_promoted=2, n_unseen=4, n=50):
        rng = np.random.default_rng(0)
        trained, others = (rng.dirichlet(np.ones(k), n) for k in (n_trained, n_promoted + n_unseen))
        return trained, others, rng.normal(size=n), rng.normal(size=(n, n_trained + n_promoted))

    def test_masses_are_changed_and_moved(self):
        trained, others, log_odds, change = self.parts()
        seen, unseen, shift = with_samples(trained, others, log_odds, change)
        u = 1 / (1 + np.exp(-(log_odds + shift)))
        result = np.hstack([seen * (1 - u)[:, None], unseen * u[:, None]])
        expected = np.hstack([trained, np.exp(log_odds)[:, None] * others])
        expected[:, :5] *= np.exp(change)
        np.testing.assert_allclose(result, expected / expected.sum(axis=1, keepdims=True))
        np.testing.assert_allclose(seen.sum(axis=1), 1)
        np.testing.assert_allclose(unseen.sum(axis=1), 1)

    def test_certainty_stays_finite(self):
        trained, others, log_odds, change = self.parts()
        trained[:], others[:] = [1, 0, 0], [1, 0, 0, 0, 0, 0]
        for far, best in ((1000, 3), (-1000, 0)):
            parts = with_samples(trained.astype(np.float32), others, log_odds + far, change)
            assert all(np.isfinite(part).all() for part in parts)
            assert (parts[0].argmax(axis=1) == best).all()


def test_support_is_the_best_of_each_expert_and_the_distance():
    logits, scores = np.float32([[1, 3], [4, 2]]), np.float32([[2, 8, 4], [6, 0, 1]])
    found = support(logits, scores, np.array([5.0, 7.0]), Temperatures(0.5, 9.0, 2.0))
    np.testing.assert_array_equal(found, [[6, 4, 5], [8, 3, 7]])
    assert found.dtype == np.float64
