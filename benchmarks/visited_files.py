"""List the files of the package that fit, predict, `cosmo run` and `cosmo predict` visit.

A file counts if one of its functions is called; imports do not count.

    python benchmarks/visited_files.py
"""

from __future__ import annotations

import inspect
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd

import cosmo
from cosmo import Cosmo
from cosmo.cli import main
from cosmo.data import load_glyphs

PACKAGE = Path(cosmo.__file__).parent


def visited(action: Callable[[], Any]) -> list[str]:
    """Return the files of the package whose functions an action calls."""
    files: set[str] = set()

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if (
            event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED
        ):  # Not the body of a module or class.
            files.add(frame.f_code.co_filename)

    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
    return sorted(
        str(Path(name).relative_to(PACKAGE)) for name in files if Path(name).is_relative_to(PACKAGE)
    )


def show(title: str, files: list[str]) -> None:
    """Print a title, the number of files and their names."""
    print(f"{title}: {len(files)} files\n  {', '.join(files)}\n")


def run(words: list[str]) -> None:
    """Run a command that must succeed."""
    if main(words):
        raise SystemExit(f"cosmo {' '.join(words)} failed")


if __name__ == "__main__":
    data = load_glyphs(n_classes=40, samples_per_class=12)
    X, y = data.features[data.split.trainval], data.labels[data.split.trainval]
    model = Cosmo(data.descriptions)
    show("Cosmo.fit", visited(lambda: model.fit(X, y)))
    show("Cosmo.predict", visited(lambda: model.predict(X)))
    with tempfile.TemporaryDirectory() as folder:
        show("cosmo run", visited(lambda: run(["run", "glyphs", "-q", "--out", folder])))
        rows = Path(folder, "rows.csv")
        pd.DataFrame(np.asarray(load_glyphs().features[:20])).to_csv(rows, index=False)
        words = ["predict", f"{folder}/model.cosmo", str(rows), "--out", f"{folder}/classes.csv", "-q"]
        show("cosmo predict", visited(lambda: run(words)))
