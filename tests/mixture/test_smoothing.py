import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmo.mixture.smoothing import (
    SMOOTHINGS,
    combine,
    conditional,
    gate_belief,
    smooth,
    tie_log_odds,
    total_probability,
)

SEEN = np.array([[0.7, 0.2, 0.1], [0.4, 0.4, 0.2]])
UNSEEN = np.array([[0.1, 0.3], [0.05, 0.0]])  # joint: sums to the expert's own p(U)
U = np.array([0.25, 0.6])


class TestConditional:
    def test_rows_sum_to_one(self):
        np.testing.assert_allclose(conditional(UNSEEN), [[0.25, 0.75], [1, 0]])

    def test_no_mass_is_uniform(self):
        np.testing.assert_array_equal(conditional(np.zeros((1, 4))), [[0.25] * 4])

    def test_tiny_mass_is_still_mass(self):
        np.testing.assert_allclose(conditional(np.array([[1e-300, 3e-300]])), [[0.25, 0.75]])

    def test_dtype_is_kept(self):
        assert conditional(np.zeros((1, 3), dtype=np.float32)).dtype == np.float32


class TestGateBelief:
    def test_the_logistic_function(self):
        belief = gate_belief([0.2], threshold=0.5, softness=0.1)
        assert belief[0] == pytest.approx(1 / (1 + np.exp(-3)))

    def test_one_half_at_the_threshold(self):
        assert gate_belief([0.3], 0.3, 0.003)[0] == 0.5

    @settings(deadline=None)
    @given(
        st.lists(st.floats(0, 1), min_size=2, max_size=20),
        st.floats(-3, 50),
        st.floats(-3, 50),
        st.sampled_from([0.003, 0.1, 1.0, 10.0]),
    )
    def test_falls_with_the_score_and_rises_with_the_threshold(self, scores, one, other, softness):
        low, high = sorted([one, other])
        at_low, at_high = (gate_belief(np.sort(scores), beta, softness) for beta in (low, high))
        assert (np.diff(at_low) <= 0).all()
        assert (at_low <= at_high).all()
        assert ((at_low >= 0) & (at_low <= 1)).all()

    def test_strictly_monotone_where_floats_can_tell(self):
        assert (np.diff(gate_belief(np.linspace(0, 1, 50), 0.4, 0.1)) < 0).all()

    def test_extremes_do_not_overflow(self):
        np.testing.assert_array_equal(gate_belief([0.5], 1e9, 0.003), [1])
        np.testing.assert_array_equal(gate_belief([0.5], -1e9, 0.003), [0])

    def test_float32_scores_are_computed_in_float64(self):
        score = np.linspace(0, 1, 9, dtype=np.float32)
        belief = gate_belief(score, 0.3, 0.07)
        assert belief.dtype == np.float64
        np.testing.assert_array_equal(belief, gate_belief(score.astype(np.float64), 0.3, 0.07))

    @pytest.mark.parametrize("softness", [0, -1.0, np.nan])
    def test_softness_must_be_positive(self, softness):
        with pytest.raises(ValueError, match="softness must be positive"):
            gate_belief([0.5], 0.5, softness)


class TestSmoothing:
    def test_none_is_the_conditional(self):
        np.testing.assert_allclose(smooth(UNSEEN, U, "none"), [[0.25, 0.75], [1, 0]])

    def test_constant_by_hand(self):
        # 0.8 * [.25, .75] + 0.2 / 2 and 0.8 * [1, 0] + 0.2 / 2
        np.testing.assert_allclose(smooth(UNSEEN, U, "constant", 0.2), [[0.3, 0.7], [0.9, 0.1]])

    def test_constant_ends(self):
        np.testing.assert_allclose(smooth(UNSEEN, U, "constant", 0), smooth(UNSEEN, U, "none"))
        np.testing.assert_allclose(smooth(UNSEEN, U, "constant", 1), np.full((2, 2), 0.5))

    def test_adaptive_by_hand_on_the_joint(self):
        # p(y,U) + (1 - p(U)) / n_U with the joint as it is: [.1, .3] + .75 / 2, [.05, 0] + .4 / 2
        np.testing.assert_allclose(smooth(UNSEEN, U, "adaptive"), [[0.475, 0.675], [0.25, 0.2]])

    def test_without_a_weight_constant_is_none(self):
        np.testing.assert_array_equal(smooth(UNSEEN, U, "constant"), smooth(UNSEEN, U, "none"))
        np.testing.assert_array_equal(
            combine(SEEN, UNSEEN, U, smoothing="constant"), combine(SEEN, UNSEEN, U, smoothing="none")
        )
        np.testing.assert_array_equal(
            tie_log_odds(SEEN[0], SEEN[1], 3, 2, smoothing="constant"),
            tie_log_odds(SEEN[0], SEEN[1], 3, 2, smoothing="none"),
        )

    @pytest.mark.parametrize("smoothing", SMOOTHINGS)
    def test_the_experts_precision_is_kept(self, smoothing):
        proba = np.random.default_rng(0).dirichlet([0.3] * 7, 50).astype(np.float32)
        belief = np.linspace(0, 1, 50)
        found = smooth(proba, belief, smoothing, 0.3)
        assert found.dtype == np.float32
        if smoothing == "adaptive":  # summed in it, too: a sum in float64 would take twice the memory
            np.testing.assert_array_equal(found, proba + np.float32((1 - belief) / 7)[:, None])

    @pytest.mark.parametrize("smoothing", SMOOTHINGS)
    def test_inputs_are_left_alone(self, smoothing):
        seen, unseen, u = SEEN.copy(), UNSEEN.copy(), U.copy()
        combine(seen, unseen, u, smoothing=smoothing, prior_weight=0.3)
        np.testing.assert_array_equal(seen, SEEN)
        np.testing.assert_array_equal(unseen, UNSEEN)
        np.testing.assert_array_equal(u, U)


class TestCombine:
    def test_total_probability(self):
        np.testing.assert_allclose(
            total_probability(SEEN, UNSEEN, U),
            [[0.525, 0.15, 0.075, 0.025, 0.075], [0.16, 0.16, 0.08, 0.03, 0]],
        )

    def test_total_probability_keeps_the_precision(self):
        scores = total_probability(SEEN.astype(np.float32), UNSEEN.astype(np.float32), U)
        assert scores.dtype == np.float32
        for seen, unseen in ((np.float32, np.float16), (np.float16, np.float32)):
            assert total_probability(SEEN.astype(seen), UNSEEN.astype(unseen), U).dtype == np.float32

    def test_adaptive_is_the_default_and_reads_the_joint(self):
        doubtful = combine(SEEN, UNSEEN / 10, U)
        assert (doubtful[:, 3:] <= combine(SEEN, UNSEEN, U)[:, 3:]).all()
        assert (doubtful[0, 3:] < combine(SEEN, UNSEEN, U)[0, 3:]).all()
        for smoothing in ("none", "constant"):
            np.testing.assert_allclose(
                combine(SEEN, UNSEEN / 10, U, smoothing=smoothing, prior_weight=0.2),
                combine(SEEN, UNSEEN, U, smoothing=smoothing, prior_weight=0.2),
            )


class TestTie:
    """`u` at which the best scores of both experts meet."""

    @staticmethod
    def belief(*args, **kwargs):
        return float(1 / (1 + np.exp(-tie_log_odds(*args, **kwargs)[0])))

    def test_none_by_hand(self):
        u = self.belief(np.array([0.6]), np.array([0.2]), 5, 9, smoothing="none")
        assert u == pytest.approx(0.6 / 0.8)

    def test_constant_by_hand(self):
        # Q = .5 * .6 + .5 / 5 = .4, Z = .5 * .2 + .5 / 10 = .15
        u = self.belief(np.array([0.6]), np.array([0.2]), 5, 10, smoothing="constant", prior_weight=0.5)
        assert u == pytest.approx(0.4 / 0.55)

    def test_adaptive_by_hand(self):
        # n_U = 2, n_S = 4: d = 1/4; s = 1/2, z = 1/4: -u²/4 + u - 1/2 = 0 at u = 2 - sqrt(2)
        u = self.belief(np.array([0.5]), np.array([0.25]), 4, 2)
        assert u == pytest.approx(2 - np.sqrt(2))

    def test_adaptive_favours_the_smaller_side(self):
        s, z = np.array([0.5]), np.array([0.3])
        even = tie_log_odds(s, z, 20, 20)
        np.testing.assert_allclose(even, np.log(s / z))
        assert tie_log_odds(s, z, 40, 10) < even < tie_log_odds(s, z, 10, 40)

    @settings(deadline=None)
    @given(st.floats(1e-6, 1), st.floats(1e-6, 1), st.integers(1, 700), st.integers(1, 700), st.floats(0, 1))
    def test_swapping_the_experts_changes_the_sign(self, s, z, n_seen, n_unseen, prior_weight):
        one, other = np.array([s]), np.array([z])
        for smoothing in SMOOTHINGS:
            forth = tie_log_odds(one, other, n_seen, n_unseen, smoothing=smoothing, prior_weight=prior_weight)
            back = tie_log_odds(other, one, n_unseen, n_seen, smoothing=smoothing, prior_weight=prior_weight)
            np.testing.assert_allclose(forth, -back, rtol=1e-9, atol=1e-12)

    @settings(deadline=None)
    @given(st.floats(1e-6, 1), st.floats(1e-6, 1), st.integers(1, 700), st.integers(1, 700))
    def test_adaptive_root_solves_the_equation(self, s, z, n_seen, n_unseen):
        log_odds = tie_log_odds(np.array([s]), np.array([z]), n_seen, n_unseen)[0]
        u, rest = 1 / (1 + np.exp(-log_odds)), 1 / (1 + np.exp(log_odds))  # rest = 1 - u, accurately
        best_unseen, best_seen = u * (z + rest / n_unseen), rest * (s + u / n_seen)
        assert best_unseen == pytest.approx(best_seen, rel=1e-9)

    def test_an_extreme_ratio_keeps_its_precision(self):
        # u rounds to one here; only its log-odds can still be told.
        log_odds = tie_log_odds(np.array([1.0]), np.array([1e-30]), 3, 3)
        np.testing.assert_allclose(log_odds, np.log(1e30))

    @pytest.mark.parametrize("smoothing", SMOOTHINGS)
    def test_float32_is_computed_in_float64(self, smoothing):
        s, z = np.float32([0.7, 0.1, 0.3]), np.float32([0.2, 0.6, 0.1])
        expected = tie_log_odds(
            s.astype(np.float64), z.astype(np.float64), 7, 3, smoothing=smoothing, prior_weight=0.3
        )
        for pair in ((s, z), (s.astype(np.float64), z), (s, z.astype(np.float64))):
            found = tie_log_odds(*pair, 7, 3, smoothing=smoothing, prior_weight=0.3)
            assert found.dtype == np.float64
            np.testing.assert_array_equal(found, expected)

    def test_both_roots_at_one(self):
        # n_U = 1, n_S = 2: d = s = 1/2 and z = 0, so -u²/2 + u - 1/2 = -(u - 1)²/2.
        np.testing.assert_array_equal(tie_log_odds(np.array([0.5]), np.zeros(1), 2, 1), [np.inf])

    def test_an_expert_without_mass_never_wins_or_only_by_its_prior(self):
        # n_U = 1, n_S = 10: d = 0.9. With z = 0 the scores meet at u = s / d if that is below one.
        log_odds = tie_log_odds(np.array([0.95, 0.45]), np.zeros(2), 10, 1)
        np.testing.assert_allclose(log_odds, [np.inf, 0.0], atol=1e-12)
        np.testing.assert_array_equal(tie_log_odds(np.zeros(1), np.array([0.9]), 5, 5), [-np.inf])


@pytest.mark.parametrize(
    "function",
    [
        lambda **options: smooth(UNSEEN, U, **options),
        lambda **options: combine(SEEN, UNSEEN, U, **options),
        lambda **options: tie_log_odds(np.array([0.5]), np.array([0.5]), 2, 2, **options),
    ],
    ids=["smooth", "combine", "tie_log_odds"],
)
def test_what_is_refused(function):
    with pytest.raises(ValueError, match="one of none, constant, adaptive; got 'laplace'"):
        function(smoothing="laplace")
    for weight in (-0.01, 1.01, np.nan):
        with pytest.raises(ValueError, match="prior_weight must lie between 0 and 1"):
            function(smoothing="constant", prior_weight=weight)


@pytest.mark.parametrize("dtype", [None, np.float64])
@pytest.mark.parametrize("smoothing", ["none", "constant", "adaptive"])
def test_combining_is_the_formula(smoothing, dtype):
    rng = np.random.default_rng(0)
    seen, unseen = rng.dirichlet([0.3] * 6, 40), 0.4 * rng.dirichlet([0.3] * 4, 40)
    unseen[3] = 0
    u = rng.random(40)
    kind = np.float32 if dtype is None else np.float64
    parts = [part.astype(np.float32).astype(kind) for part in (seen, unseen)]
    expected = total_probability(
        smooth(parts[0], 1 - u, smoothing, 0.3), smooth(parts[1], u, smoothing, 0.3), u
    )
    given = [part.astype(np.float32) for part in (seen, unseen)]
    found = combine(*given, u, smoothing=smoothing, prior_weight=0.3, dtype=dtype)
    assert found.dtype == kind
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kinds", [(np.float32, np.float64), (np.float64, np.float32)])
def test_the_finer_precision_of_both_experts_counts(kinds):
    assert combine(SEEN.astype(kinds[0]), UNSEEN.astype(kinds[1]), U).dtype == np.float64
