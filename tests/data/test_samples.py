"""Samples of any kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from cosmo.data import DataError
from cosmo.data.samples import SampleSet, read_samples


@pytest.mark.parametrize("items", [pd.DataFrame({"x": [1, 2, 3]}), np.arange(3), list("abc")], ids=type)
def test_take(items: object):
    few = SampleSet(items, pd.Index(["p", "q", "r"])).take(np.array([2, 0]))
    assert len(few) == 2
    assert list(few.labelled("here")) == ["r", "p"]
    assert np.asarray(few.items).ravel().tolist() == np.asarray(items).ravel()[[2, 0]].tolist()
    assert SampleSet(items, None).take([1]).labels is None


def test_labels_that_are_not_there():
    with pytest.raises(DataError, match=r"^here: there are no labels; say which column"):
        SampleSet(["a"], None).labelled("here")


def test_pictures_in_folders_and_in_a_table(tmp_path: Path):
    for name in ("cat", "dog"):
        (tmp_path / "p" / name).mkdir(parents=True)
        Image.new("L", (8, 8)).save(tmp_path / "p" / name / "1.png")
    (tmp_path / "t.csv").write_text("picture,kind\np/cat/1.png,cat\np/dog/1.png,dog\n")
    one = read_samples(tmp_path / "p", "images")
    other = read_samples(tmp_path / "t.csv", "images", image="picture", label="kind")
    assert one.items == other.items
    assert list(one.labelled("p")) == list(other.labelled("t")) == ["cat", "dog"]


def test_no_such_file(tmp_path: Path):
    with pytest.raises(DataError, match="no such file or folder"):
        read_samples(tmp_path / "no.csv", "text")
