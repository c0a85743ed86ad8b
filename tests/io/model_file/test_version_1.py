"""A file of format version 1, written by an earlier version, is read as long as there is a reader."""

import json
from pathlib import Path

import numpy as np
import pytest

from cosmo.io.model import Model
from cosmo.io.model_file import read_card

HERE = Path(__file__).parent


@pytest.fixture
def model():
    return Model.load(HERE / "version_1.cosmo")


@pytest.fixture(scope="module")
def answers():
    return json.loads((HERE / "version_1.json").read_text())


def test_predictions_have_not_changed(model, answers):
    rows = np.array(answers["rows"])
    assert model.cosmo.classes_.tolist() == answers["classes"]
    assert model.predict(rows).tolist() == answers["predictions"]
    # The last digits are the machine's.
    np.testing.assert_allclose(
        model.cosmo.predict_proba(rows), answers["probabilities"], rtol=1e-4, atol=1e-6
    )


def test_card_operating_point_and_new_classes(model, answers):
    unseen = model.cosmo.unseen_classes_
    assert model.card()["data"] == "glyphs"
    model.cosmo.operate_at(min_seen=0.14)
    assert model.card()["validation"]["acc_tr"] >= 0.14
    model.add_classes(model.cosmo.experts_.descriptions.loc[[unseen[0]]].set_axis(["new"], axis=0))
    model.learn(np.array(answers["rows"])[:3], [unseen[0]] * 3)
    assert unseen[0] in model.cosmo.seen_classes_
    assert "new" in model.cosmo.unseen_classes_


def test_card_without_the_model(model):
    card = read_card(HERE / "version_1.cosmo")
    assert card["format_version"] == 1
    # Which parameters are shown depends on the version of scikit-learn.
    assert model.card()["method"] == "paper"
    newer = ("seen expert", "exemplars", "method", "transform")
    shown = {key: value for key, value in model.card().items() if key not in newer}
    assert {key: value for key, value in card.items() if key in shown} == shown
    assert card["seen expert"].startswith("LogisticRegression(")
