"""What a request brings, read with care: JSON, numbers, names and pictures."""

from __future__ import annotations

import asyncio
import io
import json
import math
import threading
import unicodedata
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from fastapi import Request
from PIL import Image
from starlette.requests import ClientDisconnect

from cosmo.viz.studio.limits import Refusal

__all__ = ["PICTURES", "check_keys", "check_picture", "numbers_of", "read_body", "read_json", "words_of"]

#: Pictures that are taken: what the browser calls them, and the only decoders that may look at them.
PICTURES = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP"}

_opening = threading.Lock()
_LARGEST = float(np.finfo(np.float32).max)
# Letters that end lines or turn the direction of others: a name with them shows as what it is not.
_MISLEADING = frozenset("\u2028\u2029\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """Return the body, which may have `most` bytes and take that many seconds, whatever its header says.

    Raises
    ------
    Refusal
        413 if it is larger, 408 if it is late, 400 if it is empty.
    """
    too_large = Refusal(413, f"the request is larger than {most:,} bytes, the most that is taken; send less")
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced[:20]) > most:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise too_large
    except TimeoutError as error:
        raise Refusal(408, f"the request did not arrive within {seconds:g} seconds; send it again") from error
    except ClientDisconnect as error:
        raise Refusal(400, "the request ended too early; send it again") from error
    if not body:
        raise Refusal(400, "the request has no body; send JSON or a picture")
    return bytes(body)


def read_json(body: bytes) -> dict[str, Any]:
    """Return the object in a body; whole numbers become floats, since no other are asked for.

    Examples
    --------
    >>> read_json(b'{"features": [1, 2.5]}')
    {'features': [1.0, 2.5]}
    >>> read_json(b'{"features": [NaN]}')
    Traceback (most recent call last):
    cosmo.viz.studio.limits.Refusal: the request is not JSON: NaN is no number; correct it
    """

    def constant(name: str) -> float:
        raise ValueError(f"{name} is no number")

    def fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:  # which of them is meant?
                raise ValueError(f"the field {name[:50]!r} is there twice")
            found[name] = value
        return found

    try:
        found = json.loads(
            body.decode("utf-8"), parse_int=float, parse_constant=constant, object_pairs_hook=fields
        )
    except RecursionError as error:
        raise Refusal(400, "the request is nested too deep; no field has more than one level") from error
    except ValueError as error:  # of JSON and of UTF-8
        raise Refusal(400, f"the request is not JSON: {error}; correct it") from error
    if not isinstance(found, dict):
        raise Refusal(400, f"the request must be a JSON object with named fields, got {_kind(found)}")
    return found


def check_keys(found: Mapping[str, Any], *known: str) -> None:
    """Raise if an object has other keys than these."""
    for key in found:
        if key not in known:
            names = ", ".join(known)
            raise Refusal(422, f"the request has the unknown field {key[:50]!r}; known are {names}")


def words_of(value: Any, what: str, most: int, *, one_line: bool = False) -> str:
    """Return a text without blanks around it, if it is one that can be shown, stored and encoded.

    Parameters
    ----------
    value : object
    what : str
        How to call it in messages.
    most : int
        Characters that it may have.
    one_line : bool
        Whether it is a name, which must look like what it is.

    Examples
    --------
    >>> words_of("  okapi ", "the name", 200, one_line=True)
    'okapi'
    """
    if not isinstance(value, str):
        raise Refusal(422, f"{what} must be text, got {_kind(value)}")
    if len(value) > most:
        raise Refusal(422, f"{what} has {len(value):,} characters; shorten it to {most:,}")
    text = unicodedata.normalize("NFC", value).strip()
    if not text:
        raise Refusal(422, f"{what} is empty; write something")
    for letter in text:
        kind = unicodedata.category(letter)
        if kind == "Cs" or (kind == "Cc" and (one_line or letter not in "\t\n\r")):
            raise Refusal(422, f"{what} has the control character U+{ord(letter):04X}; leave it out")
        if one_line and letter in _MISLEADING:
            raise Refusal(422, f"{what} has the invisible character U+{ord(letter):04X}; leave it out")
    return text


def numbers_of(value: Any, what: str, names: Sequence[str] | int) -> list[float]:
    """Return as many finite numbers as there are names, from a list or from an object by name.

    Parameters
    ----------
    value : object
    what : str
        How to call it in messages.
    names : list of str, or int
        Of the numbers; or how many there must be, if they have none.

    Examples
    --------
    >>> numbers_of({"wings": 1.0, "legs": 2.0}, "values", ["legs", "wings"])
    [2.0, 1.0]
    >>> numbers_of([1.0], "features", 2)
    Traceback (most recent call last):
    cosmo.viz.studio.limits.Refusal: features must be 2 numbers, got 1
    """
    wanted = names if isinstance(names, int) else len(names)
    if isinstance(value, dict) and not isinstance(names, int):
        known = set(names)
        stranger = next((key for key in value if key not in known), None)
        if stranger is not None:
            raise Refusal(422, f"{what}: there is no attribute {stranger[:50]!r}; the first is {names[0]!r}")
        missing = next((name for name in names if name not in value), None)
        if missing is not None:
            raise Refusal(422, f"{what}: the attribute {missing!r} is missing; all {wanted} are needed")
        value = [value[name] for name in names]
    if not isinstance(value, list):
        raise Refusal(422, f"{what} must be a list of {wanted} numbers, got {_kind(value)}")
    for place, number in enumerate(value):
        if not isinstance(number, float):
            raise Refusal(422, f"{what}: number {place + 1} is {_kind(number)}; all must be numbers")
        if not math.isfinite(number) or abs(number) > _LARGEST:
            raise Refusal(422, f"{what}: number {place + 1} is too large; correct it")
    if len(value) != wanted:
        raise Refusal(422, f"{what} must be {wanted} numbers, got {len(value)}")
    return value


def check_picture(content: bytes, content_type: str, most_pixels: int) -> None:
    """Raise unless the header of a file is that of a picture of its type, and of moderate size.

    Examples
    --------
    >>> file = io.BytesIO()
    >>> Image.new("RGB", (30, 20)).save(file, "PNG")
    >>> check_picture(file.getvalue(), "image/png", 600)
    >>> check_picture(file.getvalue(), "image/png", 599)
    Traceback (most recent call last):
    cosmo.viz.studio.limits.Refusal: the picture has more than 599 pixels; make it smaller
    """
    too_large = Refusal(413, f"the picture has more than {most_pixels:,} pixels; make it smaller")
    kind = PICTURES[content_type]
    try:
        # What Pillow would warn about is refused. Filters of warnings are those of all threads.
        with _opening, warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=[kind]) as picture:
                size = picture.size
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise too_large from error
    except Exception as error:  # decoders of damaged files raise nearly anything
        raise Refusal(422, f"the picture is not a {kind} file that can be read; save it again") from error
    if size[0] * size[1] > most_pixels:
        raise too_large


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", float: "a number"}
    return names.get(type(value), "null")
