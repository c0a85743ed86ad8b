"""Folders and tables of pictures."""

import io
import warnings

import numpy as np
import pytest
from PIL import Image

from cosmo.data import (
    DataError,
    load_glyphs,
    read_descriptions,
    read_image_folder,
    read_image_table,
    write_glyph_images,
)
from cosmo.data.dataset import ItemError
from cosmo.data.images import image_bytes, read_image


def picture(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (4, 4)).save(path)


def test_folder_per_class(tmp_path):
    visible = ["cat/indoors/3.png", "dog/1.jpg", "dog/2.PNG"]
    for name in [*reversed(visible), "dog/.hidden.png", "cat/.trash/4.png", ".git/5.png"]:
        picture(tmp_path / name)
    (tmp_path / "cat" / "notes.txt").write_text("not a picture")
    (tmp_path / "descriptions.csv").write_text("class,legs\n")
    (tmp_path / "nothing yet").mkdir()
    paths, labels = read_image_folder(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == visible
    assert list(labels) == ["cat", "dog", "dog"]


def test_decomposed_names_are_composed(tmp_path):
    picture(tmp_path / "e\u0301" / "1.png")
    assert list(read_image_folder(tmp_path)[1]) == ["\u00e9"]


def test_pictures_without_classes(tmp_path):
    picture(tmp_path / "b.png")
    picture(tmp_path / "a.png")
    paths, labels = read_image_folder(tmp_path)
    assert [path.name for path in paths] == ["a.png", "b.png"]
    assert labels is None
    picture(tmp_path / "cat" / "c.png")
    with pytest.raises(DataError, match="2 images lie beside the class folders"):
        read_image_folder(tmp_path)


def test_unusable_folders(tmp_path):
    with pytest.raises(DataError, match="no images"):
        read_image_folder(tmp_path)
    with pytest.raises(DataError, match="no such folder"):
        read_image_folder(tmp_path / "absent")
    picture(tmp_path / "a.png")
    with pytest.raises(DataError, match="not a folder"):
        read_image_folder(tmp_path / "a.png")


def test_table_of_paths(tmp_path):
    picture(tmp_path / "pets" / "1.png")
    picture(tmp_path / "2.png")
    table = tmp_path / "pets.csv"
    table.write_text(f"path,label,where\npets/1.png,cat,x\n{tmp_path / '2.png'},7,y\n")
    paths, labels = read_image_table(table)
    assert paths == [tmp_path / "pets" / "1.png", tmp_path / "2.png"]
    assert list(labels) == ["cat", "7"]
    assert list(read_image_table(table, label="where")[1]) == ["x", "y"]
    table.write_text("path\npets/1.png\nabsent.png\n")
    with pytest.raises(DataError, match=r"1 images do not exist:\n  row 2: .*absent.png"):
        read_image_table(table)
    table.write_text("picture,label\npets/1.png,cat\n,dog\n")
    with pytest.raises(DataError, match="no column is called path, .* 'picture', 'label'"):
        read_image_table(table)
    with pytest.raises(DataError, match="row 2, column 'picture' is nan"):
        read_image_table(table, image="picture")


def test_glyphs_on_disk(tmp_path):
    options = {"n_classes": 24, "samples_per_class": 5, "image_size": 16}
    write_glyph_images(tmp_path / "glyphs", **options)
    data = load_glyphs(**options)
    table = read_descriptions(tmp_path / "glyphs" / "descriptions.csv")
    np.testing.assert_array_equal(table, data.descriptions)
    assert list(table.columns) == list(data.descriptions.columns)
    train, seen = read_image_folder(tmp_path / "glyphs" / "train")
    test, every = read_image_folder(tmp_path / "glyphs" / "test")
    assert len(train) == len(data.split.trainval)
    assert len(test) == len(data.split.test_seen) + len(data.split.test_unseen)
    assert set(every) == set(table.index)
    assert len(set(seen)) == len(data.seen_classes)
    row = int(test[0].stem)
    np.testing.assert_array_equal(np.asarray(Image.open(test[0])), data.images[row])
    assert table.index[data.codes[row]] == every[0]
    with pytest.raises(FileExistsError, match="train exists already"):
        write_glyph_images(tmp_path / "glyphs")


@pytest.fixture
def scene():
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
    found = np.asarray(read_image(path))
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
    assert np.asarray(read_image(saved(tmp_path / "a.png", picture, **options))).min() == 255


def test_orientation(tmp_path, scene):
    """Whichever way the camera was held, the red quarter is in the upper left."""
    exif = Image.Exif()
    exif[0x0112] = 6
    path = saved(tmp_path / "a.png", Image.fromarray(np.rot90(scene).copy()), exif=exif)
    np.testing.assert_array_equal(np.asarray(read_image(path)), scene)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_damaged_exif_is_no_obstacle(tmp_path, scene):
    path = saved(tmp_path / "a.jpg", Image.fromarray(scene), exif=b"Exif\0\0MM\0*\xff\xff\xff\xff")
    assert read_image(path).size == (60, 40)


def test_large_jpeg_is_decoded_smaller(tmp_path):
    path = saved(tmp_path / "a.jpg", Image.new("RGB", (1600, 1600), "red"))
    assert read_image(path).size == (1600, 1600)
    assert 200 <= read_image(path, 100).size[0] < 1600


def test_arrays(scene):
    np.testing.assert_array_equal(np.asarray(read_image(scene)), scene)
    np.testing.assert_array_equal(np.asarray(read_image(scene[:, :, 0]))[:, :, 2], scene[:, :, 0])
    for wrong in (scene / 255, scene[None], scene[:0]):
        with pytest.raises(ItemError, match="image array must be"):
            read_image(wrong)
    assert image_bytes(scene) != image_bytes(scene.reshape(60, 40, 3))


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
            read_image(tmp_path / name)
    saved(tmp_path / "float.tiff", Image.fromarray(scene[:, :, 0].astype(np.float32)))
    with pytest.raises(ItemError, match="float.tiff: pixels are floating-point"):
        read_image(tmp_path / "float.tiff")
    with pytest.raises(ItemError, match="expected the path of an image, got 3"):
        read_image(3)
    with pytest.raises(ItemError, match="cannot be read"):
        read_image(tmp_path)


def test_too_many_pixels(tmp_path, monkeypatch):
    path = saved(tmp_path / "huge.png", Image.new("1", (300, 300)))
    for limit in (20_000, 60_000):  # Pillow refuses from twice its limit on, and warns before
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ItemError, match="huge.png: far too many pixels"):
                read_image(path)
