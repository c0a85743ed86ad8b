"""Where work is done: in this process, in several on this machine, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from cosmo._core.engines.base import Engine
from cosmo._core.engines.dask import DaskEngine
from cosmo._core.engines.local import LocalEngine

__all__ = ["DaskEngine", "Engine", "LocalEngine", "make_engine"]


def make_engine(
    name: Literal["local", "dask"] = "local",
    *,
    scheduler: str | None = None,
    jobs: int = 1,
    worker_timeout: float = 600.0,
    report: Callable[[str], None] = lambda text: None,
) -> Engine:
    """Return an engine by its name.

    Parameters
    ----------
    name : {"local", "dask"}
    scheduler, worker_timeout
        Of Dask, see `DaskEngine`.
    jobs : int
        Processes on this machine, where the engine starts them.
    report : function of str
        Told about workers that come and go.

    Examples
    --------
    >>> make_engine("local", jobs=2).jobs
    2
    """
    if name == "dask":
        return DaskEngine(scheduler, jobs=jobs, worker_timeout=worker_timeout, report=report)
    if name != "local":
        raise ValueError(f"engine must be local or dask, got {name!r}")
    if scheduler is not None:
        raise ValueError(f"a scheduler ({scheduler}) is for the engine dask: add --engine dask")
    return LocalEngine(jobs)
