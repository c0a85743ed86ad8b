"""Expected accuracies on test, and their intervals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmo.classifier.estimates import among_more_classes, expected_scores
from cosmo.metrics.accuracy import harmonic_mean
from cosmo.mixture.outputs import OutputsSummary

N_SEEN, N_UNSEEN = 6, 9


def rounds(accuracy, rows, rng, n_seen=N_SEEN):
    """Summary whose classes have these accuracies, at threshold 0, and its flips."""
    target = np.repeat(np.arange(len(accuracy), dtype=np.int32), rows)
    right = rng.random(len(target)) < accuracy[target]
    is_seen = target < n_seen
    best = np.full(len(target), 0.9)
    # A wrong one is taken for the other domain.
    flips = np.where(is_seen == right, 1.0, -1.0) * rng.uniform(0.1, 3, len(target))
    choices = np.where(is_seen, target, 0), np.where(is_seen, 0, target - n_seen)
    summary = OutputsSummary(n_seen, len(accuracy) - n_seen, target, *choices, best, best, flips)
    return summary, flips


@pytest.fixture
def task():
    rng = np.random.default_rng(0)
    return rounds(rng.uniform(0.3, 0.9, N_SEEN + N_UNSEEN), 20, rng)


def width(expected, which):
    return expected.intervals[which].high - expected.intervals[which].low


class TestMeans:
    @given(st.floats(-2, 2))
    @settings(max_examples=20)
    def test_are_those_of_the_classes(self, threshold):
        rng = np.random.default_rng(1)
        summary, flips = rounds(rng.uniform(0.3, 0.9, N_SEEN + N_UNSEEN), 12, rng)
        guess = np.where(threshold > flips, N_SEEN + summary.unseen_choice, summary.seen_choice)
        accuracy = [(guess == c)[summary.target == c].mean() for c in range(N_SEEN + N_UNSEEN)]
        scores = expected_scores(summary, flips, threshold, 5).scores
        assert scores.acc_tr == pytest.approx(np.mean(accuracy[:N_SEEN]))
        # Twice as many other classes, 10 and not 5: the odds grow by the root of it.
        assert scores.acc_ts == pytest.approx(among_more_classes(np.array(accuracy[N_SEEN:]), 2**0.5).mean())

    def test_classes_without_rows_do_not_count(self, task):
        summary, flips = task
        rows = ~np.isin(summary.target, [0, N_SEEN])
        parts = {name: value[rows] for name, value in vars(summary).items() if np.ndim(value)}
        fewer = OutputsSummary(N_SEEN, N_UNSEEN, **parts)
        found = expected_scores(fewer, flips[rows], 0.0, 5).scores
        right = (flips > 0) == summary.is_seen
        accuracy = [right[summary.target == c].mean() for c in range(N_SEEN + N_UNSEEN)]
        assert found.acc_tr == pytest.approx(np.mean(accuracy[1:N_SEEN]))
        assert found.acc_ts == pytest.approx(
            among_more_classes(np.array(accuracy[N_SEEN + 1 :]), 2**0.5).mean()
        )

    def test_acc_h_is_a_mean_of_draws(self):
        """With few unseen classes it is below the harmonic mean of the expected accuracies."""
        rng = np.random.default_rng(0)
        task = rounds(rng.uniform(0.3, 0.9, 180), 20, rng, n_seen=90)
        few, many = (expected_scores(*task, 0.0, n).scores for n in (1, 90))
        assert few.acc_h < harmonic_mean(few.acc_ts, few.acc_tr) - 0.03
        assert many.acc_h == pytest.approx(harmonic_mean(many.acc_ts, many.acc_tr), abs=0.03)


class TestIntervals:
    def test_contain_the_means(self, task):
        scores, intervals = expected_scores(*task, 0.0, 5)
        assert all(one.low <= mean <= one.high for mean, one in zip(scores, intervals, strict=True))
        assert all(0 <= one.low < one.high <= 1 for one in intervals)

    def test_widen_with_fewer_unseen_classes(self):
        rng = np.random.default_rng(0)
        task = rounds(rng.uniform(0.3, 0.9, 1100), 8, rng, n_seen=1000)
        one, few, many = (expected_scores(*task, 0.0, n) for n in (1, 5, 100))
        assert width(one, 0) > width(few, 0) > width(many, 0)
        assert width(one, 2) > width(many, 2)
        assert width(one, 1) == pytest.approx(width(many, 1), abs=0.05)  # that of seen classes stays

    def test_allow_for_more_competing_classes_than_in_a_round(self, task):
        """A class competes with 7 times as many others if 31 classes are unseen, not 1."""
        few, many = (expected_scores(*task, 0.0, n) for n in (1, 31))
        assert many.scores.acc_ts < few.scores.acc_ts - 0.05
        assert many.intervals[0].low < many.scores.acc_ts - 0.1
        assert many.intervals[0].high > few.scores.acc_ts

    def test_widen_with_the_error_of_the_gate(self, task):
        none, some, much = (expected_scores(*task, 0.0, 50, error=error) for error in (0.0, 0.7, 1.5))
        for which in (0, 1):
            assert width(none, which) < width(some, which) < width(much, which)
        assert none.scores[:2] == much.scores[:2]

    def test_widen_with_fewer_held_out_classes(self):
        """Two classes of equal accuracy do not show that all classes have it."""
        rng = np.random.default_rng(0)
        few, many = (
            expected_scores(*rounds(np.full(200 + n, 0.8), 50, rng, n_seen=200), 0.0, 20) for n in (2, 60)
        )
        assert width(few, 0) > 1.5 * width(many, 0)

    def test_perfect_rounds(self):
        expected = expected_scores(*rounds(np.ones(20), 10, np.random.default_rng(0)), 0.0, 5)
        assert expected.scores[:2] == (1, 1)
        assert [one.high for one in expected.intervals] == pytest.approx([1, 1, 1])
        assert expected.intervals[0].low < 1

    def test_coverage(self):
        """Accuracies of classes are beta-distributed; other unseen classes change half of the seen ones'."""
        rng = np.random.default_rng(0)
        hits = np.zeros(2)
        n_held, n_new, rows = 25, 8, 30
        for _ in range(100):
            seen, unseen, new = (rng.beta(6, 3, n) for n in (20, n_held, n_new))
            validation = rounds(np.concatenate([seen, unseen]), rows, rng, n_seen=20)
            intervals = expected_scores(*validation, 0.0, n_new).intervals
            seen[::2] = rng.beta(6, 3, 10)
            met = rng.binomial(rows, new).mean() / rows, rng.binomial(rows, seen).mean() / rows
            hits += [one.low <= value <= one.high for one, value in zip(intervals, met, strict=False)]
        assert (hits >= 80).all()
        assert (hits <= 98).all()


@pytest.mark.parametrize("level", [0, 1, -0.5, 90, float("nan")])
def test_level_out_of_range(task, level):
    with pytest.raises(ValueError, match="^level (is a share between 0 and 1|must be a number), got"):
        expected_scores(*task, 0.0, 5, level=level)
