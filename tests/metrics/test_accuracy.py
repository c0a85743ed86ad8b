import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom

from cosmo.metrics.accuracy import (
    class_accuracy,
    fpr_at_tpr,
    gate_auc,
    gate_intervals,
    gzsl_intervals,
    gzsl_scores,
    harmonic_mean,
    per_class_accuracy,
    sampled_ausuc,
    zsl_accuracy,
)


class TestHarmonicMean:
    def test_frozen_values(self):
        assert harmonic_mean(0.246, 0.648) == pytest.approx(0.356617, abs=1e-6)
        assert harmonic_mean(52.8, 80.0) == pytest.approx(63.614, abs=1e-3)

    def test_zero_when_both_are_zero(self):
        value = harmonic_mean(0, 0)
        assert value == 0.0
        assert isinstance(value, float)

    def test_arrays(self):
        np.testing.assert_allclose(harmonic_mean([0, 0.5, 1, 0], [0, 0.5, 0.5, 1]), [0, 0.5, 2 / 3, 0])

    def test_float32_is_computed_in_float64(self):
        ts, tr = np.float32([0.1, 0.7]), np.float32([0.3, 0.2])
        expected = harmonic_mean(ts.astype(np.float64), tr.astype(np.float64))
        for mean in (harmonic_mean(ts, tr), harmonic_mean(list(ts), tr), harmonic_mean(ts, list(tr))):
            assert mean.dtype == np.float64
            np.testing.assert_array_equal(mean, expected)

    @settings(deadline=None)
    @given(st.just(0.0) | st.floats(1e-9, 1), st.just(0.0) | st.floats(1e-9, 1))
    def test_lies_between_the_smaller_and_its_double(self, a, b):
        h = harmonic_mean(a, b)
        assert h == harmonic_mean(b, a)
        assert min(a, b) * (1 - 1e-12) <= h <= min(2 * min(a, b), max(a, b)) * (1 + 1e-12)


class TestPerClassAccuracy:
    def test_classes_count_the_same_however_many_rows(self):
        truth = ["a"] * 99 + ["b"]
        assert per_class_accuracy(truth, ["a"] * 100, ["a", "b"]) == 0.5

    def test_a_class_without_rows_counts_in_the_denominator(self):
        assert per_class_accuracy(["a", "a"], ["a", "a"], ["a", "b", "c", "d"]) == 0.25

    def test_of_codes(self):
        assert class_accuracy(np.array([0, 0, 2]), np.array([0, 1, 2]), 3) == 0.5

    def test_rows_of_other_classes_are_ignored(self):
        assert per_class_accuracy(["a", "z", "z"], ["a", "z", "a"], ["a"]) == 1.0

    def test_predictions_outside_the_classes_are_wrong(self):
        assert per_class_accuracy(["a", "a"], ["nowhere", "a"], ["a"]) == 0.5
        assert per_class_accuracy(["a", "z"], ["z", "a"], ["a", "z"]) == 0.0

    @pytest.mark.parametrize("labels", [(3, -70, 9000), (("x", 1), ("x", 2), ("y", 1)), ("p", "q", "r")])
    def test_any_kind_of_label(self, labels):
        a, b, c = labels
        assert per_class_accuracy([a, a, b, c], [a, b, b, a], [a, b, c]) == pytest.approx(0.5)

    def test_errors(self):
        with pytest.raises(ValueError, match=r"^accuracy over no classes is undefined$"):
            per_class_accuracy(["a"], ["a"], [])
        with pytest.raises(ValueError, match=r"^classes lists a class more than once$"):
            per_class_accuracy(["a"], ["a"], ["a", "a"])
        with pytest.raises(
            ValueError, match=r"^2 true labels but 1 predictions; give one of each per sample$"
        ):
            per_class_accuracy(["a", "b"], ["a"], ["a", "b"])

    def test_a_row_without_a_label(self):
        with pytest.raises(ValueError, match=r"^y_true has no label in row 1; fill it in or drop the row$"):
            per_class_accuracy(["a", None], ["a", "a"], ["a"])
        assert (
            per_class_accuracy(["a", None], ["a", None], ["a", None, "b", "c"]) == 0.5
        )  # a class of its own

    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40))
    def test_against_a_loop(self, pairs):
        classes = [0, 1, 3]
        expected = 0.0
        for c in classes:
            guesses = [guess for truth, guess in pairs if truth == c]
            expected += sum(guess == c for guess in guesses) / len(guesses) / 3 if guesses else 0
        truth, guess = zip(*pairs, strict=True)
        assert per_class_accuracy(truth, guess, classes) == pytest.approx(expected)


class TestZeroShotAccuracy:
    def test_predicted_among_the_classes_alone(self):
        # One of two rows of y, the only row of z; the row of another class does not count.
        scores = [[0.3, 0.1], [0.2, 0.4], [0.1, 0.2], [9.0, 0.0]]
        assert zsl_accuracy(["y", "y", "z", "a"], scores, ["y", "z"]) == 0.75
        assert zsl_accuracy(["y", "y", "z", "a"], scores, ["z", "y"]) == 0.25

    @pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float16])
    def test_any_numbers(self, dtype):
        assert zsl_accuracy(["y", "z"], np.eye(2, dtype=dtype), iter("yz")) == 1

    @pytest.mark.parametrize(
        ("scores", "got"),
        [
            (np.zeros((1, 3)), r"shape \(1, 3\), float64"),
            (np.zeros(2), r"shape \(2,\), float64"),
            (np.zeros((1, 2, 1)), r"shape \(1, 2, 1\), float64"),
            ([["0", "1"]], r"shape \(1, 2\), <U1"),
        ],
    )
    def test_not_a_matrix_of_numbers(self, scores, got):
        message = (
            "^scores must be a matrix of numbers, a row per sample and a column for each of the 2 classes, "
            f"got {got}$"
        )
        with pytest.raises(ValueError, match=message):
            zsl_accuracy(["y"], scores, ["y", "z"])

    def test_values_that_are_missing(self):
        with pytest.raises(ValueError, match=r"^scores have NaN values; fill them in or drop the rows$"):
            zsl_accuracy(["y"], [[0.1, np.nan]], ["y", "z"])
        with pytest.raises(ValueError, match=r"^scores has masked values"):
            zsl_accuracy(["y"], np.ma.masked_less([[0.1, 0.2]], 0.15), ["y", "z"])


class TestScores:
    def test_by_hand(self):
        truth = ["a", "a", "b", "y", "y", "z"]
        guess = ["a", "y", "b", "y", "z", "a"]
        scores = gzsl_scores(truth, guess, seen=["a", "b"], unseen=["y", "z"])
        assert scores.acc_tr == 0.75
        assert scores.acc_ts == 0.25
        assert scores.acc_h == pytest.approx(0.375)

    def test_a_class_on_both_sides(self):
        message = "^a class is both seen and unseen: 'z'; name it in one of the two$"
        with pytest.raises(ValueError, match=message):
            gzsl_scores(["a", "z"], ["a", "z"], ["a", "z"], ["z"])

    def test_iterators_may_be_given(self):
        scores = gzsl_scores(iter("az"), iter("az"), iter("a"), iter("z"))
        assert scores == (1.0, 1.0, 1.0)


def noisy_task(n, seed=0):
    """Labels 0..3 seen, 4..6 unseen, of unequal sizes, 70 % of the predictions right."""
    rng = np.random.default_rng(seed)
    truth = np.repeat(np.arange(7), np.arange(1, 8) * n)
    guess = np.where(rng.random(len(truth)) < 0.7, truth, rng.integers(0, 7, len(truth)))
    return truth, guess


SEEN, UNSEEN = [0, 1, 2, 3], [4, 5, 6]


class TestIntervals:
    def test_the_estimate_lies_inside(self):
        truth, guess = noisy_task(6)
        intervals = gzsl_intervals(truth, guess, SEEN, UNSEEN)
        for value, (low, high) in zip(gzsl_scores(truth, guess, SEEN, UNSEEN), intervals, strict=True):
            assert 0 <= low < value < high <= 1

    def test_more_rows_make_them_shorter(self):
        def widths(n):
            return np.array([high - low for low, high in gzsl_intervals(*noisy_task(n), SEEN, UNSEEN)])

        ratio = widths(160) / widths(10)
        np.testing.assert_allclose(ratio, 0.25, atol=0.08)  # 16 times the rows: a quarter of the width

    def test_the_seed_decides(self):
        task = noisy_task(4)
        first = gzsl_intervals(*task, SEEN, UNSEEN, seed=3)
        assert first == gzsl_intervals(*task, SEEN, UNSEEN, seed=3)
        assert first != gzsl_intervals(*task, SEEN, UNSEEN, seed=4)

    def test_agrees_with_resampling_many_rows(self):
        truth, guess = noisy_task(60, seed=5)
        rng = np.random.default_rng(0)
        rows_of = [np.flatnonzero(truth == c) for c in range(7)]
        right = truth == guess
        draws = np.empty((3000, 3))
        for i in range(len(draws)):
            accuracy = [right[rng.choice(rows, len(rows))].mean() for rows in rows_of]
            ts, tr = np.mean(accuracy[4:]), np.mean(accuracy[:4])
            draws[i] = ts, tr, 2 * ts * tr / (ts + tr)
        expected = np.quantile(draws, [0.025, 0.975], axis=0).T
        found = gzsl_intervals(truth, guess, SEEN, UNSEEN, n_resamples=20_000)
        np.testing.assert_allclose(found, expected, atol=0.012)

    @pytest.mark.parametrize("level", [0.5, 0.8])
    def test_are_central_and_of_the_level(self, level):
        # One class on each side, all right or all wrong: Jeffreys' posterior has a closed form.
        ts, tr, _ = gzsl_intervals([0] * 8 + [1] * 8, [0] * 16, [0], [1], level=level, n_resamples=50_000)
        tail = (1 - level) / 2
        assert ts.high == pytest.approx(beta(0.5, 8.5).ppf(1 - tail), abs=4e-3)
        assert tr.low == pytest.approx(beta(8.5, 0.5).ppf(tail), abs=4e-3)
        assert (ts.low, tr.high) == (0, 1)  # the share that was counted is inside

    def test_defaults(self):
        task = noisy_task(2)
        expected = gzsl_intervals(*task, SEEN, UNSEEN, level=0.95, n_resamples=2000, seed=0)
        assert gzsl_intervals(*task, SEEN, UNSEEN) == expected

    def test_rows_that_are_all_right_or_all_wrong_prove_little(self):
        ts, tr, h = gzsl_intervals([0, 0, 1], [0, 0, 0], [0], [1])
        assert ts.low == h.low == 0
        assert tr.high == 1
        assert ts.high > 0.5 > tr.low


class TestGateMeasures:
    def test_auc_counts_ordered_pairs(self):
        rng = np.random.default_rng(0)
        is_seen, score = rng.random(60) < 0.4, rng.integers(0, 8, 60) / 8
        above = score[is_seen][:, None] - score[~is_seen]
        expected = (above > 0).mean() + (above == 0).mean() / 2
        assert gate_auc(is_seen, score) == pytest.approx(expected)

    def test_fpr_is_interpolated_between_roc_points(self):
        # ROC points (fpr, tpr): (0, 0) (0, .5) (.5, .5) (.5, 1) (1, 1).
        assert fpr_at_tpr([1, 0, 1, 0], [4, 3, 2, 1]) == 0.5
        # One score shared by half of both sides: the segment from (0, .5) to (1, 1).
        assert fpr_at_tpr([1, 1, 0, 0], [2, 1, 1, 1]) == pytest.approx(0.9)
        assert fpr_at_tpr([1, 1, 0, 0], [2, 1, 1, 1], tpr=0.6) == pytest.approx(0.2)

    def test_fpr_of_a_perfect_and_of_a_useless_gate(self):
        assert fpr_at_tpr([1, 1, 0, 0], [4, 3, 2, 1]) == 0.0
        assert fpr_at_tpr([1, 1, 0, 0], [1, 1, 1, 1]) == pytest.approx(0.95)
        assert fpr_at_tpr([1, 1, 0, 0], [1, 2, 3, 4]) == 1.0

    def test_fpr_where_the_rate_is_met_exactly(self):
        # 19 of 20 seen rows lie above every unseen row: TPR 0.95 is reached with no false positive.
        is_seen = [1] * 20 + [0] * 3
        score = [9] * 19 + [0] + [1, 2, 3]
        assert fpr_at_tpr(is_seen, score) == 0.0

    @pytest.mark.parametrize("is_seen", [[1, 1, 1], [0, 0, 0]])
    @pytest.mark.parametrize("measure", [gate_auc, fpr_at_tpr, gate_intervals])
    def test_one_domain_alone_is_an_error(self, measure, is_seen):
        message = "^a gate is measured on samples of both seen and unseen classes; one kind is missing$"
        with pytest.raises(ValueError, match=message):
            measure(is_seen, [0.1, 0.2, 0.3])

    @pytest.mark.parametrize("measure", [gate_auc, fpr_at_tpr, gate_intervals])
    def test_one_score_per_sample(self, measure):
        with pytest.raises(
            ValueError, match=r"^score must be one number per sample, 2 in all, got shape \(3,\)$"
        ):
            measure([1, 0], [0.1, 0.2, 0.3])

    @pytest.mark.parametrize("share", [0, 1, -0.5])
    def test_rates_and_levels_are_shares(self, share):
        for measure, name in ((fpr_at_tpr, "tpr"), (gate_intervals, "tpr"), (gate_intervals, "level")):
            with pytest.raises(ValueError, match=f"^{name} is a share between 0 and 1, got {share}$"):
                measure([1, 0], [0.2, 0.1], **{name: share})
            with pytest.raises(TypeError, match=f"^{name} must be a number, got '{share}'$"):
                measure([1, 0], [0.2, 0.1], **{name: str(share)})


class TestGateIntervals:
    @given(st.integers(0, 2**32 - 1), st.integers(20, 80), st.floats(0, 3))
    @settings(max_examples=25, deadline=None)
    def test_area_lies_inside(self, seed, rows, apart):
        rng = np.random.default_rng(seed)
        is_seen = np.r_[True, False, rng.random(rows) < 0.5]
        is_seen = np.repeat(is_seen, 4)
        score = rng.normal(apart * is_seen).round(1)  # with ties
        auc, fpr = gate_intervals(is_seen, score)
        assert 0 <= auc.low <= gate_auc(is_seen, score) <= auc.high <= 1
        assert 0 <= fpr.low <= fpr.high <= 1

    def test_is_what_resampling_rows_gives(self):
        rng = np.random.default_rng(0)
        is_seen = np.arange(120) < 70
        score = rng.normal(is_seen).round(1)
        seen, unseen = np.flatnonzero(is_seen), np.flatnonzero(~is_seen)
        drawn = []
        for _ in range(400):
            rows = np.r_[rng.choice(seen, len(seen)), rng.choice(unseen, len(unseen))]
            drawn.append((gate_auc(is_seen[rows], score[rows]), fpr_at_tpr(is_seen[rows], score[rows])))
        auc, fpr = gate_intervals(is_seen, score, n_resamples=2000)
        expected = np.quantile(drawn, [0.025, 0.975], axis=0)
        np.testing.assert_allclose(auc, expected[:, 0], atol=0.02)
        np.testing.assert_allclose(fpr, expected[:, 1], atol=0.06)

    def test_a_perfect_and_a_useless_gate(self):
        for n_resamples in (1, 2, 200):
            assert gate_intervals([1, 1, 0, 0], [4, 3, 2, 1], n_resamples=n_resamples) == ((1, 1), (0, 0))
        auc, fpr = gate_intervals([1, 1, 0, 0], [1, 1, 1, 1])
        assert auc == (0.5, 0.5)
        assert fpr == (pytest.approx(0.95), pytest.approx(0.95))

    def test_level(self):
        rng = np.random.default_rng(0)
        is_seen = np.arange(60) % 2 == 0
        score = rng.normal(is_seen)
        for wide, narrow in zip(
            gate_intervals(is_seen, score, level=0.95), gate_intervals(is_seen, score, level=0.5), strict=True
        ):
            assert wide.low < narrow.low < narrow.high <= wide.high

    def test_the_level_is_central(self):
        # Two of five seen rows lie above the only unseen row: the area is the share of draws that do.
        is_seen, score = [1] * 5 + [0], [9, 9, 0, 0, 0, 5]
        for level in (0.5, 0.8, 0.9):
            found = gate_intervals(is_seen, score, level=level, n_resamples=20_000)[0]
            np.testing.assert_allclose(found, np.divide(binom(5, 0.4).interval(level), 5), atol=1e-12)

    def test_defaults(self):
        is_seen, score = np.arange(30) % 2 == 0, np.random.default_rng(0).random(30)
        expected = gate_intervals(is_seen, score, level=0.95, tpr=0.95, n_resamples=200, seed=0)
        assert gate_intervals(is_seen, score) == expected

    def test_true_rate(self):
        rng = np.random.default_rng(0)
        is_seen = np.arange(200) % 2 == 0
        score = rng.normal(is_seen)
        low, high = gate_intervals(is_seen, score, tpr=0.5)[1]
        assert low <= fpr_at_tpr(is_seen, score, tpr=0.5) <= high < fpr_at_tpr(is_seen, score)

    def test_the_same_seed_gives_the_same(self):
        is_seen, score = np.arange(30) % 2 == 0, np.random.default_rng(0).random(30)
        assert gate_intervals(is_seen, score) == gate_intervals(is_seen, score)
        assert gate_intervals(is_seen, score) != gate_intervals(is_seen, score, seed=1)


class TestSampledArea:
    def test_padding_on_both_sides(self):
        # Left: (0, .8) is put before (.2, .8); right: the drop at .6 adds nothing.
        assert sampled_ausuc([0.6, 0.2], [0.4, 0.8]) == pytest.approx(0.2 * 0.8 + 0.4 * 0.6)

    def test_one_point_is_a_rectangle(self):
        assert sampled_ausuc([0.5], [0.4]) == pytest.approx(0.2)

    def test_the_order_of_the_points_does_not_matter(self):
        rng = np.random.default_rng(0)
        tr = np.linspace(0, 1, 30).round(1)
        ts = np.sort(rng.random(30))[::-1]
        order = rng.permutation(30)
        assert sampled_ausuc(tr[order], ts[order]) == pytest.approx(sampled_ausuc(tr, ts))

    @pytest.mark.parametrize(
        ("acc_tr", "acc_ts", "message"),
        [
            ([], [], "the area under no points is undefined; give acc_tr and acc_ts of at least one$"),
            ([0.1, 0.2], [0.1], r"acc_ts must be one number per sample, 2 in all, got shape \(1,\)$"),
            ([0.1], [np.nan], "acc_ts of sample 0 is nan"),
            ([np.nan], [0.1], "acc_tr of sample 0 is nan"),
        ],
    )
    def test_errors(self, acc_tr, acc_ts, message):
        with pytest.raises(ValueError, match=f"^{message}"):
            sampled_ausuc(acc_tr, acc_ts)
