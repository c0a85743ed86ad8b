import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from cosmo.metrics.accuracy import sampled_ausuc
from cosmo.mixture.curve import SeenUnseenCurve


def random_curve(n, seed=0, *, decimals=None):
    """A curve of 3 seen and 2 unseen classes, and each row's class."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 5, n)
    groups[:5] = np.arange(5)
    flips = np.where(groups < 3, rng.normal(1, 1, n), rng.normal(-1, 1, n))
    flips = flips if decimals is None else flips.round(decimals)
    right = rng.random(n) < 0.8
    gain = right / np.bincount(groups)[groups] / np.where(groups < 3, 3, 2)
    return SeenUnseenCurve(flips, gain * (groups < 3), gain * (groups >= 3)), groups


class TestByHand:
    # Seen rows flip at 1 and 3, unseen rows at 0 and 2; every expert is right.
    curve = SeenUnseenCurve([1, 3, 0, 2], [0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5])

    def test_points(self):
        np.testing.assert_allclose(self.curve.acc_ts, [0, 0.5, 0.5, 1, 1])
        np.testing.assert_allclose(self.curve.acc_tr, [1, 1, 0.5, 0.5, 0])
        np.testing.assert_allclose(self.curve.acc_h, [0, 2 / 3, 0.5, 2 / 3, 0])

    def test_corners_and_thresholds(self):
        np.testing.assert_array_equal(self.curve.corners, [0, 1, 2, 3])
        np.testing.assert_allclose(self.curve.thresholds[1:-1], [0.5, 1.5, 2.5])
        # Half the range and a thousandth of the size beyond the corners.
        np.testing.assert_allclose(self.curve.thresholds[[0, -1]], [-1.504, 4.504], atol=1e-9)

    def test_area(self):
        assert self.curve.area == pytest.approx(0.75)

    def test_best_is_the_first_of_equals(self):
        assert self.curve.best() == (0.5, 0.5, 1.0, pytest.approx(2 / 3))

    def test_a_row_flips_above_its_threshold_not_at_it(self):
        assert self.curve.at(0.0) == (0, 1, 0)
        assert self.curve.at(np.nextafter(0.0, 1)) == (0.5, 1, pytest.approx(2 / 3))

    def test_at_infinity(self):
        assert self.curve.at(-np.inf) == (0, 1, 0)
        assert self.curve.at(np.inf) == (1, 0, 0)

    def test_sampling_many(self):
        ts, tr, h = self.curve.sample([5.0, -5.0, 2.5])
        np.testing.assert_allclose(ts, [1, 0, 1])
        np.testing.assert_allclose(tr, [0, 1, 0.5])
        np.testing.assert_allclose(h, [0, 0, 2 / 3])

    def test_blurred_has_the_mean_accuracies_over_common_moves(self):
        blurred = self.curve.blurred(0.7, n=3)
        moves = 0.7 * norm.ppf([1 / 6, 1 / 2, 5 / 6])
        for threshold in (-0.3, 0.4, 1.9):
            means = np.mean([self.curve.at(threshold - move)[:2] for move in moves], axis=0)
            np.testing.assert_allclose(blurred.at(threshold)[:2], means)
        assert self.curve.blurred(0.0) is self.curve

    def test_floors(self):
        assert self.curve.best(min_unseen=0.8).threshold == 2.5
        assert self.curve.best(min_seen=0.6).threshold == 0.5
        assert self.curve.best(min_seen=0.5, min_unseen=1).acc_ts == 1

    def test_a_floor_met_up_to_rounding_is_met(self):
        thirds = SeenUnseenCurve([1, 2, 3, 0], [0.1, 0.1, 0.1, 0], [0, 0, 0, 1])
        assert thirds.best(min_seen=0.3).acc_tr == pytest.approx(0.3)

    def test_floors_that_cannot_be_met(self):
        with pytest.raises(ValueError, match=r"no point of the curve has Acc_tr >= 0\.9 and Acc_ts >= 0\.9"):
            self.curve.best(min_seen=0.9, min_unseen=0.9)

    def test_without_floors_the_index_is_that_of_the_best(self):
        assert self.curve.best_index() == 1
        assert self.curve.best_index(min_seen=1.0) == 1
        assert self.curve.best_index(min_unseen=1.0) == 3

    def test_the_error_of_floors_says_what_can_be_had(self):
        half = SeenUnseenCurve([1, 0], [0.5, 0], [0, 0.25])
        with pytest.raises(ValueError, match=r"; the largest are Acc_tr 0\.500 and Acc_ts 0\.250$"):
            half.best(min_seen=0.6)

    def test_a_threshold_is_a_number(self):
        with pytest.raises(TypeError, match=r"^threshold must be a number, got '1'$"):
            self.curve.at("1")

    @pytest.mark.parametrize("floor", [{"min_seen": -0.1}, {"min_unseen": 1.01}, {"min_seen": np.nan}])
    def test_floors_are_accuracies(self, floor):
        with pytest.raises(
            ValueError, match=f"{next(iter(floor))} (is an accuracy between 0 and 1|must be a number)"
        ):
            self.curve.best(**floor)


class TestTies:
    def test_equal_flips_are_one_corner(self):
        curve = SeenUnseenCurve([1, 1, 1, 2], [1, 0, 0, 0], [0, 0.25, 0.25, 0.5])
        np.testing.assert_array_equal(curve.corners, [1, 2])
        np.testing.assert_allclose(curve.acc_ts, [0, 0.5, 1])
        np.testing.assert_allclose(curve.acc_tr, [1, 0, 0])

    def test_a_tie_of_both_kinds_is_a_diagonal(self):
        curve = SeenUnseenCurve([1, 1], [1, 0], [0, 1])
        assert curve.area == pytest.approx(0.5)

    def test_neighbouring_floats_are_told_apart(self):
        upper = np.nextafter(1.0, 2)
        curve = SeenUnseenCurve([1.0, upper], [1, 0], [0, 1])
        assert len(curve.corners) == 2
        assert 1.0 < curve.thresholds[1] <= upper
        assert curve.at(curve.thresholds[1]) == (0, 0, 0)
        assert curve.at(curve.thresholds[2]).acc_ts == 1


class TestInfiniteFlips:
    def test_never_unseen(self):
        curve = SeenUnseenCurve([np.inf, 0], [1, 0], [0, 1])
        np.testing.assert_array_equal(curve.corners, [0])
        np.testing.assert_allclose(curve.acc_tr, [1, 1])
        assert curve.best().acc_h == 1
        assert curve.area == pytest.approx(1)
        assert np.isfinite(curve.thresholds).all()

    def test_never_seen(self):
        curve = SeenUnseenCurve([-np.inf, 0], [0, 1], [1, 0])
        np.testing.assert_allclose(curve.acc_ts, [1, 1])
        assert curve.area == pytest.approx(1)
        assert curve.best() == (pytest.approx(curve.thresholds[0]), 1, 1, 1)

    def test_nothing_ever_flips(self):
        curve = SeenUnseenCurve([np.inf, -np.inf, np.inf], [0.5, 0, 0], [0, 0.25, 0])
        np.testing.assert_array_equal(curve.thresholds, [0])
        assert curve.best() == (0, 0.25, 0.5, pytest.approx(1 / 3))
        assert curve.area == pytest.approx(0.125)
        assert curve.at(1e9) == curve.at(-1e9)


class TestErrors:
    @pytest.mark.parametrize(
        ("parts", "message"),
        [
            (([1, 2], [1], [0, 0]), "seen_gain must be one number per sample"),
            (([[1, 2]], [0, 0], [0, 0]), "flips must be one number per sample"),
            (([1, np.nan], [0, 0], [0, 0]), "flips has NaN"),
            (
                ([1, 2], [0, 0], np.ma.masked_greater([1.0, 2.0], 1.5)),
                r"^unseen_gain has NaN or masked values; drop such samples$",
            ),
            (([1, 2], [0, np.inf], [0, 0]), r"^seen_gain has infinite values; a sample adds at most 1 to an"),
            *(
                ((flips, [0, 0], [0, 0]), r"^flips must be a dense array of numbers, got dtype ")
                for flips in (["1", "2"], [1j, 2j], [None, 1])
            ),
        ],
    )
    def test_parts(self, parts, message):
        with pytest.raises(ValueError, match=message):
            SeenUnseenCurve(*parts)

    @pytest.mark.parametrize("dtype", [bool, np.uint8, np.int32, np.float32])
    def test_any_numbers_become_float64(self, dtype):
        curve = SeenUnseenCurve(*np.eye(3, dtype=dtype))
        for values in (curve.flips, curve.seen_gain, curve.unseen_gain):
            assert values.dtype == np.float64


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([-np.inf, -2.5, -1.0, 0.0, 0.1, 3.0, np.inf]) | st.floats(-50, 50),
            st.booleans(),
            st.integers(0, 3),
        ),
        min_size=1,
        max_size=25,
    )
)
def test_every_point_is_a_count(rows):
    flips = np.array([flip for flip, _, _ in rows])
    seen = np.array([weight / 64 if is_seen else 0 for _, is_seen, weight in rows])
    unseen = np.array([0 if is_seen else weight / 64 for _, is_seen, weight in rows])
    curve = SeenUnseenCurve(flips, seen, unseen)
    finite = np.unique(flips[np.isfinite(flips)])
    np.testing.assert_array_equal(curve.corners, finite)
    assert len(curve.thresholds) == len(finite) + 1
    assert (np.diff(curve.thresholds) > 0).all()
    # The rule itself, at a threshold of every point, at every corner, and far out.
    for threshold in [*curve.thresholds, *finite, -1e6, 1e6]:
        flipped = threshold > flips
        ts, tr, _ = curve.at(threshold)
        assert ts == pytest.approx(unseen[flipped].sum(), abs=1e-12)
        assert tr == pytest.approx(seen[~flipped].sum(), abs=1e-12)
    np.testing.assert_allclose(curve.area, sampled_ausuc(curve.acc_tr, curve.acc_ts), atol=1e-12)
    assert curve.best().acc_h == curve.acc_h.max()


class TestArea:
    def test_is_the_sum_over_ordered_pairs(self):
        curve, _ = random_curve(200)
        # A pair counts where the unseen row flips before the seen one.
        before = curve.flips[:, None] < curve.flips
        assert curve.area == pytest.approx((curve.unseen_gain[:, None] * curve.seen_gain)[before].sum())


class TestAreaInterval:
    def test_the_estimate_lies_inside(self):
        curve, groups = random_curve(120)
        low, high = curve.area_interval(groups)
        assert low < curve.area < high

    def test_the_seed_decides(self):
        curve, groups = random_curve(60)
        assert curve.area_interval(groups, seed=1) == curve.area_interval(groups, seed=1)
        assert curve.area_interval(groups, seed=1) != curve.area_interval(groups, seed=2)

    def test_more_rows_make_it_shorter(self):
        def width(n):
            curve, groups = random_curve(n)
            low, high = curve.area_interval(groups, n_resamples=400)
            return high - low

        assert width(1600) / width(100) == pytest.approx(0.25, abs=0.08)

    @pytest.mark.parametrize("decimals", [None, 0])
    def test_agrees_with_resampling_rows(self, decimals):
        curve, groups = random_curve(60, seed=3, decimals=decimals)
        rng = np.random.default_rng(0)
        areas = np.empty(1500)
        for i in range(len(areas)):
            rows = np.concatenate(
                [rng.choice(np.flatnonzero(groups == c), (groups == c).sum()) for c in range(5)]
            )
            areas[i] = SeenUnseenCurve(curve.flips[rows], curve.seen_gain[rows], curve.unseen_gain[rows]).area
        expected = np.quantile(areas, [0.025, 0.975])
        np.testing.assert_allclose(curve.area_interval(groups, n_resamples=1500), expected, atol=0.015)

    def test_classes_keep_their_weight(self):
        # Rows within a class are alike, so resampling within classes cannot change anything.
        curve = SeenUnseenCurve([1, 1, 0, 0, 0], [0.5, 0.5, 0, 0, 0], [0, 0, 1 / 3, 1 / 3, 1 / 3])
        low, high = curve.area_interval([7, 7, 2, 2, 2])
        assert low == pytest.approx(1)
        assert high == pytest.approx(1)

    def test_one_row_fewer_is_drawn_than_a_class_has(self):
        # One row of the seen class's two is right: a single draw gives all or nothing, two would give halves.
        curve = SeenUnseenCurve([1, 1, 0], [0.5, 0, 0], [0, 0, 1])
        assert curve.area_interval([0, 0, 1], level=0.4) == (0, 1)

    def test_the_level_is_central(self):
        # The area is the share of 4 draws that are right of 5 rows, 2 of which are: quantiles of a binomial.
        curve = SeenUnseenCurve([1] * 5 + [0], [0.2, 0.2, 0, 0, 0, 0], [0] * 5 + [1])
        groups = [0] * 5 + [1]
        found = [
            curve.area_interval(groups, level=level, n_resamples=3000) for level in (0.3, 0.6, 0.95, 0.98)
        ]
        expected = [(0.25, 0.5), (0.25, 0.5), (0, 0.75), (0, 1)]
        np.testing.assert_allclose(found, expected, atol=1e-12)

    def test_single_rows_have_no_width(self):
        curve, _ = random_curve(20)
        np.testing.assert_allclose(curve.area_interval(np.arange(20)), curve.area)

    def test_neither_names_nor_how_classes_are_mixed_matters(self):
        curve, groups = random_curve(200)
        expected = curve.area_interval(groups)
        assert curve.area_interval(np.array(["e", "b", "d", "a", "c"])[groups]) == expected
        rows = np.argsort(groups, kind="stable")
        sorted_by_class = SeenUnseenCurve(curve.flips[rows], curve.seen_gain[rows], curve.unseen_gain[rows])
        assert sorted_by_class.area_interval(groups[rows]) == pytest.approx(expected)

    def test_defaults(self):
        curve, groups = random_curve(30)
        expected = curve.area_interval(groups, level=0.95, n_resamples=200, seed=0)
        assert curve.area_interval(groups) == expected

    @pytest.mark.parametrize("level", [0, 1, 1.5, -0.1])
    def test_level_is_a_share(self, level):
        curve, groups = random_curve(10)
        with pytest.raises(ValueError, match=rf"^level is a share between 0 and 1, got {level}$"):
            curve.area_interval(groups, level=level)

    def test_level_is_a_number(self):
        curve, groups = random_curve(10)
        with pytest.raises(TypeError, match=r"^level must be a number"):
            curve.area_interval(groups, level="0.9")

    @pytest.mark.parametrize("groups", [[0, 0], ["a", "b", None]])
    def test_groups_name_the_class_of_every_sample(self, groups):
        curve = SeenUnseenCurve([1, 1, 0], [0.5, 0.5, 0], [0, 0, 1])
        with pytest.raises(ValueError, match=r"^groups must name the class of each of the 3 samples$"):
            curve.area_interval(groups)
