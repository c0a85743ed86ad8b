"""The HTTP API of `cosmo serve` (extra "serve"), its model, log of JSON lines and metrics."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from fastapi import FastAPI, Request
from fastapi.responses import Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cosmo import __version__
from cosmo.classifier.rejection import UNKNOWN
from cosmo.encoders import Encoder
from cosmo.io.model import Model
from cosmo.io.predict import kind_of
from cosmo.serving.server import BearerAccess, add_error_handlers, limit_body

logger = logging.getLogger(__name__)

# Other paths share a label: anybody can invent them.
_PATHS = ("/health", "/metrics", "/openapi.json", "/predict")
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds
MAX_TEXT = 20_000  # characters
_MAX_TOP = 100
_LARGEST = 1e12  # Larger features overflow in single precision, or are no features.
_DIGITS = 6  # of probabilities, as in text files of predictions

_Number = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST)]
# In JSON, 3.0 is an integer.
_Whole = Annotated[int, BeforeValidator(lambda n: int(n) if isinstance(n, float) and n.is_integer() else n)]
# Not only white space, of Python's kind.
_Text = Annotated[str, StringConstraints(pattern=r"[^\s\x1c-\x1f\x85]", max_length=MAX_TEXT)]


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model in memory."""

    model: Model
    fingerprint: str
    time: datetime = field(default_factory=lambda: datetime.now(UTC))


class ServedModel:
    """The model of a file. A changed file is loaded beside the old model, which stays if that fails.

    `registry` receives the metrics of reloads; `encoder` and `trusted` are those of `Model.load`. A request
    must read `current` once: it may be replaced at any time. `error` is why the file as it is now is not the
    model in use. `lock` is held while a model is used: tokenizers are not thread-safe.
    """

    def __init__(
        self,
        path: str | Path,
        registry: CollectorRegistry,
        *,
        encoder: Encoder | None = None,
        trusted: Sequence[str] = (),
    ) -> None:
        self.path, self.trusted, self.lock = Path(path), trusted, threading.Lock()
        self.error: str | None = None
        self._stamp: tuple[int, ...] | None = self._read_stamp()
        self.current = self._load(encoder)
        reloads = Counter("cosmo_reloads", "Changes of the model file", ["result"], registry=registry)
        self._succeeded, self._failed = reloads.labels("ok"), reloads.labels("failed")
        loaded = Gauge("cosmo_model_loaded_seconds", "Unix time when the model was loaded", registry=registry)
        loaded.set_function(lambda: self.current.time.timestamp())

    def watch(self, seconds: float = 1.0) -> None:
        """Look at the file at intervals, in a thread that ends with the process."""

        def work() -> None:
            while not pause.wait(seconds):
                self.check()

        pause = threading.Event()
        threading.Thread(target=work, name="model file", daemon=True).start()

    def check(self) -> None:
        """Load the file if it has changed since it was last tried."""
        stamp: tuple[int, ...] | None = None
        try:
            stamp, error = self._read_stamp(), None
            if stamp == self._stamp:
                return
            self.current = self._load(self.current.model._encoder)
        except Exception as problem:  # Whatever is wrong with the file, the old model still works.
            error = f"{type(problem).__name__}: {problem}"
            if stamp == self._stamp:  # It is missing, as before.
                return
        self._stamp, self.error = stamp, error
        (self._succeeded if error is None else self._failed).inc()
        if error is None:
            logger.info("loaded the changed model", extra={"fields": {"model": self.current.fingerprint}})
        else:
            logger.error("kept the old model", extra={"fields": {"error": error}})

    def _read_stamp(self) -> tuple[int, ...]:
        stat = self.path.stat()
        return stat.st_mtime_ns, stat.st_size, stat.st_ino

    def _load(self, encoder: Encoder | None) -> Loaded:
        """Return the model of the file with `encoder`, if that is its encoder, or with one of its own."""
        model = Model.load(self.path, trusted=self.trusted)
        if encoder is not None and encoder.identity == model.encoder_identity:
            model._encoder = encoder
        elif kind_of(model) == "text":
            model.predict(["warm-up"])  # The weights are loaded now, not by the first request.
        return Loaded(model, model.fingerprint()[:16])


class Batch(BaseModel):
    """Samples to classify: feature rows, or texts if the model has an encoder of texts."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    features: list[list[_Number]] = Field([], min_length=1)
    texts: list[_Text] = Field([], min_length=1)
    top: _Whole = Field(3, ge=1, le=_MAX_TOP, description="Number of classes per sample.")
    why: bool = Field(False, description="Add a reason to each prediction.")
    reject: float | None = Field(
        None, gt=0, lt=1, description="Largest share of samples of known classes that may be rejected."
    )
    unknown: str = Field(UNKNOWN, min_length=1, max_length=200, description="Label of rejected samples.")


class ClassProbability(BaseModel):
    """A class and its probability."""

    label: str | int
    probability: float


class Prediction(BaseModel):
    """The class of a sample, or `unknown` if it is rejected; the same values as those of `cosmo predict`."""

    label: str | int
    probability: float = Field(description="Of the best class, also if the sample is rejected.")
    p_seen: float = Field(description="The gate's probability that the class is seen.")
    conformity: float | None = Field(None, description="Conformal p-value; present with `reject`.")
    why: str | None = Field(None, description="Reason; present with `why`.")
    others: list[ClassProbability] = Field(description="The next classes, best first.")


class Predictions(BaseModel):
    """Predictions in the order of the samples, all of one model."""

    model: str = Field(description="Fingerprint of the model.")
    predictions: list[Prediction]


class Health(BaseModel):
    """State of the server."""

    status: str
    model: str
    loaded: str = Field(description="When the model was loaded.")
    reload_error: str | None = Field(description="Why the model file as it is now is not in use.")


class Error(BaseModel):
    """A refused request."""

    error: str


_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Error, "description": text}
    for status, text in (
        (401, "The token is missing or wrong."),
        (403, "The Host header is that of another server."),
        (413, "The body is larger than the limit."),
        (415, "The body is not JSON."),
        (422, "The body does not fit the model."),
    )
}


class Api:
    """One method per address."""

    def __init__(self, served: ServedModel, registry: CollectorRegistry, max_rows: int) -> None:
        self._served, self._registry, self._max_rows = served, registry, max_rows
        self._answers = Counter("cosmo_answers", "Predictions", ["domain"], registry=registry)

    def health(self) -> Health:
        """Return the state of the server: the model in use, and the error of the last reload."""
        loaded, error = self._served.current, self._served.error
        return Health(
            status="ok", model=loaded.fingerprint, loaded=loaded.time.isoformat(), reload_error=error
        )

    def metrics(self) -> Response:
        """Return metrics in the text format of Prometheus."""
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)

    async def predict(self, request: Request) -> Response:
        """Return the classes of samples."""
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "application/json":
            raise HTTPException(415, "the Content-Type must be application/json")
        content, n_rows = await run_in_threadpool(self._predict, await request.body())
        request.state.rows = n_rows
        return Response(content, media_type="application/json")

    def _predict(self, body: bytes) -> tuple[bytes, int]:
        batch, loaded = Batch.model_validate_json(body), self._served.current
        samples = self._samples(batch, loaded.model)
        try:
            with self._served.lock:
                frame = loaded.model.predict_frame(
                    samples, batch.top, reject=batch.reject, unknown=batch.unknown, why=batch.why
                )
        except ValueError as error:
            raise HTTPException(422, str(error)) from error
        self._count(frame["label"], loaded.model)
        content = {"model": loaded.fingerprint, "predictions": _records(frame)}
        return json.dumps(content, separators=(",", ":")).encode(), len(frame)

    def _samples(self, batch: Batch, model: Model) -> Any:
        """Return the samples of a request as input of a model."""
        texts, rows, width = batch.texts, batch.features, int(model.cosmo.n_features_in_)
        if texts and kind_of(model) != "text":
            raise HTTPException(422, "texts: this model takes features")
        if bool(texts) == bool(rows):
            raise HTTPException(422, "send either features or texts")
        if max(len(texts), len(rows)) > self._max_rows:
            raise HTTPException(422, f"send at most {self._max_rows:,} samples at once")
        if texts:
            return texts
        wrong = next((k for k, row in enumerate(rows) if len(row) != width), None)
        if wrong is not None:
            raise HTTPException(422, f"features.{wrong}: has {len(rows[wrong])} numbers, not {width}")
        return np.array(rows, dtype=np.float32)

    def _count(self, labels: pd.Series, model: Model) -> None:
        domains = ("seen", model.cosmo.seen_classes_), ("unseen", model.cosmo.unseen_classes_)
        counts = {domain: int(labels.isin(classes).sum()) for domain, classes in domains}
        for domain, count in {**counts, "rejected": len(labels) - sum(counts.values())}.items():
            self._answers.labels(domain).inc(count)

    def request_schema(self) -> dict[str, Any]:
        """Return the JSON schema of `Batch` with the limits of the model in use."""
        model, schema = self._served.current.model, Batch.model_json_schema()
        properties = schema["properties"]
        kinds = ["features", "texts"] if kind_of(model) == "text" else ["features"]
        for name in ("features", "texts"):
            array = {**properties.pop(name), "maxItems": self._max_rows}
            del array["default"]
            if name in kinds:
                properties[name] = array
        width = int(model.cosmo.n_features_in_)
        properties["features"]["items"] |= {"minItems": width, "maxItems": width}
        if getattr(model.cosmo.combination_, "rejection_", None) is None:
            properties["reject"] = {"type": "null"}
        return {**schema, "oneOf": [{"required": [name]} for name in kinds]}


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of `Model.predict_frame`, with `label_2` and so on as `others`."""
    columns = {str(name): column.tolist() for name, column in frame.round(_DIGITS).items()}
    own = [name for name in ("label", "probability", "p_seen", "conformity", "why") if name in columns]
    numbers = [name.removeprefix("label_") for name in columns if name.startswith("label_")]
    records = []
    for row in range(len(frame)):
        record: dict[str, Any] = {name: columns[name][row] for name in own}
        record["others"] = [
            {"label": columns[f"label_{k}"][row], "probability": columns[f"probability_{k}"][row]}
            for k in numbers
        ]
        records.append(record)
    return records


class Observed:
    """ASGI middleware that logs and counts requests."""

    def __init__(self, app: ASGIApp, registry: CollectorRegistry) -> None:
        self._app = app
        self._requests = Counter("cosmo_requests", "Requests", ["path", "status"], registry=registry)
        self._seconds = Histogram(
            "cosmo_request_seconds", "Durations", ["path"], buckets=_BUCKETS, registry=registry
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request; log it when the response begins."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, state = time.perf_counter(), scope.setdefault("state", {})

        async def observed(message: Message) -> None:
            if message["type"] == "http.response.start":
                seconds, status = time.perf_counter() - start, message["status"]
                path = scope["path"] if scope["path"] in _PATHS else "other"
                self._requests.labels(path, status).inc()
                self._seconds.labels(path).observe(seconds)
                fields = {
                    "method": scope["method"],
                    "path": scope["path"][:200],
                    "status": status,
                    "milliseconds": round(1000 * seconds, 1),
                    "rows": state.get("rows"),
                }
                logger.info("request", extra={"fields": fields})
            await send(message)

        await self._app(scope, receive, observed)


class JsonFormatter(logging.Formatter):
    """One JSON object per record; `extra={"fields": ...}` is merged into it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as a line."""
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def make_api(
    served: ServedModel,
    registry: CollectorRegistry,
    *,
    token: str | None,
    hosts: Iterable[str],
    max_rows: int,
    max_body: int,
) -> ASGIApp:
    """Return the application, behind its access control and inside its log."""
    api = Api(served, registry, max_rows)
    app = FastAPI(
        title="cosmo serve", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    plain: dict[str, Any] = {"content": {"text/plain": {}}}
    refused: dict[int | str, dict[str, Any]] = {401: _ERRORS[401], 403: _ERRORS[403]}
    app.get("/health", responses={403: _ERRORS[403]})(api.health)
    app.get("/metrics", responses={200: plain, **refused}, response_class=Response)(api.metrics)
    app.post("/predict", response_model=Predictions, responses=_ERRORS)(api.predict)
    add_error_handlers(app, "cosmo serve")
    openapi = app.openapi

    def openapi_of_the_model() -> dict[str, Any]:
        content = {"application/json": {"schema": api.request_schema()}}
        schema = openapi()
        schema["paths"]["/predict"]["post"]["requestBody"] = {"required": True, "content": content}
        return schema

    app.openapi = openapi_of_the_model  # type: ignore[method-assign]
    return Observed(BearerAccess(limit_body(app, max_body), token, hosts), registry)
