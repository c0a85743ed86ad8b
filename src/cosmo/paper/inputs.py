"""The paper's data in a folder, laid out as the benchmark and the authors' release::

    xlsa17/CUB/att_splits.mat               classes, descriptions and splits
    xlsa17/CUB/res101.mat                   features (any name that is not *_splits or labels)
    predictions/LAGO/CUB/pred_gzsl_*.npz    predictions of the authors' experts, with rows_*.npz

Any file may be absent; what needs it raises `Missing`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from cosmo.data import DataError, GZSLDataset, Split, load_glyphs, read_xlsa17, read_xlsa17_split
from cosmo.data.splits import PUBLISHED_SEEDS

DATASETS = ("AWA1", "SUN", "CUB", "FLO")
_PREDICTION_FOLDERS = {"LAGO": "LAGO", "f-CLSWGAN": "fCLSWGAN"}
_FILES = ("pred_gzsl_val.npz", "rows_val.npz", "pred_gzsl_test.npz", "rows_test.npz")


class Missing(LookupError):
    """An input of a result is absent; the message names it."""


@dataclass(frozen=True)
class Holding:
    """Files of one data set.

    Parameters
    ----------
    name : str
        "CUB", "AWA1", ..., or "glyphs", the built-in data set.
    folder : path, optional
        In xlsa17 layout.
    features : str, optional
        Name of its features file, without `.mat`.
    predictions : dict
        Folder of published predictions, by method.
    """

    name: str
    folder: Path | None = None
    features: str | None = None
    predictions: Mapping[str, Path] = field(default_factory=dict)

    @property
    def seed(self) -> int:
        """Seed of the validation split: the authors' where it is published."""
        return PUBLISHED_SEEDS.get(self.name, 0)

    @property
    def published_name(self) -> str:
        """Name of the data set in the paper's tables."""
        return "AWA" if self.name == "AWA1" else self.name

    def dataset(self, *, recorded: bool = False) -> GZSLDataset:
        """Return the data set; with `recorded`, original descriptions where the file has them."""
        if self.name == "glyphs":
            return load_glyphs()
        if self.folder is None or self.features is None:
            raise Missing(f"features of {self.name}: xlsa17/{self.name}/res101.mat")
        folder = self._splits_folder()
        try:
            return read_xlsa17(folder, features=self.features, original=recorded)
        except DataError:
            if not recorded:
                raise
            return read_xlsa17(folder, features=self.features)

    def split(self) -> tuple[pd.Index, Split]:
        """Return labels and split, without features."""
        if self.name == "glyphs":
            data = load_glyphs()
            return data.labels, data.split
        folder = self._splits_folder()
        if self.features is None and not (folder / "labels.mat").is_file():
            raise Missing(f"labels of {self.name}: xlsa17/{self.name}/res101.mat")
        return read_xlsa17_split(folder, labels=self.features or "labels")

    def _splits_folder(self) -> Path:
        if self.folder is None or not (self.folder / "att_splits.mat").is_file():
            raise Missing(f"splits of {self.name}: xlsa17/{self.name}/att_splits.mat")
        return self.folder

    def published_predictions(self, method: str) -> Path:
        """Return the folder of a method's published predictions."""
        folder_name = _PREDICTION_FOLDERS.get(method, method)
        where = f"published predictions of {method}: predictions/{folder_name}/{self.name}/"
        if method not in self.predictions:
            raise Missing(where)
        folder = self.predictions[method]
        for file in _FILES:
            if not (folder / file).is_file():
                raise Missing(where + file)
        return folder


def find_inputs(folder: str | os.PathLike[str] | None, *, features: str | None = None) -> dict[str, Holding]:
    """Return the files of each data set in a folder; the built-in `glyphs` is always included.

    Parameters
    ----------
    folder : path or None
        None: only the built-in data set.
    features : str, optional
        Name of the features file where a data set has several; by default `res101`, or the first.

    Raises
    ------
    DataError
        If the folder has none of the paper's data, or no features file of that name.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(folder, "xlsa17", "CUB").mkdir(parents=True)
    ...     Path(folder, "xlsa17", "CUB", "res101.mat").touch()
    ...     found = find_inputs(folder)
    >>> found["CUB"].features, found["SUN"].features
    ('res101', None)
    """
    if folder is None:
        return {"glyphs": Holding("glyphs")}
    root = Path(folder)
    if not root.is_dir():
        raise DataError(f"{root}: no such folder")
    found = {name: _dataset_files(root, name, features) for name in DATASETS}
    if not any(one.folder or one.predictions for one in found.values()):
        raise DataError(
            f"{root}: has none of {', '.join(DATASETS)}; expected are folders such as xlsa17/CUB "
            "(att_splits.mat, res101.mat) and predictions/LAGO/CUB"
        )
    if features is not None and all(one.features != features for one in found.values()):
        raise DataError(f"{root}: there is no xlsa17/*/{features}.mat; give the name without .mat")
    return {**found, "glyphs": Holding("glyphs")}


def _dataset_files(root: Path, name: str, features: str | None) -> Holding:
    folder = root / "xlsa17" / name
    files = sorted(path.stem for path in folder.glob("*.mat"))
    files = [stem for stem in files if not stem.endswith("_splits") and stem != "labels"]
    wanted = [stem for stem in (features, "res101") if stem in files] + files
    predictions = {method: root / "predictions" / kept / name for method, kept in _PREDICTION_FOLDERS.items()}
    return Holding(
        name,
        folder if folder.is_dir() else None,
        wanted[0] if wanted else None,
        {method: path for method, path in predictions.items() if path.is_dir()},
    )
