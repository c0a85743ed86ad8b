"""`cosmo serve`: an HTTP API for a model; options and listening socket of servers."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import socket
import sys

from cosmo._core import require
from cosmo.cli._options import Add, add_model_option, load_model, make_parser

_PORT = 8766
_PORTS = 20  # tried one after the other
_EPILOG = """\
GET /health, GET /metrics (Prometheus), GET /openapi.json, POST /predict. With COSMO_TOKEN in the environment,
all but /health need the header Authorization: Bearer TOKEN. A log of JSON lines goes to standard error. A
changed model file is loaded while requests are served. Ctrl-C or SIGTERM: requests are finished first.

examples:
  cosmo serve model.cosmo
  curl -s http://127.0.0.1:8766/predict -H "Content-Type: application/json" \\
       -d '{"texts": ["where is my parcel"], "top": 2, "why": true}'
"""


def parser() -> argparse.ArgumentParser:
    options = make_parser("serve", "Serve predictions of a model over HTTP.", _EPILOG)
    add_model_option(options)
    add = options.add_argument
    add_server_options(add, _PORT)
    add("--max-rows", type=int, default=1024, metavar="N", help="samples per request (default %(default)s)")
    add("--max-body", type=int, default=32, metavar="MB", help="size of a request (default %(default)s)")
    return options


def run(args: argparse.Namespace) -> int:
    for package in ("fastapi", "uvicorn", "prometheus_client"):
        require(package)
    check_port(args)
    for name in ("max_rows", "max_body"):
        if getattr(args, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(args, name)}")
    from prometheus_client import CollectorRegistry

    from cosmo.serving.access import allowed_hosts, is_loopback
    from cosmo.serving.api import JsonFormatter, make_api
    from cosmo.serving.model import ServedModel
    from cosmo.serving.server import run_server

    token = os.environ.get("COSMO_TOKEN") or None
    registry = CollectorRegistry()
    with listen(args.host, _PORT if args.port is None else args.port, _PORT) as listener:
        encoder = None if args.weights is None else load_model(args).encoder
        served = ServedModel(args.model, registry, encoder=encoder, trusted=args.trust)
        local = is_loopback(args.host)
        if not local:
            warn("serve", args.host, "" if token is None else " and has the token")
        hosts = allowed_hosts(args.host, listener.getsockname()[1]) if local else ()
        limits = {"max_rows": args.max_rows, "max_body": 1_000_000 * args.max_body}
        app = make_api(served, registry, token=token, hosts=hosts, **limits)
        handler = logging.StreamHandler()
        handler.setFormatter(JsonFormatter())
        logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
        logging.captureWarnings(True)
        print(f"cosmo serve: {base_url(listener, args.host)}  (Ctrl-C ends it)", flush=True)
        served.watch()
        run_server(app, listener, patience=30)
    return 0


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
