"""Every example runs as it stands."""

import importlib.util
import json
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


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ROOT = Path(__file__).parents[1]
guide, notebooks = (load(ROOT / name) for name in ("benchmarks/guide.py", "docs/make_notebooks.py"))


@pytest.mark.parametrize("name", notebooks.NAMES)
def test_notebook(name):
    """The cells are those of the example, and print what the notebook shows."""
    cells = json.loads(ROOT.joinpath("examples", f"{name}.ipynb").read_text("utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells[1:]]
    assert sources == notebooks.paragraphs(name)[1]
    for cell, printed in zip(cells[1:], notebooks.run(sources), strict=True):
        shown = "".join(text for output in cell["outputs"] for text in output["text"])
        assert guide.same_output(shown, printed)
