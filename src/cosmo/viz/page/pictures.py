"""Many small pictures as one, to be carried by a page."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from cosmo.data.dataset import ItemError
from cosmo.data.images import read_image

__all__ = ["MOST_FILES", "atlas_of_arrays", "atlas_of_files"]

_SIDE = 64  # pixels
MOST_FILES = 600  # pictures
_MOST_BYTES = 2_600_000  # of pixels of arrays, so that a page stays well below 5 MB


def atlas_of_arrays(images: NDArray[Any]) -> dict[str, Any] | None:
    """Return pictures as one PNG, as many as a page can carry; those larger than 64 pixels are made smaller.

    Parameters
    ----------
    images : array of shape (n_samples, height, width[, 1, 3 or 4])
        Bytes, or fractions where all values lie between 0 and 1.

    Examples
    --------
    >>> atlas = atlas_of_arrays(np.zeros((5, 8, 8), dtype=np.uint8))
    >>> atlas["width"], atlas["height"], atlas["columns"], atlas["count"]
    (8, 8, 3, 5)
    """
    if not len(images):
        return None
    height, width = images.shape[1:3]
    shrink = min(1.0, _SIDE / max(height, width))
    size = max(1, round(shrink * width)), max(1, round(shrink * height))
    each = size[0] * size[1] * (images.shape[3] if images.ndim == 4 else 1)
    pixels = np.asarray(images[: max(1, _MOST_BYTES // each)])
    if pixels.dtype != np.uint8:
        most = 1.0 if pixels.max() <= 1 else 255.0
        pixels = np.rint(255 / most * np.clip(pixels, 0, most)).astype(np.uint8)
    if pixels.ndim == 4 and pixels.shape[3] == 1:
        pixels = pixels[..., 0]
    return _atlas((Image.fromarray(one).resize(size) for one in pixels), size, len(pixels), "PNG")


def atlas_of_files(paths: Sequence[Any]) -> dict[str, Any] | None:
    """Return the first 600 picture files, their middle squares 64 pixels wide, as one JPEG.

    What cannot be read is left grey.
    """

    def small(path: Any) -> Image.Image:
        try:
            return ImageOps.fit(read_image(path, _SIDE), (_SIDE, _SIDE))
        except ItemError:
            return Image.new("RGB", (_SIDE, _SIDE), "grey")

    shown = paths[:MOST_FILES]
    return _atlas(map(small, shown), (_SIDE, _SIDE), len(shown), "JPEG") if len(shown) else None


def _atlas(pictures: Iterable[Image.Image], size: tuple[int, int], count: int, kind: str) -> dict[str, Any]:
    width, height = size
    columns = math.ceil(math.sqrt(count))
    sheet: Image.Image | None = None
    for place, picture in enumerate(pictures):
        if sheet is None:
            sheet = Image.new(picture.mode, (columns * width, math.ceil(count / columns) * height))
        sheet.paste(picture, (place % columns * width, place // columns * height))
    assert sheet is not None  # there is at least one
    content = io.BytesIO()
    sheet.save(content, kind, **({"optimize": True} if kind == "PNG" else {"quality": 70}))
    uri = f"data:image/{kind.lower()};base64,{base64.b64encode(content.getvalue()).decode()}"
    return {"uri": uri, "width": width, "height": height, "columns": columns, "count": count}
