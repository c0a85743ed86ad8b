"""Log of requests as JSON lines, and their metrics."""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Other paths share a label: anybody can invent them.
_PATHS = ("/health", "/metrics", "/openapi.json", "/predict")
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds
logger = logging.getLogger(__name__)


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
