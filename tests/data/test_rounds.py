import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmo.data.rounds import ROUNDS, deployment_rounds, groups_of, offered_together

seen_counts = st.integers(2, 40)
unseen_counts = st.integers(1, 60)
seeds = st.integers(0, 1000)


def classes_of(rows, codes):
    return set(codes[rows].tolist())


def held_out(one, codes):
    return classes_of(one.held.unseen_val, codes)


def times_held_out(rounds, codes):
    return sum(np.isin(np.arange(codes.max() + 1), list(held_out(one, codes))) for one in rounds)


def ragged(n_seen, seed):
    """Codes in random order, of classes of different sizes."""
    rng = np.random.default_rng(seed)
    return rng.permutation(np.repeat(np.arange(n_seen), rng.integers(2, 20, n_seen)))


class TestOfferedTogether:
    @given(seen_counts, unseen_counts)
    def test_proportion_of_the_task(self, n_seen, n_unseen):
        offered = offered_together(n_seen, n_unseen)
        wanted = n_seen * n_unseen / (n_seen + n_unseen)  # solves h / (n_S - h) = n_U / n_S
        assert 1 <= offered <= max(1, n_seen // 2)
        if 1 <= wanted <= n_seen // 2:
            assert abs(offered - wanted) <= 0.5

    def test_examples(self):
        assert offered_together(150, 50) == 38
        assert offered_together(60, 1) == 1
        assert offered_together(12, 500) == 6
        assert offered_together(2, 500) == 1


class TestClasses:
    @given(seen_counts, unseen_counts, seeds)
    def test_every_class_is_held_out_about_equally_often(self, n_seen, n_unseen, seed):
        codes = np.repeat(np.arange(n_seen), 4)
        times = times_held_out(deployment_rounds(codes, n_unseen, seed=seed), codes)
        assert times.min() >= 1
        assert np.ptp(times) <= 1

    @given(st.integers(2, 12), unseen_counts, st.data())
    def test_also_with_a_given_number_of_rounds(self, n_seen, n_unseen, data):
        n_rounds = data.draw(st.integers(1, n_seen))
        codes = np.repeat(np.arange(n_seen), 4)
        rounds = deployment_rounds(codes, n_unseen, n_rounds=n_rounds, seed=data.draw(seeds))
        assert len(rounds) == n_rounds
        assert np.ptp(times_held_out(rounds, codes)) <= 1

    @given(seen_counts, unseen_counts, seeds)
    def test_groups_have_the_offered_size_and_cover_the_held_out_classes(self, n_seen, n_unseen, seed):
        codes = np.repeat(np.arange(n_seen), 4)
        for one in deployment_rounds(codes, n_unseen, seed=seed):
            assert {len(group) for group in one.groups} == {offered_together(n_seen, n_unseen)}
            assert {code for group in one.groups for code in group.tolist()} == held_out(one, codes)
            assert all(np.all(np.diff(group) > 0) for group in one.groups)

    @pytest.mark.parametrize(
        ("n_seen", "n_unseen", "n_rounds", "n_held"),
        [
            (2, 1, 2, 1),
            (3, 1, 3, 1),
            (5, 1, 5, 1),
            (5, 5, 4, 2),
            (12, 1, ROUNDS, 2),
            (60, 1, ROUNDS - 1, 12),
            (150, 50, 4, 38),
            (500, 3, ROUNDS - 1, 100),
            (500, 500, 4, 250),
        ],
    )
    def test_number_of_rounds_and_of_held_out_classes(self, n_seen, n_unseen, n_rounds, n_held):
        codes = np.repeat(np.arange(n_seen), 3)
        rounds = deployment_rounds(codes, n_unseen)
        assert len(rounds) == n_rounds
        assert {len(held_out(one, codes)) for one in rounds} == {n_held}

    def test_leave_one_out_groups_with_one_unseen_class(self):
        codes = np.repeat(np.arange(12), 4)
        rounds = deployment_rounds(codes, 1)
        assert sorted(group.tolist() for one in rounds for group in one.groups) == [[c] for c in range(12)]

    def test_one_held_out_class_has_no_halves(self):
        rounds = deployment_rounds(np.repeat(np.arange(3), 4), 1)
        assert [one.halves for one in rounds] == [[], [], []]

    def test_without_halves(self):
        codes = np.repeat(np.arange(12), 4)
        plain, without = (deployment_rounds(codes, 4, halves=halves) for halves in (True, False))
        assert all(len(one.halves) == 2 for one in plain)
        assert all(one.halves == [] for one in without)
        for one, other in zip(plain, without, strict=True):
            np.testing.assert_array_equal(one.held.seen_train, other.held.seen_train)
            np.testing.assert_array_equal(one.groups, other.groups)


class TestRows:
    @settings(max_examples=50)
    @given(seen_counts, unseen_counts, seeds)
    def test_every_row_has_one_role(self, n_seen, n_unseen, seed):
        codes = ragged(n_seen, seed)
        for one in deployment_rounds(codes, n_unseen, seed=seed):
            assert len(one.held) == len(codes)  # `HoldOut` itself refuses rows with two roles
            one.held.check(codes)

    @settings(max_examples=50)
    @given(seen_counts, unseen_counts, seeds)
    def test_halves(self, n_seen, n_unseen, seed):
        codes = np.append(ragged(n_seen, seed), n_seen)  # and a class with one row
        for one in deployment_rounds(codes, n_unseen, seed=seed):
            train, classes = one.held.seen_train, held_out(one, codes)
            for k, half in enumerate(one.halves):
                other = set(one.halves[1 - k].classes.tolist())
                assert other | set(half.classes.tolist()) == classes
                assert not other & set(half.classes.tolist())
                assert abs(len(other) - len(half.classes)) <= 1
                np.testing.assert_array_equal(half.train[: len(train)], train)
                assert classes_of(half.train[len(train) :], codes) == other
                assert not set(half.train) & set(one.held.seen_val)

    def test_an_eighth_of_the_rows_validates(self):
        codes = np.repeat(np.arange(8), 40)
        for one in deployment_rounds(codes, 3):
            rows = np.bincount(codes[one.held.seen_val], minlength=8)
            assert set(rows.tolist()) == {0, 5}

    @pytest.mark.parametrize("size", [6, 12, 17, 40])
    def test_rounds_validate_on_other_rows(self, size):
        codes = np.repeat(np.arange(12), size)
        rounds = deployment_rounds(codes, 2)
        assert len(rounds) == 6
        rows = np.concatenate([one.held.seen_val for one in rounds])
        assert len(np.unique(rows)) == len(rows)

    def test_too_few_rows_take_turns(self):
        codes = np.repeat(np.arange(12), 3)
        rounds = deployment_rounds(codes, 2)
        times = np.bincount(np.concatenate([one.held.seen_val for one in rounds]), minlength=36)
        assert times.max() <= 2

    def test_a_class_with_one_row_is_never_in_seen_val(self):
        codes = np.repeat(np.arange(6), [1, 8, 8, 8, 8, 8])
        for one in deployment_rounds(codes, 2):
            assert 0 not in classes_of(one.held.seen_val, codes)
            assert (0 in held_out(one, codes)) != (0 in classes_of(one.held.seen_train, codes))

    def test_no_class_with_two_rows(self):
        with pytest.raises(ValueError, match=r"^too few classes have two rows, .*; add samples$"):
            deployment_rounds(np.arange(6), 2)

    def test_the_only_class_with_two_rows_is_held_out(self):
        with pytest.raises(ValueError, match="too few classes have two rows"):
            deployment_rounds(np.array([0, 0, 1, 2]), 1)

    def test_many_rows_are_capped(self):
        codes = np.repeat(np.arange(4), 60_000)
        for one in deployment_rounds(codes, 4, n_rounds=2):
            assert len(one.held.unseen_val) == 20_000
            assert len(one.held.seen_val) == 10_000  # of half of the classes
            assert len(one.held.seen_train) == 110_000
            assert set(np.bincount(codes[one.held.unseen_val]).tolist()) <= {0, 10_000}


class TestSeed:
    @staticmethod
    def flat(rounds):
        return [
            rows.tolist()
            for one in rounds
            for rows in (one.held.seen_train, one.held.gzsl_val, *one.groups, *(h.train for h in one.halves))
        ]

    def test_same_seed_same_rounds(self):
        codes = ragged(20, 0)
        one, two, other = (self.flat(deployment_rounds(codes, 6, seed=seed)) for seed in (3, 3, 4))
        assert one == two
        assert one != other


class TestNumberOfRounds:
    codes = np.repeat(np.arange(5), 4)

    @pytest.mark.parametrize("n_rounds", [0, -1, 6])
    def test_out_of_range(self, n_rounds):
        match = rf"^rounds must be between 1 and the 5 seen classes, got {n_rounds}$"
        with pytest.raises(ValueError, match=match):
            deployment_rounds(self.codes, 2, n_rounds=n_rounds)

    def test_not_a_whole_number(self):
        with pytest.raises(ValueError, match="rounds must be a whole number"):
            deployment_rounds(self.codes, 2, n_rounds=2.5)
        with pytest.raises(TypeError, match="rounds must be a number"):
            deployment_rounds(self.codes, 2, n_rounds="two")

    def test_one_round_holds_out_half(self):
        (one,) = deployment_rounds(np.repeat(np.arange(8), 4), 1, n_rounds=1)
        assert len(one.groups) == 4


class TestGroupsOf:
    @given(st.integers(1, 30), st.data())
    def test_equal_sizes_that_cover_all(self, n, data):
        size = data.draw(st.integers(1, n))
        classes = np.random.default_rng(0).permutation(n)
        groups = groups_of(classes, size)
        assert {len(group) for group in groups} == {size}
        assert len(groups) == -(-n // size)
        np.testing.assert_array_equal(np.unique(np.concatenate(groups)), np.arange(n))
