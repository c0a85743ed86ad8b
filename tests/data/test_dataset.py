import numpy as np
import pandas as pd
import pytest

from cosmo.data import DataError, GZSLDataset, Split

# Rows 0..7; classes cat, dog, fox are seen (fox plays unseen at validation), hen is unseen.
LABELS = ["cat", "cat", "dog", "dog", "fox", "fox", "hen", "hen"]
TABLE = pd.DataFrame(
    [[1, 0], [0, 1], [1, 1], [0, 0]], index=["cat", "dog", "fox", "hen"], columns=["soft", "loud"]
)
FEATURES = np.arange(24, dtype=np.float32).reshape(8, 3)
ROWS = {
    "trainval": [0, 2, 4],
    "test_seen": [1, 3, 5],
    "test_unseen": [6, 7],
    "train": [0, 1, 2, 3],
    "val": [4, 5],
}


def make(*, features=FEATURES, labels=LABELS, descriptions=TABLE, **rows):
    return GZSLDataset(features, labels, descriptions, Split(**(ROWS | rows)), name="zoo")


class TestGood:
    def test_classes_are_told_apart_by_training_rows(self):
        data = make()
        assert list(data.classes) == ["cat", "dog", "fox", "hen"]
        assert list(data.seen_classes) == ["cat", "dog", "fox"]
        assert list(data.unseen_classes) == ["hen"]
        np.testing.assert_array_equal(data.codes, [0, 0, 1, 1, 2, 2, 3, 3])
        assert len(data) == 8

    def test_a_class_that_is_only_described_is_unseen(self):
        table = pd.concat([TABLE, pd.DataFrame([[0.5, 0.5]], index=["yak"], columns=TABLE.columns)])
        assert list(make(descriptions=table).unseen_classes) == ["hen", "yak"]

    @pytest.mark.parametrize(
        "names",
        [
            {"cat": 700, "dog": -3, "fox": 12, "hen": 0},
            {"cat": ("m", 1), "dog": ("m", 2), "fox": ("m", 3), "hen": ("b", 1)},
            {"cat": True, "dog": "dog", "fox": 2.5, "hen": 7},
        ],
        ids=["ints with gaps", "tuples", "mixed"],
    )
    def test_any_hashable_label(self, names):
        descriptions = {names[c]: list(TABLE.loc[c]) for c in TABLE.index}
        data = make(labels=[names[label] for label in LABELS], descriptions=descriptions)
        np.testing.assert_array_equal(data.codes, [0, 0, 1, 1, 2, 2, 3, 3])
        assert list(data.seen_classes) == [names[c] for c in ("cat", "dog", "fox")]
        assert list(data.unseen_classes) == [names["hen"]] or pd.isna(data.unseen_classes[0])
        assert data.classes.nlevels == 1

    def test_memory_mapped_features_are_not_copied(self, tmp_path):
        np.save(tmp_path / "x.npy", FEATURES)
        stored = np.load(tmp_path / "x.npy", mmap_mode="r")
        data = make(features=stored)
        assert np.shares_memory(data.features, stored)
        assert isinstance(data.features, np.memmap)

    def test_grouped_attributes(self):
        columns = pd.MultiIndex.from_tuples([("fur", "soft"), ("voice", "loud")])
        assert make(descriptions=TABLE.set_axis(columns, axis=1)).descriptions.columns.equals(columns)


class TestBadParts:
    @pytest.mark.parametrize(
        ("message", "changes"),
        [
            ("one row per sample", {"features": FEATURES.ravel()}),
            ("7 feature rows but 8 labels", {"features": FEATURES[:7]}),
            ("no columns", {"features": FEATURES[:, :0]}),
            ("labels without a description: 'owl'", {"labels": [*LABELS[:7], "owl"]}),
            ("without a description: 1", {"labels": [1, 1, 2, 2, 3, 3, 4, 4]}),
            ("no label in row 0", {"labels": [None, None, *LABELS[2:]]}),
            ("class 'fox', attribute 'loud'", {"descriptions": TABLE.assign(loud=[0, 1, np.nan, 0])}),
        ],
    )
    def test_features_labels_and_descriptions(self, message, changes):
        with pytest.raises(DataError, match=message) as error:
            make(**changes)
        assert str(error.value).startswith("zoo: ")

    @pytest.mark.parametrize("what", ["sample_names", "texts", "images"])
    def test_extras_of_wrong_length(self, what):
        extra = {what: np.zeros((7, 2, 2)) if what == "images" else ["x"] * 7}
        with pytest.raises(DataError, match=f"8 feature rows but 7 {what}"):
            GZSLDataset(FEATURES, LABELS, TABLE, Split(**ROWS), **extra)


class TestBadSplits:
    def bad(self, message, **rows):
        with pytest.raises(DataError, match=message):
            make(**rows)

    @pytest.mark.parametrize(
        ("message", "rows"),
        [
            ("a class is both seen and unseen: 'hen'", {"trainval": [0, 2, 4, 6], "test_unseen": [7]}),
            ("no unseen class", {"trainval": [0, 2, 4, 6], "test_unseen": []}),
            ("only one seen class .'cat'.", {"trainval": [0], "test_seen": [1], "test_unseen": [2, 3],
                                             "train": None, "val": None}),
            ("split.trainval is empty", {"trainval": []}),
            ("test_seen has classes without training rows: 'fox'", {"trainval": [0, 2]}),
            ("both split.train and split.val: 'fox'", {"train": [0, 1, 2, 3, 4], "val": [5]}),
            ("split.val has unseen classes: 'hen'", {"val": [4, 5, 6]}),
            ("split.train has unseen classes: 'hen'", {"train": [0, 1, 2, 3, 7]}),
            ("come together", {"val": None}),
        ],
    )  # fmt: skip
    def test_classes_on_the_wrong_side(self, message, rows):
        self.bad(message, **rows)

    @pytest.mark.parametrize(
        ("one", "other", "rows"),
        [
            ("trainval", "test_seen", {"trainval": [0, 2, 4, 5]}),
            ("trainval", "test_unseen", {"test_unseen": [4, 6, 7]}),
            ("test_seen", "test_unseen", {"test_unseen": [5, 6, 7]}),
        ],
    )
    def test_overlapping_rows(self, one, other, rows):
        self.bad(f"split.{one} and split.{other} share 1 rows, such as row [45]", **rows)

    @pytest.mark.parametrize("part", sorted(ROWS))
    def test_rows_out_of_range(self, part):
        self.bad(f"split.{part} points to row 8, but there are 8 samples", **{part: [*ROWS[part], 8]})

    @pytest.mark.parametrize("part", sorted(ROWS))
    def test_repeated_rows(self, part):
        self.bad(f"split.{part} names a row more than once", **{part: [*ROWS[part], ROWS[part][0]]})

    @pytest.mark.parametrize("rows", [[0.0, 2.0], [[0, 2]], [True, False], ["0", "2"], 3])
    def test_not_row_numbers(self, rows):
        self.bad("split.trainval must be a 1-D array of row numbers", trainval=rows)


def test_split_turns_lists_into_arrays_and_leaves_order_alone():
    split = Split(trainval=[4, 0, 2], test_seen=np.array([3], dtype=np.uint16), test_unseen=[])
    assert split.trainval.tolist() == [4, 0, 2]
    assert {split.trainval.dtype, split.test_seen.dtype, split.test_unseen.dtype} == {np.dtype(np.intp)}


class TestRoots:
    def test_features_are_rooted_and_nothing_else_changes(self):
        data = GZSLDataset(
            [[4.0, 9.0], [1.0, 0.0], [0.25, 16.0], [0.0, 0.0]],
            ["a", "b", "b", "z"],
            {"a": [1.0], "b": [2.0], "z": [3.0]},
            Split([0, 1], [2], [3]),
            name="little",
        )
        roots = data.with_roots()
        np.testing.assert_array_equal(
            roots.features, np.array([[2, 3], [1, 0], [0.5, 4], [0, 0]], np.float32)
        )
        assert roots.labels.equals(data.labels)
        assert roots.name == "little"
        np.testing.assert_array_equal(data.features[0], [4, 9])

    def test_negative_features_have_none(self):
        table = {"a": [1.0], "b": [2.0], "z": [3.0]}
        features = [[1.0], [-1.0], [0.0], [2.0]]
        data = GZSLDataset(features, ["a", "b", "b", "z"], table, Split([0, 1], [2], [3]))
        with pytest.raises(DataError, match="row 1, column 0 is negative"):
            data.with_roots()
