"""Thumbnails in one image."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from cosmo.viz.page import render
from cosmo.viz.page.render import MAX_THUMBNAILS, atlas_of_arrays, atlas_of_files


def opened(atlas):
    head, _, data = atlas["uri"].partition(",")
    assert head in ("data:image/png;base64", "data:image/jpeg;base64")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


def cell(atlas, number):
    sheet = opened(atlas)
    row, column = divmod(number, atlas["columns"])
    height, width = atlas["height"], atlas["width"]
    return sheet[row * height : (row + 1) * height, column * width : (column + 1) * width]


class TestArrays:
    @pytest.mark.parametrize("shape", [(7, 5, 9), (7, 5, 9, 1), (7, 5, 9, 3)])
    def test_every_pixel(self, shape):
        images = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
        atlas = atlas_of_arrays(images)
        for number in range(7):
            np.testing.assert_array_equal(cell(atlas, number), images[number].squeeze())

    def test_fractions(self):
        images = np.linspace(0, 1, 2 * 4 * 4, dtype=np.float32).reshape(2, 4, 4)
        np.testing.assert_array_equal(cell(atlas_of_arrays(images), 1), np.rint(255 * images[1]))

    def test_large_ones_are_made_smaller(self):
        atlas = atlas_of_arrays(np.full((2, 50, 200), 9, dtype=np.uint8))
        assert (atlas["width"], atlas["height"]) == (64, 16)
        assert (cell(atlas, 1) == 9).all()

    def test_as_many_as_a_page_can_carry(self, monkeypatch):
        monkeypatch.setattr(render, "_MAX_PIXEL_BYTES", 700)
        atlas = atlas_of_arrays(np.zeros((9, 10, 10, 3), dtype=np.uint8))
        assert atlas["count"] == 2

    def test_none(self):
        assert atlas_of_arrays(np.zeros((0, 4, 4), dtype=np.uint8)) is None


class TestFiles:
    @pytest.fixture
    def files(self, tmp_path):
        for name, colour in (("a.png", "red"), ("b.jpg", "blue")):
            Image.new("RGB", (300, 200), colour).save(tmp_path / name)
        (tmp_path / "c.png").write_bytes(b"no picture")
        return [tmp_path / name for name in ("a.png", "b.jpg", "c.png", "none.png")]

    def test_middle_squares(self, files):
        atlas = atlas_of_files(files)
        assert (atlas["width"], atlas["height"], atlas["columns"], atlas["count"]) == (64, 64, 2, 4)
        red, blue, damaged, missing = (cell(atlas, k)[8:-8, 8:-8].mean(axis=(0, 1)) for k in range(4))
        assert np.abs(red - [255, 0, 0]).max() < 12
        assert np.abs(blue - [0, 0, 255]).max() < 12
        for grey in (damaged, missing):
            assert np.abs(grey - 128).max() < 4

    def test_not_too_many(self, tmp_path):
        noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
        Image.fromarray(noise).save(tmp_path / "noise.png")
        atlas = atlas_of_files([tmp_path / "noise.png"] * (MAX_THUMBNAILS + 10))
        assert atlas["count"] == MAX_THUMBNAILS
        assert len(atlas["uri"]) < 4_000_000  # nothing is harder to compress

    def test_none(self):
        assert atlas_of_files([]) is None
