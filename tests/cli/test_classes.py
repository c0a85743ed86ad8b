"""`cosmo classes`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

import cosmo._core.files
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
        table = pd.read_csv("test.csv")
        table[table["fruit"].isin(["apple", "sloe", "plum"])].to_csv("new.csv", index=False)
        more = pd.read_csv("descriptions.csv", index_col=0).iloc[:1].set_axis(["jackfruit"])
        more.rename_axis("class").assign(**{"taste::sour": 1}).to_csv("more.csv")
    return folder


@pytest.fixture(autouse=True)
def place(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(trained, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


class TestList:
    def test_text(self, capsys: pytest.CaptureFixture[str]):
        assert main(["classes", "list", "model.cosmo"]) == 0
        rows = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert rows == [[name, "seen" if seen else "unseen"]
                        for name, seen in Model.load("model.cosmo").classes["seen"].items()]  # fmt: skip

    def test_json(self, capsys: pytest.CaptureFixture[str]):
        assert main(["classes", "list", "model.cosmo", "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)
        assert len(rows) == 17
        assert rows[0] == {"class": "gooseberry", "seen": True}


class TestAdd:
    def test_in_place(self, capsys: pytest.CaptureFixture[str]):
        assert main(["classes", "add", "model.cosmo", "--descriptions", "more.csv"]) == 0
        assert capsys.readouterr().out.splitlines() == [
            "unseen classes added: jackfruit",
            "14 seen and 4 unseen classes in model.cosmo",
        ]
        assert not Model.load("model.cosmo").classes.loc["jackfruit", "seen"]

    def test_elsewhere(self):
        before = Path("model.cosmo").read_bytes()
        argv = ["--descriptions", "more.csv", "--out", "larger.cosmo", "-q"]
        assert main(["classes", "add", "model.cosmo", *argv]) == 0
        assert Path("model.cosmo").read_bytes() == before
        assert len(Model.load("larger.cosmo").classes) == 18

    def test_a_file_of_all_classes_adds_the_new_ones(self, capsys: pytest.CaptureFixture[str]):
        old, new = pd.read_csv("descriptions.csv"), pd.read_csv("more.csv")
        pd.concat([old, new.rename(columns={"class": "fruit"})]).to_csv("all.csv", index=False)
        assert main(["classes", "add", "model.cosmo", "--descriptions", "all.csv", "-q"]) == 0
        assert "added: jackfruit\n" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            ([], "give either --descriptions FILE, or --class NAME"),
            (["--class", "a", "--description", "b", "--descriptions", "more.csv"], "give either"),
            (["--class", "a", "--class", "b", "--description", "c"], "2 --class but 1 --description"),
            (["--class", "kiwi", "--description", "green"], "are described by 12 numbers"),
            (["--descriptions", "descriptions.csv"], "knows all of these classes already"),
            (["--descriptions", "samples.csv"], "samples.csv"),
        ],
    )
    def test_errors(self, argv: list[str], said: str, capsys: pytest.CaptureFixture[str]):
        before = Path("model.cosmo").read_bytes()
        assert main(["classes", "add", "model.cosmo", *argv, "-q"]) == 2
        assert said in capsys.readouterr().err
        assert Path("model.cosmo").read_bytes() == before

    def test_whole_or_not_at_all(self, place: Path, monkeypatch: pytest.MonkeyPatch):
        before = Path("model.cosmo").read_bytes()

        def interrupted(*_args: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(cosmo._core.files.os, "replace", interrupted)
        assert main(["classes", "add", "model.cosmo", "--descriptions", "more.csv", "-q"]) == 130
        assert Path("model.cosmo").read_bytes() == before
        assert {path.name for path in place.glob("*.cosmo*")} == {"model.cosmo"}


class TestPromote:
    def test_all_unseen_classes_of_the_file(self, capsys: pytest.CaptureFixture[str]):
        assert main(["classes", "promote", "model.cosmo", "new.csv", "--out", "p.cosmo", "-q"]) == 0
        assert capsys.readouterr().out.splitlines() == [
            "classes that are seen now: apple (8 samples), sloe (8 samples)",
            "16 seen and 1 unseen classes in p.cosmo",
        ]
        model = Model.load("p.cosmo")
        assert list(model.cosmo.unseen_classes_) == ["papaya"]
        assert model.card()["promoted"] == ["apple", "sloe"]

    def test_one_class(self):
        assert main(["classes", "promote", "model.cosmo", "new.csv", "--class", "sloe", "-q"]) == 0
        assert list(Model.load("model.cosmo").cosmo.unseen_classes_) == ["apple", "papaya"]

    def test_samples_without_labels(self):
        table = pd.read_csv("new.csv")
        table[table["fruit"] == "sloe"].drop(columns="fruit").to_csv("sloes.csv", index=False)
        assert main(["classes", "promote", "model.cosmo", "sloes.csv", "--class", "sloe", "-q"]) == 0
        assert "sloe" in Model.load("model.cosmo").cosmo.seen_classes_

    def test_an_expert_that_is_fitted_anew(self, capsys: pytest.CaptureFixture[str]):
        assert main(["fit", "-q", "--seen", "lda"]) == 0
        argv = ["classes", "promote", "model.cosmo", "new.csv", "-q"]
        assert main(argv) == 2
        assert "LinearDiscriminantAnalysis must be fitted again: give --training" in capsys.readouterr().err
        assert main([*argv, "--training", "samples.csv"]) == 0
        assert list(Model.load("model.cosmo").cosmo.unseen_classes_) == ["papaya"]

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["samples.csv"], "no samples of the unseen classes, which are apple, papaya, sloe"),
            (["new.csv", "--class", "papaya"], "new.csv has no samples of 'papaya'"),
            (["new.csv", "--class", "kiwi"], "has no class 'kiwi'; add it first"),
            (["new.csv", "--class", "plum"], "'plum' is a seen class already"),
            (["no.csv"], "no.csv: no such file"),
        ],
    )
    def test_errors(self, argv: list[str], said: str, capsys: pytest.CaptureFixture[str]):
        before = Path("model.cosmo").read_bytes()
        assert main(["classes", "promote", "model.cosmo", *argv, "-q"]) == 2
        assert said in capsys.readouterr().err
        assert Path("model.cosmo").read_bytes() == before

    def test_no_labels_and_no_class(self, capsys: pytest.CaptureFixture[str]):
        pd.read_csv("new.csv").drop(columns="fruit").to_csv("bare.csv", index=False)
        assert main(["classes", "promote", "model.cosmo", "bare.csv", "-q"]) == 2
        assert "bare.csv: there are no labels" in capsys.readouterr().err


def test_a_new_intent_by_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("sentence_transformers")
    folder = tmp_path / "shop"
    write_starter("text", folder)
    model = str(folder / "model.cosmo")
    cache = ["--cache", str(tmp_path / "cache"), "-q"]
    assert main(["fit", str(folder), "--out", model, *cache]) == 0
    argv = ["--class", "gift_card", "--description", "The customer asks about vouchers and gift cards."]
    assert main(["classes", "add", model, *argv, "-q"]) == 0
    assert main(["classes", "list", model]) == 0
    assert "gift_card        unseen  The customer asks about vouchers" in capsys.readouterr().out
    (folder / "new.csv").write_text("text\ni want to buy a voucher for my aunt\n")
    assert main(["explain", model, str(folder / "new.csv"), *cache]) == 0
    said = capsys.readouterr().out
    assert said.startswith("row 1: i want to buy a voucher for my aunt\n")
    assert "Answer: gift_card (unseen class)" in said
