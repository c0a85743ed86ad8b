"""`cosmo gates`."""

import pandas as pd
import pytest

from cosmo.cli import main
from cosmo.data import load_glyphs
from cosmo.gates import GATES


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(
        "cosmo.cli.dataset.load_glyphs",
        lambda seed: load_glyphs(n_classes=40, samples_per_class=16, seed=seed),
    )


def run(tmp_path, *options):
    folders = ["--cache", str(tmp_path / "cache"), "--out", str(tmp_path / "out")]
    return main(["gates", "-q", *folders, *options])


def test_table_and_figure(small, tmp_path, capsys):
    page = tmp_path / "gates.md"
    assert run(tmp_path, "--write", str(page)) == 0
    table = pd.read_csv(tmp_path / "out" / "gates.csv").set_index("gate")
    assert set(table.index) == {*GATES, "confidence, 3 folds", "evidence, 3 folds"} - {"novelty"}
    assert table.drop(columns="auc").notna().all().all()
    assert table.to_numpy().min() >= 0
    assert table.to_numpy().max() <= 100
    printed = capsys.readouterr().out
    assert all(name in printed for name in table.index)
    assert (tmp_path / "out" / "gates.png").read_bytes().startswith(b"\x89PNG")
    text = page.read_text()
    row = next(line for line in text.splitlines() if line.startswith("| confidence |"))
    assert f"{table.loc['confidence', 'test_auc']:.1f}" in row
    assert "| ε | T = 1 |" in text
    assert "| margin loss |" in text
    assert str(tmp_path) not in text


def test_only_what_was_asked_for(small, tmp_path):
    page = tmp_path / "gates.md"
    assert run(tmp_path, "--gates", "confidence", "--folds", "1", "--write", str(page)) == 0
    assert pd.read_csv(tmp_path / "out" / "gates.csv")["gate"].tolist() == ["confidence"]
    assert "##" not in page.read_text()


def test_too_many_folds(small, tmp_path, capsys):
    assert run(tmp_path, "--gates", "confidence", "--folds", "99") == 2
    assert "folds must be between 1 and" in capsys.readouterr().err


def test_again_from_the_cache(small, tmp_path, monkeypatch):
    gates = ["--gates", "max-softmax", "odin", "confidence", "evidence"]
    assert run(tmp_path, *gates) == 0
    first = (tmp_path / "out" / "gates.csv").read_bytes()
    monkeypatch.setattr("cosmo.stages.fit_seen_expert", None)  # nothing may be trained
    assert run(tmp_path, *gates) == 0
    assert (tmp_path / "out" / "gates.csv").read_bytes() == first


def test_the_experts_own_gate(small, tmp_path):
    pytest.importorskip("torch")
    expert = "cmt:epochs=2,hidden=16"
    assert run(tmp_path, "--unseen", expert, "--gates", "max-softmax", "novelty") == 0
    assert pd.read_csv(tmp_path / "out" / "gates.csv")["gate"].tolist() == ["max-softmax", "novelty"]


def test_novelty_without_an_expert_that_detects_it(small, tmp_path, capsys):
    assert run(tmp_path, "--gates", "novelty") == 2
    assert "use CMT" in capsys.readouterr().err


def test_unknown_gate(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["gates", "--gates", "nosuch"])
    assert stop.value.code == 2


def test_help(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["gates", "--help"])
    assert stop.value.code == 0
    assert "examples:" in capsys.readouterr().out
