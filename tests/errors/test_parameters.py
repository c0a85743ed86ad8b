"""Operating points, hyperparameters and stored probabilities outside of their range."""

import copy

import pytest
from sklearn.linear_model import LogisticRegression

from cosmo import Cosmo
from cosmo.cli import main
from cosmo.experts import ESZSL

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("name", "values"),
    {
        "threshold": (NAN, INF),
        "unseen_share": (0, 1, -0.1, 1.5, NAN, INF),
        "min_seen": (-0.1, 1.5, NAN),
    }.items(),
)
def test_operating_points(model, refused, name, values):
    for value in values:
        with refused(ValueError, name, str(value)):
            copy.deepcopy(model.cosmo).operate_at(**{name: value})
    with refused(TypeError, name, "'high'"):
        copy.deepcopy(model.cosmo).operate_at(**{name: "high"})


def test_softness_of_the_paper(task, refused):
    model = Cosmo(task.table, method="paper", unseen=ESZSL(1.0, 1.0)).fit(task.X, task.y)
    for value in (0, -1, NAN, INF):
        with refused(ValueError, "softness", str(value)):
            model.operate_at(softness=value)
    with refused(TypeError, "softness", "'high'"):
        model.operate_at(softness="high")


def test_operating_point_on_the_command_line(model, tmp_path, capsys):
    path = tmp_path / "model.cosmo"
    model.save(path)
    before = path.read_bytes()
    assert main(["operate", str(path), "--min-seen", "1.5"]) == 2
    message = capsys.readouterr().err
    assert "min_seen" in message.replace("-", "_")
    assert "1.5" in message
    assert "Traceback" not in message
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("parameters", "part"),
    [
        ({"softnesses": (0.0,)}, "softness"),
        ({"softnesses": (NAN,)}, "softness"),
        ({"folds": 0}, "folds"),
        ({"folds": 1000}, "folds"),
        ({"folds": 1.5}, "folds"),
        ({"smoothing": "much"}, "smoothing"),
    ],
)
def test_paper(task, refused, parameters, part):
    with refused(ValueError, part):
        Cosmo(task.table, method="paper", unseen=ESZSL(1.0, 1.0), **parameters).fit(task.X, task.y)


@pytest.mark.parametrize(
    ("parameters", "part"),
    [
        ({"rounds": 0}, "rounds"),
        ({"rounds": 1000}, "rounds"),
        ({"rounds": 1.5}, "rounds"),
        ({"method": "guess"}, "method"),
        ({"smoothing": "none"}, "smoothing"),
    ],
)
def test_classifier(task, refused, parameters, part):
    with refused(ValueError, part):
        Cosmo(task.table, unseen=ESZSL(1.0, 1.0), **parameters).fit(task.X, task.y)


@pytest.mark.parametrize("temperature", [0.0, -1.0, NAN])
def test_expert(task, refused, temperature):
    with refused(ValueError, "temperature", str(temperature)):
        expert = ESZSL(1.0, 1.0, temperature=temperature).fit(task.X, task.y, task.table)
        expert.predict_proba(task.X_new, task.table)


def test_a_seen_expert_with_classes_in_another_order(task, refused):
    """`predict_proba` columns of another order than `classes_` were once mixed up."""

    class Reversed(LogisticRegression):
        def fit(self, X, y):
            super().fit(X, y)
            for name in ("classes_", "coef_", "intercept_"):
                setattr(self, name, getattr(self, name)[::-1])
            return self

    with refused(ValueError, "Reversed", "sort"):
        Cosmo(task.table, seen=Reversed(), unseen=ESZSL(1.0, 1.0)).fit(task.X, task.y)
