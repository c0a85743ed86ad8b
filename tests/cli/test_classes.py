"""`cosmo classes`."""

import json
from pathlib import Path

import pandas as pd
import pytest

from cosmo._core import files
from cosmo.io.model import Model

pytestmark = pytest.mark.usefixtures("project")


def unseen_classes(path="model.cosmo"):
    return list(Model.load(path).cosmo.unseen_classes_)


def test_list(cosmo):
    rows = [line.split() for line in cosmo("classes", "list", "model.cosmo").out.splitlines()]
    seen = Model.load("model.cosmo").classes["seen"]
    assert rows == [[name, "seen" if is_seen else "unseen"] for name, is_seen in seen.items()]
    rows = json.loads(cosmo("classes", "list", "model.cosmo", "--json").out)
    assert len(rows) == 17
    assert rows[0] == {"class": "gooseberry", "seen": True}


class TestAdd:
    def test_in_place(self, cosmo):
        out = cosmo("classes", "add", "model.cosmo", "--descriptions", "more.csv").out
        assert out.splitlines() == [
            "unseen classes added: jackfruit",
            "14 seen and 4 unseen classes in model.cosmo",
        ]
        assert "jackfruit" in unseen_classes()

    def test_another_file_from_descriptions_of_all_classes(self, cosmo):
        before = Path("model.cosmo").read_bytes()
        old, new = pd.read_csv("descriptions.csv"), pd.read_csv("more.csv")
        pd.concat([old, new.rename(columns={"class": "fruit"})]).to_csv("all.csv", index=False)
        words = ["--descriptions", "all.csv", "--out", "larger.cosmo", "-q"]
        assert "added: jackfruit\n" in cosmo("classes", "add", "model.cosmo", *words).out
        assert Path("model.cosmo").read_bytes() == before
        assert len(Model.load("larger.cosmo").classes) == 18

    def test_interrupt_leaves_the_old_model(self, cosmo, monkeypatch):
        before = Path("model.cosmo").read_bytes()

        def interrupted(*_args):
            raise KeyboardInterrupt

        monkeypatch.setattr(files.os, "replace", interrupted)
        cosmo("classes", "add", "model.cosmo", "--descriptions", "more.csv", "-q", status=130)
        assert Path("model.cosmo").read_bytes() == before
        assert [path.name for path in Path().glob("*.cosmo*")] == ["model.cosmo"]


class TestPromote:
    def test_all_unseen_classes_of_the_file(self, cosmo):
        out = cosmo("classes", "promote", "model.cosmo", "new.csv", "--out", "p.cosmo", "-q").out
        assert out.splitlines() == [
            "classes promoted: apple (8 samples), sloe (8 samples)",
            "16 seen and 1 unseen classes in p.cosmo",
        ]
        assert unseen_classes("p.cosmo") == ["papaya"]
        assert Model.load("p.cosmo").card()["promoted"] == ["apple", "sloe"]

    def test_one_class(self, cosmo):
        cosmo("classes", "promote", "model.cosmo", "new.csv", "--class", "sloe", "-q")
        assert unseen_classes() == ["apple", "papaya"]
        table = pd.read_csv("new.csv")
        table[table["fruit"] == "apple"].drop(columns="fruit").to_csv("apples.csv", index=False)
        cosmo("classes", "promote", "model.cosmo", "apples.csv", "--class", "apple", "-q")
        assert unseen_classes() == ["papaya"]

    def test_an_expert_that_is_trained_again(self, cosmo, refuse):
        cosmo("fit", "-q", "--seen", "lda")
        words = ["classes", "promote", "model.cosmo", "new.csv", "-q"]
        refuse(words, "LinearDiscriminantAnalysis must be trained again: give the training samples by")
        cosmo(*words, "--training", "samples.csv")
        assert unseen_classes() == ["papaya"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["add"], "give either --descriptions FILE or --class NAME"),
        (["add", "--class", "a", "--description", "b", "--descriptions", "more.csv"], "give either"),
        (["add", "--class", "a", "--class", "b", "--description", "c"], "2 --class but 1 --description"),
        (["add", "--class", "kiwi", "--description", "green"], "are described by 12 numbers"),
        (["add", "--descriptions", "descriptions.csv"], "has all of these classes already"),
        (["add", "--descriptions", "samples.csv"], "samples.csv"),
        (["promote", "samples.csv"], "no samples of the unseen classes, which are apple, papaya, sloe"),
        (["promote", "new.csv", "--class", "papaya"], "new.csv has no samples of 'papaya'"),
        (["promote", "new.csv", "--class", "kiwi"], "has no class 'kiwi'; add it first"),
        (["promote", "new.csv", "--class", "plum"], "'plum' is a seen class already"),
        (["promote", "no.csv"], "no.csv: no such file"),
        (["promote", "bare.csv"], "bare.csv: there are no labels"),
    ],
)
def test_errors(words, message, refuse):
    pd.read_csv("new.csv").drop(columns="fruit").to_csv("bare.csv", index=False)
    before = Path("model.cosmo").read_bytes()
    refuse(["classes", words[0], "model.cosmo", *words[1:], "-q"], message)
    assert Path("model.cosmo").read_bytes() == before
