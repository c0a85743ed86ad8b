"""`cosmo serve` and `cosmo studio`: a model over HTTP, for programs and in the browser."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import secrets
import socket
import sys
import threading
import webbrowser
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cosmo._core import require
from cosmo.cli import _options
from cosmo.cli._output import Progress, progress
from cosmo.data import DataError

if TYPE_CHECKING:
    from cosmo.viz.studio.live import LiveModel

_RUNS = Path("cosmo-runs")
_MODEL, _REPORT = "model.cosmo", "report.html"
_SERVE_PORT, _STUDIO_PORT = 8766, 8765
_PORTS = 20  # tried one after the other


def serve_parser() -> argparse.ArgumentParser:
    options = _options.make_parser("serve")
    _options.add_model_option(options)
    add = options.add_argument
    add_server_options(add, _SERVE_PORT)
    add("--max-rows", type=int, default=1024, metavar="N", help="samples per request (default %(default)s)")
    add("--max-body", type=int, default=32, metavar="MB", help="size of a request (default %(default)s)")
    return options


def run_serve(args: argparse.Namespace) -> int:
    for package in ("fastapi", "uvicorn", "prometheus_client"):
        require(package)
    check_port(args)
    for name in ("max_rows", "max_body"):
        if getattr(args, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(args, name)}")
    from prometheus_client import CollectorRegistry

    from cosmo.serving.api import JsonFormatter, ServedModel, make_api
    from cosmo.serving.server import allowed_hosts, is_loopback, run_server

    token = os.environ.get("COSMO_TOKEN") or None
    registry = CollectorRegistry()
    with listen(args.host, _SERVE_PORT if args.port is None else args.port, _SERVE_PORT) as listener:
        encoder = None if args.weights is None else _options.load_model(args).encoder
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


def add_server_options(add: _options.Add, port: int, otherwise: str = "") -> None:
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


def studio_parser() -> argparse.ArgumentParser:
    options = _options.make_parser("studio")
    add = options.add_argument
    add("model", nargs="?", metavar="MODEL",
        help="a model file, or the folder of a run (default: the newest run below cosmo-runs)")  # fmt: skip
    add("samples", nargs="?", metavar="SAMPLES",
        help="labelled samples like those of the training, or a project that names test samples (default: "
        "those of the run, or the validation stage of the model)")  # fmt: skip
    add("--weights", metavar="PATH", help="file or folder with the weights of the encoder")
    _options.add_trust(add)
    _options.add_sample_options(options)
    add("--unknown", metavar="LABEL",
        help="label of samples of no class of the model, to show their rejection")  # fmt: skip
    add_server_options(add, _STUDIO_PORT, ", or the next that is free")
    add("--no-browser", action="store_true", help="print the address only")
    _options.add_quiet(add)
    return options


def run_studio(args: argparse.Namespace) -> int:
    require("fastapi")
    require("uvicorn")
    check_port(args)
    with listen(args.host, args.port, _STUDIO_PORT) as listener:
        with progress(quiet=args.quiet) as step:
            live = _live(args, step)
        from cosmo.serving.server import is_loopback
        from cosmo.viz.studio import serve

        token = secrets.token_urlsafe(32)
        address = f"{base_url(listener, args.host)}/?token="
        if not is_loopback(args.host):
            warn("studio", args.host, " and has the address")
        print(f"cosmo studio: {address}{token}  (Ctrl-C ends it)", flush=True)
        has_display = sys.platform in ("darwin", "win32") or any(
            os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
        )
        shown = not args.no_browser and has_display
        open_browser = (lambda once: _open(f"{address}{once}")) if shown else None
        serve(live, listener, host=args.host, token=token, open_browser=open_browser)
    return 0


def _live(args: argparse.Namespace, step: Progress) -> LiveModel:
    """Return the model named by the options, with its samples or the view of its run."""
    from cosmo.viz.page import read_view
    from cosmo.viz.studio.live import LiveModel, Samples

    place = Path(args.model) if args.model is not None else _newest_run()
    args.model = str(place / _MODEL if place.is_dir() else place)
    if place.is_dir() and not Path(args.model).is_file():
        raise DataError(f"{place} has no {_MODEL}: name a model file, or the folder of a run of `cosmo run`")
    step(f"loading {args.model}")
    if args.samples is not None:
        model, rows, samples = _options.load_rows(args, step, test=True)
        known = samples.require_labels(args.samples) != args.unknown
        if args.unknown is not None and (known.all() or not known.any()):
            raise DataError(
                f"{args.samples}: samples of known classes and some labelled {args.unknown!r} are needed"
            )

        def part(which: NDArray[np.bool_]) -> Samples:
            some = samples.take(np.flatnonzero(which))
            items = some.items if isinstance(some.items, list) else None
            return Samples(rows[which], some.require_labels(args.samples), items)

        shown = part(known)
        if args.unknown is not None:
            shown = replace(shown, unknown=part(~known))
        return LiveModel(model, shown, title=Path(args.samples).resolve().name)
    model, report, view = _options.load_model(args), place / _REPORT, None
    if report.is_file():
        try:
            view = read_view(report.read_text(encoding="utf-8"))
        except (DataError, UnicodeDecodeError):
            step(f"{report} is not a report of this version: showing the validation stage of the model")
    return LiveModel(model, view=view, title=place.resolve().name)


def _newest_run() -> Path:
    runs = [path for path in _RUNS.glob(f"**/{_MODEL}") if path.is_file()]
    if not runs:
        raise DataError(
            f"there is no run below {_RUNS}: begin with `cosmo run`, or name a model that `cosmo fit` wrote"
        )
    return max(runs, key=lambda path: path.stat().st_mtime).parent


def _open(address: str) -> None:
    def work() -> None:
        with suppress(Exception):  # The address is printed as well.
            webbrowser.open(address)

    threading.Thread(target=work, daemon=True).start()
