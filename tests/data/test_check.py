"""Findings; the command line's tests have more of them."""

import numpy as np
import pandas as pd
import pytest

from cosmo.data import load_glyphs
from cosmo.data.check import find_problems, suggest_expert
from cosmo.data.samples import ProjectData, SampleSet

TABLE = pd.DataFrame(np.eye(4, dtype=np.float32), index=list("abcd"))


def data(labels, test="", table=TABLE):
    rng = np.random.default_rng(0)
    parts = [SampleSet(rng.normal(size=(len(part), 3)), pd.Index(list(part))) for part in (labels, test)]
    return ProjectData("features", parts[0], parts[1] if test else None, table)


def test_worst_first():
    levels = [finding.level for finding in find_problems(data("aabbbz", "cd"), joint_space=False)]
    assert levels == sorted(levels, key=["error", "warning", "note"].index)
    assert levels[0] == "error"


def test_nothing_but_advice():
    (only,) = find_problems(data("abc" * 6, "abcd", TABLE.reindex(list("abcdefgh")).fillna(0.5)
                           + np.arange(8)[:, None]), joint_space=False)[-1:]  # fmt: skip
    assert only.level == "note"
    assert "eszsl" in only.text


@pytest.mark.parametrize("labels", ["abc", "ab"])
def test_no_class_with_two_samples(labels):
    found = find_problems(data(labels), joint_space=False)
    assert any(one.level == "error" and "no class has two samples" in one.text for one in found)


def test_same_sentence_twice():
    words = pd.Series({"a": "A dog.", "b": "a dog. ", "c": "a cat"})
    found = find_problems(data("aabb" * 5, table=words), joint_space=False)
    assert any("'a', 'b' have the same description" in one.text for one in found)


def test_experts():
    groups = pd.MultiIndex.from_tuples([("x", str(k)) for k in range(4)])
    shares = (TABLE * 0.5).set_axis(groups, axis=1)
    assert suggest_expert(shares, joint_space=False) == "lago"
    assert suggest_expert(shares.set_axis(range(4), axis=1), joint_space=False) == "eszsl"
    assert suggest_expert(shares * 2, joint_space=False) == "eszsl"  # yes or no
    assert suggest_expert(-shares, joint_space=False) == "eszsl"
    assert suggest_expert(pd.Series({"a": "words"}), joint_space=False) == "eszsl"


GLYPHS = load_glyphs(n_classes=40, samples_per_class=12)
X, Y = GLYPHS.features[GLYPHS.split.trainval], GLYPHS.labels[GLYPHS.split.trainval]
TEST_ROWS = np.concatenate([GLYPHS.split.test_seen, GLYPHS.split.test_unseen])
TEST, TEST_Y = GLYPHS.features[TEST_ROWS], GLYPHS.labels[TEST_ROWS]
CODES = pd.factorize(Y)[0].astype(float)


def warnings(X, y, test=TEST, test_y=TEST_Y, table=GLYPHS.descriptions):
    samples = [SampleSet(rows, pd.Index(labels)) for rows, labels in ((X, y), (test, test_y))]
    found = find_problems(ProjectData("features", *samples, table), joint_space=False)
    return [one.text for one in found if one.level == "warning"]


@pytest.mark.parametrize("seed", range(3))
def test_clean_data_give_no_warning(seed):
    data = load_glyphs(n_classes=24, samples_per_class=10, difficulty=0.3, seed=seed)
    train, test = data.split.trainval, np.concatenate([data.split.test_seen, data.split.test_unseen])
    parts = data.features[train], data.labels[train], data.features[test], data.labels[test]
    assert warnings(*parts, data.descriptions) == []
    rng = np.random.default_rng(seed)
    centres, y = rng.normal(0, 3, (12, 30)), np.repeat(np.arange(12), 8)
    X, test = rng.normal(centres[y]), rng.normal(centres[y])
    assert warnings(np.round(X), y, np.round(test), y, pd.DataFrame(centres)) == []


@pytest.mark.parametrize(
    "column", [CODES, -CODES, CODES + np.random.default_rng(0).normal(0, 0.01, len(CODES))]
)
def test_label_among_the_features(column):
    names = [*map(str, range(X.shape[1])), "species_id"]
    (text,) = warnings(pd.DataFrame(np.column_stack([X, column]), columns=names), Y)
    assert "1 feature, such as 'species_id', constant within each class" in text


@pytest.mark.parametrize("trait", [CODES == 3, CODES > 3, CODES // 7])
def test_traits_are_no_labels(trait):
    assert warnings(np.column_stack([X, trait]), Y) == []


def test_one_hot_labels():
    (text,) = warnings(np.column_stack([X, np.eye(len(set(Y)))[CODES.astype(int)]]), Y)
    assert f"{len(set(Y))} features" in text


def test_row_numbers():
    number = np.arange(len(X))
    for column in (number, -(number**2)):
        (text,) = warnings(np.column_stack([X, column]), Y)
        assert "monotonic in the order of the rows" in text
    order = np.random.default_rng(0).permutation(len(X))
    assert warnings(np.column_stack([X, number])[order], Y[order]) == []


@pytest.mark.parametrize(
    ("noise", "expected"), [(0, "also among"), (1e-6, "almost equal"), (1e-2, "almost equal")]
)
def test_copies_of_test_rows(noise, expected):
    rows = np.flatnonzero(TEST_Y.isin(Y))[:7]
    copies = TEST[rows] + np.random.default_rng(0).normal(0, noise * X.std(axis=0), (7, X.shape[1]))
    (text,) = warnings(np.vstack([X, copies.astype(np.float32)]), Y.append(TEST_Y[rows]))
    assert text.startswith("7 test samples")
    assert expected in text


def test_too_few_rows_to_tell():
    assert not any(
        "such as" in text for text in warnings(np.eye(3), list("abc"), np.eye(3), list("abc"), TABLE)
    )
