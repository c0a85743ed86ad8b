"""The live model: the same predictions as the model, and added classes."""

import json

import numpy as np
import pandas as pd
import pytest
from starlette.exceptions import HTTPException

from cosmo import ESZSL
from cosmo.evaluation.evaluate import evaluate_model
from cosmo.experts import make_unseen_expert
from cosmo.io.model import Model, fit_model
from cosmo.viz.page.render import decompress
from cosmo.viz.studio.live import LiveModel, Samples


def check_preview(live, model, samples, values):
    """Compare a preview with an evaluation of the model that has the class; return the preview."""
    found = live.preview("between", values)
    before = evaluate_model(model, samples.rows, samples.labels)
    grown = evaluate_model(model.add_classes({"between": values}), samples.rows, samples.labels)
    for side, expected in (("before", before), ("after", grown)):
        assert found[side] == pytest.approx(expected.scores._asdict())
    old, new = before.predictions["prediction"], grown.predictions["prediction"]
    taken = np.flatnonzero(new == "between")
    assert (found["taken"], found["of"]) == (len(taken), len(samples.rows))
    assert found["examples"] == taken[:20].tolist()
    assert dict(found["taken_from"]) == old[taken].value_counts().head(10).to_dict()
    return found


def trained(data, expert):
    train = data.split.trainval
    unseen = make_unseen_expert(expert)
    return fit_model(data.features[train], data.labels[train], data.descriptions, unseen=unseen, exemplars=0)


class TestPredict:
    def test_as_the_model_explains(self, live, model, samples):
        for row in samples.rows[::7]:
            record, explanation = live.predict(row), model.cosmo.explain(row[None])
            classes = explanation.classes
            assert record["answer"] == explanation.prediction[0] == model.predict(row[None])[0]
            assert record["probability"] == pytest.approx(explanation.proba[0].max())
            assert record["p_unseen"] == pytest.approx(explanation.p_unseen[0])
            assert record["score"] == pytest.approx(explanation.gate_score[0])
            assert record["seen_mass"] == pytest.approx(explanation.seen[0].sum())
            assert record["unseen_mass"] == pytest.approx(explanation.unseen[0].sum())
            assert record["classes"] == classes.tolist()
            assert record["n_seen"] == len(explanation.seen_classes)
            unseen = np.array(record["unseen_codes"]) - record["n_seen"]
            np.testing.assert_allclose(record["unseen_proba"], explanation.unseen[0][unseen])
            np.testing.assert_allclose(record["seen_proba"], np.sort(explanation.seen[0])[:-6:-1])
            taken = model.cosmo.operating_point_.threshold > record["flip"]
            assert classes[record["unseen" if taken else "seen"]] == record["answer"]

    @pytest.mark.parametrize("scale", [0.0, 1e6, 1e20])
    def test_infinite_odds_are_still_json(self, live, scale, samples):
        record = live.predict(np.sign(samples.rows[0]) * scale)
        assert json.loads(json.dumps(record, allow_nan=False)) == record

    def test_numbers_that_are_too_large(self, live):
        with pytest.raises(HTTPException, match="features: too large"):
            live.predict(np.full(live.n_features, 3e38))


class TestPreview:
    def test_is_the_evaluation_with_the_class(self, live, model, samples, new_class):
        found = check_preview(live, model, samples, new_class)
        assert found["taken"] > 0
        assert found["after"]["acc_ts"] < found["before"]["acc_ts"]  # those it took had been right

    @pytest.mark.parametrize("measured", [True, False])
    def test_descriptions_that_the_expert_refuses(self, data, samples, new_class, measured):
        live = LiveModel(trained(data, "lago"), samples if measured else None)
        for call in (live.preview, live.add_class):
            with pytest.raises(HTTPException, match="the class cannot be added: .*in 0..1"):
                call("too strong", new_class)
        assert live.added == []
        assert live.predict(samples.rows[0])["answer"] in live.names

    def test_neighbours_are_classes_alike(self, live, data):
        values = data.descriptions.iloc[4].tolist()
        neighbours = live.preview("twin", values)["neighbours"]
        assert neighbours[0] == [data.descriptions.index[4], pytest.approx(1.0)]
        alike = [similarity for _, similarity in neighbours]
        assert len(alike) == 5
        assert alike == sorted(alike, reverse=True)

    def test_without_samples(self, model, new_class):
        found = LiveModel(model).preview("between", new_class)
        assert (found["before"], found["after"], found["taken"], found["of"]) == (None, None, 0, 0)
        assert (found["taken_from"], found["examples"]) == ([], [])
        assert len(found["neighbours"]) == 5


class TestKeep:
    def test_and_undo(self, live, samples, new_class):
        names, before = live.names, live.predict(samples.rows[0])
        live.add_class("between", new_class)
        assert live.names == [*names, "between"]
        assert live.added == ["between"]
        record = live.predict(samples.rows[0])
        assert record["classes"] == live.names
        assert record["unseen_mass"] != before["unseen_mass"]
        live.reset()
        assert (live.names, live.added) == (names, [])
        assert live.predict(samples.rows[0]) == before


class TestViews:
    def test_of_a_run(self, model, new_class):
        view = {"format": 1, "kind": "run", "title": "A run", "lead": "One.", "arrays": [], "sets": []}
        live = LiveModel(model, view=view)
        assert decompress(live.view()) == view
        live.add_class("between", new_class)
        assert decompress(live.view())["lead"].startswith(
            "One. Added classes (between) are in new predictions"
        )


class TestNumberedClasses:
    @pytest.fixture
    def live(self, data):
        codes = data.descriptions.index.get_indexer(data.labels)
        table = data.descriptions.set_axis(range(len(data.descriptions)), axis=0)
        train = data.split.trainval
        model = fit_model(data.features[train], codes[train], table, unseen=ESZSL(1.0, 1.0))
        return LiveModel(model, Samples(data.features[::9], pd.Index(codes[::9])))

    def test_are_kept_as_numbers(self, live, new_class, tmp_path):
        live.add_class("77", new_class)
        assert live.names[-1] == "77"
        live.save(tmp_path / "m.cosmo")
        assert Model.load(tmp_path / "m.cosmo").classes.index[-1] == 77

    @pytest.mark.parametrize("name", ["okapi", "7.5", "-3", "٣", "9" * 30])
    def test_other_names_are_refused(self, live, new_class, name):
        with pytest.raises(HTTPException, match="are whole numbers"):
            live.preview(name, new_class)
        with pytest.raises(HTTPException, match="already"):
            live.preview("7", new_class)
