"""What the studio answers to a client that sends JSON, as functions of the small problem."""

from __future__ import annotations

import asyncio
import copy
import json
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from entry import Entry, clean, fitted_model
from file_entries import Refused
from problem import TOKEN, Problem

from cosmo import Model

__all__ = ["STUDIO_ENTRIES", "Answered", "asked", "told_of_class", "told_of_sample"]

_WHEN = ("before", "after")


class Answered(Refused):
    """The studio said no, with a status and a sentence."""


@cache
def _live() -> Any:
    from cosmo.viz.studio.live import Live
    from cosmo.viz.studio.states import Samples

    p = clean()
    return Live(copy.deepcopy(fitted_model()), Samples(p.X_new, pd.Index(p.y_new)))


@cache
def _app() -> Any:
    from cosmo.viz.studio.app import make_app

    return make_app(_live(), token=TOKEN, hosts=["studio"])


def asked(p: Problem, app: Any, path: str, fields: dict[str, Any]) -> Any:
    """Return the answer to a request with these fields, those left out that are `...`; or with a picture."""
    import httpx

    headers = p.request["headers"]
    if "content" in fields:
        sent = fields["content"]
        if headers.get("Content-Type") == "application/json":  # as it is where nothing is wrong with it
            headers = {**headers, "Content-Type": fields["type"]}
    else:
        sent = json.dumps({name: value for name, value in fields.items() if value is not ...}).encode()
    body = p.request["rewrite"](sent)

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://studio") as client:
            return await client.request(p.request["method"], path, content=body, headers=headers)

    answer = asyncio.run(ask())
    assert answer.status_code < 500, answer.text
    assert answer.headers["content-type"] == "application/json"
    if answer.status_code != 200:
        assert set(answer.json()) == {"error"}
        raise Answered(f"status {answer.status_code}: {answer.json()['error']}")
    return answer.json()


def told_of_sample(found: dict[str, Any]) -> Any:
    """Return what an answer about a sample says."""
    told = np.array([found["score"], found["probability"], found["p_unseen"], found["flip"]])
    return found["answer"], ",".join(found["classes"]), told


def told_of_class(found: dict[str, Any]) -> Any:
    """Return what an answer about a new class says, measured on samples or not."""
    names, alike = zip(*found["neighbours"], strict=True)
    told = [found[when][name] for when in _WHEN if found[when] for name in ("acc_ts", "acc_tr", "acc_h")]
    return found["name"], ",".join(names), np.array([*alike, *told, found["taken"], found["of"]])


def _predict(p: Problem) -> Any:
    return told_of_sample(asked(p, _app(), "/api/predict", {"features": p.row}))


def _preview(p: Problem) -> Any:
    found = asked(p, _app(), "/api/classes/preview", {"name": p.name, "values": p.values})
    assert _live().kept == []
    return told_of_class(found)


def _keep(p: Problem) -> Any:
    try:
        found = asked(p, _app(), "/api/classes/keep", {"name": p.name, "values": p.values})
        assert found["kept"] == found["classes"][-1:] == _live().kept
        path = p.folder / "model.cosmo"
        with _live().saved() as file:
            path.write_bytes(file.read())
        return found["kept"][0], Model.load(path).cosmo.predict_proba(clean().X_new)
    except Answered:
        assert _live().kept == []
        raise
    finally:
        _live().undo()


CLASS = {"sent numbers": "values", "sent names": "name", "requests": "request"}
STUDIO_ENTRIES: dict[str, Entry] = {
    "POST /api/predict": Entry(_predict, {"sent numbers": "row", "requests": "request"}),
    "POST /api/classes/preview": Entry(_preview, CLASS),
    "POST /api/classes/keep": Entry(_keep, CLASS),
}
