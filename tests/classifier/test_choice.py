from __future__ import annotations

import numpy as np
import pytest

from cosmo import Cosmo
from cosmo.classifier.choice import _within_one_error
from cosmo.experts import ESZSL, GaussianExpert
from cosmo.io.model import Model


@pytest.fixture(scope="module")
def model(data, train):
    return Cosmo(data.descriptions, seen="auto", unseen="auto").fit(*train)


def test_choice_is_at_least_the_best_simple_one_of_the_board(model):
    choice = model.choice_
    table = choice.table().query("transform == @choice.transform")
    for role, name in (("seen", choice.seen), ("unseen, other hold-outs", choice.unseen)):
        rows = table[table["role"] == role].set_index("candidate")["accuracy"]
        # Means, and other shrinkages than the default, must lead by more than an error.
        simple = rows[rows.index.str.match(r"Gaussian|ESZSL|Softmax|Discriminant\(shrinkage=0\.2\)")]
        assert rows[name] >= simple.max()
    assert len(set(choice.table()["transform"])) > 1


@pytest.mark.parametrize(("lead", "chosen"), [(0.1, 2), (0.01, 1)])
def test_a_mean_must_lead_by_one_standard_error(lead, chosen):
    differences = lead + np.tile([0.2, -0.2], 10)  # of standard error 0.046
    assert _within_one_error([np.zeros(20), np.full(20, 0.1), 0.1 + differences], 2) == chosen


def test_a_chosen_model_equals_one_with_these_parts(data, train, model):
    rows = data.features[data.split.test_unseen]
    again = Cosmo(
        data.descriptions,
        seen=model.experts_.seen,
        unseen=model.experts_.unseen,
        feature_transform=model.choice_.transform,
    ).fit(*train)
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))
    assert again.choice_ is None


def test_a_model_file_has_the_choice(data, model, tmp_path):
    Model(model).save(tmp_path / "a.cosmo")
    loaded = Model.load(tmp_path / "a.cosmo")
    rows = data.features[data.split.test_unseen]
    assert loaded.cosmo.choice_ == model.choice_
    np.testing.assert_array_equal(loaded.cosmo.predict_proba(rows), model.predict_proba(rows))


def test_a_budget_of_nothing_tries_the_first_candidates(data, train):
    X, y = train
    small = Cosmo(data.descriptions, seen="auto", unseen="auto", budget=0).fit(X, y)
    assert isinstance(small.experts_.unseen, GaussianExpert)
    assert len(small.choice_.board) == 2
    kept = Cosmo(data.descriptions, seen="auto", unseen=ESZSL(), budget=0).fit(X, y)
    assert isinstance(kept.experts_.unseen, ESZSL)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"unseen": "eszsl"}, "unseen must be an expert or 'auto', got 'eszsl'"),
        (
            {"feature_transform": "cubes"},
            "feature_transform must be one of none, roots, unit, unit roots; got 'cubes'",
        ),
        ({"budget": -1}, "budget must be at least 0 seconds, got -1"),
    ],
)
def test_wrong_parameters(data, parameters, message):
    with pytest.raises(ValueError, match=message):
        Cosmo(data.descriptions, **parameters).fit(data.features[:60], data.labels[:60])
