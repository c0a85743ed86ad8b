"""`cosmo evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from string import ascii_lowercase
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from cosmo.cli import main
from cosmo.data import read_features
from cosmo.data.starters import write_starter
from cosmo.encoders import ENCODERS, Encoder
from cosmo.io.model import Model
from cosmo.metrics.accuracy import gzsl_scores
from cosmo.viz.page import read_view


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


def test_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    found = measured(capsys)
    page = tmp_path / "report.html"
    assert main(["evaluate", "model.cosmo", "test.csv", "--report", str(page), "-q"]) == 0
    assert f"report: {page}" in capsys.readouterr().out.splitlines()
    view = read_view(page.read_text("utf-8"))
    assert (view["kind"], view["sets"][0]["name"]) == ("evaluation", "test.csv")
    rows = view["sets"][0]["tables"][0]["rows"]
    expected = [100 * found[name] for name in ("acc_ts", "acc_tr", "acc_h", "ausuc")]
    assert [row[1] for row in rows] == pytest.approx(expected)
    assert str(Path.cwd()) not in json.dumps(view)


@pytest.mark.parametrize("kept", ["plum", "sloe"])
def test_report_of_one_domain(kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    table = pd.read_csv("test.csv")
    table[table["fruit"] == kept].to_csv(tmp_path / "one.csv", index=False)
    page = tmp_path / "report.html"
    assert main(["evaluate", "model.cosmo", str(tmp_path / "one.csv"), "--report", str(page), "-q"]) == 0
    assert sorted(read_view(page.read_text("utf-8"))["sets"][0]["counted"]) == [0, 1]


class Letters(Encoder):
    """Counts letters, in samples and in descriptions."""

    kind, n_features, identity, describes = "text", 26, "letters-1", True

    def __init__(self, name: str, *, weights: str | None = None) -> None:
        self.name = name

    def content(self, item: Any) -> bytes:
        return item.encode()

    def read(self, item: Any) -> Any:
        return [item.lower().count(letter) for letter in ascii_lowercase]

    def encode_batch(self, batch: Any) -> np.ndarray:
        return np.array(batch, dtype=np.float32)

    def encode_descriptions(self, texts: Any) -> np.ndarray:
        return self.encode(texts)


def test_report_of_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(cast(dict[str, Any], ENCODERS), "letters", Letters)
    write_starter("text", tmp_path)
    assert main(["fit", "-q", "--encoder", "letters"]) == 0
    assert main(["evaluate", "model.cosmo", "--report", "report.html", "-q"]) == 0
    one = read_view((tmp_path / "report.html").read_text("utf-8"))["sets"][0]
    model = Model.load("model.cosmo")
    assert model.texts is not None
    assert one["classes"]["descriptions"] == [model.texts[name] for name in one["classes"]["names"]]
    table = pd.read_csv("test.csv")
    assert one["samples"]["texts"] == list(table["text"])


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
        (["model.cosmo", "--report", "."], "--report .: name a file in a folder that exists"),
        (["model.cosmo", "--report", "no/report.html"], "--report no/report.html: name a file in a folder"),
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
