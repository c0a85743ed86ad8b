"""Options of the commands that run tasks in parallel."""

from __future__ import annotations

import argparse

from cosmo._core.extras import require
from cosmo._core.parallel import CLUSTER_ADVICE, Workers


def add_worker_options(options: argparse.ArgumentParser) -> None:
    """Add --engine, --scheduler and --worker-timeout; the command has --jobs."""
    add = options.add_argument
    add("--engine", choices=["local", "dask"], default="local",
        help="run tasks on this machine or on a Dask cluster (default %(default)s)")  # fmt: skip
    add("--scheduler", metavar="ADDRESS",
        help="Dask scheduler: tcp://HOST:PORT, tls://..., a scheduler file, or 'local' for --jobs processes "
        "on this machine (default: Dask's configuration)")  # fmt: skip
    add("--worker-timeout", type=float, default=600.0, metavar="SECONDS",
        help="how long to wait while the Dask cluster has no workers (default %(default)g)")  # fmt: skip


def workers_from(args: argparse.Namespace) -> Workers:
    """Return the workers that the options describe."""
    if args.jobs < 1:
        raise ValueError(f"--jobs must be at least 1, got {args.jobs}")
    if not args.worker_timeout > 0:
        raise ValueError(f"--worker-timeout must be above 0, got {args.worker_timeout:g}")
    if args.engine == "local":
        if args.scheduler is not None:
            raise ValueError(f"--scheduler {args.scheduler} needs a Dask cluster: add --engine dask")
        return Workers(args.jobs)
    scheduler = args.scheduler or require("distributed").client.dask.config.get("scheduler-address", None)
    if scheduler is None:
        raise ValueError(f"--engine dask needs a cluster: {CLUSTER_ADVICE}")
    return Workers(args.jobs, scheduler, args.worker_timeout)
