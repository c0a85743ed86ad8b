"""`cosmo explain`."""

import pandas as pd
import pytest

from cosmo.io.model import Model

pytestmark = pytest.mark.usefixtures("project")


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
