"""`cosmo fit`."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cosmo.data import load_glyphs, write_glyph_images
from cosmo.io.model import Model
from cosmo.io.onnx_file import export_onnx
from cosmo.metrics.accuracy import gzsl_scores


@pytest.mark.usefixtures("project")
class TestFeatures:
    def test_what_is_printed_and_written(self, cosmo):
        out, err = cosmo("fit", "--out", "new.cosmo")
        cosmo("fit", "-q", "--out", "again.cosmo")
        assert Path("new.cosmo").read_bytes() == Path("again.cosmo").read_bytes()  # same seed, same bytes
        card = Model.load("new.cosmo").card()
        expected, validation = card["expected, 90 %"], card["validation"]
        words = " ".join(out.split())
        assert "seen classes 14 unseen classes 3" in words
        assert re.search(r"unseen expert \w+ transform \w+ chosen ", words)
        assert re.search(r"operating point share of unseen samples 0\.\d+ ", words)
        for name, key in (("(Acc_ts)", "acc_ts"), ("(Acc_tr)", "acc_tr"), ("(Acc_H)", "acc_h")):
            one = {part: 100 * value for part, value in expected[key].items()}
            assert f"{name} {one['mean']:.1f} ({one['low']:.0f} to {one['high']:.0f})" in words
        assert f"AUSUC on held-out samples {100 * validation['ausuc']:.1f}" in words
        for step in (
            "reading samples.csv",
            "chosen: transform ",
            "hold-out round 1 of",
            "wrote new.cosmo",
        ):
            assert step in err

    def test_the_method_of_the_paper(self, cosmo):
        out, err = cosmo("fit", "--method", "paper", "--gate", "max-softmax", "--out", "paper.cosmo")
        validation = Model.load("paper.cosmo").card()["validation"]
        words = " ".join(out.split())
        assert re.search(r"operating point threshold -?[\d.]+, softness ", words)
        assert f"new classes (Acc_ts) {100 * validation['acc_ts']:.1f}" in words
        assert "validation stage" in err

    def test_another_seed_from_another_folder(self, cosmo, project, tmp_path):
        assert cosmo("fit", project, "-q", "--out", "other.cosmo", "--seed", "1", folder=tmp_path).err == ""
        assert (tmp_path / "other.cosmo").read_bytes() != Path("model.cosmo").read_bytes()

    def test_options_override_the_file(self, cosmo):
        words = ["--unseen", "dap", "--seen", "lda", "--features", "sugar", "acid"]
        cosmo("fit", "-q", *words)
        model = Model.load("model.cosmo")
        assert type(model.cosmo.experts_.unseen).__name__ == "DAP"
        assert type(model.cosmo.experts_.seen).__name__ == "LinearDiscriminantAnalysis"
        assert model.feature_names == ["sugar", "acid"]

    def test_without_a_project(self, cosmo):
        words = ["samples.csv", "--label", "fruit", "--descriptions", "descriptions.csv", "--features", "g*"]
        cosmo("fit", *words, "-q", "--out", "plain.cosmo")
        assert Model.load("plain.cosmo").feature_names == ["green_light", "gloss"]

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--out", "no/model.cosmo"], "--out no/model.cosmo: there is no such folder"),
            (["--out", "."], "--out .: a folder; name a file"),
            (["--unseen", "similarity"], "one encoder must make both"),
            (["--unseen", "magic"], "unknown unseen expert 'magic'"),
            (["--gate", "evidence"], "needs the paper's method"),
            (["--features", "mass"], "no column 'mass' for features"),
            (["--encoder", "minilm"], "feature rows, which encoder 'minilm' cannot read"),
        ],
    )
    def test_errors(self, words, message, project, refuse):
        Path("model.cosmo").unlink()
        refuse(["fit", "-q", *words], message)
        assert not list(project.glob("**/*.cosmo"))


@pytest.mark.usefixtures("project")
def test_classes_are_described_after_the_training(cosmo, refuse):
    """The samples of some fruit only, then the descriptions of the others."""
    table, seen = pd.read_csv("descriptions.csv", index_col=0), pd.read_csv("samples.csv")["fruit"].unique()
    table.loc[seen].to_csv("known.csv")
    table.drop(seen).to_csv("later.csv")
    words = ["samples.csv", "--label", "fruit", "--descriptions", "known.csv"]
    out, _ = cosmo("check", *words)
    assert "note: every described class has samples: `cosmo classes add`" in out
    cosmo("fit", *words, "-q", "--out", "known.cosmo")
    out, _ = cosmo("explain", "known.cosmo", "test.csv")
    assert "Unseen expert" not in out
    refuse(
        ["evaluate", "known.cosmo", "samples.csv", "--report", "r.html", "-q"],
        "of one kind: see `cosmo classes`",
    )
    cosmo("classes", "add", "known.cosmo", "--descriptions", "later.csv")
    found = json.loads(cosmo("evaluate", "known.cosmo", "test.csv", "--json", "-q").out)
    assert min(found["acc_ts"], found["acc_tr"]) > 0.8


def test_arrays(cosmo, tmp_path):
    data = load_glyphs(n_classes=24, samples_per_class=8)
    train = data.split.trainval
    np.savez(tmp_path / "s.npz", X=data.features[train, ::6], y=data.codes[train])
    table = data.descriptions.set_axis(range(24)).droplevel(0, axis=1)
    table.rename_axis("class").to_csv(tmp_path / "d.csv")
    cosmo("fit", "s.npz", "--descriptions", "d.csv", "-q", folder=tmp_path)
    assert Model.load(tmp_path / "model.cosmo").classes.index.dtype.kind == "i"


def test_texts(cosmo, tmp_path):
    pytest.importorskip("sentence_transformers")
    cosmo("init", tmp_path, "--kind", "text", "-q")
    cosmo("fit", folder=tmp_path)
    model = Model.load(tmp_path / "model.cosmo")
    assert any("SimilarityExpert" in row for row in model.card()["compared"])
    assert model.summary["columns"] == {"label": "intent", "text": "text"}
    texts = ["where is my parcel", "i would like my money back"]
    words = ["predict", "model.cosmo", "--text", texts[0], "--text", texts[1], "-q"]
    lines = cosmo(*words, folder=tmp_path).out.splitlines()
    assert [line.split(",")[:2] for line in lines[1:]] == np.transpose([texts, model.predict(texts)]).tolist()
    assert model.predict(texts).tolist() == ["track_order", "return_item"]
    # The nearest description is that of its sentence.
    table, rows = (
        pd.read_csv(tmp_path / "test.csv"),
        model.encoder.encode(pd.read_csv(tmp_path / "test.csv")["text"]),
    )
    nearest = model.classes.index[
        (rows @ model.encoder.encode(model.classes["description"]).T).argmax(axis=1)
    ]
    expected = gzsl_scores(table["intent"], nearest, model.cosmo.seen_classes_, model.cosmo.unseen_classes_)
    found = json.loads(cosmo("evaluate", "model.cosmo", "--json", "-q", folder=tmp_path).out)["baselines"]
    assert found["nearest description"]["acc_h"] == pytest.approx(expected.acc_h)


def test_without_samples(cosmo, refuse, tmp_path):
    pytest.importorskip("sentence_transformers")
    sentences = {
        "parcel": ["asks where a parcel is", "asks when an order arrives"],
        "refund": "wants money back",
        "hours": "asks when the shop is open",
    }
    (tmp_path / "intents.json").write_text(json.dumps(sentences))
    refuse(["fit", "--zero-shot"], "--zero-shot needs --descriptions FILE", folder=tmp_path)
    out, _ = cosmo("fit", "--zero-shot", "--descriptions", "intents.json", folder=tmp_path)
    assert out == "3 classes by their descriptions; nothing was trained\n"
    words = ["classes", "add", "model.cosmo", "--class", "gift", "--description", "asks about gift cards"]
    cosmo(*words, folder=tmp_path)
    texts = ["where is my order", "give me my money back", "is your shop open today", "do you sell vouchers"]
    asked = [word for text in texts for word in ("--text", text)]
    lines = cosmo("predict", "model.cosmo", *asked, "--why", folder=tmp_path).out.splitlines()[1:]
    assert [line.split(",")[1] for line in lines] == ["parcel", "refund", "hours", "gift"]
    model = Model.load(tmp_path / "model.cosmo")
    proba = model.cosmo.predict_proba(model.encode(texts))
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert (proba.argmax(axis=1) == np.arange(4)).all()
    table = model.cosmo.experts_.descriptions.to_numpy()
    cosines = model.encode(texts) @ (table / np.linalg.norm(table, axis=1, keepdims=True)).T
    np.testing.assert_allclose(np.log(proba[:, :1] / proba), (cosines[:, :1] - cosines) / 0.04, atol=1e-3)
    pd.DataFrame({"text": texts, "label": model.predict(texts)}).to_csv(tmp_path / "test.csv", index=False)
    found = json.loads(cosmo("evaluate", "model.cosmo", "test.csv", "--json", "-q", folder=tmp_path).out)
    assert (found["acc_ts"], found["acc_tr"]) == (1, None)
    refuse(
        ["evaluate", "model.cosmo", "test.csv", "--report", "r.html", "-q"], "of one kind", folder=tmp_path
    )
    assert "all classes by description" in cosmo("show", "model.cosmo", folder=tmp_path).out
    learn = ["classes", "learn", "model.cosmo", "test.csv", "--class"]
    for name, seen in (("gift", "1 seen and 3 unseen"), ("hours", "2 seen and 2 unseen")):
        out, _ = cosmo(*learn, name, folder=tmp_path)
        assert out.splitlines() == [
            f"learned: {name} (1 sample, now seen)", f"{seen} classes in model.cosmo"
        ]  # fmt: skip
    assert "share of unseen samples 0.5" in cosmo("show", "model.cosmo", folder=tmp_path).out
    grown = Model.load(tmp_path / "model.cosmo")
    assert (grown.predict(texts) == model.predict(texts)).all()
    assert grown.cosmo.predict_proba(model.encode(texts))[3, 3] > proba[3, 3]
    with pytest.raises(ValueError, match="no accuracy can be expected"):
        grown.cosmo.expected_scores()
    with pytest.raises(ValueError, match="no share can be estimated"):
        grown.cosmo.operate_at(samples=grown.encode(texts))


@pytest.mark.parametrize("words", [[], ["--zero-shot"]])
def test_best_of_several_sentences(words, cosmo, refuse, tmp_path):
    """A class of two topics is recognised by the sentence on the topic of a text."""
    pytest.importorskip("sentence_transformers")
    cosmo("init", tmp_path, "--kind", "text")
    sentences = json.loads((tmp_path / "descriptions.json").read_text())
    sentences["speak_to_human"] = ["wants to talk to a person", "asks about jobs and applications"]
    (tmp_path / "descriptions.json").write_text(json.dumps(sentences))
    words = ["fit", *words, "--descriptions", "descriptions.json", "-q", "--unseen"]
    cosmo(*words, "similarity:prompts=best", folder=tmp_path)
    model = Model.load(tmp_path / "model.cosmo")
    assert model.cosmo.experts_.descriptions.shape[1] == 2 * model.cosmo.n_features_in_
    texts = ["is there a vacancy in your team", "let me talk to someone"]
    assert (model.predict(texts) == "speak_to_human").all()
    with pytest.raises(ValueError, match="cannot be exported"):
        export_onnx(model, tmp_path / "m.onnx")
    model.add_classes({"gift": "asks about gift cards", "shop": ["asks for the way", "wants to park a car"]})
    assert model.predict(["where can i park my car", "do you sell gift cards"]).tolist() == ["shop", "gift"]
    assert model.learn(["a parking lot"], ["shop"]).predict(["is there a parking lot"])[0] == "shop"
    with pytest.raises(ValueError, match="a class has 3 sentences; the model compares 2 at most"):
        model.add_classes({"three": ["one", "two", "three"]})
    if "--zero-shot" in words:
        refuse([*words, "eszsl"], "without samples, the unseen expert is similarity", folder=tmp_path)


def test_folders_of_pictures(cosmo, tmp_path):
    pytest.importorskip("efficientnet_lite_pytorch")
    write_glyph_images(tmp_path, n_classes=12, samples_per_class=4)
    folder = min((tmp_path / "train").iterdir())
    (folder / "broken.png").write_bytes(b"\x89PNG")
    words = ["fit", "train", "--descriptions", "descriptions.csv"]
    assert "broken.png: not an image" in cosmo(*words, "-q", folder=tmp_path, status=2).err
    assert not (tmp_path / "model.cosmo").exists()
    assert "broken.png" in cosmo(*words, "--skip", folder=tmp_path).err
    model = Model.load(tmp_path / "model.cosmo")
    assert (model.summary["kind"], model.encoder_name) == ("images", "efficientnet-lite0")
    assert model.summary["samples"] == len(list((tmp_path / "train").glob("*/*.png"))) - 1
