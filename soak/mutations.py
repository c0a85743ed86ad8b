"""Random damage to files."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

_NUMBERS = (0, 1, -1, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**40)
_TEXTS = (
    *(
        b"",
        b"-1",
        b"0",
        b"1e999",
        b"nan",
        b"-inf",
        b"9" * 20,
        b"9" * 400,
        b"\0",
        b"\xff\xfe",
        b"\n",
        b'"',
        b",",
    ),
    *(b";", b"../", b"=1+1", b"[" * 3000, b"{", b"}", b"(", b"%s", b"\xef\xbb\xbf"),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**31, 2**63, 10**30, -0.5, 1e308, "", "a", "../..", "os.system", "O", "U9999999"),
    *([], {}, [[]], [0] * 2000, {"is": "tuple", "items": []}, {"is": "float", "value": "nan"}),
    {"is": "array", "name": "answer"},
)
_WAYS = ("flip", "flip", "byte", "number", "cut", "drop", "double", "splice", "text", "zero", "swap")


def mutate(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Return a file with one to four changes, some of them pieces of other files."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        _change(changed, others, rng)
    return bytes(changed if changed != content else changed + b"\0")


def _change(changed: bytearray, others: list[bytes], rng: random.Random) -> None:
    way, span = rng.choice(_WAYS), _span(changed, rng)
    place = span.start
    if way == "flip":
        changed[place : place + 1] = bytes(
            byte ^ 1 << rng.randrange(8) for byte in changed[place : place + 1]
        )
    elif way == "byte":
        changed[place : place + 1] = bytes([rng.randrange(256)])
    elif way == "number":  # where a length may be
        size = rng.choice((1, 2, 4, 8))
        number = rng.choice(_NUMBERS) % 256**size
        changed[place : place + size] = number.to_bytes(size, rng.choice(("little", "big")))
    elif way == "cut":
        del changed[place:]
    elif way == "drop":
        del changed[span]
    elif way == "double":
        changed[place:place] = changed[span] * rng.choice((1, 1, 2, 50))
    elif way == "splice":
        other = bytearray(rng.choice(others))
        changed[span] = other[_span(other, rng)]
    elif way == "text":
        changed[place : place + rng.choice((0, 1, 4))] = rng.choice(_TEXTS)
    elif way == "zero":  # a block that the disk lost
        start = place & ~511
        changed[start : start + 512] = bytes(len(changed[start : start + 512]))
    else:
        other_span = _span(changed, rng)
        changed[span], changed[other_span] = changed[other_span], changed[span]


def _span(content: bytearray, rng: random.Random) -> slice:
    """Return a random span; the ends of a file, with headers and directories, are likelier."""
    n = max(1, len(content))
    near = min(n, 512)
    start = rng.choice((rng.randrange(n), rng.randrange(near), n - 1 - rng.randrange(near)))
    return slice(start, start + rng.choice((1, 2, 4, 8, 16, 64, 256, 1024)))


def mutate_json(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Return a JSON document with one to three of its values or keys changed."""
    document = json.loads(content)
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(_containers(document))
        # Outer containers are few; drawing from the first ones gives them a share.
        place = rng.choice(places[: rng.choice((8, 64, len(places)))])
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            continue
        key, way = rng.choice(keys), rng.randrange(4)
        if way == 0:
            place[key] = json.loads(json.dumps(rng.choice(_VALUES)))
        elif way == 1:
            place[key] = json.loads(json.dumps(rng.choice(places)))
        elif way == 2:
            del place[key]
        elif isinstance(place, dict):
            place[rng.choice(["is", "__class__", "weights_", "n_features_in_", *keys])] = place.pop(key)
        else:
            place.extend(json.loads(json.dumps(place[key : key + 1] * rng.choice((1, 100)))))
    return json.dumps(document).encode()


def _containers(tree: Any) -> Iterator[Any]:
    """Yield objects and lists, the outer ones first."""
    waiting = [tree]
    for node in waiting:
        if isinstance(node, dict | list):
            yield node
            waiting += node.values() if isinstance(node, dict) else node
