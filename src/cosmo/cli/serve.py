"""`cosmo serve`: an HTTP API for a model."""

from __future__ import annotations

import argparse
import logging
import os

from cosmo._core import require
from cosmo.cli._options import add_model_option, load_model, make_parser
from cosmo.cli._server import add_server_options, base_url, check_port, listen, warn

_PORT = 8766
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
    """Return the options of the command."""
    options = make_parser("serve", "Serve predictions of a model over HTTP.", _EPILOG)
    add_model_option(options)
    add = options.add_argument
    add_server_options(add, _PORT)
    add("--max-rows", type=int, default=1024, metavar="N", help="samples per request (default %(default)s)")
    add("--max-body", type=int, default=32, metavar="MB", help="size of a request (default %(default)s)")
    return options


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    for package in ("fastapi", "uvicorn", "prometheus_client"):
        require(package)
    check_port(args)
    for name in ("max_rows", "max_body"):
        if getattr(args, name) < 1:
            raise ValueError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(args, name)}")
    from prometheus_client import CollectorRegistry

    from cosmo.serving.access import allowed_hosts, is_loopback
    from cosmo.serving.api import make_api
    from cosmo.serving.log import JsonFormatter
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
