"""The studio's forms for texts, pictures and classes in words, by clicks and keys."""

import pytest
from chromium import number, settled, until
from test_studio import studio

pytest.importorskip("sentence_transformers")
pytest.importorskip("efficientnet_lite_pytorch")

import cosmo
from cosmo.cli import main
from cosmo.data import read_descriptions, read_image_folder
from cosmo.io.project import write_starter


def classified(page):
    """Return the prediction shown, and its probability in percent."""
    until(page, "!document.querySelector('#panel-try .sample').hidden")
    settled(page)
    head = page.locator("#panel-try .sample")
    return head.locator("strong").text_content(), number(head.locator("dd").nth(1).text_content())


def test_texts(visitor, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--kind", "text", "-q"]) == main(["fit", "-q"]) == 0
    model = cosmo.Model.load("model.cosmo")
    with studio(tmp_path, "model.cosmo", ".") as address:
        page = visitor.open(address)
        assert page.get_by_role("tab", name="Answers").get_attribute("aria-selected") == "true"
        page.get_by_role("tab", name="Try it").click()
        for text in ("where is my parcel", "can i speak to somebody"):
            page.get_by_label("a text").fill(text)
            page.get_by_role("button", name="Classify").click()
            page.get_by_text(text, exact=True).last.wait_for()
            label, probability = model.predict_frame([text], top=1).iloc[0][["label", "probability"]]
            assert classified(page) == (label, pytest.approx(100 * probability, abs=0.06))
        page.get_by_role("tab", name="Add a class").click()
        page.get_by_label("name of the class").fill("gift_card")
        page.get_by_label("description").fill("The customer asks about gift cards.")
        page.get_by_role("button", name="Preview").click()
        page.get_by_role("button", name="Add the class").click()
        page.get_by_text('"gift_card" is added to the running model.').wait_for()
        page.get_by_role("tab", name="Try it").click()
        page.get_by_label("a text").fill("i want to buy a gift card")
        page.get_by_role("button", name="Classify").click()
        assert classified(page)[0] == "gift_card"


def test_pictures(visitor, tmp_path):
    write_starter("images", tmp_path)
    paths, labels = read_image_folder(tmp_path / "train")
    table = read_descriptions(tmp_path / "descriptions.csv").head(20)  # the first eight have no picture
    rows = [i for i, label in enumerate(labels) if label in table.index and i % 8 < 5]
    model = cosmo.fit_model(
        [paths[i] for i in rows], labels[rows], table, encoder="efficientnet-lite0", unseen=cosmo.ESZSL(1, 1)
    )
    model.save(tmp_path / "model.cosmo")
    picture = tmp_path / "test" / labels[rows[0]] / "0.jpg"
    label, probability = model.predict_frame([picture], top=1).iloc[0][["label", "probability"]]
    with studio(tmp_path, "model.cosmo") as address:
        page = visitor.open(address)
        page.get_by_role("tab", name="Try it").click()
        page.locator("#panel-try input[type=file]").set_input_files(tmp_path / "cosmo.toml")
        page.get_by_text("is not a PNG, JPEG or WebP image").wait_for()
        page.locator("#panel-try input[type=file]").set_input_files(picture)
        assert classified(page) == (label, pytest.approx(100 * probability, abs=0.06))
        assert page.locator("#panel-try img.upload").evaluate("image => image.naturalWidth") == 80
