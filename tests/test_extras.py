"""What a light install says about what it lacks."""

import sys

import pytest

from cosmo.cli import main
from cosmo.extras import MissingExtra, import_torch


def test_torch_is_imported():
    torch = pytest.importorskip("torch")
    assert import_torch() is torch


def test_missing_torch_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"pip install 'cosmo-gzsl\[torch\]'"):
        import_torch()


def test_command_without_torch(monkeypatch, capsys, tmp_path):
    """No traceback: one line with the fix, and status 2."""
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["run", "--unseen", "dem", "--out", str(tmp_path), "-q"]) == 2
    assert capsys.readouterr().err.strip().endswith("pip install 'cosmo-gzsl[torch]'")


def test_light_install_lists_networks(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["experts"]) == 0
    assert "torch" in capsys.readouterr().out
