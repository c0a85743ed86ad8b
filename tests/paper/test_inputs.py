import shutil
from functools import partial

import numpy as np
import pytest

from cosmo.data import DataError, load_glyphs
from cosmo.paper.runner import DATASETS, Holding, find_inputs
from cosmo.paper.trials import Missing


class TestFindInputs:
    def test_files(self, release):
        found = find_inputs(release)
        assert list(found) == [*DATASETS, "glyphs"]
        assert found["CUB"].features == "res101"
        assert found["CUB"].predictions == {"LAGO": release / "predictions" / "LAGO" / "CUB"}
        assert (found["AWA1"].folder, found["AWA1"].features) == (release / "xlsa17" / "AWA1", None)
        assert found["SUN"] == Holding("SUN")
        assert list(find_inputs(None)) == ["glyphs"]

    def test_predictions_alone_are_enough(self, own_release):
        shutil.rmtree(own_release / "xlsa17")
        found = find_inputs(own_release)
        assert found["CUB"].folder is None
        assert found["CUB"].published_predictions("LAGO").is_dir()

    def test_features(self, own_release):
        folder = own_release / "xlsa17" / "CUB"
        for name in ("alpha", "zeta"):
            shutil.copy(folder / "res101.mat", folder / f"{name}.mat")
        assert find_inputs(own_release)["CUB"].features == "res101"
        assert find_inputs(own_release, features="zeta")["CUB"].features == "zeta"
        (folder / "res101.mat").unlink()
        assert find_inputs(own_release)["CUB"].features == "alpha"

    def test_errors(self, release, tmp_path):
        with pytest.raises(DataError, match="nowhere: no such folder"):
            find_inputs(tmp_path / "nowhere")
        with pytest.raises(DataError, match=r"xlsa17: has none of AWA1, SUN, CUB, FLO; expected are"):
            find_inputs(release / "xlsa17")
        with pytest.raises(DataError, match=r"there is no xlsa17/\*/rse101\.mat"):
            find_inputs(release, features="rse101")


class TestHolding:
    def test_data_set(self, release, data):
        holding = find_inputs(release)["CUB"]
        found = holding.dataset()
        np.testing.assert_allclose(found.features, data.features, rtol=1e-6)
        assert found.classes.equals(data.classes)
        assert found.name == "CUB"
        np.testing.assert_allclose(holding.dataset(recorded=True).descriptions, found.descriptions)

    def test_split_without_features(self, release, data):
        labels, split = find_inputs(release)["AWA1"].split()
        assert labels.equals(data.labels)
        np.testing.assert_array_equal(split.test_unseen, data.split.test_unseen)

    def test_glyphs(self, monkeypatch):
        few = partial(load_glyphs, n_classes=40, samples_per_class=12)
        monkeypatch.setattr("cosmo.paper.runner.load_glyphs", few)
        labels, split = Holding("glyphs").split()
        assert len(labels) > max(split.test_unseen)
        assert Holding("glyphs").dataset().labels.equals(labels)


class TestMissing:
    def test_single_files(self, own_release):
        (own_release / "xlsa17" / "AWA1" / "labels.mat").unlink()
        (own_release / "predictions" / "LAGO" / "CUB" / "rows_val.npz").unlink()
        splits = own_release / "xlsa17" / "CUB" / "att_splits.mat"
        splits.write_bytes(b"nothing")
        inputs = find_inputs(own_release)
        with pytest.raises(Missing, match=r"^labels of AWA1: xlsa17/AWA1/res101\.mat$"):
            inputs["AWA1"].split()
        with pytest.raises(Missing, match=r"^published .* of LAGO: predictions/LAGO/CUB/rows_val\.npz$"):
            inputs["CUB"].published_predictions("LAGO")
        with pytest.raises(DataError, match=r"att_splits\.mat"):  # damaged, not missing
            inputs["CUB"].dataset(recorded=True)
        splits.unlink()
        for read in (inputs["CUB"].dataset, inputs["CUB"].split):
            with pytest.raises(Missing, match=r"^splits of CUB: xlsa17/CUB/att_splits\.mat$"):
                read()
