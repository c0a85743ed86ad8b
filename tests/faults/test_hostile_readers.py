"""Tables, arrays, pictures and projects that are damaged or made to do harm: refused with the name of
the file.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cosmo.data import DataError
from cosmo.data.batches import open_batches
from cosmo.data.descriptions import read_descriptions
from cosmo.data.images import read_image
from cosmo.data.plain import read_plain
from cosmo.data.tables import read_features, read_table
from cosmo.encoders import ItemError
from cosmo.io.project import read_project


def refused(read: Callable[[Path], object], path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read(path)
    assert str(path) in str(caught.value)


def batches(path: Path) -> list[object]:
    return list(open_batches(path).read(5))


def spoilt(content: bytes) -> bytes:
    """Return packed content with its middle changed."""
    changed = bytearray(content)
    for place in range(len(changed) // 4, 3 * len(changed) // 4, 5):
        changed[place] ^= 0xA5
    return bytes(changed)


@pytest.mark.parametrize("read", [read_features, batches])
def test_damaged_packing(tmp_path: Path, read: Callable[[Path], object]):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, X=np.random.default_rng(0).normal(size=(90, 9)))
    path.write_bytes(spoilt(path.read_bytes()))
    refused(read, path)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(spoilt(gzip.compress(b"".join(b"%d,%d\n" % (n, n * n) for n in range(900)))))
    refused(read, path)


@pytest.mark.parametrize("shape", ["(9,9", "(9,9999999999)"])
@pytest.mark.parametrize("read", [read_features, batches])
def test_broken_headers(tmp_path: Path, read: Callable[[Path], object], shape: str):
    header = f"{{'descr': '<f8', 'fortran_order': True, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(72))
    refused(read, path)


def test_damaged_packing_of_a_plain_data_set(tmp_path: Path):
    np.savez_compressed(
        tmp_path / "features.npz", X=np.random.default_rng(0).normal(size=(90, 9)), y=["a"] * 90
    )
    (tmp_path / "features.npz").write_bytes(spoilt((tmp_path / "features.npz").read_bytes()))
    refused(read_plain, tmp_path)


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_deep_nesting(tmp_path: Path, name: str):
    path = tmp_path / name
    path.write_text("[" * 100_000)
    refused(read_table, path)
    refused(read_descriptions, path)


def test_deep_nesting_of_a_project(tmp_path: Path):
    path = tmp_path / "cosmo.toml"
    path.write_text("samples = " + "[" * 10_000)
    refused(read_project, path)
    path.write_text("seed = " + "9" * 5000)
    refused(read_project, path)


def test_numbers_of_hundreds_of_digits(tmp_path: Path):
    path = tmp_path / "a.csv"
    path.write_text(f"class,size\ncat,1\ndog,{'9' * 400}\n")
    refused(read_descriptions, path)


def test_pictures_run_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ran = tmp_path / "ran"
    (tmp_path / "gs").write_text(f"#!/bin/sh\ntouch '{ran}'\n")
    (tmp_path / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)  # to be looked for anew
    Image.new("RGB", (8, 8)).save(tmp_path / "bird.png", format="EPS")
    with pytest.raises(ItemError, match=r"bird\.png: not a picture"):
        read_image(tmp_path / "bird.png")
    assert not ran.exists()


def test_damaged_checkpoints_are_passed_over(tmp_path: Path):
    torch = pytest.importorskip("torch")
    from cosmo.experts._checkpoints import Checkpoints

    kept = Checkpoints(tmp_path, "k", [10])
    kept.save(10, lambda: {"weights": torch.arange(20.0)})
    whole = (tmp_path / "training-k-10.pt").read_bytes()
    for content in (b"ZZ" + whole[2:], b"\x80\x02.", b"(lp0\n.", b"I99x\n.", whole[:100], b"\xff" * 50):
        (tmp_path / "training-k-10.pt").write_bytes(content)
        assert kept.last(0, 10) is None
