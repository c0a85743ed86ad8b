"""Parts of both servers: access control, limit of a body, errors as JSON, and uvicorn until a signal."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from pydantic import ValidationError
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_MAX_CONNECTIONS = 500
_SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_OPEN_ADDRESS = "open the address that `cosmo studio` printed"
_WRONG_TOKEN = f"the token is missing or wrong; {_OPEN_ADDRESS}"


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def allowed_hosts(host: str, port: int) -> frozenset[str]:
    """Return the values of the Host header that belong to a server bound to `host`.

    Any other value is a foreign domain name that points to this machine (DNS rebinding).
    """
    names = {host.lower()}
    if is_loopback(host):
        names |= {"localhost"} if ":" in host else {"localhost", "127.0.0.1"}
    names = {f"[{name}]" if ":" in name else name for name in names}
    # Browsers omit the default port.
    return frozenset(f"{name}:{port}" for name in names) | (names if port == 80 else frozenset())


class AccessControl(ABC):
    """ASGI middleware that passes on requests with the server's own host name, if `_check` allows them.

    Every response has the security headers. `hosts` are the accepted values of the Host header, see
    `allowed_hosts`; if empty, any IP address and `localhost`, for a server that listens on all addresses.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self._app, self._hosts = app, frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request that is not allowed, or pass it on."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                if message["status"] >= 400:  # Do not wait for the rest of the request's body.
                    headers["Connection"] = "close"
            await send(message)

        app = self._check(Request(scope)) or self._app
        await app(scope, receive, send_with_headers)

    @abstractmethod
    def _check(self, request: Request) -> Response | None:
        """Return the response to a request that is not passed on."""

    def _is_own_host(self, request: Request) -> bool:
        hosts = request.headers.getlist("host")
        if len(hosts) != 1:
            return False
        host = hosts[0].lower()
        if self._hosts:
            return host in self._hosts
        name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name == "localhost"
        return True


class Authentication(AccessControl):
    """Access from a browser with a token.

    A visit to `/?token=...` sets a cookie and redirects to `/`. Requests with another method than GET or HEAD
    need the header `X-Cosmo: 1`, which no form or link of another site can send (CSRF).
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Iterable[str], cookie: str = "cosmo") -> None:
        super().__init__(app, hosts)
        self._token, self._cookie = token, cookie
        self._one_time_tokens: set[str] = set()

    def one_time_token(self) -> str:
        """Return a token for a single login: the command line of a browser is visible to other users."""
        token = secrets.token_urlsafe(32)
        self._one_time_tokens.add(token)
        return token

    def _check(self, request: Request) -> Response | None:
        if not self._is_own_host(request):
            return _refuse(403, f"the Host header is not the studio's; {_OPEN_ADDRESS}")
        if request.method == "GET" and request.url.path == "/" and request.url.query:
            return self._log_in(request.query_params.getlist("token"))
        tokens = [*request.headers.getlist("x-cosmo-token"), request.cookies.get(self._cookie, "")]
        if not any(_same(token, self._token) for token in tokens):
            return _refuse(401, _WRONG_TOKEN)
        if request.method not in ("GET", "HEAD") and request.headers.getlist("x-cosmo") != ["1"]:
            return _refuse(403, "the header X-Cosmo: 1 is missing")
        return None

    def _log_in(self, tokens: list[str]) -> Response:
        """Return a redirect that sets the cookie, if the token of the query is valid."""
        once = [token for token in self._one_time_tokens if any(_same(token, given) for given in tokens)]
        if len(tokens) != 1 or not (once or _same(tokens[0], self._token)):
            return _refuse(401, _WRONG_TOKEN)
        self._one_time_tokens.difference_update(once)
        response = RedirectResponse("/", 303)
        response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
        return response


class BearerAccess(AccessControl):
    """Access of programs, with `Authorization: Bearer TOKEN` if there is a token.

    `/health` is open to all. Without a token a server on loopback accepts its own host names only: any other
    is a web page that points its domain to this machine.
    """

    def __init__(self, app: ASGIApp, token: str | None, hosts: Iterable[str]) -> None:
        super().__init__(app, hosts)
        self._token = token

    def _check(self, request: Request) -> Response | None:
        if self._token is None:
            if self._hosts and not self._is_own_host(request):
                return _refuse(403, "the Host header is not that of this server")
            return None
        given = request.headers.get("authorization", "")
        if request.url.path == "/health" or _same(given, f"Bearer {self._token}"):
            return None
        return _refuse(401, "the header Authorization: Bearer TOKEN is missing or wrong")


def _same(given: str, token: str) -> bool:
    """Compare two tokens in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode("utf-8", "replace"))


def _refuse(status: int, message: str) -> JSONResponse:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"error": message}, status, headers)


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
