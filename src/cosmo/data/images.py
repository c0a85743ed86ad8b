"""Pictures on disk: a folder for each class, or a table of paths."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pandas as pd

from cosmo.data.dataset import DataError
from cosmo.data.tables import find_column, read_table, table_labels

__all__ = ["read_image_folder", "read_image_table"]

_SUFFIXES = (
    ".avif",
    ".bmp",
    ".dib",
    ".gif",
    ".jfif",
    ".jp2",
    ".jpe",
    ".jpeg",
    ".jpg",
    ".pbm",
    ".pgm",
    ".png",
    ".pnm",
    ".ppm",
    ".tga",
    ".tif",
    ".tiff",
    ".webp",
)
_PATH_NAMES = ("path", "image", "file", "filename")
_SHOWN = 10


def read_image_folder(folder: str | os.PathLike[str]) -> tuple[list[Path], pd.Index | None]:
    """List the pictures of a folder that has a folder for each class, or pictures only.

    What is not a picture, by the end of its name, and what is hidden is passed over. Pictures may lie in
    folders within that of their class.

    Returns
    -------
    paths : list of Path
        In the order of classes and names.
    labels : Index of str, or None
        Name of the class folder of each picture (as composed Unicode, however the disk spells it); None
        if the pictures lie in the folder itself.

    Raises
    ------
    DataError
        If there are no pictures, or some with and some without a class.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("cat", "dog"):
    ...         Path(folder, name).mkdir()
    ...         Image.new("L", (8, 8)).save(Path(folder, name, "1.png"))
    ...     paths, labels = read_image_folder(folder)
    >>> [path.name for path in paths], list(labels)
    (['1.png', '1.png'], ['cat', 'dog'])
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder" if not folder.exists() else f"{folder}: not a folder")
    inside = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    loose = [path for path in inside if _is_picture(path)]
    paths: list[Path] = []
    labels: list[str] = []
    for home in inside:
        if home.is_dir():
            pictures = sorted(path for path in home.rglob("*") if _is_picture(path) and _shown(path, home))
            paths += pictures
            labels += [unicodedata.normalize("NFC", home.name)] * len(pictures)
    if loose and paths:
        raise DataError(
            f"{folder}: {len(loose)} pictures lie beside the folders of classes ({loose[0].name}); move them "
            "into the folder of their class"
        )
    if not loose and not paths:
        raise DataError(f"{folder}: no pictures ({', '.join(_SUFFIXES)}) in it or in its folders")
    return (loose, None) if loose else (paths, pd.Index(labels))


def read_image_table(
    path: str | os.PathLike[str], *, image: str | None = None, label: str | None = None
) -> tuple[list[Path], pd.Index | None]:
    r"""Read a table with the path of a picture in each row and, where there is such a column, its label.

    Parameters
    ----------
    path : path
        See `read_table`. Paths in it are relative to its folder.
    image : str, optional
        Column of the paths; by default the one that is called "path", "image", "file" or "filename".
    label : str, optional
        Column of the labels; by default the one that is called "label" or "class", if any.

    Raises
    ------
    DataError
        Naming the pictures that are not there.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("L", (8, 8)).save(Path(folder, "1.png"))
    ...     _ = Path(folder, "pets.csv").write_text("path,label\n1.png,cat\n")
    ...     paths, labels = read_image_table(Path(folder, "pets.csv"))
    >>> paths[0].name, list(labels)
    ('1.png', ['cat'])
    """
    path = Path(path)
    table = read_table(path)
    column = find_column(table, image, _PATH_NAMES, str(path), "paths")
    if column is None:
        raise DataError(
            f"{path}: no column is called {', '.join(_PATH_NAMES)}; say which one has the paths: "
            f"{', '.join(map(repr, table.columns))}"
        )
    for row, name in enumerate(table[column], start=1):
        if not isinstance(name, str) or not name.strip():
            raise DataError(f"{path}: row {row}, column {column!r} is {name!r}, not a path; fill or drop it")
    paths = [path.parent / name for name in table[column]]
    missing = [f"row {row}: {file}" for row, file in enumerate(paths, start=1) if not file.is_file()]
    if missing:
        listed = "\n  ".join(missing[:_SHOWN])
        raise DataError(f"{path}: {len(missing)} pictures are not there:\n  {listed}")
    return paths, table_labels(table, label, str(path))


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in _SUFFIXES and not path.name.startswith(".") and path.is_file()


def _shown(path: Path, home: Path) -> bool:
    return not any(part.startswith(".") for part in path.relative_to(home).parts)
