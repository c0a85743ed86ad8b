"""`cosmo studio`: the page of a live model, served on this machine (extra "studio")."""

from __future__ import annotations

import io
import socket
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from PIL import Image
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from cosmo.serving.server import Authentication, add_error_handlers, allowed_hosts, limit_body, run_server
from cosmo.viz.page.render import content_security_policy
from cosmo.viz.studio.live import LiveModel

MAX_BODY_BYTES = 10_000_000
MAX_PIXELS = 50_000_000
MAX_TEXT, MAX_DESCRIPTION, MAX_NAME = 20_000, 5_000, 200  # characters
_BYTES_PER_NUMBER = 32
_ALL_ADDRESSES = ("0.0.0.0", "::", "")
_LARGEST = 3.4e38  # of single precision
#: Accepted images: media type, and the only decoder of Pillow that may read them.
_IMAGES = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP"}
# Characters that break lines or reverse the direction of text make a name look like another one.
_MISLEADING = frozenset("\u2028\u2029\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def _check_name(name: str) -> str:
    if any(letter < " " or "\x7f" <= letter <= "\x9f" or letter in _MISLEADING for letter in name):
        raise ValueError("must not contain control or direction characters")
    return name


def _text(most: int) -> StringConstraints:
    return StringConstraints(strip_whitespace=True, min_length=1, max_length=most)


_Number = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Sample(_Body):
    """A sample to classify: a text, or a row of features."""

    text: Annotated[str, _text(MAX_TEXT)] | None = None
    features: list[_Number] | None = None


class NewClass(_Body):
    """A class to add: its name, and a sentence or a number per attribute."""

    name: Annotated[str, _text(MAX_NAME), AfterValidator(_check_name)]
    description: Annotated[str, _text(MAX_DESCRIPTION)] | None = None
    values: list[_Number] | dict[str, _Number] | None = None


class Point(_Body):
    """An operating point: the expected share of unseen samples, or a threshold of the paper's method."""

    unseen_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    threshold: _Number | None = None


class Grouping(_Body):
    """How rejected samples are grouped."""

    smallest: Annotated[int, Field(ge=2, le=10_000)] = 15


def make_app(live: LiveModel, *, token: str, hosts: Iterable[str], cookie: str = "cosmo") -> Authentication:
    """Return the application behind its authentication."""
    max_body = max(MAX_BODY_BYTES, _BYTES_PER_NUMBER * max(live.n_features, len(live.attributes or [])))
    routes = _Routes(live, max_body)
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    get, post = (
        partial(app.add_api_route, methods=[method], response_model=None) for method in ("GET", "POST")
    )
    get("/", routes.page)
    get("/api/health", lambda: {"ok": True})
    get("/api/view", routes.view)
    get("/api/model", routes.model)
    post("/api/predict", routes.predict)
    post("/api/operate", routes.operate)
    post("/api/discover", routes.discover)
    post("/api/classes/preview", routes.preview)
    post("/api/classes/keep", routes.keep)
    post("/api/classes/undo", routes.undo)
    add_error_handlers(app, "cosmo studio")
    return Authentication(limit_body(app, max_body), token, hosts, cookie)


class _Routes:
    """One method per address. FastAPI runs those that are not `async` in its thread pool."""

    def __init__(self, live: LiveModel, max_body: int) -> None:
        self._live, self._max_body = live, max_body

    def page(self) -> Response:
        limits = {"text": MAX_TEXT, "description": MAX_DESCRIPTION, "name": MAX_NAME}
        page = self._live.page({"api": "/api", "limits": {"upload_bytes": self._max_body, **limits}})
        policy = f"{content_security_policy(live=True)}; frame-ancestors 'none'"
        return HTMLResponse(page, headers={"Content-Security-Policy": policy})

    def view(self) -> Response:
        return PlainTextResponse(self._live.view())

    def model(self) -> Response:
        folder = tempfile.TemporaryDirectory()
        path = Path(folder.name, "model.cosmo")
        self._live.save(path)
        cleanup, kind = BackgroundTask(folder.cleanup), "application/octet-stream"
        return FileResponse(path, filename=path.name, media_type=kind, background=cleanup)

    async def predict(self, request: Request) -> dict[str, Any]:
        start = time.perf_counter()
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        body = await request.body()
        if media_type in _IMAGES:
            predicted = await run_in_threadpool(self._predict_image, body, _IMAGES[media_type])
        elif media_type == "application/json":
            predicted = await run_in_threadpool(self._predict_json, body)
        else:
            raise HTTPException(415, f"the Content-Type must be application/json or {', '.join(_IMAGES)}")
        return {**predicted, "milliseconds": round(1000 * (time.perf_counter() - start), 1)}

    def _predict_json(self, body: bytes) -> dict[str, Any]:
        sample = Sample.model_validate_json(body)
        if sample.features is not None:
            return self._live.predict(sample.features)
        takes = self._live.takes
        if takes != "text" or sample.text is None:
            example = "an image as the body" if takes == "images" else f'JSON with the field "{takes}"'
            raise HTTPException(422, f"this model takes {takes}: send {example}")
        return self._live.predict(self._live.encode(sample.text))

    def _predict_image(self, body: bytes, decoder: str) -> dict[str, Any]:
        if self._live.takes != "images":
            raise HTTPException(415, f"this model takes {self._live.takes}, not images: send JSON")
        _check_image(body, decoder)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "image")  # The encoder reads it exactly as `cosmo predict` does.
            path.write_bytes(body)
            row = self._live.encode(path)
        return self._live.predict(row)

    def operate(self, point: Point) -> dict[str, Any]:
        given = point.model_dump(exclude_none=True)
        if given.keys() != {self._live.point}:
            raise HTTPException(
                422, f'the operating point of this model is "{self._live.point}": send it alone'
            )
        self._live.operate_at(**given)
        return given

    def discover(self, grouping: Grouping) -> list[dict[str, Any]]:
        return self._live.discover(grouping.smallest)

    def preview(self, new_class: NewClass) -> dict[str, Any]:
        return self._live.preview(new_class.name, self._description(new_class))

    def keep(self, new_class: NewClass) -> dict[str, Any]:
        self._live.add_class(new_class.name, self._description(new_class))
        return self._classes()

    def undo(self) -> dict[str, Any]:
        self._live.reset()
        return self._classes()

    def _description(self, new_class: NewClass) -> str | list[float]:
        attributes = self._live.attributes
        if attributes is None:
            if new_class.description is None or new_class.values is not None:
                raise HTTPException(422, "classes of this model have a description in words")
            return new_class.description
        values = new_class.values
        if isinstance(values, dict) and values.keys() == set(attributes):
            values = [values[name] for name in attributes]
        fits = isinstance(values, list) and len(values) == len(attributes)
        if not fits or new_class.description is not None:
            what = f"{len(attributes)} values, one per attribute"
            raise HTTPException(422, f"classes of this model have {what}")
        return cast(list[float], values)

    def _classes(self) -> dict[str, Any]:
        live = self._live
        return {"classes": live.names, "kept": live.added, "n_seen": live.n_seen}


def _check_image(content: bytes, decoder: str) -> None:
    """Raise unless the header is that of an image of the expected format and of moderate size."""
    too_large = HTTPException(413, f"the image has more than {MAX_PIXELS:,} pixels")
    try:
        with Image.open(io.BytesIO(content), formats=[decoder]) as image:
            width, height = image.size
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise too_large from error
    except Exception as error:  # Decoders raise many types on damaged files.
        raise HTTPException(422, f"the image is not a readable {decoder} file") from error
    if width * height > MAX_PIXELS:
        raise too_large


def serve(
    live: LiveModel,
    listener: socket.socket,
    *,
    host: str,
    token: str,
    open_browser: Callable[[str], object] | None = None,
) -> None:
    """Serve the studio on a listening socket, bound to `host`, until a signal stops it.

    `open_browser` is called with a one-time token.
    """
    port = listener.getsockname()[1]
    hosts = () if host in _ALL_ADDRESSES else allowed_hosts(host, port)
    # Cookies are shared by all ports of a host: two studios need two names.
    app = make_app(live, token=token, hosts=hosts, cookie=f"cosmo_{port}")
    if open_browser is not None:
        open_browser(app.one_time_token())
    run_server(app, listener)
