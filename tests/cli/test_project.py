"""`cosmo init` and `cosmo check`."""

import json
import sys
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from cosmo.cli import main
from cosmo.io.project import STARTERS, write_starter


@pytest.mark.parametrize("kind", STARTERS)
def test_what_it_writes_can_be_fitted(kind, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["init", "new/place", "--kind", kind]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("wrote new/place/README.md, new/place/cosmo.toml, ")
    named = printed.partition("\n")[0].removeprefix("wrote ").split(", ")
    assert all(Path(name).exists() for name in named)
    for line in ("  cd new/place\n", "  cosmo check ", "  cosmo fit ", "  cosmo evaluate model.cosmo "):
        assert line in printed
    assert main(["check", "new/place"]) == 0


def test_same_files_every_time(tmp_path):
    for name in ("one", "two"):
        assert main(["init", str(tmp_path / name), "-q"]) == 0
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


@pytest.mark.parametrize("kind", STARTERS)
@pytest.mark.parametrize("existing", ["cosmo.toml", "descriptions"])
def test_nothing_is_overwritten(kind, existing, tmp_path, capsys):
    name = existing if existing == "cosmo.toml" else f"descriptions.{'json' if kind == 'text' else 'csv'}"
    (tmp_path / name).write_text("mine")
    assert main(["init", str(tmp_path), "--kind", kind]) == 2
    assert f"{tmp_path / name} exists already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_readme_of_the_folder_is_kept(tmp_path):
    (tmp_path / "README.md").write_text("mine")
    assert main(["init", str(tmp_path), "-q"]) == 0
    assert (tmp_path / "README.md").read_text() == "mine"


@pytest.fixture
def fruit(tmp_path, monkeypatch):
    write_starter("features", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def change(path, **cells):
    """Set cells of the first row of a table."""
    table = pd.read_csv(path)
    for name, value in cells.items():
        table.loc[0, name] = value
    table.to_csv(path, index=False)
    return table


def findings(capsys, *argv, status=0):
    assert main(["check", "-q", "--json", *argv]) == status
    return [(one["level"], one["text"]) for one in json.loads(capsys.readouterr().out)["findings"]]


def test_good_data(fruit, capsys):
    assert main(["check"]) == 0
    output = capsys.readouterr()
    for text in (
        "features: 280 samples, 11 features each, 136 held back",
        "17 classes, 12 attributes",
        "14 seen, 3 unseen",
        "20 to 20 samples",
        "unseen expert eszsl",
        "a model can be trained",
    ):
        assert text in output.out
    assert "warning" not in output.out
    assert "reading samples.csv" in output.err


def test_classes(fruit, capsys):
    table = pd.read_csv("samples.csv")
    few = table[(table["fruit"] != "lime") | (table.index % 4 == 0)]
    few.to_csv("samples.csv", index=False)
    assert main(["check"]) == 0
    out = capsys.readouterr().out
    assert (
        "fewest        lime 5, gooseberry 20, honeydew 20, mirabelle 20, lemon 20 and 9 more (--classes)"
        in out
    )
    assert "unseen        apple, papaya, sloe\n" in out
    assert main(["check", "--classes"]) == 0
    lines = capsys.readouterr().out.split("samples  test\n")[1].splitlines()
    zero = [[name, "0", "8", "unseen"] for name in ("apple", "papaya", "sloe")]
    assert [line.split() for line in lines[:4]] == [*zero, ["lime", "5", "8"]]
    assert {line.split()[0] for line in lines[3:17]} == set(few["fruit"])


def test_quiet_says_findings_only(fruit, capsys):
    assert main(["check", "-q"]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    assert output.out.startswith("note: ")


def test_without_a_project(fruit, capsys):
    argv = ["samples.csv", "--label", "fruit", "--descriptions", "descriptions.csv", "--test", "test.csv"]
    assert main(["check", "-q", "--json", *argv]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["seen_classes"], document["unseen_classes"], document["test_samples"]) == (14, 3, 136)
    assert document["classes"]["plum"] == {"train": 20, "test": 8}
    assert document["classes"]["sloe"] == {"train": 0, "test": 8}


class TestErrors:
    def test_missing_description(self, fruit, capsys):
        change(fruit / "samples.csv", fruit="Gooseberry ")
        level, text = findings(capsys, status=2)[0]
        assert level == "error"
        assert "'Gooseberry ' (did you mean 'gooseberry'?); describe it or correct the label" in text

    def test_no_unseen_class(self, fruit, capsys):
        table = pd.read_csv(fruit / "descriptions.csv")
        table.iloc[:14].to_csv(fruit / "descriptions.csv", index=False)
        found = findings(capsys, status=0)
        assert any(level == "note" and "every described class has samples" in text for level, text in found)

    def test_one_class(self, fruit, capsys):
        pd.read_csv(fruit / "samples.csv").iloc[:20].to_csv(fruit / "samples.csv", index=False)
        assert "only 'gooseberry' has samples" in findings(capsys, status=2)[0][1]

    def test_damaged_pictures(self, tmp_path, capsys):
        for name in ("a", "b"):
            (tmp_path / "p" / name).mkdir(parents=True)
            for k in range(5):
                Image.new("L", (9, 9), 40 * k + ord(name)).save(tmp_path / "p" / name / f"{k}.png")
        (tmp_path / "p" / "b" / "bad.png").write_bytes(b"nothing")
        (tmp_path / "d.csv").write_text("class,x,y\na,0,1\nb,1,0\nc,1,1\n")
        argv = [str(tmp_path / "p"), "--descriptions", str(tmp_path / "d.csv")]
        level, text = findings(capsys, *argv, status=2)[0]
        assert level == "error"
        assert "1 image cannot be read" in text
        assert "bad.png" in text

    def test_sentences_for_an_encoder_of_pictures_alone(self, tmp_path, capsys):
        write_starter("images", tmp_path)
        table = pd.read_csv(tmp_path / "descriptions.csv", index_col=0)
        (tmp_path / "words.json").write_text(json.dumps({name: f"a {name} sign" for name in table.index}))
        found = findings(capsys, str(tmp_path), "--descriptions", str(tmp_path / "words.json"), status=2)
        assert "cannot embed sentences" in found[0][1]

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["no.csv"], "no.csv: no such file"),
            (["samples.csv"], "by --descriptions FILE"),
            (["samples.csv", "--descriptions", "no.csv"], "no.csv: no such file"),
            (["samples.csv", "--descriptions", "descriptions.csv"], "there are no labels"),
            (["--label", "kind"], "no column 'kind' for labels"),
        ],
    )
    def test_one_line(self, argv, said, fruit, capsys):
        assert main(["check", *argv, "-q"]) == 2
        error = capsys.readouterr().err
        assert error.startswith("cosmo check: ")
        assert said in error

    def test_no_project_here(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        assert main(["check"]) == 2
        assert "there is no cosmo.toml here; `cosmo init` writes one" in capsys.readouterr().err


class TestWarnings:
    def test_leak_between_train_and_test(self, fruit, capsys):
        train = pd.read_csv(fruit / "samples.csv")
        test = pd.read_csv(fruit / "test.csv")
        pd.concat([test, train.iloc[[3]]]).to_csv(fruit / "test.csv", index=False)
        (found,) = (text for level, text in findings(capsys) if level == "warning")
        assert "1 test sample also among the training samples, the first is row 137" in found

    def test_one_sample_with_two_labels(self, fruit, capsys):
        train = pd.read_csv(fruit / "samples.csv")
        pd.concat([train, train.iloc[[0]].assign(fruit="lime")]).to_csv(fruit / "samples.csv", index=False)
        (found,) = (text for level, text in findings(capsys) if level == "warning")
        assert "2 samples occur with different labels, such as row 1 as 'gooseberry' and 'lime'" in found

    def test_texts_are_compared_without_spaces_and_capitals(self, tmp_path, capsys):
        write_starter("text", tmp_path)
        with (tmp_path / "test.csv").open("a") as file:
            file.write("WHERE  is my parcel,track_order\n")
        assert any("1 test sample also" in text for _, text in findings(capsys, str(tmp_path)))

    def test_descriptions(self, fruit, capsys):
        table = pd.read_csv(fruit / "descriptions.csv", index_col=0)
        table.loc["sloe"] = 0
        table.loc["papaya"] = table.loc["apple"]
        table.to_csv(fruit / "descriptions.csv")
        found = [text for level, text in findings(capsys) if level == "warning"]
        assert any("descriptions are all zero: 'sloe'" in text for text in found)
        assert any("'apple', 'papaya' have the same description" in text for text in found)

    def test_samples(self, fruit, capsys):
        table = pd.read_csv(fruit / "samples.csv").assign(humidity=1.5)
        table = table.drop(table.index[table["fruit"] == "plum"][1:])
        more = table[table["fruit"] == "lime"]
        table = pd.concat([table, *(more.assign(acid=more["acid"] + k) for k in (1, 2))])
        table.to_csv(fruit / "samples.csv", index=False)
        found = [text for level, text in findings(capsys) if level == "warning"]
        assert any("1 constant feature: 'humidity'" in text for text in found)
        assert any("1 class with fewer than 5 samples: 'plum'" in text for text in found)
        assert any("'lime' has 60 samples, 'plum' 1" in text for text in found)

    def test_test_labels(self, fruit, capsys):
        change(fruit / "test.csv", fruit="kiwi")
        assert any(
            "in the test, 1 class of samples has no description" in text for _, text in findings(capsys)
        )
        table = pd.read_csv(fruit / "test.csv")
        table[table["fruit"] == "plum"].to_csv(fruit / "test.csv", index=False)
        assert any("no samples of unseen classes" in text for _, text in findings(capsys))


def test_suggestion_for_sentences(tmp_path, capsys):
    write_starter("text", tmp_path)
    assert any("expert similarity suits" in text for _, text in findings(capsys, str(tmp_path)))


def test_missing_packages_are_named_before_training(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_starter("text", tmp_path)
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    (text,) = [text for level, text in findings(capsys, status=2) if level == "error"]
    assert text.startswith("sentence_transformers is not installed: pip install 'torch>=")
