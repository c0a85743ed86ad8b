"""`cosmo show` and `cosmo experts`."""

import json
from pathlib import Path

import pytest

from cosmo.experts import SEEN_EXPERTS, UNSEEN_EXPERTS
from cosmo.io.model import Model


@pytest.mark.usefixtures("project")
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
