from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cosmo.data import GZSLDataset, Split, read_xlsa17, write_xlsa17
from cosmo.data.xlsa17 import known_groups

SIZES = {"CUB": (312, 28), "AWA1": (85, 11), "AWA2": (85, 11), "AWA": (85, 11), "SUN": (102, 4)}


def write(folder: Path, n_attributes: int) -> Path:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.random((3, n_attributes)), index=["cat", "dog", "fox"])
    labels = ["cat", "cat", "dog", "dog", "fox"]
    split = Split(trainval=[0, 2], test_seen=[1, 3], test_unseen=[4])
    write_xlsa17(GZSLDataset(np.eye(5, 4), labels, table, split), folder)
    return folder


class TestKnownGroups:
    @pytest.mark.parametrize("name", SIZES)
    def test_every_attribute_has_a_name_of_its_own(self, name: str):
        n_attributes, n_groups = SIZES[name]
        columns = known_groups(name, n_attributes)
        assert columns is not None
        assert columns.names == ["group", "attribute"]
        assert len(columns) == n_attributes
        assert columns.is_unique
        assert columns.get_level_values("group").nunique() == n_groups

    @pytest.mark.parametrize("name", SIZES)
    def test_attributes_of_a_group_are_numbered_from_one(self, name: str):
        columns = known_groups(name, SIZES[name][0])
        assert columns is not None
        for _, numbers in columns.to_frame(index=False).groupby("group")["attribute"]:
            assert list(numbers) == [str(number) for number in range(1, len(numbers) + 1)]

    def test_a_group_may_stand_in_two_places(self):
        groups = known_groups("AWA1", 85)
        assert groups is not None
        places = np.flatnonzero(groups.get_level_values("group") == "parts")
        assert len(places) == 17
        assert (np.diff(places) > 1).sum() == 1

    def test_capitals_do_not_matter(self):
        columns = known_groups("cub", 312)
        assert columns is not None
        assert columns.equals(known_groups("CUB", 312))

    @pytest.mark.parametrize(
        ("name", "number"),
        [("CUB", 1024), ("CUB", 311), ("CUB", 0), ("FLO", 312), ("glyphs", 22), ("", 312), ("SUN", 312)],
    )
    def test_nothing_else_is_known(self, name: str, number: int):
        assert known_groups(name, number) is None

    @pytest.mark.parametrize("name", ["", "FLO", "CUB2"])
    def test_no_attributes_of_a_stranger(self, name: str):
        assert known_groups(name, 1) is None


class TestReading:
    @pytest.mark.parametrize(("name", "number", "n_groups"), [("CUB", 312, 28), ("sun", 102, 4)])
    @pytest.mark.parametrize("original", [False, True])
    def test_by_the_name_of_the_folder(
        self, name: str, number: int, n_groups: int, original: bool, tmp_path: Path
    ):
        data = read_xlsa17(write(tmp_path / name, number), original=original)
        assert data.name == name
        assert data.descriptions.columns.equals(known_groups(name, number))
        assert data.descriptions.columns.get_level_values(0).nunique() == n_groups

    def test_values_stay_in_their_places(self, tmp_path: Path):
        folder = write(tmp_path / "CUB", 312)
        grouped, plain = read_xlsa17(folder), read_xlsa17(folder, name="birds")
        np.testing.assert_array_equal(grouped.descriptions.to_numpy(), plain.descriptions.to_numpy())

    def test_a_given_name_decides(self, tmp_path: Path):
        folder = write(tmp_path / "birds", 312)
        assert read_xlsa17(folder, name="CUB").descriptions.columns.nlevels == 2
        assert read_xlsa17(folder).descriptions.columns.nlevels == 1

    @pytest.mark.parametrize(("name", "number"), [("CUB", 311), ("CUB", 1024), ("FLO", 312), ("CUB_v2", 312)])
    def test_others_are_numbered(self, name: str, number: int, tmp_path: Path):
        columns = read_xlsa17(write(tmp_path / name, number)).descriptions.columns
        assert list(columns) == list(range(number))

    def test_a_file_of_attributes_wins(self, tmp_path: Path):
        folder = write(tmp_path / "CUB", 312)
        (tmp_path / "own.txt").write_text("\n".join(f"{i % 3}th::{i}" for i in range(312)))
        columns = read_xlsa17(folder, attributes=tmp_path / "own.txt").descriptions.columns
        assert list(columns) == [(f"{i % 3}th", f"{i}") for i in range(312)]

    def test_groups_survive_writing(self, tmp_path: Path):
        data = read_xlsa17(write(tmp_path / "CUB", 312))
        write_xlsa17(data, tmp_path / "copy")
        back = read_xlsa17(tmp_path / "copy", attributes=tmp_path / "copy" / "attributes.txt")
        assert back.descriptions.columns.equals(data.descriptions.columns)
