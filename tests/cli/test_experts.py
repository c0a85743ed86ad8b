"""`cosmo experts`."""

import json

import pytest

from cosmo.cli import main
from cosmo.experts import SEEN_EXPERTS, UNSEEN_EXPERTS


def test_table_names_every_expert(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["experts"]) == 0
    printed = capsys.readouterr().out
    for name, expert in UNSEEN_EXPERTS.items():
        (row,) = (line for line in printed.splitlines() if f"│ {name} " in line)
        assert expert.reference[:20] in row
    assert all(f"│ {name} " in printed for name in SEEN_EXPERTS)


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
