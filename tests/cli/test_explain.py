"""`cosmo explain`."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from cosmo.cli import main
from cosmo.data.starters import write_starter
from cosmo.io.model import Model


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


def test_walk(capsys: pytest.CaptureFixture[str]):
    assert main(["explain", "model.cosmo", "test.csv", "--row", "3", "130", "--top", "4", "-q"]) == 0
    first, second = capsys.readouterr().out.split("row 130")
    assert first.startswith("row 3   (true class: gooseberry)\n")
    assert second.startswith("   (true class: sloe)\n")
    told = Model.load("model.cosmo").predict_frame(pd.read_csv("test.csv").iloc[[2, 129]])
    for text, (_, row) in zip((first, second), told.iterrows(), strict=True):
        assert f"Answer: {row['label']} (" in text
        assert f"probability {row['probability']:.3f}" in text
        assert f"p(seen) {row['p_seen']:.3f}" in text
        for word in ("The seen expert says", "The unseen expert says", "Smoothed"):
            assert word in text
        listing = text.split("domain  expert  smoothed  result\n")[1].strip().splitlines()
        assert len(listing) == 4
        assert listing[0].split()[0] == row["label"]


def test_labels_are_not_needed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pd.read_csv("test.csv").drop(columns="fruit").to_csv(tmp_path / "new.csv", index=False)
    assert main(["explain", "model.cosmo", str(tmp_path / "new.csv"), "-q"]) == 0
    assert capsys.readouterr().out.startswith("row 1\n")


def test_a_label_that_the_model_does_not_know(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pd.read_csv("test.csv").assign(fruit="kiwi").to_csv(tmp_path / "kiwi.csv", index=False)
    argv = [str(tmp_path / "kiwi.csv"), "--picture", str(tmp_path / "walk")]
    assert main(["explain", "model.cosmo", *argv, "-q"]) == 0
    assert "(true class: kiwi)" in capsys.readouterr().out
    assert (tmp_path / "walk.png").stat().st_size > 10_000


def test_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    argv = ["--picture", str(tmp_path / "walk.png"), "--row", "1", "2", "--top", "1"]
    assert main(["explain", "model.cosmo", "test.csv", "-q", *argv]) == 0
    assert f"picture: {tmp_path / 'walk-2.png'}" in capsys.readouterr().out
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"walk-1.png", "walk-1.svg", "walk-2.png", "walk-2.svg"}


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--row", "0"], "--row 0: test.csv has rows 1 to 136"),
        (["--row", "137"], "--row 137: test.csv has rows 1 to 136"),
        (["--top", "0"], "--top must be at least 1"),
        (["--label", "kind"], "no column 'kind'"),
    ],
)
def test_errors(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]):
    assert main(["explain", "model.cosmo", "test.csv", *argv]) == 2
    assert said in capsys.readouterr().err
