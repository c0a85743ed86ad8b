"""Pictures of any kind, as a network wants them: upright, RGB, cropped and of one size."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from cosmo.encoders.base import ItemError

__all__ = ["Preprocessing", "picture_bytes", "read_picture"]

# By content, whatever the name says. Not EPS, for which Pillow runs another program.
_FORMATS = ("AVIF", "BMP", "DIB", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TGA", "TIFF", "WEBP")
_DRAFT = 2  # a JPEG may be decoded smaller than it is, but to this multiple of what is needed


@dataclass(frozen=True)
class Preprocessing:
    """The centre of a picture, resized and normalised.

    Parameters
    ----------
    size : int
        Height and width in pixels that the network takes.
    mean, std : tuple of 3 floats
        Of red, green and blue between 0 and 1.
    crop : float
        Side of the square that is kept, relative to the shorter side of the picture.
    filter : {"bilinear", "bicubic", "lanczos"}
        How pictures are resized.

    Examples
    --------
    >>> prepare = Preprocessing(size=4, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    >>> pixels = prepare.resize(Image.new("RGB", (30, 20), "white"))
    >>> pixels.shape, prepare.normalise([pixels]).shape, prepare.normalise([pixels]).max()
    ((4, 4, 3), (1, 3, 4, 4), np.float32(1.0))
    """

    size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    crop: float = 1.0
    filter: str = "bicubic"

    def resize(self, picture: Image.Image) -> NDArray[np.uint8]:
        """Return the centre of an RGB picture, shape (size, size, 3)."""
        side = self.crop * min(picture.size)
        left, top = (picture.width - side) / 2, (picture.height - side) / 2
        resample = Image.Resampling[self.filter.upper()]
        return np.asarray(
            picture.resize((self.size,) * 2, resample, box=(left, top, left + side, top + side))
        )

    def normalise(self, pictures: list[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Return pictures of equal size as (n, 3, size, size)."""
        pixels = np.stack(pictures).astype(np.float32)
        pixels -= 255 * np.array(self.mean, dtype=np.float32)
        pixels /= 255 * np.array(self.std, dtype=np.float32)
        return pixels.transpose(0, 3, 1, 2)


def picture_bytes(item: Any) -> bytes:
    """Return what a picture is made of: the bytes of its file, or the shape and values of an array."""
    if isinstance(item, np.ndarray):
        return f"{item.dtype} {item.shape} ".encode() + item.tobytes()
    return _file_bytes(item)


def read_picture(item: str | os.PathLike[str] | NDArray[np.uint8], at_least: int = 0) -> Image.Image:
    """Return a file, or an array (height, width[, 3 or 4]) of uint8, as an upright RGB picture.

    What is transparent becomes white, 16 bits become 8, and the first of several pictures is taken.

    Parameters
    ----------
    item : path or array
    at_least : int
        A JPEG file whose sides are much longer than this is decoded at a smaller size, which is faster.

    Raises
    ------
    ItemError
        If it cannot be read, naming the file.

    Examples
    --------
    >>> read_picture(np.zeros((4, 6), dtype=np.uint8)).size
    (6, 4)
    """
    if isinstance(item, np.ndarray):
        return _rgb(_from_array(item))
    content = _file_bytes(item)
    try:
        with Image.open(io.BytesIO(content), formats=_formats()) as picture:
            if at_least:
                picture.draft(None, (_DRAFT * at_least,) * 2)
            picture.load()
            upright: Image.Image = picture
            with suppress(Exception):  # a damaged note of how the camera was held is no reason to stop
                upright = ImageOps.exif_transpose(picture)
            return _rgb(upright)
    except ItemError as error:
        raise ItemError(f"{item}: {error}") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise ItemError(f"{item}: far too many pixels for a picture; make it smaller ({error})") from error
    except Exception as error:  # decoders of damaged files raise nearly anything
        raise ItemError(f"{item}: not a picture that can be read ({_reason(error)})") from error


@cache
def _formats() -> list[str]:
    """Return those formats that this version of Pillow knows."""
    Image.init()
    return [name for name in _FORMATS if name in Image.OPEN]


def _file_bytes(item: Any) -> bytes:
    if not isinstance(item, str | os.PathLike):
        raise ItemError(f"the path of a picture was expected, got {item!r} ({type(item).__name__})")
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
    if values.dtype != np.uint8 or not (values.ndim == 2 or (values.ndim == 3 and values.shape[2] in (3, 4))):
        raise ItemError(
            "a picture as an array is uint8 of shape (height, width) or (height, width, 3), "
            f"got {values.dtype} {values.shape}"
        )
    if not values.size:
        raise ItemError(f"a picture without pixels: {values.shape}")
    return Image.fromarray(values)


def _rgb(picture: Image.Image) -> Image.Image:
    if picture.mode == "F":
        raise ItemError("pixels are floating-point numbers; save it with 8 or 16 bits")
    if picture.mode.startswith("I"):
        picture = Image.fromarray((np.asarray(picture) / 257).clip(0, 255).round().astype(np.uint8))
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        paper = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(paper, picture)
    return picture.convert("RGB")


def _reason(error: BaseException) -> str:
    return str(getattr(error, "strerror", None) or error).partition("\n")[0] or type(error).__name__
