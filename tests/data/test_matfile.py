from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from scipy.io import loadmat, savemat

from cosmo.data import DataError
from cosmo.data import _matfile as matfile
from cosmo.data._matfile import MatFile, cell_array, field_names, read_mat, storable, write_mat_files


def save_hdf5(path: Path, fields: dict[str, Any]) -> None:
    with h5py.File(path, "w") as file:
        for field, values in fields.items():
            file[field] = values.T


SAVERS = {
    "v4": lambda *a: savemat(*a, format="4"),
    "v5": savemat,
    "v5 compressed": lambda *a: savemat(*a, do_compression=True),
    "v7.3": save_hdf5,
}


@pytest.fixture(params=list(SAVERS))
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    SAVERS[request.param](tmp_path / "a.mat", {"x": np.arange(6.0).reshape(2, 3), "y": np.zeros((1, 1))})
    return tmp_path / "a.mat"


def holding(value: Any) -> MatFile:
    return MatFile(Path("a.mat"), {"x": value})


class TestReading:
    def test_wanted_fields_only(self, path: Path) -> None:
        file = read_mat(path, ["x", "z"])
        assert list(file.fields) == ["x"]
        assert "x" in file
        assert "y" not in file
        np.testing.assert_array_equal(file.numbers("x"), np.arange(6.0).reshape(2, 3))

    def test_absent_field(self, path: Path) -> None:
        with pytest.raises(
            DataError, match=r"a\.mat: z is missing; the file has x, y: is it the right file\?"
        ):
            read_mat(path, ["z"]).numbers("z")

    def test_names_of_the_fields(self, path: Path) -> None:
        assert field_names(path) == ["x", "y"]

    def test_names_of_hdf5_fields_leave_out_what_matlab_hides(self, tmp_path: Path) -> None:
        save_hdf5(tmp_path / "a.mat", {"x": np.ones(2), "#refs#": np.ones(2)})
        assert field_names(tmp_path / "a.mat") == ["x"]

    @pytest.mark.parametrize("content", [b"", b"no", b"\x89HDF\r\n\x1a\n", b"not a mat file" * 40])
    def test_another_kind_of_file(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "a.mat"
        path.write_bytes(content)
        assert field_names(path) == []
        with pytest.raises(
            DataError, match=r"a\.mat: cannot be read as a MATLAB file \(.*\); it is damaged, truncated"
        ):
            read_mat(path, ["x"])

    def test_no_such_file(self, tmp_path: Path) -> None:
        assert field_names(tmp_path / "nowhere.mat") == []
        with pytest.raises(DataError, match=r"nowhere\.mat: cannot be read"):
            read_mat(tmp_path / "nowhere.mat", ["x"])

    def test_element_of_an_unknown_type(self, tmp_path: Path) -> None:
        path = tmp_path / "a.mat"
        savemat(path, {"x": np.ones((1, 3))})
        content = path.read_bytes()
        path.write_bytes(content[:-32] + b"\x08" + content[-31:])
        with pytest.raises(
            DataError, match=r"a\.mat: cannot be read .*lacks one of its parts\); it is damaged"
        ):
            read_mat(path, ["x"])


class TestNumbers:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.int64])
    def test_are_returned_as_they_are(self, dtype: type) -> None:
        values = np.ones((2, 3), dtype=dtype)
        assert holding(values).numbers("x") is values
        assert holding(values).matrix("x", 3, "y") is values

    @pytest.mark.parametrize(
        ("value", "kind"),
        [
            (cell_array(["a"]), "a cell array"),
            (np.array(["a"]), "text"),
            (np.ones(2, dtype=[("a", "f8")]), "a struct or sparse matrix"),
            (np.array([1j]), "complex numbers"),
            (np.array([True]), "numbers"),
            ({}, "a dict"),
        ],
    )
    def test_of_another_kind(self, value: Any, kind: str) -> None:
        with pytest.raises(
            DataError, match=rf"^a\.mat: x must be a full matrix of real numbers, got {kind}; con"
        ):
            holding(value).numbers("x")

    @pytest.mark.parametrize(
        ("shape", "advice"),
        [((4, 3), "save its transpose"), ((3, 3), "take both from"), ((3,), "take both from")],
    )
    def test_of_another_shape(self, shape: tuple[int, ...], advice: str) -> None:
        with pytest.raises(
            DataError, match=rf"a\.mat: x must have 4 columns, one per entry of y, got .*; {advice}"
        ):
            holding(np.ones(shape)).matrix("x", 4, "y")


class TestPositions:
    @pytest.mark.parametrize("shape", [(3,), (3, 1), (1, 3)])
    def test_count_from_zero(self, shape: tuple[int, ...]) -> None:
        values = holding(np.array([3.0, 1, 2]).reshape(shape)).positions("x", 3, "row")
        assert values.dtype == np.intp
        assert values.tolist() == [2, 0, 1]

    def test_of_nothing(self) -> None:
        assert holding(np.empty((0, 0))).positions("x", 0, "row").tolist() == []

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            (np.ones((2, 2)), r"must be a vector, got shape \(2, 2\); save it as one column"),
            ([1, 1.5], "must hold whole numbers, got 1.5; round or drop it"),
            ([0, 1], "has the index 0; indices are 1-based: add 1 to all of them"),
            ([1, 4], "points to row 4 of 3; take both files from the same data set"),
        ],
    )
    def test_that_cannot_be(self, values: Any, message: str) -> None:
        with pytest.raises(DataError, match=rf"^a\.mat: x {message}$"):
            holding(np.array(values)).positions("x", 3, "row")


class TestTexts:
    def test_of_cells_in_the_order_of_matlab(self) -> None:
        cells = np.array([["a", "c"], ["b", np.array(["d"])]], dtype=object)
        assert holding(cells).texts("x") == ["a", "b", "c", "d"]

    def test_of_rows(self) -> None:
        assert holding(np.array(["cat  ", " dog"])).texts("x") == ["cat", " dog"]

    @pytest.mark.parametrize("cell", [3.0, None, np.array(["a", "b"]), np.array([1.0])])
    def test_mixed_with_something_else(self, cell: Any) -> None:
        cells = np.empty(2, dtype=object)
        cells[:] = ["a", cell]
        with pytest.raises(
            DataError, match=r"a\.mat: x must hold character vectors only, entry 2 is not one"
        ):
            holding(cells).texts("x")

    def test_that_are_numbers(self) -> None:
        with pytest.raises(
            DataError, match=r"a\.mat: x must be a cell array of character vectors, got numbers"
        ):
            holding(np.ones(2)).texts("x")


class TestWriting:
    def test_files_that_come_back(self, tmp_path: Path) -> None:
        folder = tmp_path / "new" / "folder"
        fields = {"x": np.eye(2, dtype=np.float32), "names": cell_array(["Möwe", ""])}
        write_mat_files(folder, {"a.mat": fields, "b": {"y": np.ones((1, 1))}}, {"c.txt": "Möwe\n"})
        assert sorted(os.listdir(folder)) == ["a.mat", "b", "c.txt"]
        file = read_mat(folder / "a.mat", ["x", "names"])
        np.testing.assert_array_equal(file.numbers("x"), np.eye(2))
        assert file.texts("names") == ["Möwe", ""]
        assert loadmat(folder / "b", appendmat=False)["y"] == 1
        assert (folder / "c.txt").read_text(encoding="utf-8") == "Möwe\n"

    def test_too_large(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(matfile, "_V5_LIMIT", 32)
        with pytest.raises(
            DataError, match=r"b\.mat: x has 32 bytes, .* less than 32 in a field; store fewer"
        ):
            write_mat_files(tmp_path / "new", {"a.mat": {"x": np.ones(3)}, "b.mat": {"x": np.ones(4)}})
        assert not (tmp_path / "new").exists()

    def test_all_or_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "a.mat").write_bytes(b"old")
        with pytest.raises(UnicodeEncodeError):
            write_mat_files(tmp_path, {"a.mat": {"x": np.ones(3)}}, {"b.txt": "\ud800"})
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.mat": b"old"}

    def test_cells_are_a_column_of_strings(self) -> None:
        assert cell_array([1, "b"]).tolist() == [["1"], ["b"]]
        assert cell_array([]).shape == (0, 1)

    @pytest.mark.parametrize("text", ["nul\0", "half \ud800"])
    def test_texts_that_cannot_be_stored(self, text: str) -> None:
        with pytest.raises(
            DataError, match=r"the name .* has characters that the files cannot hold; rename it"
        ):
            storable(text)
