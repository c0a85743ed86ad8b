"""Encode views (arrays, images, JSON) and render them as one self-contained HTML page."""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import json
import math
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageOps

from cosmo.data import DataError
from cosmo.data.dataset import ItemError
from cosmo.data.images import read_image
from cosmo.viz.text import fill_template

FORMAT = 1
MAX_THUMBNAILS = 600  # of image files
_KINDS = ("run", "evaluation", "comparison", "studio")
_MAX_VIEW_BYTES = 200_000_000  # decompressed
_MAX_PIXEL_BYTES = 2_600_000  # of image arrays, so that a page stays well below 5 MB
_SIDE = 64  # pixels of a thumbnail
_STATIC = files("cosmo.viz.page").joinpath("static")
_VIEW = re.compile(r'<script\b[^<>]{0,200}\bid="view"[^<>]{0,200}>')


def render_page(view: Mapping[str, Any], *, live: Mapping[str, Any] | None = None) -> str:
    """Return the HTML page of a view, with inline styles, scripts and data.

    A content security policy allows the page its own script and style only. `live` has facts about the server
    behind the page, None for a file.
    """
    style, script = _assets()
    return fill_template(
        _STATIC / "page.html",
        title=view["title"],
        style=Markup(style),
        script=Markup(script),
        view=compress(view),
        live=htmlsafe_json_dumps(live, allow_nan=False),
        csp=content_security_policy(live=live is not None),
    )


def read_view(page: str) -> dict[str, Any]:
    """Return the view of a page that `render_page` made; DataError if it is another page, or damaged."""
    found = _VIEW.search(page)
    end = -1 if found is None else page.find("</script>", found.end())
    if found is None or end < 0:
        raise DataError("this is not a report of cosmo, or it is truncated: it contains no view")
    return decompress(page[found.end() : end])


def content_security_policy(*, live: bool) -> str:
    """Return the policy of a page; a live page may also send requests to its own server."""
    style, script = (base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in _assets())
    return (
        f"default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'" + ("; connect-src 'self'" if live else "")
    )


def _assets() -> tuple[str, str]:
    """Return style and script; script files are joined in the order of their names."""
    scripts = sorted((one for one in _STATIC.iterdir() if one.name.endswith(".js")), key=lambda one: one.name)
    style = _STATIC.joinpath("style.css").read_text("utf-8")
    return style, "\n".join(one.read_text("utf-8") for one in scripts)


class Arrays:
    """The arrays of a view; equal arrays are stored once."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self._places: dict[tuple[str, tuple[int, ...], bytes], int] = {}

    def add(self, values: ArrayLike, kind: str) -> int:
        """Store an array as numbers of a kind ("f8", "f4", "u1", "u2", "u4", "i4"); return its index."""
        stored = np.ascontiguousarray(values, dtype=f"<{kind}")
        key = kind, stored.shape, stored.tobytes()
        if key not in self._places:
            self._places[key] = len(self.entries)
            data = base64.b64encode(key[2]).decode()
            self.entries.append({"type": kind, "shape": list(stored.shape), "data": data})
        return self._places[key]


def to_json_value(value: Any) -> Any:
    """Return a value with Python's own numbers, and None for those that are not finite."""
    if isinstance(value, Mapping):
        return {str(key): to_json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [to_json_value(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, int | float | str | None) else str(value)


def compress(view: Mapping[str, Any]) -> str:
    """Return a view as base64 of zlib of JSON."""
    content = json.dumps(view, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # UTF-8 has no bytes for half of a surrogate pair, which a name may contain.
    return base64.b64encode(zlib.compress(content.encode("utf-8", "replace"), 9)).decode()


def decompress(text: str) -> dict[str, Any]:
    """Return the view in a text that `compress` made; DataError if it is damaged, too large or foreign."""
    try:
        reader = zlib.decompressobj()
        content = reader.decompress(base64.b64decode("".join(text.split()), validate=True), _MAX_VIEW_BYTES)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise DataError(f"the view cannot be decompressed: {error}") from error
    if reader.unconsumed_tail:
        raise DataError(f"the view is larger than {_MAX_VIEW_BYTES} bytes")
    if not reader.eof or reader.unused_data:
        raise DataError("the view is truncated or has data after its end; write the report again")
    try:
        view = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the view is not JSON: {type(error).__name__}") from error
    if not isinstance(view, dict) or view.get("format") != FORMAT:
        raise DataError(f"the view is not of format {FORMAT}, which this version of cosmo reads")
    if view.get("kind") not in _KINDS or not all(
        isinstance(view.get(part), list) and all(isinstance(one, dict) for one in view[part])
        for part in ("arrays", "sets")
    ):
        raise DataError("the view lacks its kind, arrays or sets")
    return view


def atlas_of_arrays(images: NDArray[Any]) -> dict[str, Any] | None:
    """Return image arrays as one PNG, as many as a page can hold, each at most 64 pixels wide and high.

    Arrays have the shape (n, height, width[, 1, 3 or 4]): bytes, or fractions if all values are in 0..1.
    """
    if not len(images):
        return None
    height, width = images.shape[1:3]
    scale = min(1.0, _SIDE / max(height, width))
    size = max(1, round(scale * width)), max(1, round(scale * height))
    bytes_each = math.prod(size) * (images.shape[3] if images.ndim == 4 else 1)
    pixels = np.asarray(images[: max(1, _MAX_PIXEL_BYTES // bytes_each)])
    if pixels.dtype != np.uint8:
        largest = 1.0 if pixels.max() <= 1 else 255.0
        pixels = np.rint(255 / largest * np.clip(pixels, 0, largest)).astype(np.uint8)
    if pixels.ndim == 4 and pixels.shape[3] == 1:
        pixels = pixels[..., 0]
    return _atlas((Image.fromarray(one).resize(size) for one in pixels), size, len(pixels), "PNG")


def atlas_of_files(paths: Sequence[Any]) -> dict[str, Any] | None:
    """Return the centre squares of the first 600 image files as one JPEG; unreadable ones are grey."""

    def thumbnail(path: Any) -> Image.Image:
        try:
            return ImageOps.fit(read_image(path, _SIDE), (_SIDE, _SIDE))
        except ItemError:
            return Image.new("RGB", (_SIDE, _SIDE), "grey")

    shown = paths[:MAX_THUMBNAILS]
    return _atlas(map(thumbnail, shown), (_SIDE, _SIDE), len(shown), "JPEG") if len(shown) else None


def _atlas(images: Iterable[Image.Image], size: tuple[int, int], count: int, kind: str) -> dict[str, Any]:
    width, height = size
    columns = math.ceil(math.sqrt(count))
    sheet: Image.Image | None = None
    for place, image in enumerate(images):
        if sheet is None:
            sheet = Image.new(image.mode, (columns * width, math.ceil(count / columns) * height))
        sheet.paste(image, (place % columns * width, place // columns * height))
    assert sheet is not None  # There is at least one image.
    content = io.BytesIO()
    sheet.save(content, kind, **({"optimize": True} if kind == "PNG" else {"quality": 70}))
    uri = f"data:image/{kind.lower()};base64,{base64.b64encode(content.getvalue()).decode()}"
    return {"uri": uri, "width": width, "height": height, "columns": columns, "count": count}
