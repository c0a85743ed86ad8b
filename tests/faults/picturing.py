"""A small picture, and what can be wrong, or unusual, with one that is sent."""

from __future__ import annotations

import base64
import io
import json
import struct
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from problem import Spoil

Sent = dict[str, Any]

PIXELS = (np.arange(96) * 37 % 251).astype(np.uint8).reshape(8, 12)
"""All grey, so that every kind of file can hold them as they are."""

_TURNED = 8  # the note of a camera that was held upright: what is left in the file is on top in truth
_ORIENTATION = 0x0112


def file_of(picture: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """Return a picture as a file."""
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def rgb() -> Image.Image:
    return Image.fromarray(PIXELS).convert("RGB")


def clean_picture() -> Sent:
    return {"type": "image/png", "content": file_of(rgb())}


def _content(change: Callable[[bytes], bytes]) -> Spoil:
    """Return the fault that changes the bytes of the file."""
    return lambda problem, name: setattr(
        problem, name, {**getattr(problem, name), "content": change(getattr(problem, name)["content"])}
    )


def _as(content: bytes, kind: str = "image/png") -> Spoil:
    """Return the fault that sends other bytes, as another type."""
    return lambda problem, name: setattr(problem, name, {"type": kind, "content": content})


def _drawn(picture: Image.Image, kind: str = "PNG", **options: Any) -> Spoil:
    return _as(file_of(picture, kind, **options), f"image/{kind.lower()}")


def _sized(width: int, height: int) -> Spoil:
    """Return the fault that declares another size, in a header that is whole."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    header += struct.pack(">I", zlib.crc32(header))
    return _content(lambda content: content[:12] + header + content[33:])


def _flipped(content: bytes) -> bytes:
    place = content.index(b"IDAT") + 20
    return content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]


def _form(n_files: int) -> Spoil:
    about = 'Content-Disposition: form-data; name="file"; filename="a.png"\r\nContent-Type: image/png'
    part = f"--x\r\n{about}\r\n\r\n"
    body = (part.encode() + file_of(rgb()) + b"\r\n") * n_files + b"--x--\r\n"
    return _as(body, "multipart/form-data; boundary=x")


def _json(**fields: Any) -> Spoil:
    return _as(json.dumps(fields).encode(), "application/json")


def _turned() -> Spoil:
    note = Image.Exif()
    note[_ORIENTATION] = _TURNED
    return _drawn(rgb().transpose(Image.Transpose.ROTATE_270), exif=note)


def _frames() -> dict[str, Any]:
    return {"save_all": True, "append_images": [Image.new("RGB", (12, 8), "red")], "duration": 100}


SENT_PICTURES: dict[str, Spoil] = {
    "empty": _content(lambda content: b""),
    "cut short": _content(lambda content: content[: len(content) // 2]),
    "its header only": _content(lambda content: content[:33]),
    "damaged in the middle": _content(_flipped),
    "no picture": _as(b"a bird, in words"),
    "markup": _as(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"),
    "a JPEG called PNG": _as(file_of(rgb(), "JPEG")),
    "a GIF": _drawn(rgb(), "GIF"),
    "an SVG": _as(b"<svg/>", "image/svg+xml"),
    "no pixels": _sized(0, 0),
    "more pixels than are taken": _sized(8000, 7000),
    "far more pixels": _sized(10_000, 10_000),
    "a bomb": _sized(2**31 - 1, 2**31 - 1),
    "more bytes than are taken": _content(lambda content: content + bytes(10_000_000)),
    "a form with a file": _form(1),
    "a form with two files": _form(2),
    "as text": _json(image=base64.b64encode(file_of(rgb())).decode()),
    "words instead": _json(text="a bird"),
    "something after its end": _content(lambda content: content + b"and more"),
    "two pictures in one": _content(lambda content: content + content),
    "type in capitals": _as(file_of(rgb()), "IMAGE/PNG"),
    "grey": _drawn(Image.fromarray(PIXELS)),
    "16 bits": _drawn(Image.fromarray(PIXELS.astype(np.uint16) * 257)),
    "1 bit": _drawn(Image.fromarray(PIXELS > 100)),
    "palette": _drawn(Image.fromarray(PIXELS).convert("P")),
    "opaque alpha": _drawn(rgb().convert("RGBA")),
    "transparent": _drawn(Image.new("RGBA", (12, 8))),
    "CMYK": _drawn(rgb().convert("CMYK"), "JPEG"),
    "WebP": _drawn(rgb(), "WEBP", lossless=True),
    "animated PNG": _drawn(rgb(), **_frames()),
    "animated WebP": _drawn(rgb(), "WEBP", lossless=True, **_frames()),
    "turned, with a note": _turned(),
    "a damaged note": _drawn(rgb(), exif=b"Exif\0\0MM\0*\xff\xff\xff\xff" + bytes(9)),
    "one pixel": _drawn(Image.new("RGB", (1, 1))),
    "very narrow": _drawn(Image.new("RGB", (1, 3000))),
}
