"""Project files: keys, samples, held-out test samples, training."""

import tomllib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from cosmo.data import DataError
from cosmo.io.project import STARTERS, Project, read_project, write_starter


@pytest.fixture
def fruit(tmp_path):
    write_starter("features", tmp_path)
    return tmp_path


def toml(folder, text):
    path = folder / "cosmo.toml"
    path.write_text('samples = "samples.csv"\ndescriptions = "descriptions.csv"\n' + text)
    return path


class TestFile:
    @pytest.mark.parametrize("kind", STARTERS)
    def test_starters_can_be_read(self, kind, tmp_path):
        write_starter(kind, tmp_path)
        data = read_project(tmp_path / "cosmo.toml").load()
        assert data.kind == kind
        unseen = data.descriptions.index.difference(data.train.labels)
        assert len(unseen) >= 2
        assert set(data.test.labels) == set(data.descriptions.index)

    @pytest.mark.parametrize("kind", STARTERS)
    def test_commented_lines_of_starters_are_keys(self, kind, tmp_path):
        write_starter(kind, tmp_path)
        path = tmp_path / "cosmo.toml"
        lines = [line.removeprefix("# ") for line in path.read_text().splitlines()[2:]]
        path.write_text("\n".join(line for line in lines if not line.startswith("test =")))
        project = read_project(path)
        entries = tomllib.loads(path.read_text())
        assert len(entries) >= 8
        assert (project.test_share, project.seed) == (0.2, 0)

    def test_paths_are_relative_to_the_file(self, fruit, monkeypatch):
        monkeypatch.chdir("/")
        project = read_project(fruit / "cosmo.toml")
        assert project.samples == fruit / "samples.csv"
        assert len(project.load().train) == 280

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("lable = 'fruit'", "unknown key 'lable'; did you mean 'label'?"),
            ("xyzzy = 1", "unknown key 'xyzzy'; known are samples, descriptions"),
            ("seed = '1'", "seed must be a whole number, got '1'"),
            ("seed = true", "seed must be a whole number"),
            ("label = 3", "label must be text in quotes, got 3"),
            ("hold_back = 'plum'", "hold_back must be a list of classes"),
            ("features = [1]", "features must be a list of columns"),
            ("kind = 'sound'", "kind must be one of features, text, images, got 'sound'"),
            ("gate = 'iron'", "unknown gate 'iron'"),
            ("unseen = 'lago:speed=3'", "lago has no parameter 'speed'"),
            ("seen = 'eszsl'", "unknown seen expert 'eszsl'"),
            ("test_share = 1.5", "test_share is a share"),
            ("test = 'a.csv'\ntest_share = 0.5", "not both"),
            ("label = ", "not a TOML file"),
        ],
    )
    def test_mistakes_are_named(self, text, message, tmp_path):
        path = toml(tmp_path, text)
        with pytest.raises(DataError) as error:
            read_project(path)
        assert str(error.value).startswith(f"{path}: ")
        assert message in str(error.value)

    def test_a_missing_key_and_a_missing_file(self, tmp_path):
        path = tmp_path / "cosmo.toml"
        path.write_text('samples = "a.csv"')
        with pytest.raises(DataError, match="'descriptions' is missing"):
            read_project(path)
        with pytest.raises(DataError, match="no such file; `cosmo init` writes one"):
            read_project(tmp_path / "other.toml")


class TestOptions:
    def test_override(self, fruit):
        project = read_project(fruit / "cosmo.toml")
        other = project.with_options(unseen="dap", seed=None, test=fruit / "samples.csv")
        assert (other.unseen, other.seed, other.test) == ("dap", 0, fruit / "samples.csv")

    def test_a_test_file_replaces_what_is_held_back(self, fruit):
        project = Project(fruit / "samples.csv", fruit / "descriptions.csv", test_share=0.5)
        assert project.with_options(test=fruit / "test.csv").test_share == 0

    @pytest.mark.parametrize(
        ("options", "kind"),
        [({}, "features"), ({"text": "t"}, "text"), ({"image": "i"}, "images"), ({"kind": "text"}, "text")],
    )
    def test_kind_by_what_is_given(self, options, kind, tmp_path):
        assert Project(tmp_path / "a.csv", tmp_path / "d.csv", **options).sample_kind == kind


class TestHeldOut:
    def test_a_share_of_each_class_and_whole_classes(self, fruit):
        project = read_project(fruit / "cosmo.toml")
        project = replace(project, test=None, test_share=0.25, hold_back=("plum", "lime"))
        data = project.load()
        counts = data.test.labels.value_counts()
        assert counts["plum"] == counts["lime"] == 20
        assert (counts.drop(["plum", "lime"]) == 5).all()
        assert not {"plum", "lime"} & set(data.train.labels)
        assert len(data.train) + len(data.test) == 280
        rows = pd.concat([data.train.items, data.test.items])
        assert len(rows.drop_duplicates()) == 280

    def test_a_class_keeps_a_sample(self, tmp_path):
        pd.DataFrame({"x": [1.0, 2, 3], "label": list("aab")}).to_csv(tmp_path / "s.csv", index=False)
        pd.DataFrame({"class": list("abc"), "y": [0, 1, 2]}).to_csv(tmp_path / "d.csv", index=False)
        data = Project(tmp_path / "s.csv", tmp_path / "d.csv", test_share=0.9).load()
        assert set(data.train.labels) == {"a", "b"}

    def test_unknown_class(self, fruit):
        project = Project(
            fruit / "samples.csv", fruit / "descriptions.csv", label="fruit", hold_back=("kiwi",)
        )
        with pytest.raises(ValueError, match="hold_back names 'kiwi'"):
            project.load()

    def test_seed_draws(self, fruit):
        project = Project(fruit / "samples.csv", fruit / "descriptions.csv", label="fruit", test_share=0.3)
        again, other = project.load(), replace(project, seed=1).load()
        assert project.load().train.items.equals(again.train.items)
        assert not other.train.items.equals(again.train.items)


class TestReading:
    def test_numbers_as_labels_match_names_in_json(self, tmp_path):
        pd.DataFrame({"x": [1.0, 2], "label": [1, 2]}).to_csv(tmp_path / "s.csv", index=False)
        (tmp_path / "d.json").write_text('{"1": [0, 1], "2": [1, 0], "3": [1, 1]}')
        data = Project(tmp_path / "s.csv", tmp_path / "d.json").load()
        assert list(data.train.labels) == ["1", "2"]

    def test_no_labels(self, fruit):
        project = Project(fruit / "samples.csv", fruit / "descriptions.csv")
        with pytest.raises(DataError, match="samples.csv: there are no labels; name their column"):
            project.load()

    def test_texts_that_were_not_named(self, tmp_path):
        write_starter("text", tmp_path)
        project = Project(tmp_path / "samples.csv", tmp_path / "descriptions.json", label="intent")
        with pytest.raises(DataError, match=r"name the column of texts \(--text\)"):
            project.load()

    @pytest.mark.parametrize("kind", ["features", "text"])
    def test_a_folder_is_no_table(self, kind, tmp_path):
        (tmp_path / "d.json").write_text('{"a": [0, 1]}')
        with pytest.raises(DataError, match=f"{kind} come from a file"):
            Project(tmp_path, tmp_path / "d.json", kind=kind).load()


class TestFit:
    def test_columns_and_kind_are_remembered(self, fruit):
        project = read_project(fruit / "cosmo.toml").with_options(seed=3)
        model = project.fit()
        assert model.summary["kind"] == "features"
        assert model.summary["columns"] == {"label": "fruit"}
        assert model.summary["seed"] == 3
        assert model.feature_names[0] == "blue_light"

    def test_features_described_in_words(self, fruit):
        pytest.importorskip("sentence_transformers")
        table = pd.read_csv(fruit / "descriptions.csv", index_col=0)
        words = {
            name: "a fruit that is " + ", ".join(column.partition("::")[2] for column in row[row == 1].index)
            for name, row in table.iterrows()
        }
        pd.Series(words, name="text").rename_axis("fruit").to_csv(fruit / "words.csv")
        project = read_project(fruit / "cosmo.toml")
        project = project.with_options(descriptions=fruit / "words.csv")
        model = project.fit()
        assert model.summary["kind"] == "features"
        assert not any("SimilarityExpert" in row for row in model.card()["compared"])
        test = project.read(fruit / "test.csv")
        unseen = np.asarray(test.require_labels("test").isin(model.cosmo.unseen_classes_))
        found = model.predict(test.items)
        assert (found[unseen] == test.require_labels("test")[unseen]).mean() > 2 / 17
