"""What can be wrong, or unusual, with a request to the studio: how it is spoiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from problem import Spoil


def changed(change: Callable[[Any], Any]) -> Spoil:
    """Return the fault that replaces an input by a changed one."""
    return lambda problem, name: setattr(problem, name, change(getattr(problem, name)))


def _second(value: Any) -> Spoil:
    """Return the fault that puts a value in the second place."""
    return changed(lambda numbers: [numbers[0], value, *numbers[2:]])


def _instead(value: Any) -> Spoil:
    return changed(lambda _: value)


SENT_NUMBERS: dict[str, Spoil] = {
    "NaN": _second(float("nan")),
    "infinite": _second(float("inf")),
    "beyond any float": changed(lambda numbers: [10**400, *numbers[1:]]),
    "too large for float32": _second(1e39),
    "huge": changed(lambda numbers: [1e38 for _ in numbers]),
    "tiny": _second(1e-300),
    "all zero": changed(lambda numbers: [0.0 for _ in numbers]),
    "whole numbers": changed(lambda numbers: [0 for _ in numbers]),
    "a word": _second("red"),
    "numbers as text": changed(lambda numbers: [str(number) for number in numbers]),
    "true": _second(True),
    "null among them": _second(None),
    "nested lists": changed(lambda numbers: [numbers]),
    "empty": _instead([]),
    "one too few": changed(lambda numbers: numbers[:-1]),
    "one too many": changed(lambda numbers: [*numbers, 0.5]),
    "a single number": _instead(0.5),
    "text": changed(lambda numbers: ",".join(map(str, numbers))),
    "null": _instead(None),
    "left out": _instead(...),
    "an object of unknown names": changed(lambda numbers: {f"f{i}": n for i, n in enumerate(numbers)}),
    "an empty object": _instead({}),
}

SENT_NAMES: dict[str, Spoil] = {
    "a seen class": _instead("ant"),
    "an unseen class": _instead("gnu"),
    "a class, blanks around": _instead("  ant\u2003"),
    "empty": _instead(""),
    "blanks only": _instead(" \t\u2003"),
    "blanks around": changed(lambda name: f"  {name} "),
    "a line break": _instead("jay\nkea"),
    "a control character": _instead("jay\x00"),
    "half of a character": _instead("jay\ud800"),
    "letters that turn others": _instead("jay\u202eaek"),
    "too long": _instead("j" * 201),
    "a number": _instead(7),
    "a list": _instead(["jay"]),
    "null": _instead(None),
    "left out": _instead(...),
    "markup": _instead("<script>alert(1)</script>"),
}


SENT_TEXTS: dict[str, Spoil] = {
    "empty": _instead(""),
    "blanks only": _instead(" \t\n\u2003"),
    "blanks around": changed(lambda text: f"\n  {text}\t "),
    "several lines": changed(lambda text: text.replace(" ", "\r\n\t")),
    "a control character": changed(lambda text: f"{text}\x07 indeed"),
    "a null character": changed(lambda text: f"{text}\x00 indeed"),
    "half of a character": changed(lambda text: f"{text} \ud83d"),
    "letters that turn others": changed(lambda text: f"\u202e{text}\u202c"),
    "letters in two pieces": _instead("cafe\u0301"),
    "signs and other scripts": _instead("\U0001f426 鳥 طائر"),
    "as long as is taken": _instead("bird " * 1000),
    "too long": _instead("bird " * 5000),
    "markup": _instead("<script>alert(1)</script>"),
    "a number": _instead(7),
    "true": _instead(True),
    "a list": _instead(["a bird"]),
    "an object": _instead({"text": "a bird"}),
    "null": _instead(None),
    "left out": _instead(...),
}


def _headers(**change: str | None) -> Spoil:
    """Return the fault that changes headers, or leaves them out."""

    def change_them(request: dict[str, Any]) -> dict[str, Any]:
        headers = {**request["headers"], **{name.replace("_", "-"): value for name, value in change.items()}}
        return {**request, "headers": {name: value for name, value in headers.items() if value is not None}}

    return changed(change_them)


def _body(rewrite: Callable[[bytes], bytes]) -> Spoil:
    return changed(lambda request: {**request, "rewrite": rewrite})


REQUESTS: dict[str, Spoil] = {
    "wrong token": _headers(X_Cosmo_Token="another"),
    "no token": _headers(X_Cosmo_Token=None),
    "no header X-Cosmo": _headers(X_Cosmo=None),
    "another host": _headers(Host="example.org"),
    "another method": changed(lambda request: {**request, "method": "PUT"}),
    "Content-Type with a charset": _headers(Content_Type="Application/JSON; charset=utf-8"),
    "Content-Type text/plain": _headers(Content_Type="text/plain"),
    "a form": _headers(Content_Type="application/x-www-form-urlencoded"),
    "no Content-Type": _headers(Content_Type=None),
    "a picture": _headers(Content_Type="image/png"),
    "no body": _body(lambda body: b""),
    "cut short": _body(lambda body: body[:-3]),
    "no JSON": _body(lambda body: b"features=1"),
    "UTF-16": _body(lambda body: body.decode().encode("utf-16")),
    "a list": _body(lambda body: b"[" + body + b"]"),
    "nested too deep": _body(lambda body: b"[" * 90_000),
    "too large": _body(lambda body: body + b" " * 200_000),
    "a field twice": _body(lambda body: body[:-1] + b", " + body[1:]),
    "a field too many": _body(lambda body: body[:-1] + b', "text": "a bird"}'),
    "no field": _body(lambda body: b"{}"),
}
