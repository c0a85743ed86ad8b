"""`cosmo show`, `cosmo operate` and `cosmo experts`."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from scipy.special import logit

from cosmo.experts import SEEN_EXPERTS, UNSEEN_EXPERTS
from cosmo.io.model import Model

pytestmark = pytest.mark.usefixtures("project")


class TestShow:
    def test_card(self, cosmo):
        lines = dict(line.split("  ", 1) for line in cosmo("show", "model.cosmo").out.splitlines())
        card = Model.load("model.cosmo").card()
        assert lines["seen classes"].strip() == "14"
        assert lines["unseen expert"].strip() == "ESZSL"
        assert f"acc_h {card['validation']['acc_h']:.4g}" in lines["validation"]
        assert "numpy" in lines["versions"]
        printed = json.loads(cosmo("show", "model.cosmo", "--json").out)
        assert printed["format_version"] >= 1
        assert printed["validation"] == card["validation"]

    def test_damaged_and_missing_files(self, cosmo, refuse):
        content = bytearray(Path("model.cosmo").read_bytes())
        content[-40] ^= 1
        Path("damaged.cosmo").write_bytes(content)
        refuse(["show", "damaged.cosmo", "-q"], "damaged.cosmo: damaged or altered")
        refuse(["show", "no.cosmo"], "no.cosmo")
        assert cosmo("show", "model.cosmo", "-q").out == ""


def test_experts(cosmo):
    lines = cosmo("experts").out.splitlines()
    for name, expert in UNSEEN_EXPERTS.items():
        (row,) = (line for line in lines if line.startswith(f"  {name} "))
        assert expert.reference in row
    assert all(any(line.startswith(f"  {name} ") for line in lines) for name in SEEN_EXPERTS)
    assert max(map(len, lines)) <= 110
    unseen = json.loads(cosmo("experts", "--json").out)["unseen"]
    assert unseen.keys() == UNSEEN_EXPERTS.keys()
    assert unseen["eszsl"]["chosen on validation"] == ["gamma", "lam"]
    assert "torch" in unseen["dem"]["needs"]
    assert "torch" not in unseen["eszsl"]["needs"]


def accuracies():
    cosmo = Model.load("model.cosmo").cosmo
    return tuple(cosmo.validation_curve_.at(cosmo.operating_point_.threshold))


def test_shows_the_curve_and_changes_nothing(cosmo):
    before = Path("model.cosmo").read_bytes()
    out = cosmo("operate", "model.cosmo").out
    assert Path("model.cosmo").read_bytes() == before
    assert "wrote" not in out
    rows = [[float(word) for word in match] for match in
            re.findall(r"^ *([\d.]+) % +([\d.]+) +([\d.]+) +([\d.]+)", out, re.MULTILINE)]  # fmt: skip
    curve = Model.load("model.cosmo").cosmo.validation_curve_
    assert f"(AUSUC) {100 * curve.area:.1f}" in out
    assert len(rows) >= 4
    assert [row[1] for row in rows] == sorted((row[1] for row in rows), reverse=True)
    for share, _, _, acc_h in rows:
        if 0 < share < 100:  # shares are rounded
            assert acc_h == pytest.approx(100 * curve.at(float(logit(share / 100))).acc_h, abs=4)
    (chosen,) = (line for line in out.splitlines() if "chosen" in line)
    assert f"{100 * accuracies()[2]:.1f}" in chosen


def test_least_accuracies(cosmo):
    best = accuracies()
    floor = f"{(best[1] + 1) / 2:.3f}"
    assert "wrote model.cosmo" in cosmo("operate", "model.cosmo", "--min-seen", floor).out
    careful = accuracies()
    assert careful[1] >= float(floor) > best[1]
    assert careful[2] <= best[2]
    floor = f"{(best[0] + 1) / 2:.3f}"
    cosmo("operate", "model.cosmo", "--min-unseen", floor)
    assert accuracies()[0] >= float(floor) > best[0]
    cosmo("operate", "model.cosmo", "--best")
    assert accuracies() == best
    words = ["--min-seen", "0.6", "--confidence", "0.9", "--out", "safe.cosmo"]
    out = cosmo("operate", "model.cosmo", *words).out
    least = Model.load("safe.cosmo").cosmo.validation_bounds(0.9)
    assert least.acc_tr >= 0.6
    assert f"with 90 % confidence: seen at least {100 * least.acc_tr:.1f} %" in out


def test_by_hand_elsewhere_and_quiet(cosmo):
    before = Path("model.cosmo").read_bytes()
    words = ["--unseen-share", "0.25", "--out", "other.cosmo", "-q"]
    lines = cosmo("operate", "model.cosmo", *words).out.splitlines()
    assert lines[0].startswith("expected share of unseen samples 25 %: seen ")
    assert lines[1:] == ["wrote other.cosmo"]
    assert Path("model.cosmo").read_bytes() == before
    assert Model.load("other.cosmo").cosmo.combination_.unseen_share == pytest.approx(0.25)
    cosmo("operate", "model.cosmo", "--threshold", "0.5", "-q")
    assert Model.load("model.cosmo").cosmo.operating_point_.threshold == 0.5


def test_of_the_paper(cosmo):
    cosmo("fit", "--method", "paper", "--out", "paper.cosmo", "-q")
    words = ["--threshold", "0.25", "--softness", "0.5", "-q"]
    lines = cosmo("operate", "paper.cosmo", *words).out.splitlines()
    assert lines[0].startswith("threshold 0.25, softness 0.5: seen ")
    point = Model.load("paper.cosmo").cosmo.operating_point_
    assert (point.threshold, point.softness) == (0.25, 0.5)


def test_share_of_samples(cosmo, refuse):
    table = pd.read_csv("test.csv")
    seen = table[table["fruit"].isin(Model.load("model.cosmo").cosmo.seen_classes_)]
    seen.drop(columns="fruit").to_csv("new.csv", index=False)
    default = Model.load("model.cosmo").cosmo.combination_.unseen_share
    out = cosmo("operate", "model.cosmo", "--samples", "new.csv", "-q").out
    share = Model.load("model.cosmo").cosmo.combination_.unseen_share
    assert share < default - 0.1  # none of them is of an unseen class
    assert re.search(r"share of unseen samples [\d.]+ % \(estimate, 90 % interval [\d.]+ to [\d.]+ %\)", out)
    before = Path("model.cosmo").read_bytes()
    seen.head(1).to_csv("one.csv", index=False)
    refuse(["operate", "model.cosmo", "--samples", "one.csv"], "give more samples")
    assert Path("model.cosmo").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--min-seen", "75"], "an accuracy between 0 and 1, got 75"),
        (["--min-seen", "0.99", "--min-unseen", "0.99"], "no point of the curve"),
        (["--best", "--threshold", "1"], "give --best, or --min-seen"),
        (["--min-seen", "0.5", "--softness", "1"], "give --best, or --min-seen"),
        (["--softness", "1"], "softness is a parameter of the paper's method"),
        (["--unseen-share", "1"], "unseen_share is a share between 0 and 1"),
        (["--unseen-share", "0.2", "--samples", "test.csv"], "give --best, or --min-seen"),
        (["--samples", "nosuch.csv"], "nosuch.csv"),
        (["--confidence", "0.9"], "add --min-seen or --min-unseen"),
        (["--out", "other.cosmo"], "--out needs a choice"),
    ],
)
def test_errors(words, message, refuse):
    before = Path("model.cosmo").read_bytes()
    refuse(["operate", "model.cosmo", *words], message)
    assert Path("model.cosmo").read_bytes() == before
    assert not Path("other.cosmo").exists()
