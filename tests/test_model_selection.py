"""Folds of classes and rows, scorers, and the guide's example of a search."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from compositional import Task
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cosmo import ESZSL, Cosmo, fit_model
from cosmo.evaluation.evaluate import evaluate_model
from cosmo.io.project import write_starter
from cosmo.model_selection import GZSLSplit, acc_h_scorer, ausuc_scorer, gzsl_scorer

GUIDE = Path(__file__).parents[1] / "docs" / "guides" / "features.md"


@pytest.fixture(scope="module")
def task():
    return Task(rows=10)


@given(
    counts=st.lists(st.integers(1, 9), min_size=4, max_size=12),
    n_splits=st.integers(2, 4),
    seed=st.integers(0, 99),
)
def test_folds(counts, n_splits, seed):
    y = np.random.default_rng(seed).permutation(np.repeat([f"c{i}" for i in range(len(counts))], counts))
    splitter = GZSLSplit(n_splits, random_state=seed)
    withheld, as_seen = [], np.zeros(len(y), dtype=int)
    folds = list(splitter.split(y[:, None], y))
    assert len(folds) == splitter.get_n_splits() == n_splits
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(len(y)))
        unseen = np.setdiff1d(y, y[train])
        withheld += [*unseen]
        rows = test[~np.isin(y[test], unseen)]
        as_seen[rows] += 1
        seen = pd.Series(y[rows]).value_counts()
        total = pd.Series(y).value_counts()[seen.index]
        assert (seen <= np.ceil(total / n_splits)).all()
    assert sorted(withheld) == sorted(set(y))
    assert as_seen.max() <= 1
    sizes = pd.Series(y).value_counts()[y].to_numpy()
    for name in np.unique(y[sizes >= n_splits]):  # all parts but the one of the fold without the class
        assert as_seen[y == name].sum() >= (y == name).sum() - np.ceil((y == name).sum() / n_splits)


@pytest.mark.parametrize(("n_splits", "n_classes"), [(1, 9), (5, 4), (2, 3)])
def test_numbers_of_folds(n_splits, n_classes):
    y = np.arange(n_classes).repeat(3)
    with pytest.raises(ValueError, match=f"n_splits={n_splits} with {n_classes} classes"):
        next(GZSLSplit(n_splits).split(y[:, None], y))


def test_scores_are_those_of_an_evaluation(task):
    rows = np.arange(len(task.y)) % 3 > 0
    model = fit_model(task.X[rows], task.y[rows], task.table, unseen=ESZSL(1.0, 1.0))
    X, y = np.concatenate([task.X[~rows], task.X_new]), np.concatenate([task.y[~rows], task.y_new])
    some = ~np.isin(y, [task.seen[0], *task.unseen[:3]])  # not all classes have samples
    found, expected = gzsl_scorer(model.cosmo, X[some], y[some]), evaluate_model(model, X[some], y[some])
    assert found == pytest.approx(expected.scores._asdict() | {"ausuc": expected.ausuc})
    assert ausuc_scorer(model.cosmo, X[some], y[some]) == found["ausuc"]
    assert acc_h_scorer(make_pipeline(None, model.cosmo), X[some], y[some]) == found["acc_h"]
    with pytest.raises(ValueError, match=r"samples of seen and of unseen classes; cv=GZSLSplit"):
        gzsl_scorer(model.cosmo, task.X, task.y)
    with pytest.raises(TypeError, match="need a Cosmo, got GaussianNB"):
        acc_h_scorer(GaussianNB(), X, y)


class Guess(BaseEstimator):
    """Has learned nothing."""

    def fit(self, X, y, descriptions):
        return self

    def scores(self, X, descriptions):
        return X[:, :3] @ descriptions.to_numpy()[:, :3].T


def test_a_useless_unseen_expert_shows_in_folds_of_classes_only(task):
    experts = {"useful": ESZSL(1.0, 1.0, temperature=0.1), "useless": Guess()}
    table = task.table.loc[task.seen]
    plain, folds = {}, {}
    for name, expert in experts.items():
        model = make_pipeline(StandardScaler(), Cosmo(task.table, unseen=expert))
        plain[name] = cross_validate(model, task.X, task.y, cv=StratifiedKFold(2))["test_score"].mean()
        model.set_params(cosmo__descriptions=table)
        scores = cross_validate(model, task.X, task.y, cv=GZSLSplit(3), scoring=gzsl_scorer)
        assert {"test_acc_ts", "test_acc_tr", "test_acc_h", "test_ausuc"} <= scores.keys()
        folds[name] = scores["test_acc_h"].mean()
    assert abs(plain["useful"] - plain["useless"]) < 0.1
    assert folds["useful"] > folds["useless"] + 0.2
    grid = {"unseen": [*experts.values()]}
    search = GridSearchCV(Cosmo(table), grid, cv=GZSLSplit(3), scoring=ausuc_scorer).fit(task.X, task.y)
    assert isinstance(search.best_params_["unseen"], ESZSL)


def test_guide(tmp_path, monkeypatch, capsys):
    pytest.importorskip("skops")
    write_starter("features", tmp_path)
    monkeypatch.chdir(tmp_path)
    text = GUIDE.read_text("utf-8")
    scope = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(block, GUIDE.name, "exec"), scope)
    printed = [float(number) for number in re.findall(r"\d\.\d+|\d\.", capsys.readouterr().out)]
    shown = re.search(r"## Cross-validation.*?```\n\n```\n(.*?)```", text, flags=re.DOTALL)[1]
    shown = [float(number) for number in re.findall(r"\d\.\d+|\d\.", shown)]
    assert printed == pytest.approx(shown, abs=0.05)
