"""Parts of both servers: limit of a body, errors as JSON, and uvicorn until a signal."""

from __future__ import annotations

import socket
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_MAX_CONNECTIONS = 500


def limit_body(app: ASGIApp, most: int) -> ASGIApp:
    """Return middleware that raises as soon as a body is larger than `most` bytes."""

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        size = 0

        async def receive_counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > most:
                raise HTTPException(413, f"the request is larger than {most:,} bytes")
            return message

        await app(scope, receive_counted, send)

    return limited


def add_error_handlers(app: FastAPI, command: str) -> None:
    """Make every error of an application JSON with the field "error"."""

    async def internal_error(_request: Request, _error: Exception) -> Response:
        return JSONResponse({"error": f"internal error; see the terminal where `{command}` runs"}, 500)

    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(ValidationError, _validation_error)
    app.add_exception_handler(Exception, internal_error)


async def _http_error(_request: Request, error: Any) -> Response:
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _validation_error(_request: Request, error: Any) -> Response:
    """Return the first error of a request body, with the name of the field."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"] if part != "body")
    message = f"{field}: {first['msg']}" if field else first["msg"]
    return JSONResponse({"error": message[:300]}, 422)


def run_server(app: ASGIApp, listener: socket.socket, *, patience: int = 2) -> None:
    """Serve on a listening socket until SIGINT or SIGTERM; then finish requests for `patience` seconds."""
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http="h11",
        ws="none",
        interface="asgi3",
        log_config=None,
        access_log=False,  # It would contain the token of the studio.
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_graceful_shutdown=patience,
    )
    uvicorn.Server(config).run(sockets=[listener])
