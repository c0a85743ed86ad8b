import numpy as np
import pytest
from scipy.io import loadmat, savemat

import cosmo.paper.runner as module
from cosmo._core import MissingExtra
from cosmo._core.cache import Cache
from cosmo.data.splits import Protocol
from cosmo.experts import make_seen_expert
from cosmo.metrics.accuracy import gzsl_scores
from cosmo.paper.runner import Runner, find_inputs
from cosmo.paper.trials import Missing, Trial

COSMO = Trial("CUB", "LAGO", "predictions", "COSMO")
ALONE = Trial("CUB", "LAGO", "predictions", "alone")


def lago(root, file, dataset="CUB"):
    return root / "predictions" / "LAGO" / dataset / file


class TestWithoutFeatures:
    @pytest.mark.parametrize("dataset", ["CUB", "AWA1"])
    def test_alone_is_the_argmax_of_the_file(self, runner, release, dataset):
        with np.load(lago(release, "pred_gzsl_test.npz", dataset)) as file:
            guess = file["pred_test"][:, 1:].argmax(axis=1) + 1
        with np.load(lago(release, "rows_test.npz", dataset)) as about:
            scores = gzsl_scores(about["y"], guess, about["seen_classes"], about["unseen_classes"])
        found = runner.result(Trial(dataset, "LAGO", "predictions", "alone"))
        assert [found[name] for name in ("acc_ts", "acc_tr", "acc_h")] == pytest.approx(
            [100 * value for value in scores]
        )

    def test_the_rest_says_what_is_missing(self, runner):
        for source in ("predictions", "features"):
            with pytest.raises(Missing, match=r"^features of AWA1: xlsa17/AWA1/res101\.mat$"):
                runner.result(Trial("AWA1", "LAGO", source, "COSMO"))
        with pytest.raises(Missing, match=r"^published predictions of f-CLSWGAN: predictions/fCLSWGAN/CUB/$"):
            runner.result(Trial("CUB", "f-CLSWGAN", "predictions", "alone"))


class TestAlignment:
    def test_outputs(self, runner, data, release):
        validation, test = runner.outputs(COSMO.case)
        held = Protocol(data, seed=7).hold_out
        rows = np.concatenate([np.sort(data.split.test_seen), np.sort(data.split.test_unseen)])
        for said, expected in ((validation, held.gzsl_val), (test, rows)):
            np.testing.assert_array_equal(said.classes[said.labels], data.labels[expected])
        assert {*validation.unseen_classes} == {*data.labels[held.unseen_val]}
        with np.load(lago(release, "pred_gzsl_test.npz")) as file:
            ids = data.classes.get_indexer(test.unseen_classes) + 1
            np.testing.assert_array_equal(test.unseen, file["pred_test"][:, ids])

    def test_seen_expert(self, runner, data):
        _, test = runner.outputs(COSMO.case)
        train = np.sort(data.split.trainval)
        model = make_seen_expert("logistic-sklearn").fit(data.features[train], data.codes[train])
        asked = data.features[np.sort(data.split.test_seen)]
        assert test.seen_classes.equals(data.classes[model.classes_])
        np.testing.assert_allclose(test.seen[: len(asked)], model.predict_proba(asked), atol=1e-4)

    def refused(self, root, place):
        runner = Runner(find_inputs(root), Cache(place))
        with pytest.raises(Missing, match="^the rows of LAGO's published predictions in CUB's own split$"):
            runner.result(COSMO)

    @pytest.mark.parametrize("stage", ["val", "test"])
    @pytest.mark.parametrize("entries", [("rows",), ("y",), ("rows", "y")])
    def test_another_order(self, own_release, change, cache, stage, entries):
        def permute(about):
            order = np.random.default_rng(0).permutation(len(about["rows"]))
            return {entry: about[entry][order] for entry in entries}

        change(lago(own_release, f"rows_{stage}.npz"), permute)
        self.refused(own_release, cache.folder)

    @pytest.mark.parametrize("stage", ["val", "test"])
    def test_a_seen_class_for_an_unseen_one(self, own_release, change, cache, stage):
        def swap(about):
            seen, unseen = about["seen_classes"].copy(), about["unseen_classes"].copy()
            seen[0], unseen[0] = unseen[0], seen[0]
            return {"seen_classes": seen, "unseen_classes": unseen}

        change(lago(own_release, f"rows_{stage}.npz"), swap)
        self.refused(own_release, cache.folder)

    def test_the_order_of_classes_in_the_list_does_not_matter(self, own_release, change, cache, runner):
        for stage in ("val", "test"):
            change(
                lago(own_release, f"rows_{stage}.npz"),
                lambda about: {name: about[name][::-1] for name in ("seen_classes", "unseen_classes")},
            )
        assert Runner(find_inputs(own_release), cache).result(COSMO) == runner.result(COSMO)

    def test_another_draw(self, own_release, change, cache):
        change(lago(own_release, "rows_val.npz"), lambda about: {"seen_val_seed": 8})
        self.refused(own_release, cache.folder)


class TestCache:
    def test_neither_trained_nor_measured_again(self, runner, release, cache, monkeypatch):
        first = runner.result(COSMO)

        def fails(*_args, **_options):
            raise AssertionError("this was done before")

        monkeypatch.setattr(module, "measure", fails)
        monkeypatch.setattr("cosmo.evaluation.expert_cache.CachedClassifier.classifier_", None)
        again = Runner(find_inputs(release), cache)
        again.prepare([COSMO])
        assert again.result(COSMO) == first

    def test_a_changed_prediction_changes_the_result(self, own_release, change, cache, runner):
        before = Runner(find_inputs(own_release), cache).result(ALONE)
        assert before == runner.result(ALONE)
        change(lago(own_release, "pred_gzsl_test.npz"), lambda old: {"pred_test": old["pred_test"][::-1]})
        after = Runner(find_inputs(own_release), cache).result(ALONE)
        assert after["acc_h"] < before["acc_h"] - 5

    def test_trials_are_told_apart(self, runner):
        found = [
            runner.result(Trial("CUB", "LAGO", "predictions", rule, search))
            for rule, search in (("COSMO", "exact"), ("CB-Gating-3", "exact"), ("COSMO", "authors"))
        ]
        assert len({one["val_acc_h"] for one in found}) == 3


class TestPrepare:
    def test_each_expert_once_and_what_is_missing_is_left(self, release, tmp_path):
        counts = []
        runner = Runner(find_inputs(release), Cache(tmp_path), report=lambda *count: counts.append(count))
        wanted = [
            COSMO,
            Trial("CUB", "LAGO", "predictions", "Max-Softmax-1"),
            Trial("AWA1", "LAGO", "predictions", "COSMO"),
            Trial("SUN", "ESZSL", "features", "COSMO"),
            Trial("CUB", "ESZSL", "features", "COSMO"),
            Trial("CUB", "ESZSL", "features", "CS"),
            Trial("CUB", "f-CLSWGAN", "predictions", "COSMO"),
        ]
        runner.prepare(wanted)
        assert counts == [(0, 1), (1, 1)]
        runner.prepare(wanted)
        assert counts[2:] == [(1, 1)]


class TestFeatures:
    def test_own_gate_takes_a_detector(self, runner):
        with pytest.raises(Missing, match="^a novelty detector in ESZSL$"):
            runner.result(Trial("CUB", "ESZSL", "features", "own gate"))

    def test_descriptions_that_an_expert_cannot_take(self, own_release, tmp_path):
        path = own_release / "xlsa17" / "CUB" / "att_splits.mat"
        fields = {name: value for name, value in loadmat(path).items() if not name.startswith("__")}
        del fields["original_att"]
        savemat(path, {**fields, "att": fields["att"] - 0.5})
        runner = Runner(find_inputs(own_release), Cache(tmp_path / "cache"))
        trial = Trial("CUB", "LAGO", "features", "COSMO")
        runner.prepare([trial])
        with pytest.raises(Missing, match=r"^descriptions of CUB that suit LAGO: .*got -0\.5 to 0\.5"):
            runner.result(trial)

    def test_without_torch(self, runner, monkeypatch):
        def absent(module):
            raise MissingExtra("networks take PyTorch")

        monkeypatch.setattr(module, "require", absent)
        trial = Trial("CUB", "DEM", "features", "COSMO")
        runner.prepare([trial])
        with pytest.raises(MissingExtra):
            runner.result(trial)
