"""`cosmo operate`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

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
    return folder / "model.cosmo"


@pytest.fixture(autouse=True)
def here(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(trained, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")


def accuracies() -> tuple[float, float, float]:
    cosmo = Model.load("model.cosmo").cosmo
    return tuple(cosmo.validation_curve_.at(cosmo.operating_point_.threshold))


def test_shows_the_curve_and_changes_nothing(capsys: pytest.CaptureFixture[str]):
    before = Path("model.cosmo").read_bytes()
    assert main(["operate", "model.cosmo"]) == 0
    said = capsys.readouterr().out
    assert Path("model.cosmo").read_bytes() == before
    assert "wrote" not in said
    rows = [re.findall(r"-?[\d.]+", line) for line in said.splitlines() if line.startswith("│")]
    curve = Model.load("model.cosmo").cosmo.validation_curve_
    assert f"(AUSUC) {100 * curve.area:.1f}" in said
    assert len(rows) >= 4
    seen = [float(row[1]) for row in rows]
    assert seen == sorted(seen, reverse=True)
    for row in rows:
        at = curve.at(float(row[0]))
        assert float(row[3]) == pytest.approx(100 * at.acc_h, abs=3)  # thresholds are rounded
    (chosen,) = (line for line in said.splitlines() if "chosen" in line)
    assert f"{100 * accuracies()[2]:.1f}" in chosen


def test_floors(capsys: pytest.CaptureFixture[str]):
    best = accuracies()
    assert main(["operate", "model.cosmo", "--min-seen", "0.93"]) == 0
    assert "wrote model.cosmo" in capsys.readouterr().out
    careful = accuracies()
    assert careful[1] >= 0.93 > best[1]
    assert careful[2] <= best[2]
    assert main(["operate", "model.cosmo", "--min-unseen", "0.78"]) == 0
    assert accuracies()[0] >= 0.78 > best[0]
    assert main(["operate", "model.cosmo", "--best"]) == 0
    assert accuracies() == best


def test_a_floor_with_confidence(capsys: pytest.CaptureFixture[str]):
    assert (
        main(["operate", "model.cosmo", "--min-seen", "0.6", "--confidence", "0.9", "--out", "s.cosmo"]) == 0
    )
    told = capsys.readouterr().out
    assert "with 90 % confidence: seen at least" in told
    least = Model.load("s.cosmo").cosmo.validation_bounds(0.9)
    assert least.acc_tr >= 0.6
    assert f"seen at least {100 * least.acc_tr:.1f} %" in told
    assert main(["operate", "model.cosmo", "--confidence", "0.9"]) == 2
    assert "--min-seen or --min-unseen" in capsys.readouterr().err


def test_by_hand_elsewhere_and_quiet(capsys: pytest.CaptureFixture[str]):
    before = Path("model.cosmo").read_bytes()
    argv = ["--threshold", "0.25", "--softness", "0.5", "--out", "other.cosmo", "-q"]
    assert main(["operate", "model.cosmo", *argv]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("threshold 0.25, softness 0.5: seen ")
    assert lines[1:] == ["wrote other.cosmo"]
    assert Path("model.cosmo").read_bytes() == before
    point = Model.load("other.cosmo").cosmo.operating_point_
    assert (point.threshold, point.softness) == (0.25, 0.5)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--min-seen", "75"], "an accuracy between 0 and 1, got 75"),
        (["--min-seen", "0.99", "--min-unseen", "0.99"], "no point of the curve"),
        (["--best", "--threshold", "1"], "give --best, or --min-seen"),
        (["--min-seen", "0.5", "--softness", "1"], "give --best, or --min-seen"),
        (["--softness", "-1"], "softness must be positive"),
        (["--out", "other.cosmo"], "--out without a choice"),
    ],
)
def test_errors(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]):
    before = Path("model.cosmo").read_bytes()
    assert main(["operate", "model.cosmo", *argv]) == 2
    error = capsys.readouterr().err
    assert error.startswith("cosmo operate: ")
    assert said in error
    assert Path("model.cosmo").read_bytes() == before
    assert not Path("other.cosmo").exists()
