import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmo.data import DataError, GZSLDataset, Split, load_glyphs, read_descriptions, read_features
from cosmo.data.plain import _shortest, read_plain, write_plain

SPLIT = Split(trainval=[2, 0], test_seen=[3, 1], test_unseen=[4])


def data(classes=None, columns=None, split=SPLIT, **options):
    rng = np.random.default_rng(0)
    classes = ["cat", "dog", "fox"] if classes is None else classes
    table = pd.DataFrame(rng.normal(size=(3, 2)), index=classes, columns=columns)
    labels = [classes[k] for k in (0, 0, 1, 1, 2)]
    return GZSLDataset(rng.normal(size=(5, 4)), labels, table, split, **options)


def assert_same(one, other):
    assert one.features.dtype == other.features.dtype == np.float32
    np.testing.assert_array_equal(one.features, other.features)
    assert one.labels.tolist() == other.labels.tolist()
    assert [type(label) for label in one.labels] == [type(label) for label in other.labels]
    pd.testing.assert_frame_equal(one.descriptions, other.descriptions, check_exact=True, check_names=False)
    for part in ("trainval", "test_seen", "test_unseen", "train", "val"):
        np.testing.assert_array_equal(getattr(one.split, part), getattr(other.split, part))
    for name in ("sample_names", "texts"):
        left, right = getattr(one, name), getattr(other, name)
        assert (left is None) == (right is None)
        assert left is None or list(left) == list(right)
    assert (one.images is None) == (other.images is None)
    if one.images is not None:
        np.testing.assert_array_equal(one.images, other.images)


class TestRoundTrip:
    def test_glyphs_with_pictures(self, tmp_path):
        glyphs = load_glyphs(n_classes=24, samples_per_class=6)
        write_plain(glyphs, tmp_path)
        assert_same(read_plain(tmp_path), glyphs)

    @pytest.mark.parametrize("classes", [["001", "2", "NA"], [7, -3, 10**12], ['a,"b"', " x ", "é\nline"]])
    def test_classes(self, tmp_path, classes):
        dataset = data(classes)
        write_plain(dataset, tmp_path)
        assert_same(read_plain(tmp_path), dataset)

    @pytest.mark.parametrize(
        "columns", [None, ["big", "1"], pd.MultiIndex.from_tuples([("size", "big"), ("size", "a::b")])]
    )
    def test_columns(self, tmp_path, columns):
        dataset = data(columns=columns)
        write_plain(dataset, tmp_path)
        assert_same(read_plain(tmp_path), dataset)

    def test_everything_a_sample_can_have(self, tmp_path):
        split = Split([2, 0], [3, 1], [4], train=[0, 1], val=[3])
        names, texts = [f"{k}.jpg" for k in range(5)], ["a", "", '"b"', "c\r\nd", "=e"]
        dataset = data(split=split, sample_names=names, texts=texts, images=np.zeros((5, 2, 2), np.uint8))
        write_plain(dataset, tmp_path)
        assert_same(read_plain(tmp_path), dataset)
        write_plain(data(), tmp_path)  # leaves nothing of the former behind
        assert_same(read_plain(tmp_path), data())

    def test_name_is_that_of_the_folder(self, tmp_path):
        write_plain(data(), tmp_path / "pets")
        assert read_plain(tmp_path / "pets").name == "pets"

    @given(st.floats(width=32, allow_nan=False, allow_infinity=False))
    def test_every_shortest(self, value):
        assert np.float32(float(_shortest(np.float32(value)))) == np.float32(value)


def test_other_readers_take_the_files(tmp_path):
    dataset = data(columns=pd.MultiIndex.from_tuples([("size", "big"), ("size", "small")]))
    write_plain(dataset, tmp_path)
    X, y = read_features(tmp_path / "features.npz")
    np.testing.assert_array_equal(X, dataset.features)
    assert list(y) == list(dataset.labels)
    table = read_descriptions(tmp_path / "descriptions.csv")
    pd.testing.assert_frame_equal(table, dataset.descriptions, check_names=False)


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"classes": [("a", 1), ("b", 2), ("c", 3)]}, "classes must be strings"),
            ({"classes": ["a", "b", 3]}, "3 is among them"),
            ({"columns": ["a::b", "c::d"]}, r"the column 'a::b' cannot be written"),
            ({"columns": ["0", "1"]}, "the column '0' cannot be written"),
            ({"columns": pd.MultiIndex.from_tuples([("a::b", "c"), ("d", "e")])}, "the column"),
        ],
    )
    def test_what_would_not_come_back(self, tmp_path, options, message):
        with pytest.raises(DataError, match=message):
            write_plain(data(**options), tmp_path / "new")
        assert not list(tmp_path.glob("new/*"))

    @pytest.mark.parametrize(
        ("file", "content", "message"),
        [
            ("descriptions.csv", None, "descriptions.csv: no such file"),
            ("features.npz", None, "features.npz: no such file"),
            ("features.npz", b"PK\x03\x04", "features.npz: damaged"),
            ("descriptions.csv", b"class,a\ncat,1\ndog\n", "'dog', column 'a' is ''"),
            (
                "descriptions.csv",
                b"class,a\ncat,x\n",
                "descriptions.csv: 'cat', column 'a' is 'x', not a finite number",
            ),
            ("descriptions.csv", b"animal,a\ncat,1\n", "the first column must be called class"),
            ("descriptions.csv", b"class,a\ncat,1\ndog,2\n", "'fox'"),
            ("descriptions.csv", b"class,a\n\xff,1\n", "not UTF-8 text"),
            ("split.csv", b"part,row\ntrainval,-1\n", "split.csv: row 1 is trainval,-1"),
            ("split.csv", b"part,row\ntrainval,9999999999999999999\n", "split.csv: row 1 is trainval,9999"),
            ("split.csv", b"part,row\ntraining,1\n", "expected one of trainval"),
            ("split.csv", b"row,part\n1,val\n", "the columns must be part and row"),
            ("split.csv", b"part,row\ntrainval,1\ntrainval,1\n", "more than once"),
            ("split.csv", b"part,row\n", "no rows"),
        ],
    )
    def test_what_is_wrong_in_a_file(self, tmp_path, file, content, message):
        write_plain(data(), tmp_path)
        (tmp_path / file).unlink()
        if content is not None:
            (tmp_path / file).write_bytes(content)
        with pytest.raises(DataError, match=message):
            read_plain(tmp_path)
