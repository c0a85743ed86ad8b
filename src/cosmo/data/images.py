"""Image files: folders and tables of them, and decoding one to RGB."""

from __future__ import annotations

import io
import os
import unicodedata
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image, ImageOps

from cosmo.data._tablefile import find_column, shown
from cosmo.data.dataset import DataError, ItemError
from cosmo.data.tables import read_table, table_labels

# The content decides, not the name. EPS is left out: Pillow runs another program for it.
_FORMATS = ("AVIF", "BMP", "DIB", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TGA", "TIFF", "WEBP")
_SUFFIXES = (
    *(".avif", ".bmp", ".dib", ".gif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg", ".pbm", ".pgm", ".png"),
    *(".pnm", ".ppm", ".tga", ".tif", ".tiff", ".webp"),
)
PATH_NAMES = ("path", "image", "file", "filename")
_MAX_LISTED = 10
_DRAFT = 2  # a JPEG may be decoded smaller, down to this multiple of the size needed


def read_image_folder(folder: str | os.PathLike[str]) -> tuple[list[Path], pd.Index | None]:
    """List the images in a folder with one subfolder per class.

    Hidden files, and files without the suffix of an image format, are ignored. Subfolders of a class
    folder are searched too.

    Parameters
    ----------
    folder : path
        Has a subfolder for each class, or images only.

    Returns
    -------
    paths : list of Path
        Sorted by class and name.
    labels : Index of str, or None
        Name of the class folder of each image, in composed Unicode (NFC). None if the images lie in
        the folder itself.

    Raises
    ------
    DataError
        If there are no images, or some with and some without a class.

    Examples
    --------
    >>> import tempfile
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
    entries = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    without_class = [path for path in entries if _is_image(path, folder)]
    paths: list[Path] = []
    labels: list[str] = []
    for entry in entries:
        if entry.is_dir():
            images = sorted(path for path in entry.rglob("*") if _is_image(path, entry))
            paths += images
            labels += [unicodedata.normalize("NFC", entry.name)] * len(images)
    if without_class and paths:
        raise DataError(f"{folder}: {len(without_class)} images lie beside the class folders; move them")
    if not without_class and not paths:
        raise DataError(f"{folder}: no images ({', '.join(_SUFFIXES)}) in it or in its subfolders")
    return (without_class, None) if without_class else (paths, pd.Index(labels))


def read_image_table(
    path: str | os.PathLike[str], *, image: str | None = None, label: str | None = None
) -> tuple[list[Path], pd.Index | None]:
    r"""Read a table of image paths, with labels if it has such a column.

    Parameters
    ----------
    path : path
        See `read_table`. Paths in the table are relative to its folder.
    image : str, default=None
        Column of the paths; by default the one named "path", "image", "file" or "filename".
    label : str, default=None
        Column of the labels; by default the one named "label" or "class", if any.

    Returns
    -------
    paths : list of Path
    labels : Index, or None

    Raises
    ------
    DataError
        If there is no column of paths, or images do not exist.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("L", (8, 8)).save(Path(folder, "1.png"))
    ...     _ = Path(folder, "pets.csv").write_text("path,label\n1.png,cat\n")
    ...     paths, labels = read_image_table(Path(folder, "pets.csv"))
    >>> paths[0].name, list(labels)
    ('1.png', ['cat'])
    """
    path = Path(path)
    table = read_table(path)
    column = find_column(table.columns, image, PATH_NAMES, str(path), "paths")
    if column is None:
        raise DataError(f"{path}: no column is called {', '.join(PATH_NAMES)} in {shown(table.columns)}")
    for row, name in enumerate(table[column], start=1):
        if not isinstance(name, str) or not name.strip():
            raise DataError(f"{path}: row {row}, column {column!r} is {name!r}, not a path; fill or drop it")
    paths = [path.parent / name for name in table[column]]
    missing = [f"row {row}: {file}" for row, file in enumerate(paths, start=1) if not file.is_file()]
    if missing:
        listed = "\n  ".join(missing[:_MAX_LISTED])
        raise DataError(f"{path}: {len(missing)} images do not exist:\n  {listed}")
    return paths, table_labels(table, label, str(path))


def read_image(item: str | os.PathLike[str] | NDArray[np.uint8], min_size: int = 0) -> Image.Image:
    """Decode an image file, or a uint8 array (height, width[, 3 or 4]), to an upright RGB image.

    Transparent pixels become white, 16 bits become 8, and of several frames the first is taken. A JPEG file
    with sides much longer than `min_size` is decoded at a reduced size, which is faster. Raises ItemError.
    """
    if isinstance(item, np.ndarray):
        return _to_rgb(_from_array(item))
    content = _file_bytes(item)
    try:
        with Image.open(io.BytesIO(content), formats=_formats()) as image:
            if min_size:
                image.draft(None, (_DRAFT * min_size,) * 2)
            image.load()
            upright: Image.Image = image
            with suppress(Exception):  # damaged EXIF data must not hide an intact image
                upright = ImageOps.exif_transpose(image)
            return _to_rgb(upright)
    except ItemError as error:
        raise ItemError(f"{item}: {error}") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ItemError(f"{item}: far too many pixels for an image; make it smaller ({error})") from error
    except Exception as error:  # decoders of damaged files raise nearly anything
        raise ItemError(f"{item}: not an image that can be read ({_reason(error)})") from error


def image_bytes(item: Any) -> bytes:
    """Return the bytes of an image file, or the shape and values of an array."""
    if isinstance(item, np.ndarray):
        return f"{item.dtype} {item.shape} ".encode() + item.tobytes()
    return _file_bytes(item)


def _is_image(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.suffix.lower() in _SUFFIXES and not hidden and path.is_file()


@cache
def _formats() -> list[str]:
    """Return those formats that this version of Pillow decodes."""
    Image.init()
    return [name for name in _FORMATS if name in Image.OPEN]


def _file_bytes(item: Any) -> bytes:
    if not isinstance(item, str | os.PathLike):
        raise ItemError(f"expected the path of an image, got {item!r} ({type(item).__name__})")
    try:
        content = Path(item).read_bytes()
    except FileNotFoundError as error:
        raise ItemError(f"{item}: no such file") from error
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise ItemError(f"{item}: cannot be read ({_reason(error)})") from error
    if not content:
        raise ItemError(f"{item}: the file is empty")
    return content


def _from_array(values: NDArray[Any]) -> Image.Image:
    is_image = values.ndim == 2 or (values.ndim == 3 and values.shape[2] in (3, 4))
    if values.dtype != np.uint8 or not is_image or not values.size:
        raise ItemError(
            f"an image array must be uint8 (height, width[, 3]), got {values.dtype} {values.shape}"
        )
    return Image.fromarray(values)


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F":
        raise ItemError("pixels are floating-point numbers; save it with 8 or 16 bits")
    if image.mode.startswith("I"):
        image = Image.fromarray((np.asarray(image) / 257).clip(0, 255).round().astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def _reason(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error).partition("\n")[0] or type(error).__name__
