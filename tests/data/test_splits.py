import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmo.data import GZSLDataset, Split
from cosmo.data.splits import HoldOut, Protocol, SealedTestError, authors_hold_out, further_folds, hold_out


def proposed_split(seed=0, n=900, stretch=1):
    """A split in the layout of the benchmark: 10 training, 4 validation and 3 unseen classes.

    As distributed, `train` and `val` contain test rows, and no list is sorted. With `stretch`, row
    numbers are far apart, so that a Python set of them is not in order.
    """
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 17, n)
    labels[:51] = np.repeat(np.arange(17), 3)
    rows = stretch * np.arange(n) + stretch - 1
    held_back = rng.random(n) < 0.2
    held_back[:51] = np.tile([True, False, False], 17)

    def shuffled(mask):
        return rng.permutation(rows[mask])

    split = Split(
        trainval=shuffled((labels < 14) & ~held_back),
        test_seen=shuffled((labels < 14) & held_back),
        test_unseen=shuffled(labels >= 14),
        train=shuffled(labels < 10),
        val=shuffled((labels >= 10) & (labels < 14)),
    )
    return split, labels


def proposed_dataset(seed=0, *, with_val=True):
    split, codes = proposed_split(seed, n=300)
    if not with_val:
        split = Split(split.trainval, split.test_seen, split.test_unseen)
    names = np.array([f"class {c}" for c in range(17)])
    table = pd.DataFrame(np.eye(17), index=names)
    features = np.arange(300, dtype=np.float32)[:, None] * [1, -1]
    return GZSLDataset(features, names[codes], table, split)


class TestAuthorsHoldOut:
    @pytest.mark.parametrize("stretch", [1, 37, 256])
    @pytest.mark.parametrize("seed", [1000, 1002, 1003, 1004])
    def test_draws_as_the_papers_code(self, seed, stretch):
        split, _ = proposed_split(seed, stretch=stretch)
        tv, tr, va = split.trainval + 1, split.train + 1, split.val + 1  # 1-based, in file order
        candidates = list(set(tv).intersection(tr))
        assert stretch == 1 or candidates != sorted(candidates)
        state = np.random.get_state()
        try:
            np.random.seed(seed)
            drawn = np.random.choice(candidates, len(split.test_seen), replace=False)
        finally:
            np.random.set_state(state)
        held = authors_hold_out(split, seed)
        np.testing.assert_array_equal(held.seen_val + 1, np.sort(drawn))
        np.testing.assert_array_equal(held.seen_train + 1, sorted(set(candidates) - set(drawn)))
        np.testing.assert_array_equal(held.unseen_val + 1, sorted(set(tv).intersection(va)))

    def test_the_global_generator_is_left_alone(self):
        np.random.seed(5)
        expected = np.random.random()
        np.random.seed(5)
        authors_hold_out(proposed_split()[0], 1002)
        assert np.random.random() == expected

    def test_at_most_half_becomes_seen_val(self):
        split = Split(
            trainval=[0, 1, 2, 3, 9], test_seen=[4, 5, 6], test_unseen=[8], train=[0, 1, 2, 3], val=[9]
        )
        assert len(authors_hold_out(split, 0).seen_val) == 2

    def test_errors(self):
        split, _ = proposed_split()
        with pytest.raises(ValueError, match="no train / val classes; use hold_out"):
            authors_hold_out(Split(split.trainval, split.test_seen, split.test_unseen), 0)
        with pytest.raises(ValueError, match="Seen-Val would be empty"):
            authors_hold_out(Split(split.trainval, [], split.test_unseen, split.train, split.val), 0)


class TestHoldOut:
    held = HoldOut(seen_train=[10, 11, 12], seen_val=[3, 4, 5, 6], unseen_val=[20, 21, 22, 23])

    def test_gzsl_val_is_seen_then_unseen(self):
        assert self.held.gzsl_val.tolist() == [3, 4, 5, 6, 20, 21, 22, 23]
        assert len(self.held) == 11

    def test_every_third_row_is_for_gating_val(self):
        assert self.held.gating_val.tolist() == [3, 6, 22]
        assert self.held.gating_train.tolist() == [4, 5, 20, 21, 23]

    def test_within_a_subset(self):
        rows = [23, 22, 21, 20, 12, 11, 10, 6, 5, 4, 3, 99]
        inside = self.held.within(rows)
        for part in ("seen_train", "seen_val", "unseen_val"):
            np.testing.assert_array_equal(np.array(rows)[getattr(inside, part)], getattr(self.held, part))

    def test_parts_must_be_disjoint_and_not_empty(self):
        with pytest.raises(ValueError, match="share rows"):
            HoldOut([0, 1], [1, 2], [3])
        with pytest.raises(ValueError, match="share rows"):
            HoldOut([0, 1], [2], [3, 3])
        with pytest.raises(ValueError, match="seen_val must be a non-empty list"):
            HoldOut([0], [], [3])

    def test_check_against_labels(self):
        held = HoldOut([0, 1], [2, 3], [4, 5])
        held.check(list("ababcc"))
        held.check([("m", 1), ("m", 2)] * 2 + [("b", 1)] * 2)
        with pytest.raises(ValueError, match="held out as unseen has rows in seen_train"):
            held.check(list("ababca"))
        with pytest.raises(ValueError, match="seen_val has a class without rows in seen_train"):
            held.check(list("abadcc"))
        with pytest.raises(ValueError, match="beyond the 5 rows"):
            held.check(list("ababc"))


def shuffled_labels(class_sizes, seed):
    labels = np.repeat([f"c{i}" for i in range(len(class_sizes))], class_sizes)
    return np.random.default_rng(seed).permutation(labels)


def check_parts(held, labels, share):
    """All rows, once; unseen classes whole; every seen class keeps a row; the share is respected."""
    parts = np.concatenate([held.seen_train, held.seen_val, held.unseen_val])
    np.testing.assert_array_equal(np.sort(parts), np.arange(len(labels)))
    unseen = set(labels[held.unseen_val])
    assert not unseen & set(labels[np.concatenate([held.seen_train, held.seen_val])])
    for c in set(labels) - unseen:
        n, val = (labels == c).sum(), (labels[held.seen_val] == c).sum()
        assert val < n
        assert val == min(1, n - 1) or val == n - 1 or abs(val - share * n) <= 0.5
        assert n == 1 or val >= 1
    held.check(labels)


class TestRandomHoldOut:
    @settings(deadline=None)
    @given(
        st.lists(st.integers(2, 15), min_size=2, max_size=9),
        st.integers(0, 100),
        st.floats(0.05, 0.95),
        st.floats(0.05, 0.95),
    )
    def test_properties(self, class_sizes, seed, classes, rows):
        labels = shuffled_labels(class_sizes, seed)
        held = hold_out(labels, classes=classes, rows=rows, seed=seed)
        check_parts(held, labels, rows)
        n_held = len(set(labels[held.unseen_val]))
        assert 1 <= n_held < len(class_sizes)
        assert n_held in (1, len(class_sizes) - 1) or abs(n_held - classes * len(class_sizes)) <= 0.5

    @settings(deadline=None)
    @given(st.lists(st.integers(1, 3), max_size=8), st.integers(0, 100), st.floats(0.05, 0.95))
    def test_classes_of_one_row_stay_in_training(self, class_sizes, seed, rows):
        labels = shuffled_labels([2, 2, *class_sizes], seed)  # one is held out, another has a row to give
        check_parts(hold_out(labels, classes=0.01, rows=rows, seed=seed), labels, rows)

    def test_the_seed_decides(self):
        labels = shuffled_labels([9] * 8, 0)
        one, same, other = (hold_out(labels, seed=seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(one.gzsl_val, same.gzsl_val)
        assert set(labels[one.unseen_val]) != set(labels[other.unseen_val])

    def test_any_label(self):
        for labels in ([5, 900] * 4, [("a", 1), ("a", 2)] * 4):
            held = hold_out(labels)
            assert (len(held.seen_train), len(held.seen_val), len(held.unseen_val)) == (3, 1, 4)

    @pytest.mark.parametrize(
        ("shares", "message"),
        [
            ({"classes": 0.0}, "classes is a share between 0 and 1"),
            ({"classes": 1.0}, "classes is a share"),
            ({"rows": -0.1}, "rows is a share"),
            ({"rows": 1.5}, "rows is a share"),
        ],
    )
    def test_shares(self, shares, message):
        with pytest.raises(ValueError, match=message):
            hold_out(list("aabb"), **shares)

    def test_too_few_classes_or_rows(self):
        with pytest.raises(ValueError, match="at least two classes, got 1"):
            hold_out(["a", "a"])
        with pytest.raises(ValueError, match="no class has two rows"):
            hold_out(["a", "b", "c"])


class TestFurtherFolds:
    @settings(deadline=None)
    @given(st.lists(st.integers(4, 9), min_size=4, max_size=9), st.integers(0, 50), st.data())
    def test_with_the_first_each_class_is_unseen_once(self, class_sizes, seed, data):
        labels = shuffled_labels(class_sizes, seed)
        first = hold_out(labels, seed=seed)
        n_folds = data.draw(st.integers(1, len(set(labels[first.seen_train])) + 1))
        folds = further_folds(labels, first, n_folds, seed=seed)
        assert len(folds) == n_folds - 1
        if n_folds > 1:
            unseen = [c for held in (first, *folds) for c in sorted(set(labels[held.unseen_val]))]
            assert sorted(unseen) == sorted(set(labels))
        for held in folds:
            held.check(labels)
            assert not np.intersect1d(held.gzsl_val, first.gating_val).size

    @pytest.mark.parametrize("n_folds", [0, 4])
    def test_number_of_folds(self, n_folds):
        labels = list("aabbcc")
        with pytest.raises(ValueError, match=f"between 1 and 3, got {n_folds}"):
            further_folds(labels, hold_out(labels), n_folds)


class TestProtocol:
    @pytest.mark.parametrize("with_val", [True, False])
    def test_training_rows_come_out(self, with_val):
        data = proposed_dataset(with_val=with_val)
        protocol = Protocol(data, seed=3)
        X, y, rows = protocol.training()
        np.testing.assert_array_equal(rows, np.sort(data.split.trainval))
        np.testing.assert_array_equal(X, data.features[rows])
        assert list(y) == list(data.labels[rows])

    @pytest.mark.parametrize("with_val", [True, False])
    def test_the_validation_stage_uses_training_rows_only(self, with_val):
        data = proposed_dataset(with_val=with_val)
        protocol = Protocol(data, seed=3)
        held = protocol.hold_out
        np.testing.assert_array_equal(
            np.sort(np.concatenate([held.seen_train, held.gzsl_val])), np.sort(data.split.trainval)
        )
        inside, training = protocol.training_hold_out(), protocol.training()
        np.testing.assert_array_equal(training.rows[inside.gzsl_val], held.gzsl_val)
        np.testing.assert_array_equal(training.rows[inside.seen_train], held.seen_train)

    def test_named_validation_classes_are_used(self):
        data = proposed_dataset()
        held = Protocol(data, seed=1002).hold_out
        np.testing.assert_array_equal(held.seen_val, authors_hold_out(data.split, 1002).seen_val)
        assert {int(label.split()[1]) for label in data.labels[held.unseen_val]} == {10, 11, 12, 13}

    def test_test_rows_are_sealed(self):
        data = proposed_dataset()
        protocol = Protocol(data)
        almost = [*data.split.trainval, data.split.test_seen[0]]
        for rows in (data.split.test_seen, data.split.test_unseen, almost):
            with pytest.raises(SealedTestError, match="outside the training rows"):
                protocol.samples(rows)
        with pytest.raises(SealedTestError, match="1 of 2 rows are outside"):
            protocol.samples([data.split.trainval[0], data.split.test_unseen[0]])
        with pytest.raises(SealedTestError):
            protocol.samples([-1])

    def test_a_mask_does_not_break_the_seal(self):
        """A boolean mask must be refused or read as the rows it marks, not as the numbers 0 and 1."""
        split = Split(trainval=[0, 1, 2, 3], test_seen=[4, 5], test_unseen=[6, 7])
        data = GZSLDataset(np.eye(8), list("aabbabcc"), {"a": [1], "b": [2], "c": [3]}, split)
        everything = np.ones(8, dtype=bool)
        with pytest.raises((SealedTestError, TypeError, ValueError)):
            Protocol(data).samples(everything)

    def test_after_opening_nothing_more_can_be_fitted(self):
        data = proposed_dataset()
        protocol = Protocol(data)
        assert not protocol.opened
        protocol.open_test()
        assert protocol.opened
        with pytest.raises(SealedTestError, match="is open"):
            protocol.samples(data.split.trainval)
        with pytest.raises(SealedTestError, match="is open"):
            protocol.training()
        with pytest.raises(SealedTestError, match="opened already"):
            protocol.open_test()

    def test_the_test_is_seen_then_unseen_in_increasing_order(self):
        data = proposed_dataset()
        X, y, rows = Protocol(data).open_test()
        split = data.split
        np.testing.assert_array_equal(rows, [*sorted(split.test_seen), *sorted(split.test_unseen)])
        np.testing.assert_array_equal(X, data.features[rows])
        assert list(y) == list(data.labels[rows])

    def test_unseen_labels_may_not_be_fitted(self):
        protocol = Protocol(proposed_dataset())
        protocol.check_labels(["class 0", "class 13"])
        with pytest.raises(SealedTestError, match="'class 15' is an unseen class"):
            protocol.check_labels(["class 0", "class 15"])

    @pytest.mark.parametrize("part", ["test_seen", "test_unseen"])
    def test_a_split_without_test_rows(self, part):
        data = proposed_dataset(with_val=False)
        rows = {"trainval": data.split.trainval, "test_seen": data.split.test_seen}
        rows |= {"test_unseen": data.split.test_unseen, part: np.array([], dtype=int)}
        empty = GZSLDataset(data.features, data.labels, data.descriptions, Split(**rows))
        with pytest.raises(ValueError, match="no test rows"):
            Protocol(empty).open_test()
