"""Changes to a file: bits, lengths, pieces."""

from __future__ import annotations

import json
import random
from typing import Any

__all__ = ["mutate", "mutate_json"]

_NUMBERS = (0, 1, -1, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**40)
_TEXTS = (
    *(b"", b"-1", b"0", b"1e999", b"nan", b"-inf", b"99999999999999999999", b"9" * 400, b"\0", b"\xff\xfe"),
    *(b"\n", b'"', b",", b";", b"../", b"=1+1", b"[" * 3000, b"{", b"}", b"(", b"%s", b"\xef\xbb\xbf"),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 2**31, 2**63, 10**30, -0.5, 1e308, "", "a", "../..", "os.system", "O", "U9999999"),
    *([], {}, [[]], [0] * 2000, {"is": "tuple", "items": []}, {"is": "float", "value": "nan"}),
    {"is": "array", "name": "answer"},
)


def mutate(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Return a file that is changed in one to four ways; never the same file.

    Parameters
    ----------
    content : bytes
    others : list of bytes
        Files to take pieces from.
    rng : Random

    Examples
    --------
    >>> mutate(b"abcdefgh", [b"12345678"], random.Random(0)) != b"abcdefgh"
    True
    """
    changed = bytearray(content)
    ways = (_flip, _flip, _byte, _number, _cut, _drop, _double, _splice, _text, _zero, _swap)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        rng.choice(ways)(changed, others, rng)
    if changed == content:
        changed = changed[:-1] if rng.random() < 0.5 and changed else changed + b"\0"
    return bytes(changed)


def _place(changed: bytearray, rng: random.Random) -> int:
    """Return a position; those near the ends, where headers and directories are, are likelier."""
    n = len(changed)
    if not n:
        return 0
    near = min(n, 512)
    return rng.choice((rng.randrange(n), rng.randrange(near), n - 1 - rng.randrange(near)))


def _span(changed: bytearray, rng: random.Random) -> slice:
    start = _place(changed, rng)
    return slice(start, start + rng.choice((1, 2, 4, 8, 16, 64, 256, 1024)))


def _flip(changed: bytearray, others: list[bytes], rng: random.Random) -> None:
    if changed:
        changed[_place(changed, rng)] ^= 1 << rng.randrange(8)


def _byte(changed: bytearray, others: list[bytes], rng: random.Random) -> None:
    if changed:
        changed[_place(changed, rng)] = rng.randrange(256)


def _number(changed: bytearray, others: list[bytes], rng: random.Random) -> None:
    """Write a number where a length may be."""
    size = rng.choice((1, 2, 4, 8))
    place = _place(changed, rng) & ~(rng.choice((1, size)) - 1)
    value = rng.choice(_NUMBERS) % 256**size
    changed[place : place + size] = value.to_bytes(size, rng.choice(("little", "big")))


def _cut(changed: bytearray, others: list[bytes], rng: random.Random) -> None:
    del changed[_place(changed, rng) :]


def _drop(changed: bytearray, others: list[bytes], rng: random.Random) -> None:
    del changed[_span(changed, rng)]


def _double(changed: bytearray, others: list[bytes], rng: random.Random) -> None:
    span = _span(changed, rng)
    changed[span.start : span.start] = changed[span] * rng.choice((1, 1, 2, 50))


def _splice(changed: bytearray, others: list[bytes], rng: random.Random) -> None:
    other = bytearray(rng.choice(others))
    changed[_span(changed, rng)] = other[_span(other, rng)]


def _text(changed: bytearray, others: list[bytes], rng: random.Random) -> None:
    place = _place(changed, rng)
    changed[place : place + rng.choice((0, 1, 4))] = rng.choice(_TEXTS)


def _zero(changed: bytearray, others: list[bytes], rng: random.Random) -> None:
    """Blank a block, as a disk does that lost it."""
    start = _place(changed, rng) & ~511
    changed[start : start + 512] = bytes(min(512, len(changed) - start))


def _swap(changed: bytearray, others: list[bytes], rng: random.Random) -> None:
    one, other = _span(changed, rng), _span(changed, rng)
    changed[one], changed[other] = changed[other], changed[one]


def mutate_json(content: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Return a JSON document with one to three of its values or keys changed.

    Examples
    --------
    >>> mutate_json(b'{"a": [1, 2]}', [], random.Random(0)) != b'{"a": [1, 2]}'
    True
    """
    document = json.loads(content)
    for _ in range(rng.choice((1, 1, 2, 3))):
        places = list(_containers(document))
        values = [item for place in places for item in (place.values() if isinstance(place, dict) else place)]
        # Deep places are many, and all alike; the weights give each depth its share.
        place = rng.choice(places[: rng.choice((8, 64, len(places)))])
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            continue
        key, way = rng.choice(keys), rng.randrange(4)
        if way == 0:
            place[key] = json.loads(json.dumps(rng.choice(_VALUES)))
        elif way == 1 and values:
            place[key] = json.loads(json.dumps(rng.choice(values)))
        elif way == 2:
            del place[key]
        elif isinstance(place, dict):
            place[rng.choice(["is", "__class__", "weights_", "n_features_in_", *keys])] = place.pop(key)
        else:
            place.extend(json.loads(json.dumps(place[key : key + 1] * rng.choice((1, 100)))))
    return json.dumps(document).encode()


def _containers(tree: Any) -> Any:
    """Yield objects and lists, the outer ones first."""
    waiting = [tree]
    for node in waiting:
        if isinstance(node, dict | list):
            yield node
            waiting += node.values() if isinstance(node, dict) else node
