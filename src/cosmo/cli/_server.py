"""Options of servers, and their listening socket."""

from __future__ import annotations

import argparse
import errno
import socket
import sys

from cosmo.cli._options import Add

_PORTS = 20  # tried one after the other


def add_server_options(add: Add, port: int, otherwise: str = "") -> None:
    """Add --port and --host."""
    add("--port", type=int, metavar="N", help=f"where to listen, 0 for any (default {port}{otherwise})")
    add("--host", default="127.0.0.1", metavar="ADDRESS",
        help="the address to listen on (default %(default)s, which only this machine reaches)")  # fmt: skip


def check_port(args: argparse.Namespace) -> None:
    """Raise if --port is not a port."""
    if args.port is not None and not 0 <= args.port <= 65535:
        raise ValueError(f"--port must be from 0 to 65535, got {args.port}")


def listen(host: str, port: int | None, first: int) -> socket.socket:
    """Return a listening socket at the given port, or at the first free one from `first` on."""
    try:
        family, _, _, _, place = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise ValueError(f"--host {host} is no address of this machine ({error})") from error
    tried = [*range(first, first + _PORTS), 0] if port is None else [port]
    for number in tried:
        try:
            listener = socket.create_server((place[0], number), family=family)
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise ValueError(f"--host {host} is no address of this machine ({error.strerror})") from error
        else:
            # Inherited by connections. Without it, a response waits 40 ms for an acknowledgement.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return listener
    raise ValueError(f"port {port} of {host} is taken or not allowed; choose another --port, or leave it out")


def base_url(listener: socket.socket, host: str) -> str:
    """Return the address of a server; on loopback if it listens on all addresses."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"


def warn(command: str, host: str, condition: str = "") -> None:
    """Warn that others can use a server."""
    print(
        f"cosmo {command}: warning: anybody who reaches {host}{condition} can use the model, and the "
        "connection is not encrypted; the default --host is safer",
        file=sys.stderr,
    )
