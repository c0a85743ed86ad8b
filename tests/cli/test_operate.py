"""`cosmo operate`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cosmo.io.model import Model

pytestmark = pytest.mark.usefixtures("project")


def accuracies():
    cosmo = Model.load("model.cosmo").cosmo
    return tuple(cosmo.validation_curve_.at(cosmo.operating_point_.threshold))


def test_shows_the_curve_and_changes_nothing(cosmo):
    before = Path("model.cosmo").read_bytes()
    out = cosmo("operate", "model.cosmo").out
    assert Path("model.cosmo").read_bytes() == before
    assert "wrote" not in out
    rows = [[float(word) for word in match] for match in
            re.findall(r"^ *(-?[\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)", out, re.MULTILINE)]  # fmt: skip
    curve = Model.load("model.cosmo").cosmo.validation_curve_
    assert f"(AUSUC) {100 * curve.area:.1f}" in out
    assert len(rows) >= 4
    assert [row[1] for row in rows] == sorted((row[1] for row in rows), reverse=True)
    for threshold, _, _, acc_h in rows:
        assert acc_h == pytest.approx(100 * curve.at(threshold).acc_h, abs=3)  # thresholds are rounded
    (chosen,) = (line for line in out.splitlines() if "chosen" in line)
    assert f"{100 * accuracies()[2]:.1f}" in chosen


def test_least_accuracies(cosmo):
    best = accuracies()
    assert "wrote model.cosmo" in cosmo("operate", "model.cosmo", "--min-seen", "0.93").out
    careful = accuracies()
    assert careful[1] >= 0.93 > best[1]
    assert careful[2] <= best[2]
    cosmo("operate", "model.cosmo", "--min-unseen", "0.78")
    assert accuracies()[0] >= 0.78 > best[0]
    cosmo("operate", "model.cosmo", "--best")
    assert accuracies() == best
    words = ["--min-seen", "0.6", "--confidence", "0.9", "--out", "safe.cosmo"]
    out = cosmo("operate", "model.cosmo", *words).out
    least = Model.load("safe.cosmo").cosmo.validation_bounds(0.9)
    assert least.acc_tr >= 0.6
    assert f"with 90 % confidence: seen at least {100 * least.acc_tr:.1f} %" in out


def test_by_hand_elsewhere_and_quiet(cosmo):
    before = Path("model.cosmo").read_bytes()
    words = ["--threshold", "0.25", "--softness", "0.5", "--out", "other.cosmo", "-q"]
    lines = cosmo("operate", "model.cosmo", *words).out.splitlines()
    assert lines[0].startswith("threshold 0.25, softness 0.5: seen ")
    assert lines[1:] == ["wrote other.cosmo"]
    assert Path("model.cosmo").read_bytes() == before
    point = Model.load("other.cosmo").cosmo.operating_point_
    assert (point.threshold, point.softness) == (0.25, 0.5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--min-seen", "75"], "an accuracy between 0 and 1, got 75"),
        (["--min-seen", "0.99", "--min-unseen", "0.99"], "no point of the curve"),
        (["--best", "--threshold", "1"], "give --best, or --min-seen"),
        (["--min-seen", "0.5", "--softness", "1"], "give --best, or --min-seen"),
        (["--softness", "-1"], "softness must be positive"),
        (["--confidence", "0.9"], "add --min-seen or --min-unseen"),
        (["--out", "other.cosmo"], "--out needs a choice"),
    ],
)
def test_errors(words, message, refuse):
    before = Path("model.cosmo").read_bytes()
    refuse(["operate", "model.cosmo", *words], message)
    assert Path("model.cosmo").read_bytes() == before
    assert not Path("other.cosmo").exists()
