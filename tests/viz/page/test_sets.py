"""Numbers of a set equal those computed in Python."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from view_arrays import unpack

from cosmo.classifier._prediction import explain
from cosmo.classifier.combinations import GatedMixture
from cosmo.classifier.ways import CalibratedStacking
from cosmo.gates import ConfidenceGate, MaxSoftmaxGate
from cosmo.mixture.confidences import CONFIDENCES
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.viz.page.render import Arrays
from cosmo.viz.page.sets import Way, reliability, set_view


@pytest.fixture(scope="module")
def made(experiment):
    arrays = Arrays()
    ways = [
        Way(name, rule, experiment.test, experiment.model.validation_outputs_)
        for name, rule in experiment.fitted.items()
    ]
    found = set_view(arrays, "small", ways, experiment.test.classes)
    return [unpack(entry) for entry in arrays.entries], found


@pytest.fixture(scope="module")
def calibrated(experiment):
    """The set of the calibrated method, beside one of the paper's ways."""
    arrays, model = Arrays(), experiment.calibrated
    ways = [
        Way("COSMO", experiment.fitted["COSMO"], experiment.test),
        Way("calibrated", model.combination_, experiment.calibrated_test, model.validation_outputs_),
    ]
    found = set_view(arrays, "small", ways, experiment.test.classes)
    return [unpack(entry) for entry in arrays.entries], found


def accuracies(view, target, answers):
    """As the page counts: per class, over the classes that count."""
    right = [0.0, 0.0]
    for code in np.unique(target):
        right[int(code >= view["classes"]["seen"])] += (answers[target == code] == code).mean()
    return right[1] / view["counted"][1], right[0] / view["counted"][0]


class TestCurves:
    def test_every_threshold(self, experiment, made):
        arrays, view = made
        target = arrays[view["samples"]["target"]]
        for curve, result in zip(view["curves"], experiment.evaluations[:-1], strict=True):
            flips, seen, unseen = (arrays[curve[part]] for part in ("flips", "seen", "unseen"))
            assert curve["name"] == result.name
            assert (flips.dtype, seen.dtype, unseen.dtype) == (np.float64, np.uint16, np.uint16)
            np.testing.assert_array_equal(np.unique(flips[np.isfinite(flips)]), result.curve.corners)
            at = accuracies(view, target, np.where(curve["threshold"] > flips, unseen, seen))
            assert at == pytest.approx(result.scores[:2])
            for point in range(0, len(result.curve.thresholds), 17):
                answers = np.where(result.curve.thresholds[point] > flips, unseen, seen)
                expected = result.curve.acc_ts[point], result.curve.acc_tr[point]
                assert accuracies(view, target, answers) == pytest.approx(expected)

    def test_operating_points(self, experiment, made):
        for curve, result in zip(made[1]["curves"], experiment.evaluations[:-1], strict=True):
            assert (curve["threshold"], curve["softness"], curve["prior_weight"]) == result.point
        chosen = [curve["chosen_on"] for curve in made[1]["curves"]]
        assert chosen == ["no data (fixed at 0)", *["validation"] * 6]
        assert [curve["main"] for curve in made[1]["curves"]] == [False] * 6 + [True]
        smoothing = [curve["smoothing"] for curve in made[1]["curves"]]
        assert smoothing == [None, None, "none", "none", "none", "adaptive", "adaptive"]
        assert [curve["hard"] for curve in made[1]["curves"]] == [False, False, True, *[False] * 4]

    def test_what_is_shared_is_stored_once(self, made):
        alone, stacked, hard, soft, *_ = made[1]["curves"]
        assert alone["flips"] == stacked["flips"]
        assert alone["unseen"] == hard["unseen"] == soft["unseen"]
        assert hard["seen"] == soft["seen"] != alone["seen"]
        assert hard["flips"] == made[1]["gates"][1]["scores"]


class TestGates:
    def test_scores(self, experiment, made):
        arrays, view = made
        test, model = experiment.test, experiment.model
        confidence, softmax = view["gates"]
        assert (confidence["name"], softmax["name"]) == ("confidence", "max softmax")
        assert (confidence["main"], softmax["main"]) == (True, False)
        np.testing.assert_array_equal(arrays[confidence["scores"]], model.combination_.gate_.score(test))
        np.testing.assert_array_equal(arrays[softmax["scores"]], MaxSoftmaxGate().score(test))
        assert confidence["threshold"] == model.operating_point_.threshold
        assert softmax["threshold"] == experiment.fitted["Independent-Hard"].operating_point_.threshold
        facts = experiment.facts
        for gate, name in ((confidence, "gate"), (softmax, "max_softmax")):
            auc, fpr = (100 * facts[f"{name}_{measure}"] for measure in ("auc", "fpr95"))
            assert gate["note"] == f"Gating-Val: AUC {auc:.1f}, FPR at 95 % TPR {fpr:.1f}"

    def test_weights(self, experiment, made):
        gate = experiment.model.combination_.gate_
        weights = made[1]["gates"][0]["weights"]
        assert weights["values"] == list(gate.weights_)
        assert weights["labels"] == [f"{side} {rank}" for side in ("unseen", "seen") for rank in range(1, 6)]
        assert made[1]["gates"][1]["weights"] is None

    def test_several_temperatures(self, experiment):
        validation = experiment.model.validation_outputs_
        gate = ConfidenceGate(k=2, temperatures=(1.0, 3.0), use_unseen=False)
        rule = GatedMixture(gate).fit(validation)
        found = set_view(Arrays(), "x", [Way("a", rule, experiment.test)], experiment.test.classes)
        labels = ["seen 1, T = 1", "seen 2, T = 1", "seen 1, T = 3", "seen 2, T = 3"]
        assert found["gates"][0]["weights"]["labels"] == labels
        assert found["gates"][0]["note"] == ""


class TestWalk:
    def test_gives_the_answer(self, experiment, made):
        """The five best classes of each side, smoothed as the page does it."""
        arrays, view = made
        walk = {key: arrays[value] if type(value) is int else value for key, value in view["walk"].items()}
        point, test = experiment.model.operating_point_, experiment.test
        explanation = explain(experiment.model.combination_, test)
        assert (walk["smoothing"], walk["hard"]) == ("adaptive", False)
        np.testing.assert_array_equal(walk["score"], explanation.gate_score)
        u = expit((point.threshold - walk["score"]) / point.softness)[:, None]
        n_seen, n_unseen = test.n_seen, test.n_unseen
        seen = (walk["seen_proba"] + u / n_seen) * (1 - u)
        unseen = (walk["unseen_proba"] + (1 - u) / n_unseen) * u
        total = (walk["seen_mass"] + u[:, 0]) * (1 - u[:, 0]) + (walk["unseen_mass"] + 1 - u[:, 0]) * u[:, 0]
        for side, codes in ((seen, walk["seen_codes"]), (unseen, walk["unseen_codes"])):
            expected = np.take_along_axis(explanation.proba, codes.astype(int), axis=1)
            np.testing.assert_allclose(side / total[:, None], expected, atol=1e-6)
            assert (np.diff(side, axis=1) <= 1e-9).all()
        np.testing.assert_array_equal(walk["seen_codes"][:, 0], test.seen_choice)
        np.testing.assert_array_equal(walk["unseen_codes"][:, 0], test.unseen_choice + n_seen)

    def test_fewer_classes_than_shown(self):
        seen = np.array([[0.5, 0.5, 0.0], [0.2, 0.2, 0.6]])
        outputs = ExpertOutputs(
            pd.Index(list("abc")), pd.Index(["z"]), seen, np.array([[0.3], [0.0]]), target=np.array([0, 3])
        )
        rule = GatedMixture(MaxSoftmaxGate(), smoothing="none").fit(outputs)
        arrays = Arrays()
        walk = set_view(arrays, "few", [Way("a", rule, outputs)], outputs.classes)["walk"]
        assert unpack(arrays.entries[walk["seen_codes"]]).tolist() == [[0, 1, 2], [2, 0, 1]]
        assert unpack(arrays.entries[walk["unseen_codes"]]).tolist() == [[3], [3]]
        assert unpack(arrays.entries[walk["unseen_mass"]]).tolist() == [0.3, 0.0]

    def test_stacking_has_none(self, experiment):
        rule = CalibratedStacking(0.0).fit(experiment.test)
        found = set_view(Arrays(), "x", [Way("a", rule, experiment.test)], experiment.test.classes)
        assert found["walk"] is None
        assert found["gates"] == []
        assert found["calibration"] is None


class TestCalibrated:
    def test_operating_point_is_a_share(self, experiment, calibrated):
        arrays, view = calibrated
        paper, curve = view["curves"]
        result = experiment.evaluations[-1]
        assert (paper["share"], curve["share"], curve["smoothing"]) == (False, True, "none")
        assert expit(curve["threshold"]) == pytest.approx(experiment.calibrated.combination_.unseen_share)
        target = arrays[view["samples"]["target"]]
        flips, seen, unseen = (arrays[curve[part]] for part in ("flips", "seen", "unseen"))
        at = accuracies(view, target, np.where(curve["threshold"] > flips, unseen, seen))
        assert at == pytest.approx(result.scores[:2])

    def test_gate(self, experiment, calibrated):
        model = experiment.calibrated
        gate, paper = calibrated[1]["gates"]
        assert (gate["name"], gate["share"], paper["share"]) == ("calibrated", True, False)
        assert gate["note"].startswith("Hold-out rounds: AUC ")
        assert gate["weights"]["labels"] == list(CONFIDENCES)
        assert gate["weights"]["values"] == list(-model.combination_.gate_.weights_)
        assert gate["weights"]["seen"] == [True, False, False, False]

    def test_walk_multiplies_out(self, experiment, calibrated):
        arrays, view = calibrated
        model, outputs = experiment.calibrated, experiment.calibrated_test
        walk = {key: arrays[value] if type(value) is int else value for key, value in view["walk"].items()}
        explanation = explain(model.combination_, outputs)
        assert walk["smoothing"] == "none"
        u = expit(model.operating_point_.threshold - walk["score"])[:, None]
        for side, own in (("seen", 1 - u), ("unseen", u)):
            np.testing.assert_allclose(walk[f"{side}_mass"], 1, atol=1e-5)
            assert walk[f"{side}_proba"].max() <= 1
            codes = walk[f"{side}_codes"].astype(int)
            expected = np.take_along_axis(explanation.proba, codes, axis=1)
            np.testing.assert_allclose(walk[f"{side}_proba"] * own, expected, atol=1e-6)

    def test_reliability(self, experiment, calibrated):
        model, outputs = experiment.calibrated, experiment.calibrated_test
        shown = calibrated[1]["calibration"]
        curves = reliability(model.combination_, outputs)
        assert shown["curves"] == [{"name": name, **one.to_dict()} for name, one in curves.items()]
        assert shown["expected"] == model.combination_.unseen_share
        assert shown["actual"] == pytest.approx(1 - outputs.is_seen.mean())
        assert sum(one["samples"] for one in shown["curves"][0]["bins"]) == shown["samples"] == len(outputs)


class TestSamples:
    def test_classes_seen_first(self, experiment, made):
        arrays, view = made
        data = experiment.dataset
        assert view["classes"]["names"] == [*data.seen_classes, *data.unseen_classes]
        assert view["classes"]["seen"] == len(data.seen_classes)
        rows = np.concatenate([np.sort(data.split.test_seen), np.sort(data.split.test_unseen)])
        names = np.array(view["classes"]["names"])[arrays[view["samples"]["target"]]]
        assert list(names) == list(data.labels[rows])
