"""Every kind of picture file becomes the same upright RGB picture."""

import io
import warnings

import numpy as np
import pytest
from PIL import Image

from cosmo.encoders._pictures import Preprocessing, picture_bytes, read_picture
from cosmo.encoders.base import ItemError


@pytest.fixture
def scene() -> np.ndarray:
    """A picture of 40 x 60 whose quarters have four colours."""
    values = np.zeros((40, 60, 3), dtype=np.uint8)
    values[:20, :30] = 200, 30, 30
    values[:20, 30:] = 30, 200, 30
    values[20:, :30] = 30, 30, 200
    values[20:, 30:] = 220, 220, 220
    return values


def saved(path, picture, **options):
    picture.save(path, **options)
    return path


@pytest.mark.parametrize("kind", ["png", "bmp", "tiff", "gif", "webp", "jpg"])
def test_formats(tmp_path, scene, kind):
    options = {"lossless": True} if kind == "webp" else {"quality": 95} if kind == "jpg" else {}
    picture = read_picture(saved(tmp_path / f"a.{kind}", Image.fromarray(scene), **options))
    assert picture.mode == "RGB"
    inner = np.asarray(picture, dtype=int)[5:15, 5:20]
    np.testing.assert_allclose(inner, np.broadcast_to(scene[10, 10], inner.shape), atol=6)


@pytest.mark.parametrize("mode", ["L", "1", "P", "RGBA", "LA", "CMYK", "YCbCr", "I;16"])
def test_modes(tmp_path, mode):
    """Half black, half white, stored in every way there is."""
    values = np.zeros((10, 20), dtype=np.uint8)
    values[:, 10:] = 255
    if mode == "I;16":
        picture = Image.fromarray(values.astype(np.uint16) * 257)
    else:
        picture = Image.fromarray(values).convert("RGB").convert(mode)
    suffix = "tiff" if mode in ("CMYK", "YCbCr") else "png"
    path = saved(tmp_path / f"a.{suffix}", picture)
    found = np.asarray(read_picture(path))
    assert found.shape == (10, 20, 3)
    assert found[:, :10].max() <= 3
    assert found[:, 10:].min() >= 252


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_becomes_white(tmp_path, mode):
    if mode == "P":
        picture, options = Image.new("P", (4, 4), 0), {"transparency": 0}
        picture.putpalette([0, 0, 0, 255, 0, 0])
    else:
        picture, options = Image.new(mode, (4, 4), 0), {}
    assert np.asarray(read_picture(saved(tmp_path / "a.png", picture, **options))).min() == 255


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation(tmp_path, scene, orientation):
    """Whichever way the camera was held, the red quarter is in the upper left."""
    turned = {
        1: scene,
        2: scene[:, ::-1],
        3: scene[::-1, ::-1],
        4: scene[::-1],
        5: scene.transpose(1, 0, 2),
        6: np.rot90(scene),
        7: scene[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(scene, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = saved(tmp_path / "a.png", Image.fromarray(np.ascontiguousarray(turned)), exif=exif)
    np.testing.assert_array_equal(np.asarray(read_picture(path)), scene)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_damaged_exif_is_no_obstacle(tmp_path, scene):
    path = saved(tmp_path / "a.jpg", Image.fromarray(scene), exif=b"Exif\0\0MM\0*\xff\xff\xff\xff")
    assert read_picture(path).size == (60, 40)


def test_large_jpeg_is_decoded_smaller(tmp_path):
    path = saved(tmp_path / "a.jpg", Image.new("RGB", (1600, 1600), "red"))
    assert read_picture(path).size == (1600, 1600)
    assert 200 <= read_picture(path, 100).size[0] < 1600


def test_arrays(scene):
    np.testing.assert_array_equal(np.asarray(read_picture(scene)), scene)
    np.testing.assert_array_equal(np.asarray(read_picture(scene[:, :, 0]))[:, :, 2], scene[:, :, 0])
    for wrong in (scene / 255, scene[None], scene[:0]):
        with pytest.raises(ItemError, match="a picture"):
            read_picture(wrong)
    assert picture_bytes(scene) != picture_bytes(scene.reshape(60, 40, 3))


def test_bad_files_are_named(tmp_path, scene):
    content = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)).save(
        content, "png"
    )
    whole = content.getvalue()
    files = {
        "cut.png": whole[: len(whole) // 2],
        "text.jpg": b"<html>not found</html>",
        "empty.png": b"",
        "flipped.png": whole[:60] + bytes([whole[60] ^ 255]) + whole[61:],
    }
    for name, value in files.items():
        (tmp_path / name).write_bytes(value)
    for name in [*files, "absent.png"]:
        with pytest.raises(ItemError, match=name):
            read_picture(tmp_path / name)
    saved(tmp_path / "float.tiff", Image.fromarray(scene[:, :, 0].astype(np.float32)))
    with pytest.raises(ItemError, match="float.tiff: pixels are floating-point"):
        read_picture(tmp_path / "float.tiff")
    with pytest.raises(ItemError, match="path of a picture was expected, got 3"):
        read_picture(3)
    with pytest.raises(ItemError, match="cannot be read"):
        read_picture(tmp_path)


def test_too_many_pixels(tmp_path, monkeypatch):
    path = saved(tmp_path / "huge.png", Image.new("1", (300, 300)))
    for limit in (20_000, 60_000):  # Pillow refuses from twice its limit on, and warns before
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ItemError, match="huge.png: far too many pixels"):
                read_picture(path)


def test_every_cut_is_noticed_or_harmless(tmp_path, scene):
    """A file cut anywhere gives a picture or an `ItemError`, never anything else."""
    content = io.BytesIO()
    Image.fromarray(scene).save(content, "gif")
    whole = content.getvalue()
    failed = 0
    for length in range(1, len(whole), 3):
        (tmp_path / "cut.gif").write_bytes(whole[:length])
        try:
            assert read_picture(tmp_path / "cut.gif").size == (60, 40)
        except ItemError:
            failed += 1
    assert failed > 10


def test_crop_is_central_and_narrow_pictures_are_fine(scene):
    prepare = Preprocessing(size=8, mean=(0, 0, 0), std=(1, 1, 1), crop=0.5)
    pixels = prepare.resize(Image.fromarray(scene))
    np.testing.assert_array_equal(pixels[0, 0], scene[0, 0])
    np.testing.assert_array_equal(pixels[-1, -1], scene[-1, -1])
    assert prepare.resize(Image.new("RGB", (1, 5000))).shape == (8, 8, 3)


def test_normalise():
    prepare = Preprocessing(size=2, mean=(0, 0.5, 1), std=(1, 0.5, 0.25))
    white = np.full((2, 2, 3), 255, dtype=np.uint8)
    np.testing.assert_allclose(prepare.normalise([white])[0, :, 0, 0], [1, 1, 0], atol=1e-6)
