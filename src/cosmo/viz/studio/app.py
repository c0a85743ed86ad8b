"""The studio as a web application: the page, and what it asks of the live model."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from cosmo.viz.studio.guard import WENT_WRONG, Guard
from cosmo.viz.studio.limits import Limits, Refusal, Workers
from cosmo.viz.studio.live import Live
from cosmo.viz.studio.reading import (
    PICTURES,
    check_keys,
    check_picture,
    numbers_of,
    read_body,
    read_json,
    words_of,
)

__all__ = ["make_app"]

_CHUNK = 1 << 16
_BYTES_PER_NUMBER = 32


def make_app(
    live: Live, *, token: str, hosts: Iterable[str], cookie: str = "cosmo", limits: Limits | None = None
) -> Guard:
    """Return the application, behind its guard.

    Parameters
    ----------
    live : Live
    token, hosts, cookie
        See `Guard`.
    limits : Limits, optional
        Of requests.

    Examples
    --------
    >>> import asyncio, httpx
    >>> from cosmo.data import load_glyphs
    >>> from cosmo.io.model import fit_model
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> train = data.split.trainval
    >>> live = Live(fit_model(data.features[train], data.labels[train], data.descriptions))
    >>> app = make_app(live, token="secret", hosts=["studio"])
    >>> async def ask():
    ...     server = httpx.ASGITransport(app)
    ...     async with httpx.AsyncClient(transport=server, base_url="http://studio") as client:
    ...         return (await client.get("/api/health", headers={"X-Cosmo-Token": "secret"})).json()
    >>> asyncio.run(ask())
    {'ok': True}
    """
    limits = limits or Limits()
    studio = _Studio(live, limits)
    app = FastAPI(
        openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=studio.lifespan
    )
    add = partial(app.add_api_route, response_model=None)
    add("/", studio.page, methods=["GET"])
    add("/api/health", studio.health, methods=["GET"])
    add("/api/view", studio.view, methods=["GET"])
    add("/api/model", studio.model, methods=["GET"])
    add("/api/predict", studio.predict, methods=["POST"])
    add("/api/classes/preview", studio.preview, methods=["POST"])
    add("/api/classes/keep", studio.keep, methods=["POST"])
    add("/api/classes/undo", studio.undo, methods=["POST"])
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(HTTPException, _not_there)
    app.add_exception_handler(Exception, _failed)
    return Guard(app, token, hosts, cookie)


class _Studio:
    """What is done at each address."""

    def __init__(self, live: Live, limits: Limits) -> None:
        self._live = live
        self._limits = limits
        self._workers = Workers(limits)
        most_numbers = max(live.n_features, len(live.attributes or []))
        self._json_bytes = limits.json_bytes + _BYTES_PER_NUMBER * most_numbers

    @asynccontextmanager
    async def lifespan(self, _app: FastAPI) -> AsyncIterator[None]:
        yield
        self._workers.close()

    async def health(self) -> Response:
        return JSONResponse({"ok": True})

    async def page(self) -> Response:
        page, policy = await self._found(lambda: self._live.page(self._told()))
        return HTMLResponse(page, headers={"Content-Security-Policy": f"{policy}; frame-ancestors 'none'"})

    async def view(self) -> Response:
        return PlainTextResponse(await self._found(self._live.view))

    async def model(self) -> Response:
        file = await self._found(self._live.saved)
        size = file.seek(0, 2)
        headers = {"Content-Disposition": 'attachment; filename="model.cosmo"', "Content-Length": str(size)}
        return StreamingResponse(_chunks(file), media_type="application/octet-stream", headers=headers)

    async def predict(self, request: Request) -> Response:
        begin = time.perf_counter()
        content_type = _content_type(request)
        async with self._workers.place():
            if content_type in PICTURES:
                if self._live.takes != "images":
                    raise Refusal(415, f"this model takes {self._live.takes}, not pictures; send JSON")
                body = await read_body(request, self._limits.upload_bytes, self._limits.body_seconds)
                record = await self._workers.run(partial(self._predict_picture, body, content_type))
            else:
                found = await self._json(request, content_type)
                record = await self._workers.run(partial(self._predict_json, found))
        return JSONResponse({**record, "milliseconds": round(1000 * (time.perf_counter() - begin), 1)})

    async def preview(self, request: Request) -> Response:
        async with self._workers.place():
            name, description = self._class_of(await self._json(request, _content_type(request)))
            return JSONResponse(await self._workers.run(partial(self._live.preview, name, description)))

    async def keep(self, request: Request) -> Response:
        async with self._workers.place():
            name, description = self._class_of(await self._json(request, _content_type(request)))
            await self._workers.run(partial(self._live.keep, name, description, self._limits.kept))
        return self._classes()

    async def undo(self) -> Response:
        await self._found(self._live.undo)
        return self._classes()

    async def _found(self, work: Callable[[], Any]) -> Any:
        async with self._workers.place():
            return await self._workers.run(work)

    async def _json(self, request: Request, content_type: str) -> dict[str, Any]:
        if content_type != "application/json":
            taken = ", ".join(["application/json", *(PICTURES if self._live.takes == "images" else [])])
            raise Refusal(415, f"the Content-Type {content_type[:50]!r} is not taken; send {taken}")
        return read_json(await read_body(request, self._json_bytes, self._limits.body_seconds))

    def _predict_json(self, found: dict[str, Any]) -> dict[str, Any]:
        takes = self._live.takes
        check_keys(found, "text", "features")
        if takes == "text" and "features" not in found:
            text = words_of(found.get("text"), "text", self._limits.text)
            return self._live.predict(self._live.encode(text))
        if "text" in found or "features" not in found:
            wanted = "a picture as the body" if takes == "images" else f'JSON with the field "{takes}"'
            raise Refusal(422, f"this model takes {takes}; send {wanted}")
        return self._live.predict(numbers_of(found["features"], "features", self._live.n_features))

    def _predict_picture(self, body: bytes, content_type: str) -> dict[str, Any]:
        check_picture(body, content_type, self._limits.pixels)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "picture")  # as a file, it is read like those of `cosmo predict`
            path.write_bytes(body)
            row = self._live.encode(path)
        return self._live.predict(row)

    def _class_of(self, found: dict[str, Any]) -> tuple[str, str | list[float]]:
        """Return name and description of a new class."""
        worded = self._live.described_by == "words"
        check_keys(found, "name", "description" if worded else "values")
        name = words_of(found.get("name"), "the name", self._limits.name, one_line=True)
        if worded:
            return name, words_of(found.get("description"), "the description", self._limits.description)
        return name, numbers_of(found.get("values"), "values", self._live.attributes or [])

    def _classes(self) -> Response:
        live = self._live
        return JSONResponse({"classes": live.names, "kept": live.kept, "n_seen": live.n_seen})

    def _told(self) -> dict[str, Any]:
        """Return what the page needs to know of the server."""
        live, limits = self._live, self._limits
        return {
            "api": "/api",
            "takes": live.takes,
            "features": live.n_features,
            "described_by": live.described_by,
            "attributes": live.attributes,
            "samples": live.has_samples,
            "limits": {
                "upload_bytes": limits.upload_bytes,
                "json_bytes": self._json_bytes,
                "pixels": limits.pixels,
                "text": limits.text,
                "description": limits.description,
                "name": limits.name,
                "kept": limits.kept,
            },
        }


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        file.seek(0)
        while chunk := file.read(_CHUNK):
            yield chunk


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return JSONResponse({"error": str(error)}, error.status)


async def _not_there(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = re.sub(r"[^\x20-\x7e]", "?", request.url.path)[:100]
    sentences = {404: f"there is nothing at {path}", 405: f"{path} does not take {request.method[:10]}"}
    sentence = sentences.get(error.status_code, str(error.detail))
    return JSONResponse({"error": sentence}, error.status_code)


async def _failed(_request: Request, _error: Exception) -> Response:
    # The error itself goes on to the guard, which logs it.
    return JSONResponse({"error": WENT_WRONG}, 500)
