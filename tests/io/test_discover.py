"""Groups of rejected samples, and the classes that they become."""

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cosmo import Model, discover, fit_model
from cosmo.cli import main
from cosmo.experts import make_unseen_expert

MESSAGES = Path(__file__).with_name("messages.csv")


@pytest.fixture(scope="module")
def fruit():
    """Return a model that does not know of four classes, rows of all classes, their labels and attributes."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 2, size=(24, 12)), index=[f"c{k}" for k in range(24)], dtype=float)
    table.columns = pd.MultiIndex.from_tuples([(f"part{k // 4}", str(k)) for k in range(12)])
    mixing = rng.normal(size=(12, 30))
    codes = np.repeat(np.arange(24), 40)
    X = (table.to_numpy()[codes] @ mixing + rng.normal(size=(len(codes), 30))).astype(np.float32)
    y = table.index[codes]
    train = codes < 16
    unseen = make_unseen_expert("eszsl:gamma=1,lam=1")
    model = fit_model(X[train], y[train], table.iloc[:20], unseen=unseen, random_state=0)
    held = np.arange(len(X)) % 2 == 1
    return model, X[held | ~train], y[held | ~train], table


def test_finds_classes_without_description_and_their_attributes(fruit):
    model, X, y, table = fruit
    found = discover(model, X)
    majority = {name: y[found.labels == name].value_counts(normalize=True) for name in found.groups.index}
    of = {name: share.index[0] for name, share in majority.items()}
    new = [name for name in of if of[name] in table.index[20:]]
    assert {of[name] for name in new} == set(table.index[20:])
    assert min(majority[name].iloc[0] for name in new) > 0.8
    # The least known come first.
    assert set(found.groups.index[: len(new)]) == set(new)
    drafts = found.descriptions.loc[new]
    true = table.loc[[of[name] for name in new]]
    assert ((drafts.to_numpy() > 0.5) == true.to_numpy()).mean() > 0.8
    nearest = [row.split(" (")[0] for row in found.groups["nearest"]]
    assert set(nearest) <= set(table.index[:20])


def test_command_writes_files_that_classes_takes(fruit, tmp_path, capsys):
    model, X, y, _ = fruit
    path, samples, out = tmp_path / "m.cosmo", tmp_path / "new.csv", tmp_path / "found"
    model.save(path)
    pd.DataFrame(X, columns=[f"f{k}" for k in range(X.shape[1])]).to_csv(samples, index=False)
    assert main(["discover", str(path), str(samples), "--out", str(out), "-q"]) == 0
    assert "the least known first" in capsys.readouterr().out
    assert main(["classes", "add", str(path), "--descriptions", str(out / "descriptions.csv"), "-q"]) == 0
    assert main(["classes", "learn", str(path), str(out / "samples.csv"), "-q"]) == 0
    changed, found = Model.load(path), discover(model, X)
    assert set(found.groups.index) <= set(changed.cosmo.seen_classes_)
    first = found.groups.index[0]
    rows = y == y[found.labels == first].value_counts().index[0]
    assert (changed.predict(X[rows]) == first).mean() > 0.8
    assert main(["discover", str(path), str(samples), "--add", "nothing", "-q"]) == 2
    assert "there is no group 'nothing'" in capsys.readouterr().err


def test_asks_for_names(fruit, tmp_path, capsys, monkeypatch):
    model, X, _, _ = fruit
    path, samples = tmp_path / "m.cosmo", tmp_path / "new.csv"
    model.save(path)
    pd.DataFrame(X, columns=[f"f{k}" for k in range(X.shape[1])]).to_csv(samples, index=False)
    first, second, third, *_ = names = list(discover(model, X).groups.index)

    def ask(answers, *words):
        monkeypatch.setattr("sys.stdin", io.StringIO(answers))
        assert main(["discover", str(path), str(samples), "--ask", "-q", *words]) == 0
        return list(Model.load(path).classes.index[20:]), capsys.readouterr()

    added, printed = ask("\nno\n", "--json")  # the end of the input is a no, too
    assert added == []
    assert [row["class"] for row in json.loads(printed.out)] == names
    assert printed.err.count("add as class") == len(names)
    added, printed = ask("c3\nelderberry\ny\n", "--add", f"{first}=quince")
    assert added == ["quince", "elderberry", third]
    assert "there is a class 'c3' already" in printed.err
    assert f"(y = {second}, or" in printed.err
    assert f"(y = {first}, or" not in printed.err


def test_texts(tmp_path, monkeypatch, capsys):
    pytest.importorskip("sentence_transformers")
    monkeypatch.chdir(tmp_path)
    assert main(["init", "requests", "--kind", "text"]) == 0
    monkeypatch.chdir("requests")
    assert main(["fit", "-q"]) == 0
    capsys.readouterr()
    add = ["--add", "points_loyalty=loyalty_points", "job_application"]
    assert main(["discover", "model.cosmo", str(MESSAGES), "--smallest", "5", "-q", *add]) == 0
    assert "points_loyalty: 10 samples; nearest classes: " in capsys.readouterr().out
    model = Model.load("model.cosmo")
    new = ["what can i buy with my points", "are there jobs in your kitchen", "where is my order"]
    assert model.predict(new).tolist() == ["loyalty_points", "job_application", "track_order"]
    assert model.texts["job_application"] == "i would like to apply for a job"
    # One sample is no group.
    assert len(discover(model, pd.read_csv(MESSAGES)["text"].tolist()[:4], smallest=5).groups) == 0


def test_needs_the_exemplar_buffer(fruit):
    model, X, _, table = fruit
    bare = fit_model(X[:200], ["a", "b", "c", "d"] * 50, table.iloc[:6].set_axis(list("abcdef")), exemplars=0)
    with pytest.raises(ValueError, match="no exemplar buffer"):
        discover(bare, X)
    with pytest.raises(ValueError, match="smallest must be at least 2"):
        discover(model, X, smallest=1)
