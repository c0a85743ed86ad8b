"""The studio on a socket, until it is stopped."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from cosmo.viz.studio.app import make_app
from cosmo.viz.studio.guard import allowed_hosts
from cosmo.viz.studio.limits import Limits
from cosmo.viz.studio.live import Live

__all__ = ["serve"]

_CONNECTIONS = 500
_SECONDS_TO_END = 2
_EVERYWHERE = ("0.0.0.0", "::", "")


def serve(
    live: Live,
    listener: socket.socket,
    *,
    host: str,
    token: str,
    visit: Callable[[str], object] | None = None,
    limits: Limits | None = None,
) -> None:
    """Answer requests until a signal stops it.

    Parameters
    ----------
    live : Live
    listener : socket
        Bound, and listening already: who comes early waits.
    host : str
        The address that it is bound to, as it was asked for.
    token : str
    visit : callable, optional
        Gets a token that is good for one visit, to open the page with.
    limits : Limits, optional
    """
    port = listener.getsockname()[1]
    hosts = () if host in _EVERYWHERE else allowed_hosts(host, port)
    # Cookies know no ports: under one name, two studios would throw each other out.
    app = make_app(live, token=token, hosts=hosts, cookie=f"cosmo_{port}", limits=limits)
    if visit is not None:
        visit(app.pass_for_one())
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        access_log=False,  # it would show the token
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=_SECONDS_TO_END,
    )
    uvicorn.Server(config).run(sockets=[listener])
