"""`cosmo evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pandas as pd
import pytest

from cosmo.data import read_features
from cosmo.encoders import ENCODERS, Encoder
from cosmo.io.model import Model
from cosmo.metrics.accuracy import gzsl_scores
from cosmo.viz.page import read_view


@pytest.fixture
def measure(cosmo):
    """Run the command and return its JSON, which must have no NaN."""

    def run(*words):
        printed = cosmo("evaluate", "model.cosmo", *words, "--json", "-q").out
        return json.loads(printed, parse_constant=lambda name: pytest.fail(name))

    return run


@pytest.mark.usefixtures("project")
class TestFeatures:
    def test_accuracies(self, measure):
        found = measure()
        model = Model.load("model.cosmo")
        X, y = read_features("test.csv", label="fruit")
        expected = gzsl_scores(y, model.predict(X), model.cosmo.seen_classes_, model.cosmo.unseen_classes_)
        assert (found["acc_ts"], found["acc_tr"], found["acc_h"]) == pytest.approx(tuple(expected))
        for name in ("acc_ts", "acc_tr", "acc_h", "ausuc"):
            low, high = found[f"{name}_95"]
            assert low <= found[name] <= high
        assert found["samples"] == len(y) == 136
        classes = pd.DataFrame(found["classes"]).set_index("class")
        assert len(classes) == 17
        assert classes["accuracy"].is_monotonic_increasing
        for domain, name in (("seen", "acc_tr"), ("unseen", "acc_ts")):
            assert classes.loc[classes["domain"] == domain, "accuracy"].mean() == pytest.approx(found[name])
        wrong = sum(one["samples"] for one in found["confusions"])
        assert wrong == pytest.approx(((1 - classes["accuracy"]) * classes["samples"]).sum())
        first = found["confusions"][0]
        row = classes.loc[first["label"]]
        assert (row["taken_for"], row["times"]) == (first["prediction"], first["samples"])

    def test_files_and_what_is_printed(self, cosmo, measure):
        found = measure()
        words = ["--worst", "2", "--out", "predictions.csv", "--report", "report.html"]
        out, err = cosmo("evaluate", "model.cosmo", "test.csv", *words)
        assert "model.cosmo on 136 samples" in err
        assert out.splitlines()[-2:] == ["predictions: predictions.csv", "report: report.html"]
        for name, key in (("Acc_ts (unseen)", "acc_ts"), ("Acc_tr (seen)", "acc_tr"), ("AUSUC", "ausuc")):
            (line,) = (line for line in out.splitlines() if name in line)
            assert f"{100 * found[key]:.1f}" in line
        assert found["classes"][0]["class"] in out
        table = pd.read_csv("predictions.csv")
        assert list(table.columns) == ["row", "label", "prediction", "probability", "p_seen"]
        model = Model.load("model.cosmo").cosmo
        sides = model.seen_classes_, model.unseen_classes_
        scores = gzsl_scores(table["label"], table["prediction"], *sides)
        assert scores.acc_h == pytest.approx(found["acc_h"])
        view = read_view(Path("report.html").read_text("utf-8"))
        assert (view["kind"], view["sets"][0]["name"]) == ("evaluation", "test.csv")
        rows = view["sets"][0]["tables"][0]["rows"]
        expected = [100 * found[name] for name in ("acc_ts", "acc_tr", "acc_h", "ausuc")]
        assert [row[1] for row in rows] == pytest.approx(expected)
        assert str(Path.cwd()) not in json.dumps(view)

    def test_classes_without_samples_do_not_count(self, cosmo, measure):
        classes = pd.DataFrame(measure()["classes"]).set_index("class")["accuracy"]
        table = pd.read_csv("test.csv")
        names = ["sloe", "plum", "lime", "blueberry"]
        table[table["fruit"].isin(names)].to_csv("few.csv", index=False)
        found = measure("few.csv")
        assert found["acc_tr"] == pytest.approx(classes[names[1:]].mean())
        assert found["acc_ts"] == pytest.approx(classes["sloe"])
        assert 0 < found["ausuc"] <= 1
        out = cosmo("evaluate", "model.cosmo", "few.csv", "-q").out
        assert "13 of the model's 17 classes have no samples here" in out

    @pytest.mark.parametrize(
        ("name", "known", "missing"), [("plum", "acc_tr", "acc_ts"), ("sloe", "acc_ts", "acc_tr")]
    )
    def test_one_domain_only(self, name, known, missing, cosmo, measure):
        table = pd.read_csv("test.csv")
        table[table["fruit"] == name].to_csv("one.csv", index=False)
        found = measure("one.csv", "--report", "report.html")
        assert found[known] == found["classes"][0]["accuracy"]
        assert found[missing] is found["acc_h"] is found["ausuc"] is None
        assert sorted(read_view(Path("report.html").read_text("utf-8"))["sets"][0]["counted"]) == [0, 1]
        assert "no such samples" in cosmo("evaluate", "model.cosmo", "one.csv", "-q").out

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["no.cosmo"], "no.cosmo"),
            (["cosmo.toml"], "cosmo.toml is not a model; `cosmo fit` writes one"),
            (["test.csv"], "not a model of cosmo"),
            (["model.cosmo", "no.csv"], "no.csv: no such file"),
            (["model.cosmo", "--report", "."], "--report .: name a file in a folder that exists"),
            (["model.cosmo", "--report", "no/report.html"], "--report no/report.html: name a file in a fold"),
            (["model.cosmo", "test.csv", "--label", "kind"], "no column 'kind' for labels"),
            (["model.cosmo", "descriptions.csv"], "no column 'red_light' for features"),
            (["model.cosmo", "test.csv", "--weights", "w"], "has no encoder: leave out --weights"),
            (["model.cosmo", "kiwi.csv"], "'kiwi'"),
            (["model.cosmo", "untested.toml"], "set test, test_share or hold_back"),
        ],
    )
    def test_errors(self, words, message, refuse):
        pd.read_csv("test.csv").assign(fruit="kiwi").to_csv("kiwi.csv", index=False)
        text = Path("cosmo.toml").read_text().replace('\ntest = "test.csv"', "\n#")
        Path("untested.toml").write_text(text)
        refuse(["evaluate", *words, "-q"], message)


class Letters(Encoder):
    """Counts letters, in samples and in descriptions."""

    kind, n_features, identity, describes = "text", 26, "letters-1", True

    def __init__(self, name, *, weights=None):
        self.name = name

    def content(self, item):
        return item.encode()

    def read(self, item):
        return [item.lower().count(letter) for letter in ascii_lowercase]

    def encode_batch(self, batch):
        return np.array(batch, dtype=np.float32)

    def encode_descriptions(self, texts):
        return self.encode(texts)


def test_report_of_texts(cosmo, tmp_path, monkeypatch):
    monkeypatch.setitem(ENCODERS, "letters", Letters)
    cosmo("init", tmp_path, "--kind", "text", "-q")
    cosmo("fit", "-q", "--encoder", "letters", folder=tmp_path)
    cosmo("evaluate", "model.cosmo", "--report", "report.html", "-q", folder=tmp_path)
    one = read_view((tmp_path / "report.html").read_text("utf-8"))["sets"][0]
    texts = Model.load(tmp_path / "model.cosmo").texts
    assert one["classes"]["descriptions"] == [texts[name] for name in one["classes"]["names"]]
    assert one["samples"]["texts"] == list(pd.read_csv(tmp_path / "test.csv")["text"])
