"""A view as one HTML page that needs no other file, and back."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from cosmo.data import DataError
from cosmo.viz.page.packing import compress, decompress

__all__ = ["read_view", "render_page"]

_STATIC = files("cosmo.viz.page").joinpath("static")
_VIEW = re.compile(r'<script\b[^<>]{0,200}\bid="view"[^<>]{0,200}>')


def render_page(view: Mapping[str, Any], *, live: Mapping[str, Any] | None = None) -> str:
    """Return the page of a view: styles, scripts and data inline, nothing from anywhere else.

    The page forbids itself, by a content security policy, every script and style but its own.

    Parameters
    ----------
    view : dict
        As the functions of `cosmo.viz.page.views` make it.
    live : dict, optional
        What the page needs to know of the server behind it; None for a file.

    Examples
    --------
    >>> page = render_page({"format": 1, "kind": "run", "title": "Birds", "lead": "", "version": "",
    ...                     "arrays": [], "sets": []})
    >>> read_view(page)["title"]
    'Birds'
    """
    style = _STATIC.joinpath("style.css").read_text("utf-8")
    names = sorted(one.name for one in _STATIC.iterdir() if one.name.endswith(".js"))
    script = "\n".join(_STATIC.joinpath(name).read_text("utf-8") for name in names)
    for content, end in ((style, "</style"), (script, "</script")):
        if end in content.lower():
            raise ValueError(f"a file of the page has {end!r} in it, which would end it there")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(_STATIC.joinpath("page.html").read_text("utf-8"))
    return template.render(
        title=view["title"],
        style=Markup(style),
        script=Markup(script),
        view=compress(view),
        live=_json_in_html(live),
        csp=_policy(style, script, live=live is not None),
    )


def read_view(page: str) -> dict[str, Any]:
    """Return the view of a page that `render_page` made, for example of a report written earlier.

    Raises
    ------
    DataError
        If it is no such page, or damaged.
    """
    found = _VIEW.search(page)
    end = -1 if found is None else page.find("</script>", found.end())
    if found is None or end < 0:
        raise DataError("this is not a report of cosmo, or it is cut off: it carries no view")
    return decompress(page[found.end() : end])


def _json_in_html(value: Any) -> Markup:
    """Return JSON that cannot end the element it stands in."""
    text = json.dumps(value, allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)


def _policy(style: str, script: str, *, live: bool) -> str:
    def digest(content: str) -> str:
        return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()

    rules = [
        "default-src 'none'",
        f"script-src 'sha256-{digest(script)}'",
        f"style-src 'sha256-{digest(style)}'",
        "img-src data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join([*rules, "connect-src 'self'"] if live else rules)
