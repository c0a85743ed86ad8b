"""What is expected of requests to a studio whose model takes texts or pictures."""

from __future__ import annotations

import numpy as np
from cells import Cell, na, reads, same
from encoded_entries import ENCODED_ENTRIES
from expected_requests import request_cells, status
from table import Cells, expect

TEXT, PREVIEW, KEEP, PICTURE = ENCODED_ENTRIES

answered = reads("an answer", lambda found: found[0] in found[1].split(",") and np.isfinite(found[2]).all())
added = reads("the class", lambda found: found[0] == "jay" and np.isfinite(found[-1]).all())


def words(name: str, most: int) -> Cells:
    """Return what `cosmo.viz.studio.reading.words_of` refuses."""
    empty = status(422, f"{name} is empty", "write something")
    return {
        "empty": empty,
        "blanks only": empty,
        "a control character": status(422, f"{name} has the control character U+0007", "leave it out"),
        "a null character": status(422, f"{name} has the control character U+0000", "leave it out"),
        "half of a character": status(422, f"{name} has the control character U+D83D", "leave it out"),
        "too long": status(422, f"{name} has 25,000 characters", f"shorten it to {most:,}"),
        **{
            fault: status(422, f"{name} must be text, got {kind}")
            for fault, kind in (
                ("a number", "a number"),
                ("true", "true or false"),
                ("a list", "a list"),
                ("an object", "an object"),
                ("null", "null"),
                ("left out", "null"),
            )
        },
    }


TAKEN = (
    "several lines",
    "letters that turn others",
    "letters in two pieces",
    "signs and other scripts",
    "as long as is taken",
    "markup",
)
expect(TEXT, "sent texts", words("text", 20_000), dict.fromkeys(TAKEN, answered), {"blanks around": same()})
expect(
    [PREVIEW, KEEP],
    "sent texts",
    words("the description", 5_000),
    dict.fromkeys(TAKEN, added),
    {"blanks around": same()},
)
for entry in (TEXT, PREVIEW, KEEP):
    expect(entry, "requests", request_cells(entry.split()[1]))
expect(
    TEXT,
    "requests",
    {
        "a picture": status(415, "this model takes text, not pictures", "send JSON"),
        "a field too many": status(400, "the field 'text' is there twice", "correct it"),
        "no field": status(422, "text must be text, got null"),
    },
)

unreadable = status(422, "the sample cannot be used: not an image that can be read", "send another")
no_png = status(422, "the picture is not a PNG file that can be read", "save it again")
pixels = status(413, "the picture has more than 50,000,000 pixels", "make it smaller")


def not_taken(kind: str) -> Cell:
    return status(415, f"the Content-Type '{kind}' is not taken", "send application/json, image/png")


expect(
    PICTURE,
    "sent pictures",
    {
        "empty": status(400, "the request has no body", "send JSON or a picture"),
        **dict.fromkeys(("cut short", "damaged in the middle"), unreadable),
        **dict.fromkeys(
            ("its header only", "no picture", "markup", "a JPEG called PNG", "no pixels"), no_png
        ),
        "a GIF": not_taken("image/gif"),
        "an SVG": not_taken("image/svg+xml"),
        **dict.fromkeys(("more pixels than are taken", "far more pixels", "a bomb"), pixels),
        "more bytes than are taken": status(413, "the request is larger than 10,000,000 bytes", "send less"),
        **dict.fromkeys(("a form with a file", "a form with two files"), not_taken("multipart/form-data")),
        "as text": status(422, "the request has the unknown field 'image'", "known are"),
        "words instead": status(422, "this model takes images", "send a picture as the body"),
        **dict.fromkeys(("something after its end", "two pictures in one", "type in capitals"), same()),
        **dict.fromkeys(("grey", "16 bits", "palette", "opaque alpha", "WebP"), same()),
        **dict.fromkeys(("animated PNG", "animated WebP", "turned, with a note"), same()),
        "a damaged note": same(warns=True),
        **dict.fromkeys(("1 bit", "transparent", "CMYK", "one pixel", "very narrow"), answered),
    },
)
expect(
    PICTURE,
    "requests",
    request_cells("/api/predict"),
    {
        "Content-Type with a charset": status(400, "the request is not JSON", "correct it"),
        "Content-Type text/plain": not_taken("text/plain"),
        "a form": not_taken("application/x-www-form-urlencoded"),
        "no Content-Type": not_taken(""),
        "a picture": same(),
        **dict.fromkeys(("no JSON", "a list", "nested too deep"), no_png),
        "too large": same(),
        **dict.fromkeys(
            ("cut short", "UTF-16", "a field twice", "a field too many", "no field"),
            na("the body is no JSON; see the faults of pictures"),
        ),
    },
)
