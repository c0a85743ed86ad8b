import os

import h5py
import numpy as np
import pytest
from scipy.io import loadmat, savemat

from cosmo.data import DataError
from cosmo.data import _matfile as matfile
from cosmo.data._matfile import cell_array, read_mat, storable, write_mat_files


def save_hdf5(path, fields):
    with h5py.File(path, "w") as file:
        for field, values in fields.items():
            file[field] = values.T


SAVERS = {
    "v5": savemat,
    "v5 compressed": lambda *a: savemat(*a, do_compression=True),
    "v7.3": save_hdf5,
}


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
        with pytest.raises(DataError, match="version 4; save it with -v7"):
            read_mat(tmp_path / "a.mat", ["x"])

    def test_element_of_an_unknown_type(self, tmp_path):
        path = tmp_path / "a.mat"
        savemat(path, {"x": np.ones((1, 3))})
        content = path.read_bytes()
        path.write_bytes(content[:-32] + b"\x08" + content[-31:])
        with pytest.raises(
            DataError, match=r"a\.mat: cannot be read .*lacks one of its parts\); it is damaged"
        ):
            read_mat(path, ["x"])


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
