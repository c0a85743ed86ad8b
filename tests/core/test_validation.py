"""Checks of arguments: what is accepted, and the message for what is not."""

import numpy as np
import pandas as pd
import pytest

from cosmo._core.validation import (
    as_class_index,
    check_descriptions,
    check_features,
    check_probabilities,
    encode_labels,
)


class TestFeatures:
    def test_float32_is_handed_on_without_a_copy(self):
        X = np.ones((3, 2), dtype=np.float32)
        assert check_features(X) is X

    def test_memory_mapped_float32_is_not_copied(self, tmp_path):
        stored = np.memmap(tmp_path / "x.bin", dtype=np.float32, mode="w+", shape=(6, 4))
        stored[:] = np.arange(24).reshape(6, 4)
        values = check_features(stored)
        assert np.shares_memory(values, stored)
        assert isinstance(values, np.memmap)

    @pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int64, np.uint8, bool])
    def test_other_numbers_become_float32(self, dtype):
        values = check_features(np.array([[1, 0], [0, 1]], dtype=dtype))
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, [[1, 0], [0, 1]])

    def test_frames_and_lists_are_accepted(self):
        np.testing.assert_array_equal(check_features([[1, 2]]), np.float32([[1, 2]]))
        np.testing.assert_array_equal(check_features(pd.DataFrame({"u": [1.5], "v": [2]})), [[1.5, 2]])

    @pytest.mark.parametrize(
        "X",
        [
            np.array([[1, "a"]], dtype=object),
            np.array([[1.0, 2.0]], dtype=object),
            np.array([["1", "2"]]),
            np.array([[1j]]),
            np.array([["2020-01-01"]], dtype="datetime64[D]"),
        ],
        ids=["mixed", "object", "text", "complex", "dates"],
    )
    def test_anything_but_plain_numbers_is_refused(self, X):
        with pytest.raises(ValueError, match="features must be numbers, got dtype"):
            check_features(X)

    def test_rows_are_counted_across_blocks(self):
        X = np.zeros((4100, 1030), dtype=np.float32)  # more than one block of 2**22 values
        X[4099, 1029] = np.nan
        with pytest.raises(ValueError, match="row 4099, column 1029"):
            check_features(X)


class TestClassIndex:
    def test_a_tuple_is_one_label(self):
        index = as_class_index([("bird", 1), ("bird", 2)])
        assert index.nlevels == 1
        assert list(index) == [("bird", 1), ("bird", 2)]

    def test_a_multi_index_is_flattened(self):
        index = as_class_index(pd.MultiIndex.from_tuples([("bird", 1), ("fish", 2)]))
        assert index.nlevels == 1
        assert list(index) == [("bird", 1), ("fish", 2)]

    @pytest.mark.parametrize("labels", [pd.Index(["a", "b"]), np.array(["a", "b"]), ["a", "b"]])
    def test_strings_are_those_of_python(self, labels):
        # scikit-learn cannot index pandas' own strings where pyarrow is installed.
        assert as_class_index(labels).dtype == object

    def test_iterators_arrays_and_series(self):
        for labels in (iter([7, 3]), np.array([7, 3]), pd.Series([7, 3], index=[9, 8])):
            assert list(as_class_index(labels)) == [7, 3]


class TestDescriptions:
    def test_a_mapping_keeps_its_order(self):
        table = check_descriptions({"b": [1, 2], "a": [3, 4]})
        assert list(table.index) == ["b", "a"]
        np.testing.assert_array_equal(table.to_numpy(), [[1, 2], [3, 4]])
        assert (table.dtypes == np.float32).all()

    def test_a_frame_keeps_index_and_grouped_columns(self):
        columns = pd.MultiIndex.from_tuples([("colour", "red"), ("colour", "blue"), ("size", "big")])
        frame = pd.DataFrame([[1, 0, 1], [0, 1, 0]], index=[30, 10], columns=columns)
        table = check_descriptions(frame)
        assert table.columns.equals(columns)
        assert list(table.index) == [30, 10]
        assert (table.dtypes == np.float32).all()

    def test_two_index_levels(self):
        frame = pd.DataFrame([[1.0]], index=pd.MultiIndex.from_tuples([("a", "b")]))
        with pytest.raises(ValueError, match="one index level"):
            check_descriptions(frame)

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, None, 1e39])
    def test_a_missing_or_infinite_value_is_located(self, value):
        frame = pd.DataFrame([[1.0, 2.0], [3.0, value]], index=["a", "b"], columns=["red", "big"])
        with pytest.raises(ValueError, match="class 'b', attribute 'big'"):
            check_descriptions(frame)

    def test_a_missing_value_of_a_nullable_column(self):
        frame = pd.DataFrame({"red": pd.array([1, None], dtype="Int64")}, index=["a", "b"])
        with pytest.raises(ValueError, match="class 'b', attribute 'red'"):
            check_descriptions(frame)


class TestEncodeLabels:
    def test_positions(self):
        codes = encode_labels(["b", "a", "b"], pd.Index(["a", "b", "c"]))
        np.testing.assert_array_equal(codes, [1, 0, 1])

    def test_unknown_labels_are_named_once(self):
        with pytest.raises(ValueError, match=r"^y without a description: 'owl', 'emu'; add a row"):
            encode_labels(["a", "owl", "emu", "owl"], pd.Index(["a"]), name="y")

    def test_a_long_list_of_unknown_labels_is_cut(self):
        with pytest.raises(ValueError, match=r"0, 1, 2, 3, 4 and 3 more"):
            encode_labels(range(8), pd.Index(["a"]))


class TestProbabilities:
    def test_floats_are_handed_on(self):
        proba = np.array([[0.25, 0.75]], dtype=np.float32)
        assert check_probabilities(proba, name="p") is proba

    def test_a_joint_part_may_sum_to_less(self):
        proba = np.array([[0.1, 0.2], [0.0, 0.0]])
        assert check_probabilities(proba, name="p", joint=True) is proba
        with pytest.raises(ValueError, match=r"p must sum to 1 in every row; row 0 sums to 0\.3"):
            check_probabilities(proba, name="p")

    def test_a_joint_part_may_not_sum_to_more(self):
        with pytest.raises(ValueError, match=r"at most 1 in every row; row 1 sums to 1\.2"):
            check_probabilities([[0.1, 0.2], [0.6, 0.6]], name="p", joint=True)

    @pytest.mark.parametrize("proba", [[0.5, 0.5], [["a", "b"]], np.array([[0.5]], dtype=object), [[1j]]])
    def test_not_a_numeric_matrix(self, proba):
        with pytest.raises(ValueError, match="p must be a numeric matrix"):
            check_probabilities(proba, name="p")

    def test_rounding_is_forgiven(self):
        check_probabilities([[0.3334, 0.3334, 0.3334]], name="p")
        with pytest.raises(ValueError, match=r"sums to 1\.002"):
            check_probabilities([[0.334, 0.334, 0.334]], name="p")
