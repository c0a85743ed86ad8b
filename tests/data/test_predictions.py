import numpy as np
import pytest

from cosmo.data import DataError
from cosmo.data.plain import read_predictions

STAGES = {
    "val": {"rows": [9, 2], "y": [1, 2], "seen_classes": [1], "unseen_classes": [2], "seen_val_seed": 1003},
    "test": {"rows": [4, 6, 1], "y": [4, 1, 2], "seen_classes": [2, 1], "unseen_classes": [4]},
}
PROBA = {
    "val": [[0.25, 0.5, 0.125, 0.0625, 0.0625], [0, 0, 1, 0, 0]],
    "test": [[0, 0.25, 0.25, 0, 0.5], [0.5, 0.5, 0, 0, 0], [0.125, 0.125, 0.5, 0.125, 0.125]],
}


def save(folder, stage, proba=None, **changes):
    about = {entry: value for entry, value in (STAGES[stage] | changes).items() if value is not None}
    np.savez(folder / f"rows_{stage}.npz", **about)
    np.savez(folder / f"pred_gzsl_{stage}.npz", **{f"pred_{stage}": PROBA[stage] if proba is None else proba})


@pytest.fixture
def folder(tmp_path):
    for stage in STAGES:
        save(tmp_path, stage)
    return tmp_path


class TestOneStage:
    def test_ids_rows_and_columns(self, folder):
        stage = read_predictions(folder, "test")
        np.testing.assert_array_equal(stage.rows, [3, 5, 0])
        np.testing.assert_array_equal(stage.y, [4, 1, 2])
        np.testing.assert_array_equal(stage.seen_classes, [2, 1])
        np.testing.assert_array_equal(stage.unseen_classes, [4])
        assert stage.seed is None

    def test_probabilities_are_cut_to_the_stage_and_not_renormalised(self, folder):
        proba = read_predictions(folder, "test").proba
        assert list(proba.columns) == [1, 2, 4]
        assert list(proba.index) == [3, 5, 0]
        assert set(proba.dtypes) == {np.dtype(np.float32)}
        np.testing.assert_array_equal(proba, [[0.25, 0.25, 0.5], [0.5, 0, 0], [0.125, 0.5, 0.125]])

    @pytest.mark.parametrize("seed", [1003, [1003], np.uint16(1003)])
    def test_seed(self, folder, seed):
        save(folder, "val", seen_val_seed=seed)
        assert read_predictions(folder, "val").seed == 1003

    def test_unknown_stage(self, folder):
        with pytest.raises(ValueError, match="stage must be 'val' or 'test', got 'train'"):
            read_predictions(folder, "train")


FAULTS = [
    ({"rows": None}, r"rows_test\.npz: no array rows; there are y, seen_classes, unseen_classes"),
    ({"rows": [0, 6, 1]}, r"rows_test\.npz: rows has the number 0; numbers are 1-based: add 1"),
    ({"rows": [[4], [6], [1]]}, r"rows_test\.npz: rows must be a list of integers, got int64 \(3, 1\)"),
    ({"rows": [4, 6, 4]}, r"rows_test\.npz: rows must be unique"),
    ({"seen_classes": [1, 1, 2]}, r"rows_test\.npz: seen_classes and unseen_classes must be unique"),
    ({"y": [4, 1]}, r"rows_test\.npz: y must be a class of the stage for each of the 3 rows"),
    ({"y": [4, 1, 3]}, r"rows_test\.npz: y must be a class of the stage"),
    ({"y": ["4", "1", "2"]}, r"rows_test\.npz: y must be a list of integers"),
    ({"seen_val_seed": [1, 2]}, r"rows_test\.npz: seen_val_seed must be one integer"),
    ({"seen_classes": [1, 2, 7]}, r"pred_gzsl_test\.npz: pred_test has shape \(3, 5\), .*class ids up to 7"),
    ({"proba": PROBA["test"][:2]}, r"pred_gzsl_test\.npz: pred_test has shape \(2, 5\), but .*has 3 rows"),
    ({"proba": PROBA["test"][0]}, r"pred_gzsl_test\.npz: pred_test must be a numeric matrix"),
    ({"proba": np.eye(3, 5) - 1}, r"pred_gzsl_test\.npz: pred_test has a negative value in row 0; logits"),
    ({"proba": np.eye(3, 5) * 2}, r"pred_gzsl_test\.npz: pred_test must sum to at most 1 .*row 0 sums to 2"),
    ({"proba": np.full((3, 5), np.nan)}, r"pred_gzsl_test\.npz: pred_test has NaN or infinite values"),
]


class TestFaults:
    @pytest.mark.parametrize(("changes", "message"), FAULTS, ids=[fault[1] for fault in FAULTS])
    def test_of_the_content(self, folder, changes, message):
        save(folder, "test", **changes)
        with pytest.raises(DataError, match=message):
            read_predictions(folder, "test")

    def test_stage_without_classes(self, folder):
        nothing = np.empty(0, dtype=int)
        save(
            folder,
            "test",
            np.empty((0, 5)),
            rows=nothing,
            y=nothing,
            seen_classes=nothing,
            unseen_classes=nothing,
        )
        with pytest.raises(DataError, match=r"has 0 rows and class ids up to 0"):
            read_predictions(folder, "test")

    def test_entry_of_the_wrong_name(self, folder):
        np.savez(folder / "pred_gzsl_test.npz", pred_val=PROBA["test"])
        with pytest.raises(DataError, match=r"pred_gzsl_test\.npz: no array pred_test; there are pred_val"):
            read_predictions(folder, "test")

    @pytest.mark.parametrize("file", ["rows_test.npz", "pred_gzsl_test.npz"])
    def test_no_such_file(self, folder, file):
        (folder / file).unlink()
        with pytest.raises(DataError, match=rf"{file}: no such file; .*in that folder: .*rows_val.npz"):
            read_predictions(folder, "test")
