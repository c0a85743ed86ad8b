import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from cosmo.classifier._cosmo import Cosmo
from cosmo.classifier.combinations import GatedMixture
from cosmo.classifier.ways import CalibratedStacking
from cosmo.data import GZSLDataset, Split, load_glyphs
from cosmo.data.splits import Protocol, SealedTestError
from cosmo.evaluation.run import Settings, run_experiment, summarise
from cosmo.experts import ExpertPair, UnseenExpert
from cosmo.gates import MaxSoftmaxGate
from cosmo.metrics.accuracy import gzsl_scores, per_class_accuracy

SETTINGS = Settings(unseen="eszsl")
ROWS = [
    "ESZSL alone",
    "CS + ESZSL",
    "Independent-Hard",
    "Independent-Soft",
    "CB-Gating",
    "Adaptive-Smoothing",
    "COSMO",
    "COSMO, calibrated",
]


@pytest.fixture(scope="module")
def data():
    glyphs = load_glyphs(n_classes=40, samples_per_class=12)
    features = glyphs.features[:, ::4]  # for speed
    return GZSLDataset(features, glyphs.labels, glyphs.descriptions, glyphs.split, name="glyphs")


@pytest.fixture(scope="module")
def experiment(data):
    return run_experiment(data, SETTINGS)


def rows_of_test(data):
    return np.concatenate([data.split.test_seen, data.split.test_unseen])


def by_name(experiment):
    return {one.name: one for one in experiment.evaluations}


class TestScores:
    """The numbers of the table, computed again from predicted labels."""

    def test_every_row_from_what_the_run_keeps(self, data, experiment):
        test = experiment.test
        assert list(test.classes[test.labels]) == list(data.labels[rows_of_test(data)])
        assert [*experiment.fitted, "COSMO, calibrated"] == ROWS
        for one in experiment.evaluations:
            outputs, rule = test, experiment.fitted.get(one.name)
            if rule is None:
                outputs, rule = experiment.calibrated_test, experiment.calibrated.combination_
            guess = test.classes[rule.predict(outputs)]
            truth = test.classes[outputs.labels]
            expected = gzsl_scores(truth, guess, data.seen_classes, data.unseen_classes)
            np.testing.assert_allclose(one.scores, expected)

    def test_calibrated_stacking(self, data, experiment):
        rows = rows_of_test(data)
        scores = experiment.model.experts_.unseen.scores(data.features[rows], data.descriptions).copy()
        one = by_name(experiment)["CS + ESZSL"]
        scores[:, data.classes.isin(data.seen_classes)] -= one.point.threshold
        guess = data.classes[scores.argmax(axis=1)]
        expected = gzsl_scores(data.labels[rows], guess, data.seen_classes, data.unseen_classes)
        np.testing.assert_allclose(one.scores, expected)
        assert one.point.threshold > 0  # zero-shot experts prefer seen classes
        assert one.scores.acc_h > by_name(experiment)["ESZSL alone"].scores.acc_h

    def test_facts(self, data, experiment):
        model, split = experiment.model, data.split
        seen = model.outputs(data.features[split.test_seen])
        guess = seen.seen_classes[seen.seen.argmax(axis=1)]
        expected = per_class_accuracy(data.labels[split.test_seen], guess, data.seen_classes)
        assert experiment.facts["seen_expert_accuracy"] == pytest.approx(expected)
        unseen = model.outputs(data.features[split.test_unseen])
        guess = unseen.unseen_classes[unseen.unseen.argmax(axis=1)]
        expected = per_class_accuracy(data.labels[split.test_unseen], guess, data.unseen_classes)
        assert experiment.facts["zsl_t1"] == pytest.approx(expected)

    def test_gate_facts_are_of_gating_val(self, experiment):
        outputs = experiment.model.validation_outputs_
        for name, gate in (("gate", experiment.model.combination_.gate_), ("max_softmax", MaxSoftmaxGate())):
            score = gate.score(outputs)[::3]
            seen, unseen = score[outputs.is_seen[::3]], score[~outputs.is_seen[::3]]
            pairs = (seen[:, None] > unseen) + 0.5 * (seen[:, None] == unseen)
            assert experiment.facts[f"{name}_auc"] == pytest.approx(pairs.mean())


class TestCurves:
    def test_the_operating_point_is_on_the_curve(self, experiment):
        for one in experiment.evaluations:
            np.testing.assert_allclose(one.curve.at(one.point.threshold), one.scores, err_msg=one.name)
            assert one.curve.area == one.ausuc
            assert one.curve.acc_h.max() >= one.scores.acc_h - 1e-12

    def test_the_expert_and_its_stacking_share_a_curve(self, experiment):
        alone, stacked = experiment.evaluations[:2]
        assert alone.point.threshold == 0
        assert alone.ausuc == stacked.ausuc
        np.testing.assert_array_equal(alone.curve.acc_ts, stacked.curve.acc_ts)

    def test_validation_numbers(self, experiment):
        outputs = experiment.model.validation_outputs_
        model = experiment.model.combination_
        classes = outputs.classes
        expected = gzsl_scores(
            classes[outputs.labels],
            classes[model.predict(outputs)],
            outputs.seen_classes,
            outputs.unseen_classes,
        )
        cosmo = by_name(experiment)["COSMO"]
        np.testing.assert_allclose(cosmo.validation, expected)
        np.testing.assert_allclose(cosmo.validation, model.validation_point_[1:])
        assert cosmo.point == model.operating_point_

    def test_no_other_threshold_is_better_on_validation(self, experiment):
        outputs = experiment.model.validation_outputs_
        curve = CalibratedStacking(0.0).curve(outputs)
        assert by_name(experiment)["CS + ESZSL"].validation.acc_h == pytest.approx(curve.acc_h.max())
        assert by_name(experiment)["ESZSL alone"].validation == curve.at(0.0)
        for name in ("Independent-Soft", "Adaptive-Smoothing"):
            smoothing = "none" if name == "Independent-Soft" else "adaptive"
            best = GatedMixture(MaxSoftmaxGate(), smoothing=smoothing).fit(outputs).validation_point_
            np.testing.assert_allclose(by_name(experiment)[name].validation, best[1:])


class TestHonesty:
    def test_the_test_set_is_opened_after_the_last_fit(self, data, monkeypatch):
        events = []

        def spy(owner, name):
            original = getattr(owner, name)

            def spying(self, *args, **options):
                events.append(f"{owner.__name__}.{name}")
                return original(self, *args, **options)

            monkeypatch.setattr(owner, name, spying)

        spy(Protocol, "open_test")
        for owner, name in (
            (Cosmo, "fit"),
            (Cosmo, "operate_at"),
            (ExpertPair, "fit"),
            (UnseenExpert, "fit"),
            (GatedMixture, "fit"),
            (GatedMixture, "fit_gate"),
            (GatedMixture, "operate_at"),
            (CalibratedStacking, "fit"),
        ):
            spy(owner, name)
        run_experiment(data, SETTINGS)
        assert events.count("Protocol.open_test") == 1
        assert events[-1] == "Protocol.open_test"
        assert events.count("GatedMixture.fit") == 5
        assert events.count("CalibratedStacking.fit") == 3  # also the baseline that a calibrated model keeps
        assert events.count("ExpertPair.fit") == 3  # validation stage, and all rows with either method

    def test_choices_do_not_depend_on_test_data(self, data, experiment):
        """Other test features, other unseen descriptions: same choices, same validation numbers."""
        rng = np.random.default_rng(0)
        rows = rows_of_test(data)
        features = data.features.copy()
        features[rows] = rng.permutation(features[rows]) + rng.normal(size=(len(rows), 1))
        descriptions = data.descriptions.copy()
        unseen = data.unseen_classes
        descriptions.loc[unseen] = descriptions.loc[rng.permutation(unseen)].to_numpy()
        other = run_experiment(GZSLDataset(features, data.labels, descriptions, data.split), SETTINGS)
        assert other.model.experts_.unseen.decided_ == experiment.model.experts_.unseen.decided_
        for one, before in zip(other.evaluations, experiment.evaluations, strict=True):
            assert one.point == before.point
            assert one.validation == before.validation
        assert other.table()["Acc_H"].max() < experiment.table()["Acc_H"].min()

    def test_a_leaked_label_is_refused(self, data, monkeypatch):
        original = Protocol.training

        def leaking(self):
            samples = original(self)
            labels = samples.y.to_numpy().copy()
            labels[0] = data.unseen_classes[0]
            return samples._replace(y=pd.Index(labels))

        monkeypatch.setattr(Protocol, "training", leaking)
        with pytest.raises(SealedTestError, match=f"{data.unseen_classes[0]!r} is an unseen class"):
            run_experiment(data, SETTINGS)


class TestDict:
    def test_is_json(self, data, experiment):
        run = experiment.to_dict()
        assert json.loads(json.dumps(run, allow_nan=False)) == run
        assert run["dataset"] == {
            "name": "glyphs",
            "samples": 480,
            "features": 144,
            "attributes": data.descriptions.shape[1],
            "seen_classes": 28,
            "unseen_classes": 12,
        }
        assert run["settings"] == {
            "unseen": "eszsl",
            "seen": "logistic",
            "gate": "confidence",
            "smoothing": "adaptive",
            "budget": 60.0,
            "seed": 0,
        }
        assert set(run["unseen_expert"]) == {"gamma", "lam", "temperature"}
        assert [row["name"] for row in run["results"]] == ROWS

    def test_a_gating_val_of_one_kind_still_gives_json(self):
        """Two held-out rows that both miss Gating-Val leave the gate's AUC undefined."""
        rng = np.random.default_rng(0)
        descriptions = pd.DataFrame(np.eye(5, 4) + 0.1, index=list("abcde"))
        labels = np.array(list("aaaabbbbccccdddee"))
        features = descriptions.loc[labels].to_numpy() + 0.1 * rng.normal(size=(len(labels), 4))
        split = Split(
            trainval=[0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13],
            test_seen=[3, 7, 11, 14],
            test_unseen=[15, 16],
            train=[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
            val=[12, 13, 14],
        )
        data = GZSLDataset(features, labels, descriptions, split)
        held = Protocol(data).hold_out
        assert np.isin(held.gating_val, held.seen_val).all()
        run = run_experiment(data).to_dict()
        assert json.loads(json.dumps(run, allow_nan=False)) == run


class TestSummarise:
    @staticmethod
    def made(*values):
        columns = ["Acc_ts", "Acc_tr", "Acc_H", "low", "high", "AUSUC"]
        return [
            SimpleNamespace(table=lambda v=v: pd.DataFrame(v, index=["A", "B"], columns=columns))
            for v in values
        ]

    def test_by_hand(self):
        made = self.made(
            [[10, 50, 20, 0, 0, 30], [20, 60, 40, 0, 0, 35]], [[14, 50, 22, 0, 0, 30], [20, 66, 41, 0, 0, 37]]
        )
        summary = summarise(made)
        assert list(summary.index) == ["A", "B"]
        assert list(summary["mean"].columns) == ["Acc_ts", "Acc_tr", "Acc_H", "AUSUC"]
        assert summary["mean"].loc["A"].tolist() == [12, 50, 21, 30]
        assert summary["mean"].loc["B"].tolist() == [20, 63, 40.5, 36]
        # Two values that differ by d: standard error d/2, and Student's quantile at one degree is 12.7062.
        student = 12.706204736
        np.testing.assert_allclose(summary["±"].loc["A"], np.array([2, 0, 1, 0]) * student)
        np.testing.assert_allclose(summary["±"].loc["B"], np.array([0, 3, 0.5, 1]) * student)
        # Differences of Acc_H are 20 and 19, of AUSUC 5 and 7.
        assert summary["lead"].loc["A"].to_dict() == {"Acc_H": 19.5, "AUSUC": 6}
        np.testing.assert_allclose(summary["lead ±"].loc["A"], [0.5 * student, 1 * student])
        assert (summary[["lead", "lead ±"]].loc["B"] == 0).all()

    @pytest.mark.parametrize("n", [0, 1])
    def test_needs_two(self, n, experiment):
        with pytest.raises(ValueError, match="at least two"):
            summarise([experiment] * n)
