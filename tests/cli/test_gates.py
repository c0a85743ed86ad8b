"""`cosmo gates`."""

from functools import cache
from types import SimpleNamespace

import pandas as pd
import pytest

from cosmo.data import load_glyphs
from cosmo.experts import ESZSL
from cosmo.gates import GATES


@pytest.fixture(scope="module", autouse=True)
def small_glyphs():
    data = cache(lambda seed: load_glyphs(n_classes=40, samples_per_class=12, seed=seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cosmo.cli._options.load_glyphs", data)
        yield


@pytest.fixture(scope="module")
def gates(cosmo, tmp_path_factory):
    """Run the command with one cache for all tests; return what it printed, and its table."""
    cached = tmp_path_factory.mktemp("cache")

    def run(place, *options):
        out, _ = cosmo("gates", "-q", "--cache", cached, "--out", "out", *options, folder=place)
        return SimpleNamespace(place=place, out=out, table=pd.read_csv(place / "out" / "gates.csv"))

    return run


@pytest.fixture(scope="module")
def whole(gates, tmp_path_factory):
    return gates(tmp_path_factory.mktemp("whole"), "--write", "gates.md")


def test_table_and_figure(whole):
    table = whole.table.set_index("gate")
    more = {"confidence, 3 folds", "evidence, 3 folds", "calibrated"}
    assert set(table.index) == {*GATES, *more} - {"novelty"}
    assert table.drop(columns="auc").notna().all().all()
    assert table.to_numpy().min() >= 0
    assert table.to_numpy().max() <= 100
    assert all(name in whole.out for name in table.index)
    assert (whole.place / "out" / "gates.png").read_bytes().startswith(b"\x89PNG")
    text = (whole.place / "gates.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| confidence |"))
    assert f"{table.loc['confidence', 'test_auc']:.1f}" in row
    assert GATES["confidence"] in row
    assert "`cosmo gates glyphs`" in text


def test_again_from_the_cache(whole, gates, tmp_path, monkeypatch):
    monkeypatch.setattr(ESZSL, "fit", None)  # nothing may be trained
    again = gates(tmp_path, "--gates", "confidence", "--folds", "1", "--write", "gates.md")
    expected = whole.table[whole.table["gate"].isin(["confidence", "calibrated"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(again.table, expected)
    assert "##" not in (tmp_path / "gates.md").read_text()


def test_the_experts_own_gate(gates, tmp_path):
    pytest.importorskip("torch")
    found = gates(tmp_path, "--unseen", "cmt:epochs=2,hidden=16", "--gates", "max-softmax", "novelty")
    assert found.table["gate"].tolist() == ["max-softmax", "novelty", "calibrated"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gates", "confidence", "--folds", "99"], "folds must be between 1 and"),
        (["--gates", "novelty"], "use CMT"),
        (["--gates", "nosuch"], "invalid choice: 'nosuch'"),
        (["--write", "."], "--write . is a folder; name a file"),
        (["nowhere"], "'nowhere' is neither 'glyphs' nor a folder"),
    ],
)
def test_errors(options, message, refuse, tmp_path):
    refuse(["gates", "-q", *options], message, tmp_path)
