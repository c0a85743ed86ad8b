import io

import numpy as np
import pandas as pd
import pytest

from cosmo.cli import main
from cosmo.data import load_glyphs
from cosmo.io.model import Model, fit_model


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A model of named features, and samples for it."""
    folder = tmp_path_factory.mktemp("predict")
    glyphs = load_glyphs(n_classes=24, samples_per_class=12)
    rows = pd.DataFrame(glyphs.features[:, :30], columns=[f"f{k}" for k in range(30)])
    train = glyphs.split.trainval
    fit_model(rows.iloc[train], glyphs.labels[train], glyphs.descriptions).save(folder / "model.cosmo")
    rows[:50].assign(id=[f"{k:03}" for k in range(50)]).to_csv(folder / "new.csv", index=False)
    return folder


@pytest.fixture
def argv(home, tmp_path):
    return ["predict", str(home / "model.cosmo"), str(home / "new.csv")]


def test_csv_on_the_screen(argv, home, capsys):
    assert main([*argv, "--top", "2", "-q"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    table = pd.read_csv(io.StringIO(printed.out))
    assert list(table.columns) == ["row", "label", "probability", "p_seen", "label_2", "probability_2"]
    model, rows = Model.load(home / "model.cosmo"), pd.read_csv(home / "new.csv")
    assert table["label"].tolist() == model.predict(rows).tolist()


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_files(argv, tmp_path, capsys, suffix):
    out = tmp_path / f"out.{suffix}"
    assert main([*argv, "--out", str(out), "--keep", "id", "--batch", "20"]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"{out}: 50 rows" in printed.err
    table = (
        pd.read_parquet(out)
        if suffix == "parquet"
        else pd.read_json(out, lines=True, dtype=False)
        if suffix == "jsonl"
        else pd.read_csv(out, dtype=str)
    )
    assert table["id"].tolist() == [f"{k:03}" for k in range(50)]
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_what_an_earlier_run_left_is_used_or_refused(argv, tmp_path, capsys, monkeypatch):
    out = tmp_path / "out.csv"
    original, calls = Model.predict_frame, iter(range(10))

    def stops(self, items, top=3):
        if next(calls) == 1:
            raise KeyboardInterrupt
        return original(self, items, top)

    with monkeypatch.context() as patch:
        patch.setattr(Model, "predict_frame", stops)
        assert main([*argv, "--out", str(out), "--batch", "20"]) == 130
    assert main([*argv, "--out", str(out), "--batch", "10"]) == 2
    assert "differs in settings: run again with --restart" in capsys.readouterr().err
    assert main([*argv, "--out", str(out), "--batch", "20"]) == 0
    assert "50 rows, 20 of them from an earlier run" in capsys.readouterr().err
    assert len(pd.read_csv(out)) == 50


class TestRefusals:
    def refused(self, capsys, *argv):
        assert main([*argv, "-q"]) == 2
        error = capsys.readouterr().err
        assert error.startswith("cosmo predict: ")
        assert "Traceback" not in error
        return error

    def test_of_options(self, argv, tmp_path, capsys):
        assert "--top must be at least 1" in self.refused(capsys, *argv, "--top", "0")
        assert "--batch must be at least 1" in self.refused(capsys, *argv, "--batch", "0")
        model, source = argv[1:3]
        assert "takes features, not texts" in self.refused(capsys, "predict", model, "--text", "a text")
        assert "give a text by --text" in self.refused(capsys, "predict", model)
        words = ["predict", model, source, "--text", "a", "--text", "b"]
        assert "column of texts in" in self.refused(capsys, *words)
        assert "there is no column 'name'" in self.refused(capsys, *argv, "--keep", "name")
        out = str(tmp_path / "out.xlsx")
        assert "out.xlsx: predictions go to a .csv" in self.refused(capsys, *argv, "--out", out)

    def test_of_files(self, home, tmp_path, capsys):
        model = str(home / "model.cosmo")
        assert "no such file" in self.refused(capsys, "predict", model, str(tmp_path / "no.csv"))
        (tmp_path / "no.cosmo").write_bytes(b"nothing")
        assert "no.cosmo" in self.refused(capsys, "predict", str(tmp_path / "no.cosmo"), model)
        np.save(tmp_path / "new.npy", np.ones((3, 4)))
        error = self.refused(capsys, "predict", model, str(tmp_path / "new.npy"))
        assert "rows have 4 features, the model takes 30" in error
        (tmp_path / "cut.parquet").write_bytes(b"PAR1")
        assert "cut.parquet: damaged" in self.refused(capsys, "predict", model, str(tmp_path / "cut.parquet"))


class TestPartitions:
    @pytest.fixture
    def rows(self, home, tmp_path):
        (tmp_path / "rows").mkdir()
        table = pd.read_csv(home / "new.csv", dtype={"id": str})
        for k in range(2):
            table[k::2].to_parquet(tmp_path / "rows" / f"{k}.parquet")
        return tmp_path / "rows"

    def test_folder(self, home, rows, tmp_path, capsys):
        out = tmp_path / "out"
        options = ["--out", str(out), "--keep", "id", "--format", "csv", "--jobs", "1"]
        assert main(["predict", str(home / "model.cosmo"), str(rows), *options]) == 0
        assert f"{out}: 50 rows" in capsys.readouterr().err
        found = pd.concat(pd.read_csv(path, dtype={"id": str}) for path in out.iterdir())
        assert sorted(found["id"]) == [f"{k:03}" for k in range(50)]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ([], "name a folder for the predictions by --out"),
            (["--out", "answers.csv"], "name a folder, and the format of its files by --format csv"),
            (["--out", "answers", "--scheduler", "tcp://x:1"], "add --engine dask"),
            (["--out", "answers", "--engine", "dask"], "start a scheduler (`dask scheduler`)"),
            (["--out", "answers", "--jobs", "0"], "--jobs must be at least 1"),
        ],
    )
    def test_options(self, home, rows, capsys, options, message):
        assert main(["predict", str(home / "model.cosmo"), str(rows), *options]) == 2
        assert message in capsys.readouterr().err

    def test_options_for_partitions_only(self, argv, capsys):
        assert main([*argv, "--format", "csv"]) == 2
        assert "--format is for partitioned input" in capsys.readouterr().err


def test_unknown_and_reasons(argv, home, capsys, cosmo):
    assert main([*argv, "--top", "1", "--reject", "0.3", "--unknown", "other", "--why", "-q"]) == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert list(table.columns) == ["row", "label", "probability", "p_seen", "conformity", "why"]
    rejected = table["conformity"] <= 0.3
    assert 0 < rejected.sum() < len(table)
    assert (table["label"] == "other").tolist() == rejected.tolist()
    assert table.loc[rejected, "why"].str.startswith("other; else ").all()
    assert table.loc[~rejected, "why"].str.contains(r"^(?:seen|unseen): best among \d+ ").all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--unknown", "other"], "add one of them"),
        (["--reject", "5"], "--reject must lie between 0 and 1"),
        (["--accuracy", "0"], "--accuracy must lie between 0 and 1"),
    ],
)
def test_reject_options(argv, refuse, words, message):
    refuse([*argv, *words], message)
