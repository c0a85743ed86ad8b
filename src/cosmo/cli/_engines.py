"""Where the work of a command is done: its options, and the engine that they name."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from cosmo._core.engines import Engine, make_engine

__all__ = ["add_engine_options", "engine_of"]


def add_engine_options(options: argparse.ArgumentParser) -> None:
    """Add --engine, --scheduler and --worker-timeout; the command has --jobs."""
    add = options.add_argument
    add("--engine", choices=["local", "dask"], default="local",
        help="who does the work: this machine, or a Dask cluster (default %(default)s)")  # fmt: skip
    add("--scheduler", metavar="ADDRESS",
        help="of the Dask cluster: tcp://HOST:PORT, tls://..., a scheduler file, or 'local' for --jobs "
        "processes on this machine")  # fmt: skip
    add("--worker-timeout", type=float, default=600.0, metavar="SECONDS",
        help="how long to wait while the Dask cluster has no workers (default %(default)g)")  # fmt: skip


def engine_of(args: argparse.Namespace, report: Callable[[str], None]) -> Engine:
    """Return the engine that the options name; to be used in a `with`."""
    if args.jobs < 1:
        raise ValueError(f"--jobs must be at least 1, got {args.jobs}")
    if not args.worker_timeout > 0:
        raise ValueError(f"--worker-timeout must be above 0, got {args.worker_timeout:g}")
    return make_engine(
        args.engine,
        scheduler=args.scheduler,
        jobs=args.jobs,
        worker_timeout=args.worker_timeout,
        report=report,
    )
