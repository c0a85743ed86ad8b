"""Findings; the command line's tests have more of them."""

import numpy as np
import pandas as pd
import pytest

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
