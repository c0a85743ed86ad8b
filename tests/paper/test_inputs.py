from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from cosmo.data import DataError, GZSLDataset, Split, load_glyphs, write_xlsa17
from cosmo.data.splits import PUBLISHED_SEEDS
from cosmo.paper.inputs import DATASETS, Holding, Missing, find_inputs


class TestLookInto:
    def test_what_is_there(self, release: Path):
        found = find_inputs(release)
        assert list(found) == [*DATASETS, "glyphs"]
        assert found["CUB"].features == "res101"
        assert found["CUB"].predictions == {"LAGO": release / "predictions" / "LAGO" / "CUB"}
        assert (found["AWA1"].folder, found["AWA1"].features) == (release / "xlsa17" / "AWA1", None)
        assert (found["SUN"].folder, found["SUN"].features, dict(found["SUN"].predictions)) == (
            None,
            None,
            {},
        )

    def test_without_a_folder_only_what_is_built_in(self):
        assert list(find_inputs(None)) == ["glyphs"]

    def test_no_such_folder(self, tmp_path: Path):
        with pytest.raises(DataError, match="nowhere: no such folder"):
            find_inputs(tmp_path / "nowhere")

    def test_a_file_is_not_a_folder(self, tmp_path: Path):
        (tmp_path / "data").touch()
        with pytest.raises(DataError, match="data: no such folder"):
            find_inputs(tmp_path / "data")

    def test_one_level_too_deep(self, release: Path):
        with pytest.raises(DataError, match=r"xlsa17: holds none of AWA1, SUN, CUB, FLO; expected are"):
            find_inputs(release / "xlsa17")

    def test_predictions_alone_are_enough(self, own_release: Path):
        shutil.rmtree(own_release / "xlsa17")
        found = find_inputs(own_release)
        assert found["CUB"].folder is None
        assert found["CUB"].published_predictions("LAGO").is_dir()

    def test_which_features(self, own_release: Path):
        folder = own_release / "xlsa17" / "CUB"
        for name in ("alpha", "zeta"):
            shutil.copy(folder / "res101.mat", folder / f"{name}.mat")
        assert find_inputs(own_release)["CUB"].features == "res101"
        assert find_inputs(own_release, features="zeta")["CUB"].features == "zeta"
        (folder / "res101.mat").unlink()
        assert find_inputs(own_release)["CUB"].features == "alpha"

    def test_features_that_no_data_set_has(self, release: Path):
        with pytest.raises(DataError, match=r"there is no xlsa17/\*/rse101\.mat"):
            find_inputs(release, features="rse101")


class TestHolding:
    def test_data_set(self, release: Path, data: GZSLDataset):
        found = find_inputs(release)["CUB"].dataset()
        np.testing.assert_allclose(found.features, data.features, rtol=1e-6)
        assert found.classes.equals(data.classes)
        assert found.name == "CUB"

    def test_descriptions_as_recorded_where_there_are_any(self, release: Path):
        holding = find_inputs(release)["CUB"]
        recorded, usual = holding.dataset(recorded=True), holding.dataset()
        np.testing.assert_allclose(recorded.descriptions, usual.descriptions)

    def test_seeds(self):
        assert Holding("CUB").seed == PUBLISHED_SEEDS["CUB"]
        assert Holding("glyphs").seed == 0

    def test_names_in_the_paper(self):
        assert [Holding(name).published_name for name in ("AWA1", "CUB")] == ["AWA", "CUB"]

    def test_split_without_features(self, release: Path, data: GZSLDataset):
        labels, split = find_inputs(release)["AWA1"].split()
        assert labels.equals(data.labels)
        np.testing.assert_array_equal(split.test_unseen, data.split.test_unseen)

    def test_glyphs(self, monkeypatch: pytest.MonkeyPatch):
        few = partial(load_glyphs, n_classes=40, samples_per_class=12)
        monkeypatch.setattr("cosmo.paper.inputs.load_glyphs", few)
        labels, split = Holding("glyphs").split()
        assert len(labels) > max(split.test_unseen)
        assert Holding("glyphs").dataset().labels.equals(labels)


class TestMissing:
    def test_a_data_set_that_is_not_there(self, release: Path):
        sun = find_inputs(release)["SUN"]
        with pytest.raises(Missing, match=r"^features of SUN: xlsa17/SUN/res101\.mat$"):
            sun.dataset()
        with pytest.raises(Missing, match=r"^splits of SUN: xlsa17/SUN/att_splits\.mat$"):
            sun.split()
        with pytest.raises(Missing, match=r"^published predictions of f-CLSWGAN: predictions/fCLSWGAN/SUN/$"):
            sun.published_predictions("f-CLSWGAN")

    def test_features(self, release: Path):
        with pytest.raises(Missing, match=r"^features of AWA1: xlsa17/AWA1/res101\.mat$"):
            find_inputs(release)["AWA1"].dataset()

    def test_splits(self, own_release: Path):
        (own_release / "xlsa17" / "CUB" / "att_splits.mat").unlink()
        cub = find_inputs(own_release)["CUB"]
        for read in (cub.dataset, cub.split):
            with pytest.raises(Missing, match=r"^splits of CUB: xlsa17/CUB/att_splits\.mat$"):
                read()

    def test_labels(self, own_release: Path):
        (own_release / "xlsa17" / "AWA1" / "labels.mat").unlink()
        with pytest.raises(Missing, match=r"^labels of AWA1: xlsa17/AWA1/res101\.mat$"):
            find_inputs(own_release)["AWA1"].split()

    @pytest.mark.parametrize(
        "file", ["pred_gzsl_val.npz", "pred_gzsl_test.npz", "rows_val.npz", "rows_test.npz"]
    )
    def test_one_file_of_the_predictions(self, own_release: Path, file: str):
        (own_release / "predictions" / "LAGO" / "CUB" / file).unlink()
        with pytest.raises(Missing, match=f"^published predictions of LAGO: predictions/LAGO/CUB/{file}$"):
            find_inputs(own_release)["CUB"].published_predictions("LAGO")

    def test_a_damaged_file_is_not_a_missing_one(self, own_release: Path):
        (own_release / "xlsa17" / "CUB" / "att_splits.mat").write_bytes(b"nothing")
        with pytest.raises(DataError, match=r"att_splits\.mat"):
            find_inputs(own_release)["CUB"].dataset(recorded=True)

    def test_other_splits_than_the_papers(self, tmp_path: Path, data: GZSLDataset):
        split = Split(data.split.trainval, data.split.test_seen, data.split.test_unseen)
        write_xlsa17(
            GZSLDataset(data.features, data.labels, data.descriptions, split), tmp_path / "xlsa17" / "FLO"
        )
        assert find_inputs(tmp_path)["FLO"].split()[1].train is None
