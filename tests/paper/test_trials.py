import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from cosmo.classifier.ways import WAYS
from cosmo.paper.trials import (
    AUTHORS_GRIDS,
    STACKING_CONSTANTS,
    Trial,
    fitted,
    measure,
)

GATED = [name for name in WAYS if name not in ("alone", "CS", "own gate")]


def trial(rule, search="exact", dataset="CUB"):
    return Trial(dataset, "LAGO", "predictions", rule, search)


class TestTrial:
    @pytest.mark.parametrize("rule", WAYS)
    def test_who_has_to_be_asked(self, rule):
        source = trial(rule).case[2]
        assert source == ("scores" if rule in ("alone", "CS") else "predictions")
        assert Trial("CUB", "LAGO", "features", rule).case[2] == "features"


class TestMeasure:
    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("rule", ["CS", "Max-Softmax-1", "Independent-Hard", "COSMO", "Const-Smoothing"])
    def test_exact_search_is_never_worse_on_validation(self, random_outputs, rule, seed):
        # The authors' softnesses are among those of the exact search, and their thresholds are thresholds.
        validation = random_outputs(seed)

        def height(search, dataset):
            rule_ = fitted(trial(rule, search, dataset), validation)
            return rule_.curve(validation).at(rule_.operating_point_.threshold).acc_h

        for dataset in AUTHORS_GRIDS:
            assert height("exact", dataset) >= height("authors", dataset) - 1e-9

    @pytest.mark.parametrize("seed", range(2))
    @pytest.mark.parametrize("rule", ["alone", "CS", *GATED])
    def test_values_lie_in_their_intervals(self, random_outputs, rule, seed):
        found = measure(trial(rule), random_outputs(seed), random_outputs(seed + 100))
        names = [name for name in found if f"{name}_low" in found]
        assert {*names} - {"auc", "fpr"} == {"acc_ts", "acc_tr", "acc_h", "ausuc", "val_acc_h"}
        assert ("auc" in names) == (rule in GATED)
        for name in names:
            assert 0 <= found[f"{name}_low"] <= found[name] <= found[f"{name}_high"] <= 100, name
        assert found["acc_h_low"] < found["acc_h_high"]

    def test_gate_on_gating_val(self, random_outputs):
        validation = random_outputs(2)
        found = measure(trial("Max-Softmax-1"), validation, random_outputs(3))
        rows = np.arange(0, len(validation), 3)
        seen = validation.labels[rows] < validation.n_seen
        expected = roc_auc_score(seen, validation.seen[rows].max(axis=1))
        assert found["auc"] == pytest.approx(100 * expected)

    @pytest.mark.parametrize("rule", ["CS", "COSMO"])
    def test_sampled_area_is_near_the_exact_one(self, random_outputs, rule):
        outputs = random_outputs(0), random_outputs(1)
        exact, authors = (measure(trial(rule, search), *outputs)["ausuc"] for search in ("exact", "authors"))
        assert exact != authors
        assert exact == pytest.approx(authors, abs=3)

    def test_authors_constants_of_stacking(self, random_outputs):
        rule = fitted(trial("CS", "authors"), random_outputs(0))
        assert rule.operating_point_.threshold in STACKING_CONSTANTS

    def test_textbook_changes_the_learnt_gate_and_nothing_else(self, random_outputs):
        outputs = random_outputs(0), random_outputs(1)
        for rule, differs in (("CB-Gating-3", True), ("Max-Softmax-1", False)):
            score = [
                fitted(trial(rule, search), outputs[0]).gate_.score(outputs[1])
                for search in ("exact", "textbook")
            ]
            assert (not np.allclose(*score)) == differs
