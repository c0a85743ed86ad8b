"""`cosmo gates`."""

import io
from contextlib import redirect_stdout
from functools import cache

import pandas as pd
import pytest

from cosmo.cli import main
from cosmo.data import load_glyphs
from cosmo.gates import GATES


@pytest.fixture(scope="module", autouse=True)
def small():
    data = cache(lambda seed: load_glyphs(n_classes=40, samples_per_class=16, seed=seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cosmo.cli._options.load_glyphs", data)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the command, which trains each expert once for all tests."""
    kept = tmp_path_factory.mktemp("kept")

    def run(place, *options):
        return main(["gates", "-q", "--cache", str(kept), "--out", str(place / "out"), *options])

    return run


@pytest.fixture(scope="module")
def whole(run, tmp_path_factory):
    """Return where a run with all gates has written, and what it has printed."""
    place = tmp_path_factory.mktemp("whole")
    with redirect_stdout(io.StringIO()) as printed:
        assert run(place, "--write", str(place / "gates.md")) == 0
    return place, printed.getvalue()


def test_table_and_figure(whole):
    place, printed = whole
    table = pd.read_csv(place / "out" / "gates.csv").set_index("gate")
    assert set(table.index) == {*GATES, "confidence, 3 folds", "evidence, 3 folds"} - {"novelty"}
    assert table.drop(columns="auc").notna().all().all()
    assert table.to_numpy().min() >= 0
    assert table.to_numpy().max() <= 100
    assert all(name in printed for name in table.index)
    assert (place / "out" / "gates.png").read_bytes().startswith(b"\x89PNG")
    text = (place / "gates.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| confidence |"))
    assert f"{table.loc['confidence', 'test_auc']:.1f}" in row
    assert "| ε | T = 1 |" in text
    assert "| margin loss |" in text
    assert str(place) not in text


def test_only_what_was_asked_for(run, tmp_path):
    page = tmp_path / "gates.md"
    assert run(tmp_path, "--gates", "confidence", "--folds", "1", "--write", str(page)) == 0
    assert pd.read_csv(tmp_path / "out" / "gates.csv")["gate"].tolist() == ["confidence"]
    assert "##" not in page.read_text()


def test_too_many_folds(run, tmp_path, capsys):
    assert run(tmp_path, "--gates", "confidence", "--folds", "99") == 2
    assert "folds must be between 1 and" in capsys.readouterr().err


def test_again_from_the_cache(whole, run, tmp_path, monkeypatch):
    monkeypatch.setattr("cosmo.evaluation.expert_cache.CachedExpert.expert_", None)  # Training would fail.
    assert run(tmp_path) == 0
    assert (tmp_path / "out" / "gates.csv").read_bytes() == (whole[0] / "out" / "gates.csv").read_bytes()


def test_the_experts_own_gate(run, tmp_path):
    pytest.importorskip("torch")
    expert = "cmt:epochs=2,hidden=16"
    assert run(tmp_path, "--unseen", expert, "--gates", "max-softmax", "novelty") == 0
    assert pd.read_csv(tmp_path / "out" / "gates.csv")["gate"].tolist() == ["max-softmax", "novelty"]


def test_novelty_without_an_expert_that_detects_it(run, tmp_path, capsys):
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
