"""Files that are made to do harm: bombs, claims, links to elsewhere, notes that are half written."""

from __future__ import annotations

import io
import os
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from cosmo._core.cache import Cache
from cosmo.data import DataError
from cosmo.data._matfile import read_mat
from cosmo.data._unpacking import ArchiveError, is_archive, unpack


def packed_matrix(claimed: int, content: bytes) -> bytes:
    """Return a MATLAB 5 file with one compressed matrix of doubles, x, that claims so many bytes."""
    parts = [
        struct.pack("<IIII", 6, 8, 6, 0),  # flags: a matrix of doubles
        struct.pack("<IIii", 5, 8, 1, claimed // 8),
        struct.pack("<II4s", 1 | 1 << 16, 0x78, b"")[:8],
        struct.pack("<II", 9, claimed),
    ]
    body = b"".join(parts) + content
    element = struct.pack("<II", 14, len(b"".join(parts)) + claimed) + body
    squeezed = zlib.compress(element, 9)
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<HH", 0x0100, 0x4D49)
    return head + struct.pack("<II", 15, len(squeezed)) + squeezed


class TestMatlab:
    def refused(self, path: Path, match: str) -> None:
        with pytest.raises(DataError, match=match) as caught:
            read_mat(path, ["x"])
        assert str(path) in str(caught.value)
        assert not isinstance(caught.value.__cause__, MemoryError)

    def test_what_is_packed_as_usual_is_read(self, tmp_path: Path):
        path = tmp_path / "a.mat"
        path.write_bytes(packed_matrix(80, np.arange(10.0).tobytes()))
        np.testing.assert_array_equal(read_mat(path, ["x"]).numbers("x"), np.arange(10.0)[None])

    def test_more_is_claimed_than_data_packs_to(self, tmp_path: Path):
        path = tmp_path / "a.mat"
        path.write_bytes(packed_matrix(2_000_000_000, b"\0" * 1000))
        self.refused(path, "2000000.* bytes is packed into .*, which no data is")

    def test_a_bomb_of_text(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("cosmo.data._packed._FREE", 10**6)
        path = tmp_path / "a.mat"
        savemat(path, {"x": "a" * 3_000_000}, do_compression=True)
        assert path.stat().st_size < 15_000
        self.refused(path, "which no data is")

    @pytest.mark.parametrize("field", [1, 2, 4])
    def test_version_4_headers_are_not_believed(self, tmp_path: Path, field: int):
        path = tmp_path / "a.mat"
        savemat(path, {"x": np.arange(6.0)}, format="4")
        np.testing.assert_array_equal(read_mat(path, ["x"]).numbers("x").ravel(), np.arange(6.0))
        content = bytearray(path.read_bytes())
        content[4 * field : 4 * field + 4] = struct.pack("<i", 2_000_000_000)
        path.write_bytes(content)
        self.refused(path, "does not fit in its place")

    def test_version_4_from_another_machine(self, tmp_path: Path):
        path = tmp_path / "a.mat"
        path.write_bytes(struct.pack(">5i", 1000, 1, 2, 0, 2) + b"x\0" + struct.pack(">2d", 3.0, 4.0))
        np.testing.assert_array_equal(read_mat(path, ["x"]).numbers("x"), [[3.0, 4.0]])

    @pytest.mark.parametrize("chunked", [True, False])
    def test_hdf5_claims_more_than_it_can_hold(self, tmp_path: Path, chunked: bool):
        path = tmp_path / "a.mat"
        with h5py.File(path, "w") as file:
            if chunked:
                file.create_dataset("x", (10**6, 10**6), "f8", chunks=(100, 100), compression="gzip")
            else:
                file.create_dataset("x", (3, 3), "f8", maxshape=(None, 3), chunks=(10**7, 3))
        assert path.stat().st_size < 100_000
        self.refused(path, "which the file cannot hold")

    def test_hdf5_cells_claim_more_than_they_can_hold(self, tmp_path: Path):
        path = tmp_path / "a.mat"
        with h5py.File(path, "w") as file:
            text = file.create_dataset("text", (1, 10**9), "u2", chunks=(1, 100))
            text.attrs["MATLAB_class"] = np.bytes_("char")
            file.create_dataset("x", (1, 1), h5py.ref_dtype)[0, 0] = text.ref
        self.refused(path, "which the file cannot hold")

    def test_hdf5_does_not_look_into_other_files(self, tmp_path: Path):
        secret = tmp_path / "secret.h5"
        with h5py.File(secret, "w") as file:
            file["x"] = np.arange(4.0)
        (tmp_path / "secret.bin").write_bytes(bytes(range(32)))
        layout = h5py.VirtualLayout((4,), "f8")
        layout[:] = h5py.VirtualSource(str(secret), "x", (4,))
        for number in range(3):
            path = tmp_path / f"{number}.mat"
            with h5py.File(path, "w") as file:
                if number == 0:
                    file["x"] = h5py.ExternalLink(str(secret), "x")
                elif number == 1:
                    file.create_virtual_dataset("x", layout)
                else:
                    file.create_dataset("x", (4,), "f8", external=[(str(tmp_path / "secret.bin"), 0, 32)])
            self.refused(path, "another file")


def squared(folder: Path) -> np.ndarray:
    return Cache(folder).arrays("squares", "1", lambda: {"x": np.arange(9.0) ** 2})["x"]


class TestCache:
    @pytest.mark.parametrize("shape", ["(9,999999999999)", "(9,9", "(9,)\0", "[9]"])
    def test_an_entry_with_a_broken_header_is_made_again(self, tmp_path: Path, shape: str):
        header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
        array = b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(72)
        with zipfile.ZipFile(tmp_path / "squares-1.npz", "w") as archive:
            archive.writestr("x.npy", array)
        np.testing.assert_array_equal(squared(tmp_path), np.arange(9.0) ** 2)

    def test_an_entry_with_a_damaged_packing_is_made_again(self, tmp_path: Path):
        np.savez_compressed(tmp_path / "squares-1.npz", x=np.random.default_rng(0).normal(size=900))
        content = bytearray((tmp_path / "squares-1.npz").read_bytes())
        for place in range(60, len(content) - 200, 7):
            content[place] ^= 0xA5
        (tmp_path / "squares-1.npz").write_bytes(content)
        np.testing.assert_array_equal(squared(tmp_path), np.arange(9.0) ** 2)


class TestArchives:
    def test_damage_is_told_with_the_name_of_the_archive(self, tmp_path: Path):
        path = tmp_path / "a.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("birds/list.txt", "robin")
        content = bytearray(path.read_bytes())
        directory = content.rindex(b"PK\1\2")
        content[directory + 42 : directory + 46] = struct.pack("<I", 2**31)  # where the member begins
        path.write_bytes(content)
        with pytest.raises(ArchiveError, match=r"a\.zip: damaged"):
            unpack(path, tmp_path / "new")

    def test_a_wrong_sum_is_told_with_the_name_of_the_archive(self, tmp_path: Path):
        path = tmp_path / "a.tgz"
        with tarfile.open(path, "w:gz") as archive:
            info = tarfile.TarInfo("birds/list.txt")
            info.size = 5
            archive.addfile(info, io.BytesIO(b"robin"))
        content = bytearray(path.read_bytes())
        content[-8] ^= 1  # the sum of a gzip file
        path.write_bytes(content)
        with pytest.raises(ArchiveError, match=r"a\.tgz: damaged"):
            unpack(path, tmp_path / "new")
        assert os.listdir(tmp_path) == ["a.tgz"]

    def test_a_full_disk_is_told_with_both_names(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        path = tmp_path / "a.zip"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("birds/list.txt", "robin")

        def full(*_args: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("cosmo.data._unpacking._take", full)
        with pytest.raises(OSError, match=r"a\.zip: cannot be unpacked to .*new.*No space left"):
            unpack(path, tmp_path / "new")
        assert os.listdir(tmp_path) == ["a.zip"]

    @pytest.mark.parametrize("start", [b"\x1f\x8b\x08\0garbage!!", b"BZh9garbage", b"\xfd7zXZ\0garbage"])
    def test_what_begins_like_an_archive_is_none(self, tmp_path: Path, start: bytes):
        path = tmp_path / "a"
        path.write_bytes(start + bytes(600))
        assert not is_archive(path)
