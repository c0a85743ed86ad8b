"""Content of each page."""

import json
import re
from dataclasses import replace
from string import ascii_lowercase

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from view_arrays import unpack

import cosmo
from cosmo._core.cache import Cache
from cosmo.data import GZSLDataset
from cosmo.encoders import Encoder
from cosmo.evaluation.compare import Candidate, compare
from cosmo.evaluation.evaluate import evaluate_model
from cosmo.evaluation.run import summarise
from cosmo.experts import DAP, ESZSL, make_seen_expert
from cosmo.io.model import Model, fit_model
from cosmo.viz import page as module
from cosmo.viz.page import comparison_view, experiment_view, model_view


class Letters(Encoder):
    """Counts letters."""

    name, kind, n_features, identity = "letters", "text", 26, "letters-1"

    def content(self, item):
        return item.encode()

    def read(self, item):
        return [item.count(letter) for letter in ascii_lowercase]

    def encode_batch(self, batch):
        return np.array(batch, dtype=np.float32)


class Pixels(Letters):
    """Encoder of images; only its kind is used."""

    name, kind, identity = "pixels", "images", "pixels-1"


def rows_of_test(data):
    return np.concatenate([np.sort(data.split.test_seen), np.sort(data.split.test_unseen)])


def json_of(view):
    """The view as JSON, without infinities."""
    return json.dumps(view, allow_nan=False)


@pytest.fixture(scope="module")
def view(experiment):
    return experiment_view(experiment)


class TestExperiment:
    def test_summary(self, view, experiment):
        assert view["kind"] == "run"
        assert view["title"] == "Generalized zero-shot learning on small"
        assert view["version"] == cosmo.__version__
        assert "288 samples with 96 features; 17 seen classes, and 7 unseen classes with a" in view["lead"]
        facts = dict(view["sets"][0]["facts"])
        for name, value in experiment.to_dict()["unseen_expert"].items():
            assert f"{name} {value:.3g}" in facts["unseen expert"]
        assert facts["seen expert"].startswith(
            f"logistic: {100 * experiment.facts['seen_expert_accuracy']:.1f} %"
        )
        assert f"T1 {100 * experiment.facts['zsl_t1']:.1f} %" in facts["unseen expert"]
        assert f"AUC {100 * experiment.facts['gate_auc']:.1f} %" in facts["gate"]
        assert f"TPR {100 * experiment.facts['max_softmax_fpr95']:.1f} %" in facts["max-softmax"]
        assert (facts["smoothing"], facts["seed"]) == ("adaptive", "0")

    def test_samples(self, view, data):
        samples = view["sets"][0]["samples"]
        rows = rows_of_test(data)
        assert samples["names"] == [f"letters/{row}.png" for row in rows]  # folders are nobody's business
        assert samples["pictures"]["count"] == len(rows)
        assert samples["texts"] is None

    def test_repeats(self, experiment):
        summary = summarise([experiment, experiment])
        tables = experiment_view(experiment, summary)["sets"][0]["tables"]
        assert len(tables) == 2
        last = tables[1]["rows"][-1]
        name = "COSMO, calibrated"
        assert last[:2] == [name, f"{experiment.table().loc[name, 'Acc_ts']:.1f} ± 0.0"]
        assert f"lead = {name} minus the row" in tables[1]["title"]
        assert last[-2:] == ["", ""]
        assert all(len(row) == len(tables[1]["columns"]) for row in tables[1]["rows"])

    def test_a_measure_that_is_not_known(self, experiment):
        odd = replace(experiment, facts={**experiment.facts, "gate_auc": np.nan})
        view = experiment_view(odd)
        assert "AUC unknown" in dict(view["sets"][0]["facts"])["gate"]
        assert "NaN" not in json_of(view)

    def test_texts_are_cut(self, experiment, data):
        texts = ["word " * 200] * len(data)
        wordy = GZSLDataset(
            data.features, data.labels, data.descriptions, data.split, texts=texts, name="wordy"
        )
        samples = experiment_view(replace(experiment, dataset=wordy))["sets"][0]["samples"]
        assert {len(text) for text in samples["texts"]} == {400}
        assert (samples["names"], samples["pictures"]) == (None, None)


@pytest.fixture(scope="module")
def model(data, train):
    return fit_model(*train, data.descriptions, name="letters")


class TestModel:
    def test_evaluated(self, model, data):
        test = rows_of_test(data)
        found = evaluate_model(model, data.features[test], data.labels[test])
        view = model_view(model, found, kind="evaluation", name="test.csv")
        (one,) = view["sets"]
        assert (view["kind"], one["name"]) == ("evaluation", "test.csv")
        assert f"Evaluated on {len(test)} samples." in view["lead"]
        assert [curve["name"] for curve in one["curves"]] == ["GaussianExpert alone", "COSMO"]
        accuracies, mistakes = one["tables"]
        np.testing.assert_allclose(
            [row[1] for row in accuracies["rows"]], 100 * np.array([*found.scores, found.ausuc]), atol=1e-6
        )
        assert mistakes["rows"][0] == [str(value) for value in found.confusions.iloc[0][:2]] + [
            int(found.confusions.iloc[0]["samples"])
        ]
        assert dict(one["facts"])["data"] == "letters"
        assert one["gates"][0]["note"].startswith("Hold-out rounds: AUC ")
        assert [curve["share"] for curve in one["curves"]] == [False, True]
        assert [curve["name"] for curve in one["calibration"]["curves"]] == ["p(y)", "p(U)"]
        assert "stage" not in one
        assert one["counted"] == [17, 7]
        json_of(view)

    def test_one_domain_only(self, model, data):
        test = data.split.test_unseen
        found = evaluate_model(model, data.features[test], data.labels[test])
        view = model_view(model, found)
        assert view["sets"][0]["counted"] == [0, 7]
        assert [row[1] is None for row in view["sets"][0]["tables"][0]["rows"]] == [False, True, True, True]
        json_of(view)

    @pytest.mark.parametrize("method", ["calibrated", "paper"])
    def test_recorded_validation(self, method, data, train, tmp_path):
        model = fit_model(*train, data.descriptions, method=method)
        model.save(tmp_path / "model.cosmo")
        view, again = model_view(model), model_view(Model.load(tmp_path / "model.cosmo"))
        assert json_of(view) == json_of(again)
        (one,) = again["sets"]
        assert (view["kind"], one["stage"], one["walk"]) == ("studio", "validation", None)
        arrays = [unpack(entry) for entry in again["arrays"]]
        (curve,) = one["curves"]
        expected = model.cosmo.validation_curve_
        flips = arrays[curve["flips"]]
        np.testing.assert_array_equal(np.unique(flips[np.isfinite(flips)]), expected.corners)
        target = arrays[one["samples"]["target"]]
        answers = np.where(curve["threshold"] > flips, arrays[curve["unseen"]], arrays[curve["seen"]])
        right = pd.Series(answers == target).groupby(target).mean()
        unseen = right.index >= one["classes"]["seen"]
        assert right[unseen].mean() == pytest.approx(expected.at(curve["threshold"]).acc_ts)
        names, gate = one["classes"]["names"], one["gates"][0]
        curves = [part["name"] for part in one["calibration"]["curves"]]
        if method == "paper":
            assert len(names) == sum(one["counted"]) == 17
            assert (names[0], names[-1]) == ("seen class 1", f"held-out class {one['counted'][1]}")
            assert (gate["name"], len(gate["weights"]["values"])) == ("confidence", 10)
            assert (curve["share"], curves) == (False, ["p(U)"])
        else:
            seen = list(data.seen_classes)
            assert names == [*seen, *(f"{name} (held out)" for name in seen)]
            assert (gate["name"], len(gate["weights"]["values"])) == ("calibrated", 4)
            assert (curve["share"], curves) == (True, ["p(y)", "p(U)"])
        where = "Gating-Val" if method == "paper" else "Hold-out rounds"
        assert re.fullmatch(rf"{where}: AUC \d+\.\d, FPR at 95 % TPR \d+\.\d", gate["note"])

    def test_names_of_few_rounds(self, data, train):
        """One round holds out some of the classes; a file does not say which."""
        model = fit_model(*train, data.descriptions)
        model.cosmo.set_params(rounds=1).fit(*train)
        names = model_view(model)["sets"][0]["classes"]["names"]
        held_out = model.cosmo.validation_outputs_.n_unseen
        assert 0 < held_out < len(names) == 17
        assert names[: 17 - held_out] == [f"seen class {k + 1}" for k in range(17 - held_out)]
        assert names[17 - held_out :] == [f"held-out class {k + 1}" for k in range(held_out)]

    def test_many_samples_are_thinned(self, model, data, monkeypatch):
        monkeypatch.setattr(module, "MAX_SAMPLES", 20)
        test = rows_of_test(data)
        found = evaluate_model(model, data.features[test], data.labels[test])
        view = model_view(model, found)
        target = unpack(view["arrays"][view["sets"][0]["samples"]["target"]])
        np.testing.assert_array_equal(
            target, found.outputs.labels[np.linspace(0, len(test) - 1, 20).astype(int)]
        )
        assert f"Evaluated on {len(test)} samples; 20 of them are shown." in view["lead"]

    def test_texts(self, model, data):
        wordy = Model(model.cosmo, {c: f"about {c}" for c in data.classes}, "letters", "letters-1")
        wordy._encoder = Letters()
        test = rows_of_test(data)
        found = evaluate_model(wordy, data.features[test], data.labels[test])
        items = [f"text {row} " * 80 for row in test]
        one = model_view(wordy, found, kind="evaluation", items=items)["sets"][0]
        assert one["samples"]["texts"] == [text[:400] for text in items]
        assert one["classes"]["descriptions"] == [f"about {name}" for name in one["classes"]["names"]]

    @pytest.mark.parametrize("kind", ["evaluation", "studio"])
    def test_pictures(self, kind, model, data, tmp_path, monkeypatch):
        monkeypatch.setattr(module, "MAX_THUMBNAILS", 10)
        seeing = Model(model.cosmo, None, "pixels", "pixels-1")
        seeing._encoder = Pixels()
        test = rows_of_test(data)
        paths = [tmp_path / f"{row}.png" for row in test]
        for path, row in zip(paths, test, strict=True):
            Image.fromarray(data.images[row]).save(path)
        found = evaluate_model(seeing, data.features[test], data.labels[test])
        view = model_view(seeing, found, kind=kind, items=paths)
        samples = view["sets"][0]["samples"]
        assert samples["pictures"]["uri"].startswith("data:image/jpeg;base64,")
        rows = np.arange(len(test))
        if kind == "evaluation":  # ten that are spread over all, then the others
            first = np.linspace(0, len(test) - 1, 10).astype(int)
            rows = np.concatenate([first, np.delete(rows, first)])
        assert samples["names"] == [f"{tmp_path.name}/{paths[row].name}" for row in rows]
        np.testing.assert_array_equal(unpack(view["arrays"][samples["target"]]), found.outputs.labels[rows])


@pytest.fixture(scope="module")
def comparison(data, tmp_path_factory):
    named = GZSLDataset(data.features, data.labels, data.descriptions, data.split, name="CUB")
    candidates = [
        Candidate("ESZSL", ESZSL(gamma=1.0, lam=1.0), named, "ESZSL"),
        Candidate("DAP", DAP(), named, "DAP"),
    ]
    folder = tmp_path_factory.mktemp("cache")
    table, results = compare(candidates, Cache(folder), seen=make_seen_expert("lda"))
    return results, table


@pytest.fixture(scope="module")
def compared(comparison):
    results, table = comparison
    return comparison_view("CUB", {"att_splits": results}, {"att_splits": table})


class TestComparison:
    def test_all_ways_of_all_methods(self, comparison, compared):
        _, table = comparison
        (one,) = compared["sets"]
        assert one["name"] == "CUB"
        assert [(curve["name"], curve["family"]) for curve in one["curves"]] == [
            (name, method)
            for method in ("ESZSL", "DAP")
            for name in (method, f"{method} + CS", f"{method} + COSMO")
        ]
        arrays = [unpack(entry) for entry in compared["arrays"]]
        target = arrays[one["samples"]["target"]]
        plotted = table[
            table["way"] != "calibrated"
        ]  # Its outputs are of other rounds: it is in the table only.
        for curve, (_, row) in zip(one["curves"], plotted.iterrows(), strict=True):
            flips = arrays[curve["flips"]]
            predicted = np.where(curve["threshold"] > flips, arrays[curve["unseen"]], arrays[curve["seen"]])
            right = pd.Series(predicted == target).groupby(target).mean()
            assert 100 * right[right.index >= 17].mean() == pytest.approx(row["acc_ts"])
            assert 100 * right[right.index < 17].mean() == pytest.approx(row["acc_tr"])

    def test_main_is_best_on_validation(self, comparison, compared):
        results, _ = comparison
        heights = {one.name: one.fitted["COSMO"].validation_point_.acc_h for one in results}
        one = compared["sets"][0]
        (main,) = (curve for curve in one["curves"] if curve["main"])
        assert main["name"] == f"{max(heights, key=heights.__getitem__)} + COSMO"
        assert len(one["gates"]) == 1
        assert one["walk"]["smoothing"] == "adaptive"

    def test_published_points(self, comparison, compared):
        _, table = comparison
        points = {point["name"]: point for point in compared["sets"][0]["points"]}
        known = table.dropna(subset=["published_acc_ts", "published_acc_tr"])
        assert len(points) == len(known) > 0
        first = known.iloc[0]
        point = points["ESZSL (published)"]
        assert point["acc_ts"] == pytest.approx(first["published_acc_ts"] / 100)
        assert point["acc_tr"] == pytest.approx(first["published_acc_tr"] / 100)
        assert point["note"].startswith("as published, on other features")
        for _, row in table.iterrows():
            assert row["note"] in compared["sets"][0]["tables"][0]["note"]
        assert "NaN" not in json_of(compared)
