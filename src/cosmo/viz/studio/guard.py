"""Who may ask the studio, and what every answer carries."""

from __future__ import annotations

import hmac
import ipaddress
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

__all__ = ["WENT_WRONG", "Guard", "allowed_hosts", "is_loopback"]

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

WENT_WRONG = "something went wrong here, which is a bug; the terminal of the studio says what"

logger = logging.getLogger(__name__)

_ON_EVERY_ANSWER: dict[bytes, bytes] = {
    b"content-security-policy": b"default-src 'none'; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
}
_ADDRESS = "open the address that `cosmo studio` printed"


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def allowed_hosts(host: str, port: int) -> frozenset[str]:
    """Return what a browser may say it is talking to, if the server is bound to `host`.

    Anything else is the name of another site that was made to point here.

    Examples
    --------
    >>> sorted(allowed_hosts("127.0.0.1", 8765))
    ['127.0.0.1:8765', 'localhost:8765']
    """
    names = {host.lower()}
    if is_loopback(host):
        names |= {"localhost"} if ":" in host else {"localhost", "127.0.0.1"}
    names = {f"[{name}]" if ":" in name else name for name in names}
    # Browsers leave out the port that goes without saying.
    return frozenset(f"{name}:{port}" for name in names) | (names if port == 80 else frozenset())


class Guard:
    """Lets through who knows the token and talks to this server by its own name.

    The address with the token is exchanged for a cookie at the first visit. Requests that change something
    need a header that no form or link of another site can send.

    Parameters
    ----------
    app : ASGI application
    token : str
    hosts : set of str
        Values of the header Host that are taken, see `allowed_hosts`; empty for any address that is no name,
        where the server listens on all of them.
    cookie : str
        Name of the cookie.

    Examples
    --------
    >>> guard = Guard(None, "secret", {"127.0.0.1:8765"}, "cosmo_8765")
    >>> guard.knows("secret"), guard.knows("Secret"), guard.knows(None)
    (True, False, False)
    """

    def __init__(self, app: App, token: str, hosts: Iterable[str], cookie: str) -> None:
        self._app = app
        self._token = token.encode()
        self._hosts = frozenset(hosts)
        self._cookie = cookie
        self._once: set[str] = set()

    def pass_for_one(self) -> str:
        """Return another token, good for one visit: others can see what a browser is started with."""
        token = secrets.token_urlsafe(32)
        self._once.add(token)
        return token

    def knows(self, token: str | None) -> bool:
        """Tell whether this is the token, in a time that does not depend on how much of it is right."""
        return token is not None and hmac.compare_digest(token.encode("utf-8", "replace"), self._token)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        started = False

        async def guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = {**message, "headers": _completed(message.get("headers", []), message["status"])}
            await send(message)

        refused = self._refusal(scope)
        if refused is not None:
            await _answer(guarded, *refused)
            return
        try:
            await self._app(scope, receive, guarded)
        except Exception:
            logger.exception("%s %s failed", scope["method"], scope["path"])
            if not started:
                await _answer(guarded, 500, WENT_WRONG)

    def _refusal(self, scope: MutableMapping[str, Any]) -> tuple[Any, ...] | None:
        """Return status, sentence and headers of the answer to a request that goes no further."""
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        hosts = headers.get(b"host", [])
        if len(hosts) != 1 or not self._is_here(hosts[0].decode("latin-1").lower()):
            return 403, f"this is not the name of the studio; {_ADDRESS}"
        asked = scope["query_string"].decode("latin-1")
        if scope["path"] == "/" and scope["method"] == "GET" and asked:
            return self._exchanged(asked)
        given = [*self._cookies(headers.get(b"cookie", []))]
        given += [value.decode("latin-1") for value in headers.get(b"x-cosmo-token", [])]
        if not any(self.knows(token) for token in given):
            return 401, f"the token is missing or wrong; {_ADDRESS}"
        if scope["method"] not in ("GET", "HEAD") and headers.get(b"x-cosmo") != [b"1"]:
            return 403, "the header X-Cosmo: 1 is missing; only the page itself may send this"
        return None

    def _exchanged(self, asked: str) -> tuple[Any, ...]:
        """Return the answer to the address with the token: a cookie, and the address without it."""
        tokens = parse_qs(asked, max_num_fields=10).get("token", []) if len(asked) < 1000 else []
        if len(tokens) != 1 or not (self.knows(tokens[0]) or self._spent(tokens[0])):
            return 401, f"the token is missing or wrong; {_ADDRESS}"
        cookie = f"{self._cookie}={self._token.decode()}; Path=/; HttpOnly; SameSite=Strict"
        return 303, "", [(b"location", b"/"), (b"set-cookie", cookie.encode())]

    def _spent(self, token: str) -> bool:
        """Tell whether this is a token for one visit, and take it."""
        given = token.encode("utf-8", "replace")
        found = [one for one in self._once if hmac.compare_digest(one.encode(), given)]
        self._once.difference_update(found)
        return bool(found)

    def _is_here(self, host: str) -> bool:
        if self._hosts:
            return host in self._hosts
        name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name == "localhost"
        return True

    def _cookies(self, headers: list[bytes]) -> Iterable[str]:
        for header in headers:
            try:
                found = SimpleCookie(header.decode("latin-1")).get(self._cookie)
            except CookieError:
                continue
            if found is not None:
                yield found.value


def _completed(headers: Iterable[tuple[bytes, bytes]], status: int) -> Headers:
    """Return the headers of an answer with those that every answer carries."""
    own = [(name.lower(), value) for name, value in headers]
    given = {name for name, _ in own}
    if status >= 400:  # what is left of the body is not waited for
        own.append((b"connection", b"close"))
    if status == 503:
        own.append((b"retry-after", b"1"))
    return own + [(name, value) for name, value in _ON_EVERY_ANSWER.items() if name not in given]


async def _answer(send: Send, status: int, sentence: str, headers: Headers | None = None) -> None:
    body = json.dumps({"error": sentence}).encode() if sentence else b""
    own = [(b"content-length", str(len(body)).encode()), *(headers or [])]
    if body:
        own.append((b"content-type", b"application/json"))
    await send({"type": "http.response.start", "status": status, "headers": own})
    await send({"type": "http.response.body", "body": body})
