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


class TestLearn:
    def test_all_classes_of_the_file(self, cosmo):
        out = cosmo("classes", "learn", "model.cosmo", "new.csv", "--out", "p.cosmo", "-q").out
        assert out.splitlines() == [
            "learned: plum (8 samples), apple (8 samples, now seen), sloe (8 samples, now seen)",
            "16 seen and 1 unseen classes in p.cosmo",
        ]
        assert unseen_classes("p.cosmo") == ["papaya"]
        assert Model.load("p.cosmo").card()["learned"] == {"plum": 8, "apple": 8, "sloe": 8}
        assert "learned" in cosmo("show", "p.cosmo").out

    def test_more_samples_of_seen_classes(self, cosmo):
        cosmo("classes", "learn", "model.cosmo", "new.csv", "-q")
        table = pd.concat([pd.read_csv("new.csv").iloc[:3], pd.read_csv("samples.csv").iloc[:2]])
        table.to_csv("mixed.csv", index=False)
        counts = table["fruit"].value_counts(sort=False)
        out = cosmo("classes", "learn", "model.cosmo", "mixed.csv", "-q").out
        listed = ", ".join(f"{name} ({n} samples)" for name, n in counts.items())
        assert out.splitlines()[0] == f"learned: {listed}"
        assert unseen_classes() == ["papaya"]

    def test_one_class(self, cosmo):
        cosmo("classes", "learn", "model.cosmo", "new.csv", "--class", "sloe", "-q")
        assert unseen_classes() == ["apple", "papaya"]
        table = pd.read_csv("new.csv")
        table[table["fruit"] == "apple"].drop(columns="fruit").to_csv("apples.csv", index=False)
        cosmo("classes", "learn", "model.cosmo", "apples.csv", "--class", "apple", "-q")
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
        (["learn", "new.csv", "--class", "papaya"], "new.csv has no samples of 'papaya'"),
        (["learn", "new.csv", "--class", "kiwi"], "has no class 'kiwi'; add it first"),
        (["learn", "more-labels.csv"], "no class 'okapi', 'kiwi'; add it first by its description: cosmo"),
        (["learn", "no.csv"], "no.csv: no such file"),
        (["learn", "bare.csv"], "bare.csv: there are no labels"),
    ],
)
def test_errors(words, message, refuse):
    table = pd.read_csv("new.csv")
    table.drop(columns="fruit").to_csv("bare.csv", index=False)
    other = table["fruit"].replace({"apple": "okapi", "sloe": "kiwi"})
    table.assign(fruit=other).to_csv("more-labels.csv", index=False)
    before = Path("model.cosmo").read_bytes()
    refuse(["classes", words[0], "model.cosmo", *words[1:], "-q"], message)
    assert Path("model.cosmo").read_bytes() == before
