"""`cosmo experts`."""

import json

import pytest

from cosmo.cli import main
from cosmo.experts import SEEN_EXPERTS, UNSEEN_EXPERTS


def test_names_every_expert(capsys):
    assert main(["experts"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, expert in UNSEEN_EXPERTS.items():
        (row,) = (line for line in lines if line.startswith(f"  {name} "))
        assert expert.reference in row
    assert all(any(line.startswith(f"  {name} ") for line in lines) for name in SEEN_EXPERTS)
    assert max(map(len, lines)) <= 110


def test_tells_what_takes_torch(capsys):
    assert main(["experts", "--json"]) == 0
    unseen = json.loads(capsys.readouterr().out)["unseen"]
    assert "torch" in unseen["dem"]["needs"]
    assert "torch" not in unseen["eszsl"]["needs"]


def test_json(capsys):
    assert main(["experts", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["unseen"].keys() == UNSEEN_EXPERTS.keys()
    assert listed["unseen"]["eszsl"]["chosen on validation"] == ["gamma", "lam"]
    assert "soft-max" in listed["unseen"]["eszsl"]["output"]


def test_help(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["experts", "--help"])
    assert stop.value.code == 0
    assert "--json" in capsys.readouterr().out
