"""Operating points, hyperparameters and stored probabilities outside of their range."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from cosmo import Cosmo
from cosmo.cli import main
from cosmo.experts import ESZSL, PrecomputedExpert
from cosmo.mixture.outputs import ExpertOutputs

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


SEEN, UNSEEN = pd.Index(["ant", "bee", "cat"]), pd.Index(["gnu", "hen"])


def probabilities() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.dirichlet(np.ones(3), 12), rng.dirichlet(np.ones(5), 12)


def with_row(values: np.ndarray, row: list[float]) -> np.ndarray:
    values = values.copy()
    values[4] = row
    return values


FAULTS = {
    "NaN": (lambda p: with_row(p, [NAN, 0.5, 0.5]), ("row 4", "drop")),
    "negative": (lambda p: np.log(p), ("negative", "soft-max")),
    "sums": (lambda p: with_row(p, [0.2, 0.2, 0.2]), ("row 4", "sum to 1", "divide rows")),
    "one dimension": (lambda p: p[:, 0], ("matrix", "samples x classes")),
    "no columns": (lambda p: p[:, :0], ("no columns", "one for each class")),
    "one row less": (lambda p: p[:-1], ("11", "12")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_probabilities_of_the_seen_expert(refused, fault):
    seen, joint = probabilities()
    change, parts = FAULTS[fault]
    with refused(ValueError, "seen expert", *parts):
        ExpertOutputs.from_joint(change(seen), joint, SEEN, UNSEEN)


def test_probabilities_of_the_unseen_expert(refused):
    seen, joint = probabilities()
    with refused(ValueError, "4 columns", "5 classes"):
        ExpertOutputs.from_joint(seen, joint[:, :4], SEEN, UNSEEN)
    with refused(ValueError, "unseen expert", "at most 1"):
        ExpertOutputs.from_joint(seen, 2 * joint, SEEN, UNSEEN)


def test_stored_probabilities(refused):
    _, joint = probabilities()
    stored = pd.DataFrame(joint, columns=[*SEEN, *UNSEEN])
    with refused(TypeError, "proba", "DataFrame"):
        PrecomputedExpert(joint).fit(None, None, None)
    expert = PrecomputedExpert(stored).fit(None, None, None)
    with refused(ValueError, "no stored prediction", "yak"):
        expert.predict_proba(np.arange(3), pd.DataFrame(index=["ant", "yak"]))
    # Names count, not positions.
    found = expert.predict_proba(np.arange(12), pd.DataFrame(index=[*UNSEEN, *SEEN]))
    np.testing.assert_allclose(found, joint[:, [3, 4, 0, 1, 2]], rtol=1e-6)


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
