"""`cosmo evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from cosmo.cli import main
from cosmo.data import read_features
from cosmo.data.starters import write_starter
from cosmo.metrics import gzsl_scores
from cosmo.model import Model


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    write_starter("features", folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["fit", "-q"]) == 0
    return folder


@pytest.fixture(autouse=True)
def here(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    monkeypatch.setenv("COLUMNS", "100")


def measured(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert main(["evaluate", "model.cosmo", *argv, "--json", "-q"]) == 0
    return json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(name))


def test_accuracies(capsys: pytest.CaptureFixture[str]):
    found = measured(capsys)
    model = Model.load("model.cosmo")
    X, y = read_features("test.csv", label="fruit")
    expected = gzsl_scores(y, model.predict(X), model.cosmo.seen_classes_, model.cosmo.unseen_classes_)
    assert (found["acc_ts"], found["acc_tr"], found["acc_h"]) == pytest.approx(tuple(expected))
    for name in ("acc_ts", "acc_tr", "acc_h", "ausuc"):
        low, high = found[f"{name}_95"]
        assert low <= found[name] <= high
    assert found["samples"] == len(y) == 136


def test_classes_and_confusions(capsys: pytest.CaptureFixture[str]):
    found = measured(capsys)
    classes = pd.DataFrame(found["classes"]).set_index("class")
    assert len(classes) == 17
    assert classes["accuracy"].is_monotonic_increasing
    assert set(classes.index[classes["domain"] == "unseen"]) == {"apple", "papaya", "sloe"}
    for domain, name in (("seen", "acc_tr"), ("unseen", "acc_ts")):
        assert classes.loc[classes["domain"] == domain, "accuracy"].mean() == pytest.approx(found[name])
    wrong = sum(one["samples"] for one in found["confusions"])
    assert wrong == pytest.approx(((1 - classes["accuracy"]) * classes["samples"]).sum())
    first = found["confusions"][0]
    row = classes.loc[first["label"]]
    assert (row["taken_for"], row["times"]) == (first["prediction"], first["samples"])


def test_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    found = measured(capsys)
    out = tmp_path / "predictions.csv"
    assert main(["evaluate", "model.cosmo", "test.csv", "--worst", "2", "--out", str(out)]) == 0
    output = capsys.readouterr()
    assert "model.cosmo on 136 samples" in output.err
    for name, key in (("Acc_ts (unseen)", "acc_ts"), ("Acc_tr (seen)", "acc_tr"), ("AUSUC", "ausuc")):
        (line,) = (line for line in output.out.splitlines() if name in line)
        assert f"{100 * found[key]:.1f}" in line
    assert found["classes"][0]["class"] in output.out
    table = pd.read_csv(out)
    assert list(table.columns) == ["row", "label", "prediction", "probability", "p_seen"]
    truth, guess = table["label"], table["prediction"]
    scores = gzsl_scores(truth, guess, truth[~truth.isin(["apple", "papaya", "sloe"])].unique(),
                         ["apple", "papaya", "sloe"])  # fmt: skip
    assert scores.acc_h == pytest.approx(found["acc_h"])


def test_classes_without_samples_do_not_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    everything = measured(capsys)
    table = pd.read_csv("test.csv")
    kept = ["sloe", "plum", "lime", "blueberry"]
    table[table["fruit"].isin(kept)].to_csv(tmp_path / "few.csv", index=False)
    found = measured(capsys, str(tmp_path / "few.csv"))
    classes = pd.DataFrame(everything["classes"]).set_index("class")["accuracy"]
    assert found["acc_tr"] == pytest.approx(classes[kept[1:]].mean())
    assert found["acc_ts"] == pytest.approx(classes["sloe"])
    assert 0 < found["ausuc"] <= 1
    assert main(["evaluate", "model.cosmo", str(tmp_path / "few.csv"), "-q"]) == 0
    assert "13 of the model's 17 classes have no samples here" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kept", "known", "missing"), [("plum", "acc_tr", "acc_ts"), ("sloe", "acc_ts", "acc_tr")]
)
def test_one_domain_only(
    kept: str, known: str, missing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    table = pd.read_csv("test.csv")
    table[table["fruit"] == kept].to_csv(tmp_path / "one.csv", index=False)
    found = measured(capsys, str(tmp_path / "one.csv"))
    assert found[known] == found["classes"][0]["accuracy"]
    assert found[missing] is found["acc_h"] is found["ausuc"] is None
    assert main(["evaluate", "model.cosmo", str(tmp_path / "one.csv"), "-q"]) == 0
    assert "no such samples" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["no.cosmo"], "no.cosmo"),
        (["cosmo.toml"], "cosmo.toml is not a model; `cosmo fit` writes one"),
        (["test.csv"], "not a model of cosmo"),
        (["model.cosmo", "no.csv"], "no.csv: no such file"),
        (["model.cosmo", "test.csv", "--label", "kind"], "no column 'kind' for labels"),
        (["model.cosmo", "descriptions.csv"], "no column 'red_light' for features"),
        (["model.cosmo", "test.csv", "--weights", "w"], "has no encoder: leave out --weights"),
    ],
)
def test_errors(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]):
    assert main(["evaluate", *argv, "-q"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("cosmo evaluate: ")
    assert said in error


def test_unknown_class(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pd.read_csv("test.csv").assign(fruit="kiwi").to_csv(tmp_path / "kiwi.csv", index=False)
    assert main(["evaluate", "model.cosmo", str(tmp_path / "kiwi.csv"), "-q"]) == 2
    assert "'kiwi'" in capsys.readouterr().err


def test_a_project_without_test_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = Path("cosmo.toml").read_text().replace('\ntest = "test.csv"', "\n#")
    project = Path("untested.toml")
    project.write_text(text)
    assert main(["evaluate", "model.cosmo", str(project), "-q"]) == 2
    assert "set test, test_share or hold_back" in capsys.readouterr().err
