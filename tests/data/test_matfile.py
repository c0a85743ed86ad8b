import os
import struct

import h5py
import numpy as np
import pytest
from scipy.io import loadmat, savemat
from scipy.sparse import csc_matrix

from cosmo.data import DataError
from cosmo.data import _matfile as matfile
from cosmo.data._matfile import cell_array, read_mat, storable, write_mat_files


def save_hdf5(path, fields):
    with h5py.File(path, "w") as file:
        for field, values in fields.items():
            file[field] = values.T


SAVERS = {"v5": savemat, "v5 compressed": lambda *a: savemat(*a, do_compression=True), "v7.3": save_hdf5}


@pytest.fixture(params=list(SAVERS))
def path(request, tmp_path):
    SAVERS[request.param](tmp_path / "a.mat", {"x": np.arange(6.0).reshape(2, 3), "y": np.zeros((1, 1))})
    return tmp_path / "a.mat"


class TestReading:
    def test_wanted_fields_only(self, path):
        file = read_mat(path, ["x", "z"])
        assert list(file.fields) == ["x"]
        assert "x" in file
        assert "y" not in file
        np.testing.assert_array_equal(file.numbers("x"), np.arange(6.0).reshape(2, 3))

    def test_absent_field(self, path):
        with pytest.raises(DataError, match=r"a\.mat: z is missing; of the known fields, the file has x"):
            read_mat(path, ["x", "z"]).numbers("z")

    @pytest.mark.parametrize("content", [b"", b"no", b"\x89HDF\r\n\x1a\n", b"not a mat file" * 40])
    def test_another_kind_of_file(self, tmp_path, content):
        path = tmp_path / "a.mat"
        path.write_bytes(content)
        with pytest.raises(
            DataError, match=r"a\.mat: cannot be read as a MATLAB file \(.*\); it is damaged, truncated"
        ):
            read_mat(path, ["x"])

    def test_version_4(self, tmp_path):
        savemat(tmp_path / "a.mat", {"x": np.ones(3)}, format="4")
        with pytest.raises(DataError, match=r"not of version 5 or 7.3; save it with -v7"):
            read_mat(tmp_path / "a.mat", ["x"])


CELLS = np.empty((2, 2), dtype=object)
CELLS[:] = [["cat", np.eye(2)], ["", np.array(["ab", "cd"])]]


def same(one, other):
    if one.dtype == object:
        return one.shape == other.shape and all(map(same, one.ravel(), other.ravel()))
    if one.dtype.kind == "U":
        return one.ravel().tolist() == (other.ravel().tolist() or [""])
    return (one.dtype, one.shape) == (other.dtype, other.shape) and np.array_equal(one, other)


class TestVersion5:
    @pytest.mark.parametrize("compressed", [False, True])
    @pytest.mark.parametrize(
        "value",
        [
            *(np.eye(2, 3), np.zeros((0, 4)), np.ones((2, 2, 2), dtype=np.uint8), np.array([[1j, 2]])),
            *(np.arange(3, dtype=np.int64), np.float32(1.5), True),
            *("Möwe 鳥", "", np.array(["cat", "fox"]), CELLS, np.empty((0, 0), dtype=object)),
        ],
        ids=repr,
    )
    def test_is_what_scipy_reads(self, tmp_path, value, compressed):
        path = tmp_path / "a.mat"
        savemat(path, {"y": 1.0, "x": value, "z": {"a": 1.0}}, do_compression=compressed)
        file = read_mat(path, ["x", "y"])
        assert list(file.fields) == ["x", "y"]
        assert same(file.fields["x"], loadmat(path)["x"])

    @pytest.mark.parametrize("value", [{"a": 1.0}, csc_matrix(np.eye(5))], ids=["struct", "sparse"])
    def test_other_classes_have_a_kind_only(self, tmp_path, value):
        savemat(tmp_path / "a.mat", {"x": value})
        with pytest.raises(DataError, match="got a struct or sparse matrix; convert it"):
            read_mat(tmp_path / "a.mat", ["x"]).numbers("x")

    @pytest.mark.parametrize("compressed", [False, True])
    def test_damage_is_found_or_harmless(self, tmp_path, compressed):
        """Any cut and any changed byte gives values or a `DataError`."""
        path = tmp_path / "a.mat"
        savemat(path, {"x": np.arange(6.0), "names": CELLS}, do_compression=compressed)
        content = path.read_bytes()
        cuts = [content[:length] for length in range(129, len(content), 3)]
        changes = [
            content[:place] + bytes([byte ^ mask]) + content[place + 1 :]
            for place, byte in enumerate(content)
            for mask in (1, 128)
        ]
        n_errors = 0
        for damaged in [*cuts, *changes]:
            path.write_bytes(damaged)
            try:
                read_mat(path, ["x", "names"])
            except DataError as error:
                assert "a.mat: cannot be read" in str(error)  # noqa: PT017
                n_errors += 1
        assert n_errors > len(cuts)

    def test_deep_nesting(self, tmp_path):
        def element(kind, content):
            return struct.pack("<II", kind, len(content)) + content

        cell = element(14, b"")
        for _ in range(2000):
            head = element(6, struct.pack("<II", 1, 0)) + element(5, struct.pack("<ii", 1, 1))
            cell = element(14, head + struct.pack("<HH4s", 1, 1, b"x") + cell)
        (tmp_path / "a.mat").write_bytes(b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + cell)
        with pytest.raises(DataError, match="recursion"):
            read_mat(tmp_path / "a.mat", ["x"])


class TestWriting:
    def test_files_that_come_back(self, tmp_path):
        folder = tmp_path / "new" / "folder"
        fields = {"x": np.eye(2, dtype=np.float32), "names": cell_array(["Möwe", ""])}
        write_mat_files(folder, {"a.mat": fields, "b": {"y": np.ones((1, 1))}}, {"c.txt": "Möwe\n"})
        assert sorted(os.listdir(folder)) == ["a.mat", "b", "c.txt"]
        file = read_mat(folder / "a.mat", ["x", "names"])
        np.testing.assert_array_equal(file.numbers("x"), np.eye(2))
        assert file.texts("names") == ["Möwe", ""]
        assert loadmat(folder / "b", appendmat=False)["y"] == 1
        assert (folder / "c.txt").read_text(encoding="utf-8") == "Möwe\n"

    def test_too_large(self, tmp_path, monkeypatch):
        monkeypatch.setattr(matfile, "_V5_LIMIT", 32)
        with pytest.raises(DataError, match=r"b\.mat: x has 32 bytes, the limit is 32"):
            write_mat_files(tmp_path / "new", {"a.mat": {"x": np.ones(3)}, "b.mat": {"x": np.ones(4)}})
        assert not (tmp_path / "new").exists()

    def test_all_or_nothing(self, tmp_path):
        (tmp_path / "a.mat").write_bytes(b"old")
        with pytest.raises(UnicodeEncodeError):
            write_mat_files(tmp_path, {"a.mat": {"x": np.ones(3)}}, {"b.txt": "\ud800"})
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.mat": b"old"}

    @pytest.mark.parametrize("text", ["nul\0", "half \ud800"])
    def test_texts_that_cannot_be_stored(self, text):
        with pytest.raises(
            DataError, match=r"the name .* has characters that the files cannot hold; rename it"
        ):
            storable(text)
