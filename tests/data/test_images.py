"""Folders and tables of pictures."""

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
    with pytest.raises(DataError, match="2 pictures lie beside the folders of classes"):
        read_image_folder(tmp_path)


def test_unusable_folders(tmp_path):
    with pytest.raises(DataError, match="no pictures"):
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
    with pytest.raises(DataError, match=r"1 pictures are not there:\n  row 2: .*absent.png"):
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
    with pytest.raises(FileExistsError, match="train is there already"):
        write_glyph_images(tmp_path / "glyphs")
