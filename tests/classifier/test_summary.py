"""The summary of outputs gives the same curves and operating points as the outputs."""

import numpy as np
import pandas as pd
import pytest

from cosmo.classifier.combinations import GatedMixture
from cosmo.gates import ConfidenceGate
from cosmo.mixture.outputs import ExpertOutputs, OutputsSummary


@pytest.fixture(scope="module")
def outputs():
    rng = np.random.default_rng(0)
    seen, joint = (rng.dirichlet([0.3] * n, 200).astype(np.float32) for n in (5, 8))
    target = np.where(rng.random(200) < 0.5, seen.argmax(axis=1), 5 + joint[:, 5:].argmax(axis=1))
    return ExpertOutputs(pd.Index(list("abcde")), pd.Index(list("xyz")), seen, joint[:, 5:], target=target)


@pytest.mark.parametrize("smoothing", ["adaptive", "constant", "none"])
def test_same_curves_and_points(outputs, smoothing):
    mixture = GatedMixture(ConfidenceGate(), smoothing=smoothing).fit(outputs)
    record = mixture.summary(outputs)
    assert len(record) == len(outputs)
    one, other = mixture.curve(outputs), mixture.curve(record)
    for name in ("flips", "seen_gain", "unseen_gain"):
        np.testing.assert_array_equal(getattr(other, name), getattr(one, name))
    for floors in ({}, {"min_seen": 0.5}, {"min_unseen": 0.6}):
        assert mixture.operate_at(record, **floors).operating_point_ == (
            mixture.operate_at(outputs, **floors).operating_point_
        )
    assert mixture.summary(record) is record


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("target", np.array([0, 9]), "columns from 0 to 3"), ("target", np.array([0.0, 1.0]), "columns"),
     ("seen_choice", np.array([-1, 0]), "columns from 0 to 1"),
     ("gate_score", np.zeros(3), "one number per sample"),
     ("best_seen", np.zeros((2, 1)), "one number per sample")],
)  # fmt: skip
def test_what_does_not_fit_together(name, value, message):
    parts = {key: np.zeros(2, int) for key in ("target", "seen_choice", "unseen_choice")}
    parts |= {key: np.zeros(2) for key in ("best_seen", "best_unseen", "gate_score")}
    OutputsSummary(2, 2, **parts)
    with pytest.raises(ValueError, match=message):
        OutputsSummary(2, 2, **{**parts, name: value})
