"""Damaged and hostile files: the error names the file, and nothing in it is executed.

`python -m soak files` reads many more of them.
"""

import gzip
import struct
import zlib

import h5py
import numpy as np
import pytest
from PIL import Image

from cosmo import Model
from cosmo.cli import main
from cosmo.data import DataError, read_descriptions, read_features, read_plain
from cosmo.data._matfile import read_mat
from cosmo.data.dataset import ItemError
from cosmo.data.images import read_image
from cosmo.io.project import read_project


def damage(content):
    """Return content with many changed bytes in its middle."""
    changed = bytearray(content)
    for place in range(len(changed) // 4, 3 * len(changed) // 4, 5):
        changed[place] ^= 0xA5
    return bytes(changed)


class TestArraysAndTables:
    def test_damaged_compression(self, tmp_path, refused):
        rng = np.random.default_rng(0)
        np.savez_compressed(tmp_path / "features.npz", X=rng.normal(size=(90, 9)), y=["a"] * 90)
        (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"".join(b"%d,%d\n" % (n, n) for n in range(900))))
        for path in list(tmp_path.iterdir()):
            path.write_bytes(damage(path.read_bytes()))
            with refused(DataError, str(path)):
                read_features(path)
        with refused(DataError, "features.npz"):
            read_plain(tmp_path)

    @pytest.mark.parametrize("shape", ["(9,9", "(9,9999999999)"])
    def test_headers_with_impossible_shapes(self, tmp_path, refused, shape):
        header = f"{{'descr': '<f8', 'fortran_order': True, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
        path = tmp_path / "a.npy"
        path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(72))
        with refused(DataError, str(path)):
            read_features(path)

    def test_pickles_are_not_loaded(self, tmp_path, refused):
        class Trap:
            def __reduce__(self):
                return (tmp_path / "loaded").touch, ()

        np.save(tmp_path / "a.npy", np.array([[Trap()]], dtype=object), allow_pickle=True)
        with refused(DataError, "a.npy", "objects"):
            read_features(tmp_path / "a.npy")
        assert not (tmp_path / "loaded").exists()

    @pytest.mark.parametrize("read", [read_features, read_descriptions])
    @pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
    def test_deeply_nested_json(self, tmp_path, refused, name, read):
        path = tmp_path / name
        path.write_text("[" * 100_000)
        with refused(DataError, str(path)):
            read(path)

    @pytest.mark.parametrize("text", ["samples = " + "[" * 10_000, "seed = " + "9" * 5000])
    def test_projects(self, tmp_path, refused, text):
        path = tmp_path / "cosmo.toml"
        path.write_text(text)
        with refused(DataError, str(path)):
            read_project(path)


def matlab_5(claimed, content):
    """Return a MATLAB 5 file with one compressed matrix of doubles, x, that claims so many bytes."""
    header = b"".join(
        [
            struct.pack("<IIII", 6, 8, 6, 0),  # flags: a matrix of doubles
            struct.pack("<IIii", 5, 8, 1, claimed // 8),
            struct.pack("<II", 1 | 1 << 16, 0x78),
            struct.pack("<II", 9, claimed),
        ]
    )
    packed = zlib.compress(struct.pack("<II", 14, len(header) + claimed) + header + content, 9)
    start = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<HH", 0x0100, 0x4D49)
    return start + struct.pack("<II", 15, len(packed)) + packed


class TestMatlab:
    """Sizes that a file claims are not believed, and other files are not read."""

    def check(self, refused, path, *parts):
        with refused(DataError, str(path), *parts):
            read_mat(path, ["x"])

    def test_clean(self, tmp_path):
        (tmp_path / "a.mat").write_bytes(matlab_5(80, np.arange(10.0).tobytes()))
        np.testing.assert_array_equal(read_mat(tmp_path / "a.mat", ["x"]).numbers("x"), np.arange(10.0)[None])

    def test_claims_more_than_it_holds(self, tmp_path, refused):
        path = tmp_path / "a.mat"
        path.write_bytes(matlab_5(2_000_000_000, b"\0" * 1000))
        self.check(refused, path)

    def test_hdf5_claims_more_than_it_holds(self, tmp_path, refused):
        path = tmp_path / "a.mat"
        with h5py.File(path, "w") as file:
            file.create_dataset("x", (10**6, 10**6), "f8", chunks=(100, 100), compression="gzip")
        self.check(refused, path, "cannot hold")

    @pytest.mark.parametrize("kind", ["link", "virtual", "external"])
    def test_hdf5_does_not_read_other_files(self, tmp_path, refused, kind):
        secret, path = tmp_path / "secret.h5", tmp_path / "a.mat"
        with h5py.File(secret, "w") as file:
            file["x"] = np.arange(4.0)
        layout = h5py.VirtualLayout((4,), "f8")
        layout[:] = h5py.VirtualSource(str(secret), "x", (4,))
        with h5py.File(path, "w") as file:
            if kind == "link":
                file["x"] = h5py.ExternalLink(str(secret), "x")
            elif kind == "virtual":
                file.create_virtual_dataset("x", layout)
            else:
                file.create_dataset("x", (4,), "f8", external=[(str(secret), 0, 32)])
        self.check(refused, path, "another file")


class TestPictures:
    def test_no_program_is_run(self, tmp_path, refused, monkeypatch):
        """Pillow would run ghostscript for this file, whatever its name."""
        (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
        (tmp_path / "gs").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)  # to be looked up again
        Image.new("RGB", (8, 8)).save(tmp_path / "bird.png", format="EPS")
        with refused(ItemError, "bird.png"):
            read_image(tmp_path / "bird.png")
        assert not (tmp_path / "ran").exists()


class TestModels:
    def test_damaged(self, tmp_path, model, refused, capsys):
        path = tmp_path / "model.cosmo"
        model.save(path)
        whole = path.read_bytes()
        for content in (b"", whole[:-1], whole[: len(whole) // 2], damage(whole), b"\x80\x04." + whole[3:]):
            path.write_bytes(content)
            with refused(ValueError, str(path)):
                Model.load(path)
        assert main(["predict", str(path), str(tmp_path / "new.csv")]) == 2
        assert "Traceback" not in capsys.readouterr().err


class TestCheckpoints:
    """Damaged checkpoints are ignored; tests/core/test_cache.py has the same for the cache."""

    def test_damaged(self, tmp_path):
        torch = pytest.importorskip("torch")
        from cosmo.experts._network import Checkpoints

        kept = Checkpoints(tmp_path, "k", [10])
        kept.save(10, lambda: {"weights": torch.arange(20.0)})
        whole = (tmp_path / "training-k-10.pt").read_bytes()
        for content in (b"ZZ" + whole[2:], b"\x80\x02.", b"(lp0\n.", whole[:100], b"\xff" * 50):
            (tmp_path / "training-k-10.pt").write_bytes(content)
            assert kept.last(0, 10) is None
