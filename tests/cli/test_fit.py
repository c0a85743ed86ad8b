"""`cosmo fit`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cosmo.cli import main
from cosmo.data import load_glyphs, write_glyph_images
from cosmo.data.starters import write_starter
from cosmo.io.model import Model

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("example")
    write_starter("features", folder)
    return folder


@pytest.fixture
def fruit(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(example, tmp_path / "fruit")
    monkeypatch.chdir(tmp_path / "fruit")
    return tmp_path / "fruit"


class TestFeatures:
    def test_what_is_said_and_written(self, fruit: Path, capsys: pytest.CaptureFixture[str]):
        assert main(["fit"]) == 0
        output = capsys.readouterr()
        model = Model.load("model.cosmo")
        validation = model.card()["validation"]
        said = " ".join(output.out.split())
        assert "seen classes 14 unseen classes 3" in said
        assert "unseen expert ESZSL chosen gamma " in said
        assert re.search(r"operating point threshold [\d.]+, softness ", said)
        assert f"Acc_ts {100 * validation['acc_ts']:.1f} (unseen)" in said
        assert f"Acc_H {100 * validation['acc_h']:.1f}, AUSUC {100 * validation['ausuc']:.1f}" in said
        for step in ("reading samples.csv", "validation stage", "test stage", "wrote model.cosmo"):
            assert step in output.err

    def test_same_seed_same_bytes(self, fruit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        assert main(["fit", "-q"]) == 0
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        monkeypatch.chdir(elsewhere)
        assert main(["fit", str(fruit), "-q", "--out", "again.cosmo"]) == 0
        assert (fruit / "model.cosmo").read_bytes() == Path("again.cosmo").read_bytes()
        assert main(["fit", str(fruit), "-q", "--out", "other.cosmo", "--seed", "1"]) == 0
        assert Path("again.cosmo").read_bytes() != Path("other.cosmo").read_bytes()

    def test_quiet(self, fruit: Path, capsys: pytest.CaptureFixture[str]):
        assert main(["fit", "-q"]) == 0
        assert capsys.readouterr().err == ""

    def test_options_override_the_file(self, fruit: Path):
        argv = ["--unseen", "dap", "--seen", "lda", "--gate", "max-softmax", "--features", "sugar", "acid"]
        assert main(["fit", "-q", *argv]) == 0
        model = Model.load("model.cosmo")
        assert type(model.cosmo.experts_.unseen).__name__ == "DAP"
        assert type(model.cosmo.experts_.seen).__name__ == "LinearDiscriminantAnalysis"
        assert model.feature_names == ["sugar", "acid"]

    def test_without_a_project(self, fruit: Path):
        argv = ["samples.csv", "--label", "fruit", "--descriptions", "descriptions.csv", "--features", "g*"]
        assert main(["fit", *argv, "-q", "--out", "plain.cosmo"]) == 0
        assert Model.load("plain.cosmo").feature_names == ["green_light", "gloss"]

    def test_arrays(self, tmp_path: Path):
        data = load_glyphs(n_classes=24, samples_per_class=8)
        train = data.split.trainval
        np.savez(tmp_path / "s.npz", X=data.features[train, ::6], y=data.codes[train])
        table = data.descriptions.set_axis(range(24)).droplevel(0, axis=1)
        table.rename_axis("class").to_csv(tmp_path / "d.csv")
        argv = [str(tmp_path / "s.npz"), "--descriptions", str(tmp_path / "d.csv")]
        out = str(tmp_path / "m.cosmo")
        assert main(["fit", *argv, "-q", "--out", out, "--cache", str(tmp_path / "cache")]) == 0
        assert Model.load(out).classes.index.dtype.kind == "i"


class TestErrors:
    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["--out", "no/model.cosmo"], "--out no/model.cosmo: there is no such folder"),
            (["--out", "."], "--out .: a folder; name a file"),
            (["--unseen", "similarity"], "one encoder must make both"),
            (["--features", "mass"], "no column 'mass' for features"),
            (["--encoder", "minilm"], "feature rows, which encoder 'minilm' cannot read"),
        ],
    )
    def test_one_line(self, argv: list[str], said: str, fruit: Path, capsys: pytest.CaptureFixture[str]):
        assert main(["fit", "-q", *argv]) == 2
        error = capsys.readouterr().err
        assert error.startswith("cosmo fit: ")
        assert said in error
        assert not list(fruit.glob("**/*.cosmo"))

    def test_unknown_expert(self, fruit: Path, capsys: pytest.CaptureFixture[str]):
        with pytest.raises(SystemExit) as stop:
            main(["fit", "--unseen", "magic"])
        assert stop.value.code == 2
        assert "unknown unseen expert 'magic'" in capsys.readouterr().err


def test_interrupt_leaves_the_model_that_was_there(fruit: Path):
    Path("model.cosmo").write_bytes(b"of yesterday")
    with subprocess.Popen(
        [sys.executable, "-m", "cosmo.cli", "fit", "--unseen", "lago"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    ) as process:
        assert process.stderr is not None
        while "validation stage" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert (out, err.splitlines()[-1]) == ("", "cosmo: stopped; nothing was written half")
    assert Path("model.cosmo").read_bytes() == b"of yesterday"
    assert sorted(path.name for path in fruit.iterdir() if path.name.startswith(".")) == []


class TestText:
    def test_intents(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ):
        pytest.importorskip("sentence_transformers")
        write_starter("text", tmp_path)
        monkeypatch.chdir(tmp_path)
        assert main(["fit"]) == 0
        assert "64 of 64 text" in capsys.readouterr().err
        assert main(["fit", "--out", "again.cosmo"]) == 0
        assert "64 of 64 text (64 found)" in capsys.readouterr().err
        assert Path("model.cosmo").read_bytes() == Path("again.cosmo").read_bytes()
        model = Model.load("model.cosmo")
        assert type(model.cosmo.experts_.unseen).__name__ == "SimilarityExpert"
        assert model.summary["columns"] == {"label": "intent", "text": "text"}


class TestImages:
    def test_folders(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ):
        pytest.importorskip("efficientnet_lite_pytorch")
        write_glyph_images(tmp_path, n_classes=12, samples_per_class=4)
        monkeypatch.chdir(tmp_path)
        home = next(iter(sorted(Path("train").iterdir())))
        (home / "broken.png").write_bytes(b"\x89PNG")
        argv = ["fit", "train", "--descriptions", "descriptions.csv"]
        assert main([*argv, "-q"]) == 2
        assert "broken.png" in capsys.readouterr().err
        assert not Path("model.cosmo").exists()
        assert main([*argv, "--skip"]) == 0
        assert "is left out" in capsys.readouterr().err
        model = Model.load("model.cosmo")
        assert (model.summary["kind"], model.encoder_name) == ("images", "efficientnet-lite0")
        assert model.summary["samples"] == len(list(Path("train").glob("*/*.png"))) - 1
