import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from cosmo.classifier.combinations import PRIOR_WEIGHTS, SOFTNESSES, GatedMixture, OperatingPoint
from cosmo.classifier.ways import CalibratedStacking
from cosmo.gates import ConfidenceGate
from cosmo.metrics.accuracy import gzsl_scores
from cosmo.mixture.outputs import ExpertOutputs, OutputsSummary, stacking

N_SEEN, N_UNSEEN = 6, 4
SEEN_CLASSES = pd.Index([f"s{i}" for i in range(N_SEEN)])
UNSEEN_CLASSES = pd.Index([f"u{i}" for i in range(N_UNSEEN)])


def calibrated_stacking(seen, unseen, constant):
    """Return scores with a constant subtracted from those of seen classes."""
    return np.concatenate([seen - constant, unseen], axis=1)


def soft_max(values):
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def sample_joint(n=150, seed=0):
    """Both experts' soft-max outputs, right more often than not, and the true columns."""
    rng = np.random.default_rng(seed)
    target = rng.integers(0, N_SEEN + N_UNSEEN, n)
    truth = np.eye(N_SEEN + N_UNSEEN)[target]
    seen = soft_max(3 * truth[:, :N_SEEN] + rng.normal(size=(n, N_SEEN)))
    bias = np.r_[np.full(N_SEEN, 1.0), np.zeros(N_UNSEEN)]  # zero-shot experts prefer seen classes
    joint = soft_max(2 * truth + bias + rng.normal(size=truth.shape))
    return seen, joint, target


def sample(n=150, seed=0):
    seen, joint, target = sample_joint(n, seed)
    return ExpertOutputs.from_joint(seen, joint, SEEN_CLASSES, UNSEEN_CLASSES, target=target)


def measured(outputs, predicted):
    classes = outputs.classes
    return gzsl_scores(classes[outputs.labels], classes[predicted], SEEN_CLASSES, UNSEEN_CLASSES)


VARIANTS = {
    "adaptive": {"smoothing": "adaptive"},
    "constant": {"smoothing": "constant"},
    "none": {"smoothing": "none"},
    "hard": {"smoothing": "none", "hard": True},
}


@pytest.mark.parametrize("name", VARIANTS)
class TestGatedMixture:
    def test_the_validation_point_is_what_the_predictions_give(self, name):
        out = sample()
        model = GatedMixture(ConfidenceGate(), **VARIANTS[name]).fit(out)
        np.testing.assert_allclose(model.validation_point_[1:], measured(out, model.predict(out)))
        assert model.validation_point_.threshold == model.operating_point_.threshold

    def test_no_candidate_is_better(self, name):
        out = sample(60)
        model = GatedMixture(**VARIANTS[name]).fit(out)
        seen_points = 0
        for softness in SOFTNESSES:
            for prior_weight in PRIOR_WEIGHTS if name == "constant" else (0.0,):
                model_at = clone(model)
                model_at.gate_ = model.gate_
                model_at.operating_point_ = OperatingPoint(0.0, softness, prior_weight)
                curve = model_at.curve(out)
                assert curve.acc_h.max() <= model.validation_point_.acc_h + 1e-12
                seen_points += len(curve.acc_h)
        assert seen_points > 60

    def test_the_choice_comes_from_the_given_values(self, name):
        model = GatedMixture(**VARIANTS[name], softnesses=(0.07,), prior_weights=(0.35,)).fit(sample(60))
        assert model.operating_point_.softness == (1.0 if name == "hard" else 0.07)
        assert model.operating_point_.prior_weight == (0.35 if name == "constant" else 0.0)

    def test_predictions_come_from_one_of_the_experts(self, name):
        out = sample()
        model = GatedMixture(**VARIANTS[name]).fit(out)
        unseen = model.takes_for_unseen(out)
        assert 0 < unseen.sum() < len(out)
        predicted = model.predict(out)
        np.testing.assert_array_equal(predicted[unseen], N_SEEN + out.unseen.argmax(axis=1)[unseen])
        np.testing.assert_array_equal(predicted[~unseen], out.seen.argmax(axis=1)[~unseen])

    def test_unlabelled_outputs_can_be_predicted(self, name):
        out = sample()
        model = GatedMixture(**VARIANTS[name]).fit(out)
        bare = ExpertOutputs(SEEN_CLASSES, UNSEEN_CLASSES, out.seen, out.unseen)
        np.testing.assert_array_equal(model.predict(bare), model.predict(out))
        with pytest.raises(ValueError, match="no true classes"):
            model.curve(bare)


class TestGate:
    def test_it_learns_from_two_of_every_three_rows(self):
        out = sample()
        rows = np.arange(len(out))[np.arange(len(out)) % 3 != 0]
        expected = ConfidenceGate().fit(out[rows])
        model = GatedMixture(ConfidenceGate()).fit(out)
        np.testing.assert_allclose(model.gate_.weights_, expected.weights_)

    def test_it_learns_from_all_rows_of_other_hold_outs(self):
        out, other = sample(), sample(seed=7)
        rows = np.arange(len(out))[np.arange(len(out)) % 3 != 0]
        expected = ConfidenceGate().fit(out[rows], other)
        model = GatedMixture(ConfidenceGate()).fit(out, other)
        np.testing.assert_allclose(model.gate_.weights_, expected.weights_)
        assert model.validation_point_ == model.operate_at(out).validation_point_

    def test_open_parameters_are_decided_on_the_other_rows(self):
        out = sample()
        rows = np.arange(len(out))
        train, val = rows[rows % 3 != 0], rows[::3]
        expected = ConfidenceGate(k=None).tuned(out[train], out[val])
        assert GatedMixture(ConfidenceGate(k=None)).fit(out).gate_.k == expected.k

    def test_one_domain_alone(self):
        out = sample()
        with pytest.raises(ValueError, match="samples of seen and unseen classes"):
            GatedMixture(ConfidenceGate()).fit(out[out.is_seen])

    def test_belief(self):
        out = sample()
        model = GatedMixture().fit(out)
        model.operating_point_ = OperatingPoint(0.6, 0.2)
        expected = 1 / (1 + np.exp((out.seen.max(axis=1) - 0.6) / 0.2))
        np.testing.assert_allclose(model.belief(out), expected)

    def test_a_hard_gate_decides_alone(self):
        out = sample()
        model = GatedMixture(smoothing="none", hard=True).fit(out)
        model.operating_point_ = OperatingPoint(0.6)
        looks_unseen = out.seen.max(axis=1) < 0.6
        assert 0 < looks_unseen.sum() < len(out)
        np.testing.assert_allclose(model.belief(out), looks_unseen, atol=1e-12)
        np.testing.assert_array_equal(model.takes_for_unseen(out), looks_unseen)
        np.testing.assert_array_equal(model.scores(out).argmax(axis=1), model.predict(out))


class TestOperateAt:
    def test_floors_are_kept_at_the_best_price(self):
        out = sample()
        model = GatedMixture(ConfidenceGate()).fit(out)
        free = model.validation_point_
        floor = (free.acc_ts + model.curve(out).acc_ts.max()) / 2
        assert floor > free.acc_ts
        model.operate_at(out, min_unseen=floor)
        assert model.validation_point_.acc_ts >= floor - 1e-12
        assert model.validation_point_.acc_h <= free.acc_h
        allowed = [
            curve.acc_h[curve.acc_ts >= floor - 1e-12].max()
            for _, _, curve in model.candidates(out)
            if (curve.acc_ts >= floor - 1e-12).any()
        ]
        assert model.validation_point_.acc_h == pytest.approx(max(allowed))

    def test_unreachable_floors(self):
        out = sample()
        model = GatedMixture().fit(out)
        before = model.operating_point_
        with pytest.raises(ValueError, match="no point of the curve has Acc_tr >= 1 and Acc_ts >= 1"):
            model.operate_at(out, min_seen=1, min_unseen=1)
        assert model.operating_point_ == before


class TestErrors:
    def test_unknown_smoothing(self):
        with pytest.raises(ValueError, match="one of none, constant, adaptive; got 'laplace'"):
            GatedMixture(smoothing="laplace").fit(sample(30))

    @pytest.mark.parametrize("smoothing", ["adaptive", "constant"])
    def test_a_hard_gate_has_nothing_to_smooth(self, smoothing):
        with pytest.raises(ValueError, match="use smoothing='none'"):
            GatedMixture(smoothing=smoothing, hard=True).fit(sample(30))

    @pytest.mark.parametrize("softness", [0.0, -1.0, np.nan])
    def test_softness_must_be_positive(self, softness):
        with pytest.raises(ValueError, match="softness(es)? must be (positive|a number)"):
            GatedMixture(softnesses=(1.0, softness)).fit(sample(30))

    @pytest.mark.parametrize("prior_weight", [-0.05, 1.05, np.nan])
    def test_prior_weights_lie_between_0_and_1(self, prior_weight):
        with pytest.raises(ValueError, match=r"prior_weights?\b.* between 0 and 1"):
            GatedMixture(smoothing="constant", prior_weights=(0.5, prior_weight)).fit(sample(30))

    @pytest.mark.parametrize("name", ["softnesses", "prior_weights"])
    def test_nothing_to_choose_from(self, name):
        with pytest.raises(ValueError, match=name):
            GatedMixture(smoothing="constant", **{name: ()}).fit(sample(30))


class TestCalibratedStacking:
    def test_the_best_constant(self):
        _, joint, _ = sample_joint()
        out = sample()
        model = CalibratedStacking().fit(out)
        np.testing.assert_allclose(model.validation_point_[1:], measured(out, model.predict(out)))
        grid = [
            measured(out, calibrated_stacking(joint[:, :N_SEEN], joint[:, N_SEEN:], c).argmax(axis=1))[2]
            for c in np.arange(-1.5, 1.5, 0.02)
        ]
        assert model.validation_point_.acc_h >= max(grid) - 1e-12
        assert model.validation_point_.acc_h > grid[75]  # better than the plain expert at 0

    def test_the_seen_expert_is_not_asked(self):
        seen, joint, target = sample_joint()
        out = sample()
        other = ExpertOutputs.from_joint(
            seen[:, ::-1].copy(), joint, SEEN_CLASSES, UNSEEN_CLASSES, target=target
        )
        model = CalibratedStacking().fit(out)
        np.testing.assert_array_equal(model.predict(other), model.predict(out))

    def test_scores_of_any_scale(self):
        seen, joint, target = sample_joint()
        logits = 40 * np.log(joint) + 7
        parts = stacking(logits, N_SEEN)
        out = ExpertOutputs(SEEN_CLASSES, UNSEEN_CLASSES, seen, joint[:, N_SEEN:], **parts, target=target)
        model = CalibratedStacking().fit(out)
        expected = calibrated_stacking(
            logits[:, :N_SEEN], logits[:, N_SEEN:], model.operating_point_.threshold
        ).argmax(axis=1)
        np.testing.assert_array_equal(model.predict(out), expected)

    def test_outputs_without_the_experts_scores(self):
        out = sample()
        bare = ExpertOutputs(SEEN_CLASSES, UNSEEN_CLASSES, out.seen, out.unseen, target=out.target)
        with pytest.raises(ValueError, match="lack the unseen expert's scores"):
            CalibratedStacking().fit(bare)
        with pytest.raises(ValueError, match="lack the unseen expert's scores"):
            CalibratedStacking(0.1).fit(bare).predict(bare)


@pytest.mark.parametrize("smoothing", ["adaptive", "constant", "none"])
def test_the_summary_gives_the_same_curves_and_points(smoothing):
    *parts, target = sample_joint(200)
    single = [part.astype(np.float32) for part in parts]  # as of the experts
    outputs = ExpertOutputs.from_joint(*single, SEEN_CLASSES, UNSEEN_CLASSES, target=target)
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
