"""Every example runs as a program of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
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


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES} == set(PRINTS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, tmp_path: Path) -> None:
    needed = EXTRAS.get(path.stem)
    if needed is not None and importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert PRINTS[path.stem] in done.stdout
    assert list(tmp_path.iterdir()) == []
