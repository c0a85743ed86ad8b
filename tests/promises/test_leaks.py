"""Planted leaks are caught, each by its own check; clean data raise no alarm."""

import numpy as np
import pandas as pd
import pytest

from cosmo.data import load_glyphs
from cosmo.data.check import find_leaks, find_problems
from cosmo.data.samples import ProjectData, SampleSet

GLYPHS = load_glyphs(n_classes=40, samples_per_class=12)
TRAIN = np.sort(GLYPHS.split.trainval)
TEST = np.concatenate([GLYPHS.split.test_seen, GLYPHS.split.test_unseen])


def kinds(X, y, *more):
    return [leak.kind for leak in find_leaks(X, y, *more)]


def parts():
    X, y = GLYPHS.features, GLYPHS.labels
    return X[TRAIN], y[TRAIN], X[TEST], y[TEST]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("difficulty", [0.3, 1.0])
def test_clean_glyphs(seed, difficulty):
    data = load_glyphs(n_classes=24, samples_per_class=10, difficulty=difficulty, seed=seed)
    train, test = data.split.trainval, np.concatenate([data.split.test_seen, data.split.test_unseen])
    X, y = data.features, data.labels
    assert kinds(X[train], y[train], X[test], y[test], data.descriptions) == []


@pytest.mark.parametrize("seed", range(20))
def test_clean_clusters(seed):
    """Classes that are told apart with ease, described by where they truly are, or by other samples."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, 3, (12, 30))
    y = np.repeat(np.arange(12), 8)
    X, test = rng.normal(centres[y]), rng.normal(centres[y])
    other = pd.DataFrame(np.stack([X[y == c].mean(axis=0) for c in range(12)]))
    for table in (pd.DataFrame(centres), other):
        assert kinds(X, y, test, y, table) == []
    assert kinds(np.round(X), y, np.round(test), y) == []
    assert kinds(X > 0, y, test > 0, y) == []


def test_a_label_among_the_features():
    X, y, *_ = parts()
    codes = pd.factorize(y)[0].astype(float)
    noisy = codes + np.random.default_rng(0).normal(0, 0.01, len(codes))
    for column in (codes, noisy, -codes):
        assert kinds(np.column_stack([X, column]), y) == ["label column"]
    for trait in (codes == 3, codes > 3, codes // 7):  # which a label's part could be, but a trait, too
        assert kinds(np.column_stack([X, trait]), y) == []
    table = pd.DataFrame(np.column_stack([X[:, :2], codes]), columns=["height", "width", "species_id"])
    named = find_leaks(table, y)
    assert "'species_id'" in named[0].text
    one_hot = find_leaks(np.column_stack([X, np.eye(codes.astype(int).max() + 1)[codes.astype(int)]]), y)
    assert one_hot[0].number == len(set(y))


def test_a_row_number():
    X, y, *_ = parts()
    order = np.random.default_rng(0).permutation(len(X))
    number = np.arange(len(X))
    assert kinds(np.column_stack([X, number]), y) == ["row number"]
    assert kinds(np.column_stack([X, -(number**2)])[order[order.argsort()]], y) == ["row number"]
    assert kinds(np.column_stack([X, number])[order], y[order]) == []  # which says nothing any more


@pytest.mark.parametrize("noise", [1e-6, 1e-3, 1e-2])
def test_noisy_copies_of_test_rows(noise):
    X, y, test, test_y = parts()
    rng = np.random.default_rng(0)
    copies = test[:25] + rng.normal(0, noise * X.std(axis=0), (25, X.shape[1]))
    (leak,) = find_leaks(np.vstack([X, copies]), [*y, *test_y[:25]], test, test_y)
    assert leak.kind == "near copies"
    assert leak.number == 25


def test_permuted_columns_are_not_caught():
    X, y, test, test_y = parts()
    order = np.random.default_rng(0).permutation(X.shape[1])
    assert kinds(np.vstack([X, test[:, order]]), [*y, *test_y], test, test_y) == []


@pytest.mark.parametrize("factor", [1.0, 0.01])
def test_descriptions_that_are_averages_of_test_rows(factor):
    X, y, test, test_y = parts()
    classes = GLYPHS.classes
    averages = np.stack([test[test_y == label].mean(axis=0) for label in classes])
    (leak,) = find_leaks(X, y, test, test_y, factor * pd.DataFrame(averages, index=classes))
    assert leak.kind == "descriptions of test rows"
    assert leak.number == len(GLYPHS.classes)


def test_a_projection_of_those_averages_is_not_caught():
    X, y, test, test_y = parts()
    averages = np.stack([test[test_y == label].mean(axis=0) for label in GLYPHS.classes])
    mixed = averages @ np.random.default_rng(0).normal(size=(X.shape[1], X.shape[1]))
    assert kinds(X, y, test, test_y, pd.DataFrame(mixed, index=GLYPHS.classes)) == []


def test_too_little_to_tell():
    assert kinds([[1.0], [2.0], [3.0]], list("abc"), [[1.0]], ["a"], pd.DataFrame([[1.0]], index=["a"])) == []


def test_rows_of_another_kind():
    with pytest.raises(ValueError, match="test rows have 2 features, training rows 3"):
        find_leaks(np.ones((4, 3)), list("aabb"), np.ones((4, 2)))


class TestOlderChecks:
    """Leaks that `cosmo check`, the split and the protocol are there for."""

    def found(self, train, test):
        data = ProjectData("features", train, test, GLYPHS.descriptions)
        return "\n".join(one.text for one in find_problems(data, joint_space=False) if one.level == "warning")

    def test_equal_rows_whatever_their_label(self):
        X, y, test, test_y = parts()
        clean = self.found(SampleSet(X, y), SampleSet(test, test_y))
        assert "also among the training" not in clean
        # Rows of an unseen class, mislabelled as a seen one.
        unseen = np.flatnonzero(~test_y.isin(y))[:7]
        planted = SampleSet(np.vstack([X, test[unseen]]), y.append(y[:7]))
        assert "7 test samples also among the training" in self.found(planted, SampleSet(test, test_y))
