"""`cosmo evaluate` and `cosmo explain`."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from cosmo.data import read_features
from cosmo.io.model import Model
from cosmo.metrics.accuracy import gzsl_scores
from cosmo.viz.page import read_view

pytestmark = pytest.mark.usefixtures("project")


@pytest.fixture
def measure(cosmo):
    """Run the command and return its JSON, which must have no NaN."""

    def run(*words):
        printed = cosmo("evaluate", "model.cosmo", *words, "--json", "-q").out
        return json.loads(printed, parse_constant=lambda name: pytest.fail(name))

    return run


class TestFeatures:
    def test_accuracies(self, measure):
        found = measure()
        model = Model.load("model.cosmo")
        X, y = read_features("test.csv", label="fruit")
        expected = gzsl_scores(y, model.predict(X), model.cosmo.seen_classes_, model.cosmo.unseen_classes_)
        assert (found["acc_ts"], found["acc_tr"], found["acc_h"]) == pytest.approx(tuple(expected))
        for name in ("acc_ts", "acc_tr", "acc_h", "ausuc"):
            low, high = found[f"{name}_95"]
            assert low - 1e-9 <= found[name] <= high + 1e-9
        assert found["samples"] == len(y) == 136
        classes = pd.DataFrame(found["classes"]).set_index("class")
        assert len(classes) == 17
        assert classes["accuracy"].is_monotonic_increasing
        for domain, name in (("seen", "acc_tr"), ("unseen", "acc_ts")):
            assert classes.loc[classes["domain"] == domain, "accuracy"].mean() == pytest.approx(found[name])

    def test_files_and_what_is_printed(self, cosmo, measure):
        found = measure()
        words = ["--worst", "2", "--out", "predictions.csv", "--report", "report.html"]
        out, err = cosmo("evaluate", "model.cosmo", "test.csv", *words)
        assert "model.cosmo on 136 samples" in err
        assert out.splitlines()[-2:] == ["predictions: predictions.csv", "report: report.html"]
        assert out.startswith("Known classes (with training samples): ")
        assert out.splitlines()[: len(found["words"])] == found["words"]
        for name, key in (("(Acc_ts)", "acc_ts"), ("(Acc_tr)", "acc_tr"), ("(AUSUC)", "ausuc")):
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

    def test_baselines(self, cosmo, measure):
        found, model = measure()["baselines"], Model.load("model.cosmo").cosmo
        assert list(found) == ["seen expert alone", "unseen expert alone", "calibrated stacking"]
        X, y = read_features("test.csv", label="fruit")
        experts, table = model.experts_, model.experts_.descriptions
        scores = pd.DataFrame(experts.unseen.scores(X, table), columns=table.index)
        lower = scores.copy()
        lower[experts.seen_classes] -= model.combination_.stacking_
        answers = {
            "seen expert alone": experts.seen_classes[experts.seen.predict(X.to_numpy())],
            "unseen expert alone": scores.idxmax(axis=1),
            "calibrated stacking": lower.idxmax(axis=1),
        }
        for name, guess in answers.items():
            expected = gzsl_scores(y, guess, experts.seen_classes, experts.unseen_classes)
            assert [found[name][key] for key in expected._fields] == pytest.approx(list(expected))
        assert found["unseen expert alone"]["ausuc"] is None
        assert 0.5 < found["calibrated stacking"]["ausuc"] <= 1
        out = cosmo("evaluate", "model.cosmo", "-q").out
        assert re.search(r"seen expert alone +[\d.]+ +0\.0 +0\.0 +- ", out)

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
        assert "Without samples here, and not counted: 13 of the model's 17 classes." in out

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
        out = cosmo("evaluate", "model.cosmo", "one.csv", "-q").out
        assert "no such samples" in out
        assert f"{'New' if known == 'acc_tr' else 'Known'} classes" in out
        assert ": no samples." in out
        assert "Balanced" not in out

    def test_a_class_that_fails_is_named(self, cosmo, measure):
        table = pd.read_csv("test.csv")
        model = Model.load("model.cosmo")
        right = table[model.predict(table) == table["fruit"]]
        wrong = right[right["fruit"] == "plum"].assign(fruit="blueberry")
        pd.concat([right[right["fruit"] != "blueberry"], wrong]).to_csv("mixed.csv", index=False)
        *_, mistake, warning = measure("mixed.csv")["words"]
        count = f"{len(wrong)} of {len(wrong)} samples"
        assert mistake == f"Most frequent mistake: blueberry taken for plum, {count}."
        assert warning.startswith("Warning: 1 of ")
        assert warning.endswith(
            f" classes is below half of the mean accuracy: blueberry 0 % ({len(wrong)} samples)."
        )
        right.to_csv("right.csv", index=False)
        assert not [line for line in measure("right.csv")["words"] if "mistake" in line or "Warning" in line]
        assert cosmo("evaluate", "model.cosmo", "mixed.csv", "-q").out.splitlines()[4] == warning

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
            (["model.cosmo", "descriptions.csv"], "no column 'blue_light' for features"),
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


def test_unknown_samples(cosmo, measure):
    table = pd.read_csv("test.csv")
    features = table.columns.drop("fruit")
    noise = table.head(40).assign(fruit="stone")
    noise[features] = noise[features].to_numpy()[:, ::-1]
    pd.concat([table, noise]).to_csv("more.csv", index=False)
    found = measure("more.csv", "--unknown", "stone")
    assert found["samples"] == len(table)
    assert found["unknown"]["auroc"] > 0.5
    assert sum(found["unknown"]["answers"]["unknown"].values()) == pytest.approx(1)
    printed = cosmo("evaluate", "model.cosmo", "more.csv", "--unknown", "stone", "-q").out
    assert 'unknown ("stone"): AUROC' in printed


def test_steps(cosmo):
    out = cosmo("explain", "model.cosmo", "test.csv", "--row", "3", "130", "--top", "4", "-q").out
    first, second = out.split("row 130")
    assert first.startswith("row 3   (true class: gooseberry)\n")
    assert second.startswith("   (true class: sloe)\n")
    predictions = Model.load("model.cosmo").predict_frame(pd.read_csv("test.csv").iloc[[2, 129]])
    for text, (_, row) in zip((first, second), predictions.iterrows(), strict=True):
        assert f"Prediction: {row['label']} (" in text
        assert f"probability {row['probability']:.3f}" in text
        assert f"p(seen) {row['p_seen']:.3f}" in text
        for word in ("Seen expert: ", "Unseen expert: ", "Gate: "):
            assert word in text
        listing = text.split("domain  expert  result\n")[1].strip().splitlines()
        assert len(listing) == 4
        assert listing[0].split()[0] == row["label"]


def test_steps_of_the_paper(cosmo):
    cosmo("fit", "--method", "paper", "--out", "paper.cosmo", "-q")
    text = cosmo("explain", "paper.cosmo", "test.csv", "--row", "3", "-q").out
    assert "After smoothing: " in text
    assert "domain  expert  smoothed  result\n" in text


def test_labels_that_are_absent_or_unknown(cosmo):
    table = pd.read_csv("test.csv")
    table.drop(columns="fruit").to_csv("bare.csv", index=False)
    assert cosmo("explain", "model.cosmo", "bare.csv", "-q").out.startswith("row 1\n")
    table.assign(fruit="kiwi").to_csv("kiwi.csv", index=False)
    assert "(true class: kiwi)" in cosmo("explain", "model.cosmo", "kiwi.csv", "-q").out


def test_pictures(cosmo, tmp_path):
    words = ["--picture", tmp_path / "walk.png", "--row", "1", "2", "--top", "1"]
    out = cosmo("explain", "model.cosmo", "test.csv", "-q", *words).out
    assert f"picture: {tmp_path / 'walk-2.png'}" in out
    names = {path.name for path in tmp_path.glob("walk*")}
    assert names == {"walk-1.png", "walk-1.svg", "walk-2.png", "walk-2.svg"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--row", "0"], "--row 0: test.csv has rows 1 to 136"),
        (["--row", "137"], "--row 137: test.csv has rows 1 to 136"),
        (["--top", "0"], "--top must be at least 1"),
        (["--label", "kind"], "no column 'kind'"),
    ],
)
def test_errors(words, message, refuse):
    refuse(["explain", "model.cosmo", "test.csv", *words], message)
