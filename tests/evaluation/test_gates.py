"""Gates side by side."""

import numpy as np
import pytest

from cosmo import Protocol
from cosmo._core.cache import Cache
from cosmo.data import load_glyphs
from cosmo.evaluation.compare import compare_gates
from cosmo.evaluation.expert_cache import ExpertCache
from cosmo.experts import ESZSL, make_seen_expert
from cosmo.metrics.accuracy import gate_auc

SEEN = make_seen_expert("lda")


@pytest.fixture(scope="module")
def experts(tmp_path_factory):
    data = load_glyphs(n_classes=60, samples_per_class=16)
    return ExpertCache(Protocol(data), Cache(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def results(experts):
    found = compare_gates(experts, SEEN, ESZSL(), ["max-softmax", "odin", "confidence"], folds=3)
    return {one.name: one for one in found}


def test_max_softmax_by_hand(experts, results):
    stages = experts.fit(SEEN, ESZSL())
    validation, test = stages.validation[::3], stages.labelled(experts.test_labels)
    measures = results["max-softmax"].measures
    assert measures["auc"] == pytest.approx(100 * gate_auc(validation.is_seen, validation.seen.max(axis=1)))
    assert measures["test_auc"] == pytest.approx(100 * gate_auc(test.is_seen, test.seen.max(axis=1)))
    np.testing.assert_array_equal(results["max-softmax"].is_seen, test.is_seen)


def test_more_hold_outs_change_the_gate(results):
    assert list(results) == ["max-softmax", "odin", "confidence", "confidence, 3 folds", "calibrated"]
    assert (results["confidence"].scores != results["confidence, 3 folds"].scores).any()


def test_the_calibrated_gate_is_that_of_the_method(experts, results):
    mixture, validation, test = experts.tested(experts.fit_calibrated(SEEN, ESZSL()))
    found = results["calibrated"]
    np.testing.assert_array_equal(found.scores, mixture.gate_.score(test))
    assert found.measures["acc_h"] == pytest.approx(100 * mixture.validation_point_.acc_h)
    assert found.measures["auc"] == pytest.approx(100 * gate_auc(validation.is_seen, validation.gate_score))
    assert found.measures["ece"] < min(
        results[name].measures["ece"] for name in ("max-softmax", "confidence")
    )


def test_platt_scaling_lowers_the_calibration_error(results):
    measures = results["confidence"].measures
    assert measures["scaled_ece"] < measures["ece"]
