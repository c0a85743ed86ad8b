"""What is expected of requests to the studio."""

from __future__ import annotations

import numpy as np
from cells import Cell, error, reads, same
from studio_entries import STUDIO_ENTRIES, Answered
from table import Cells, expect

PREDICT, *CLASSES = STUDIO_ENTRIES


def status(code: int, *says: str) -> Cell:
    """The answer is a refusal: a sentence that names the input and the fix."""
    return error(Answered, f"status {code}", *says)


def numbers(name: str) -> Cells:
    """Return what `cosmo.viz.studio.reading.numbers_of` does."""
    listed = f"{name} must be a list of 6 numbers, got"
    return {
        "NaN": status(400, "NaN is no number", "correct it"),
        "infinite": status(400, "Infinity is no number", "correct it"),
        "beyond any float": status(422, f"{name}: number 1 is too large", "correct it"),
        "too large for float32": status(422, f"{name}: number 2 is too large", "correct it"),
        **{
            fault: status(422, f"{name}: number {place} is {kind}", "all must be numbers")
            for fault, place, kind in (
                ("a word", 2, "text"),
                ("numbers as text", 1, "text"),
                ("true", 2, "true or false"),
                ("null among them", 2, "null"),
                ("nested lists", 1, "a list"),
            )
        },
        **{
            fault: status(422, f"{name} must be 6 numbers, got {count}")
            for fault, count in (("empty", 0), ("one too few", 5), ("one too many", 7))
        },
        "a single number": status(422, listed, "a number"),
        "text": status(422, listed, "text"),
        "null": status(422, listed, "null"),
        "left out": status(422, listed, "null"),
        "an object of unknown names": status(422, listed, "an object"),
        "an empty object": status(422, listed, "an object"),
    }


answered = reads("an answer", lambda found: found[0] in found[1].split(",") and np.isfinite(found[2]).all())
expect(
    PREDICT,
    "sent numbers",
    numbers("features"),
    dict.fromkeys(("tiny", "all zero", "whole numbers"), answered),
    {
        "huge": status(422, "the features are too large", "scale them as in the training"),
        "left out": status(422, "this model takes features", 'send JSON with the field "features"'),
    },
)
added = reads("the class", lambda found: found[0] == "jay" and np.isfinite(found[-1]).all())
expect(
    CLASSES,
    "sent numbers",
    numbers("values"),
    dict.fromkeys(("tiny", "all zero", "whole numbers"), added),
    {
        "huge": status(422, "the values are too large", "scale them as those of the other classes"),
        "an object of unknown names": status(422, "values: there is no attribute 'f0'", "the first is"),
        "an empty object": status(422, "values: the attribute 'colour::red' is missing", "all 6 are needed"),
    },
)
empty = status(422, "the name is empty", "write something")
expect(
    CLASSES,
    "sent names",
    {
        "a seen class": status(422, "there is a class 'ant' already", "choose another name"),
        "an unseen class": status(422, "there is a class 'gnu' already", "choose another name"),
        "a class, blanks around": status(422, "there is a class 'ant' already", "choose another name"),
        "empty": empty,
        "blanks only": empty,
        "blanks around": same(),
        "a line break": status(422, "the name has the control character U+000A", "leave it out"),
        "a control character": status(422, "the name has the control character U+0000", "leave it out"),
        "half of a character": status(422, "the name has the control character U+D800", "leave it out"),
        "letters that turn others": status(422, "the name has the invisible character U+202E", "leave it"),
        "too long": status(422, "the name has 201 characters", "shorten it to 200"),
        "a number": status(422, "the name must be text, got a number"),
        "a list": status(422, "the name must be text, got a list"),
        "null": status(422, "the name must be text, got null"),
        "left out": status(422, "the name must be text, got null"),
        "markup": reads("the name as it is", lambda found: found[0] == "<script>alert(1)</script>"),
    },
)
token = status(401, "the token is missing or wrong", "open the address that `cosmo studio` printed")


def request_cells(path: str) -> Cells:
    """Return what is done about faults of a request that are none of its fields."""
    return {
        "wrong token": token,
        "no token": token,
        "no header X-Cosmo": status(403, "the header X-Cosmo: 1 is missing"),
        "another host": status(403, "this is not the name of the studio", "open the address that"),
        "another method": status(405, f"{path} does not take PUT"),
        "Content-Type with a charset": same(),
        **{
            fault: status(415, f"the Content-Type '{kind}' is not taken", "send application/json")
            for fault, kind in (
                ("Content-Type text/plain", "text/plain"),
                ("a form", "application/x-www-form-urlencoded"),
                ("no Content-Type", ""),
                ("a picture", "image/png"),
            )
        },
        "no body": status(400, "the request has no body", "send JSON"),
        **dict.fromkeys(
            ("cut short", "no JSON", "UTF-16"), status(400, "the request is not JSON", "correct it")
        ),
        "a list": status(400, "the request must be a JSON object with named fields, got a list"),
        "nested too deep": status(400, "the request is nested too deep"),
        "too large": status(413, "the request is larger than", "send less"),
        "a field twice": status(400, "is there twice", "correct it"),
        "a field too many": status(422, "the request has the unknown field 'text'", "known are"),
        "no field": status(422, "the name must be text, got null"),
    }


for entry in STUDIO_ENTRIES:
    expect(entry, "requests", request_cells(entry.split()[1]))
wanted = status(422, "this model takes features", 'send JSON with the field "features"')
expect(
    PREDICT,
    "requests",
    {
        "a picture": status(415, "this model takes features, not pictures", "send JSON"),
        "a field too many": wanted,
        "no field": wanted,
    },
)
