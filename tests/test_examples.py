"""Every example runs as it stands."""

import importlib.util
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted(Path(__file__).parents[1].joinpath("examples").glob("*.py"))
EXTRAS = {"intents": "sentence_transformers", "images": "efficientnet_lite_pytorch"}
PRINTS = {
    "quick_start": "new images of unseen classes",
    "own_features": "Acc_H on test",
    "intents": "unseen intents",
    "images": "p_seen",
    "new_class": "right by description",
    "operating_point": "at least 70 % on seen",
    "pipeline": "smoothing chosen",
    "paper": "COSMO + ESZSL",
}


def test_every_example_is_tested():
    assert {path.stem for path in EXAMPLES} == set(PRINTS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, tmp_path, monkeypatch, capsys):
    needed = EXTRAS.get(path.stem)
    if needed is not None and importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
    assert PRINTS[path.stem] in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
