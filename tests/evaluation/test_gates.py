"""Gates side by side."""

import numpy as np
import pytest

from cosmo._core.cache import Cache
from cosmo.data import load_glyphs
from cosmo.evaluation.gates import study_gates, study_leave_out, study_pushes
from cosmo.evaluation.stages import Stages
from cosmo.experts import ESZSL, make_seen_expert
from cosmo.gates import make_gate
from cosmo.metrics.accuracy import gate_auc

SEEN = make_seen_expert("lda")


@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    data = load_glyphs(n_classes=60, samples_per_class=16)
    return Stages(data, Cache(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def results(stages):
    found = study_gates(stages, SEEN, ESZSL(), ["max-softmax", "odin", "confidence"], folds=3)
    return {one.name: one for one in found}


def test_max_softmax_by_hand(stages, results):
    validation, test = stages.outputs(stages.seen(SEEN), stages.unseen(ESZSL()), ESZSL())
    measures = results["max-softmax"].measures
    gating_val = validation[::3]
    assert measures["auc"] == pytest.approx(100 * gate_auc(gating_val.is_seen, gating_val.seen.max(axis=1)))
    assert measures["test_auc"] == pytest.approx(100 * gate_auc(test.is_seen, test.seen.max(axis=1)))
    np.testing.assert_array_equal(results["max-softmax"].is_seen, test.is_seen)


def test_pooled_gate_learns_from_all_hold_outs(stages, results):
    validation, test = stages.outputs(stages.seen(SEEN), stages.unseen(ESZSL()), ESZSL())
    others = stages.further(SEEN, ESZSL(), [make_gate("confidence")], 3)[0]
    train = validation[np.arange(len(validation)) % 3 != 0]
    expected = make_gate("confidence").fit(train, *others).score(test)
    np.testing.assert_allclose(results["confidence, 3 folds"].scores, expected, atol=1e-6)
    assert (results["confidence"].scores != expected).any()


def test_scaled_scores_are_better_probabilities(results):
    """Those of the paper's gate are half as sure as they should be."""
    measures = results["confidence"].measures
    assert measures["scaled_ece"] < measures["ece"]


def test_pushes_contain_what_the_gate_chose(stages, results):
    table = study_pushes(stages, SEEN)
    assert table.to_numpy().max() == pytest.approx(results["odin"].measures["auc"])
    assert 0.0 in table.index
    assert table.notna().all().all()


def test_leave_out_is_found_again(stages, monkeypatch):
    first = study_leave_out(stages)
    monkeypatch.setattr("cosmo.evaluation.gates.leave_out_gap", None)  # nothing may be trained
    assert study_leave_out(stages) == first
    assert first["margin loss"].trained > first["margin loss"].unmet
