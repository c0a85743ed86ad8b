"""`DaskEngine`: tasks on the workers of a Dask cluster."""

from __future__ import annotations

import hashlib
import logging
import pickle
import socket
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from cosmo.engines.base import Engine, Result, Task
from cosmo.engines.local import deaf_to_interrupts
from cosmo.extras import import_distributed
from cosmo.files import write_whole
from cosmo.persistence import versions

__all__ = ["DaskEngine"]

_AHEAD = 2  # tasks with the cluster for each thread of it: one at work, one to go on with
_LOOK = 5.0  # seconds between two looks at who is there
_WAIT = 60.0  # seconds to wait for the first worker
_PACKAGES = ("cosmo-gzsl", "numpy", "scipy", "scikit-learn", "pandas")
_HOW = (
    "start a scheduler (`dask scheduler`) and workers (`dask worker ADDRESS --nthreads 1`) and say "
    "--scheduler ADDRESS, such as tcp://10.0.0.1:8786; or take --scheduler local for processes here"
)


class DaskEngine(Engine):
    """Does tasks on a Dask cluster.

    At most two tasks for each thread of the cluster are under way, so that neither client nor scheduler
    ever hold many. A worker that is lost costs the tasks that it had: others do them again. An error that a
    task raises is raised here as it is; it is not tried again.

    A scheduler runs whatever its clients send: keep it in a network that you trust, or use TLS.

    Parameters
    ----------
    scheduler : str, optional
        Address (``tcp://...``, or ``tls://...`` with certificates as Dask's configuration names them), a
        scheduler file (``*.json``), or "local" for a cluster of processes on this machine. By default what
        Dask's configuration says (`DASK_SCHEDULER_ADDRESS`).
    jobs : int
        Processes of a "local" cluster.
    report : function of str
        Told about workers that come and go.

    Examples
    --------
    >>> with DaskEngine("local", jobs=2) as engine:  # doctest: +SKIP
    ...     sorted(engine.map(pow, range(5), common=2, folder=Path("shared")))
    [1, 2, 4, 8, 16]
    """

    def __init__(
        self,
        scheduler: str | None = None,
        *,
        jobs: int = 1,
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._distributed = import_distributed()
        self._report = report
        self._workers: dict[str, int] = {}
        self._looked = 0.0
        with ExitStack() as stack:
            self._client = stack.enter_context(self._connected(scheduler, jobs))
            self._check_workers()
            self._stack = stack.pop_all()

    def close(self) -> None:
        """Leave the cluster, and end it if it was started here."""
        self._stack.close()

    @contextmanager
    def _connected(self, scheduler: str | None, jobs: int) -> Iterator[Any]:
        distributed = self._distributed
        address = scheduler or distributed.client.dask.config.get("scheduler-address", None)
        if address is None:
            raise ValueError(f"the engine dask needs a cluster: {_HOW}")
        with ExitStack() as stack:
            if address == "local":
                with deaf_to_interrupts():
                    address = stack.enter_context(
                        distributed.LocalCluster(
                            n_workers=jobs,
                            threads_per_worker=1,
                            processes=True,
                            dashboard_address="127.0.0.1:0",
                            silence_logs=logging.CRITICAL,
                        )
                    )
            where = {"scheduler_file": address} if str(address).endswith(".json") else {"address": address}
            try:
                client = stack.enter_context(distributed.Client(**where, set_as_default=False))
            except (OSError, ValueError) as error:
                raise OSError(f"no Dask scheduler answers at {address} ({error}): {_HOW}") from error
            yield client

    def _check_workers(self) -> None:
        """Refuse a cluster without workers, or with other libraries."""
        client = self._client
        try:
            client.wait_for_workers(1, timeout=_WAIT)
        except TimeoutError as error:
            address = client.scheduler.address
            raise OSError(
                f"the scheduler {address} has no workers: start some, `dask worker {address} --nthreads 1`"
            ) from error
        found = client.get_versions(packages=_PACKAGES)
        ours = found["client"]["packages"]
        others = {f"the scheduler {client.scheduler.address}": found["scheduler"]}  # it reads tasks, too
        others |= {f"the worker {address}": theirs for address, theirs in found["workers"].items()}
        for who, theirs in others.items():
            for name in ("python", "distributed", "cloudpickle", *_PACKAGES):
                _compare(name, ours[name], theirs["packages"][name], who)
        self._look()
        threads = sum(self._workers.values())
        self._report(f"{client.scheduler.address}: {len(self._workers)} workers, {threads} threads")

    def _look(self) -> None:
        """Find out who is there, and say who came or went."""
        workers = self._client.nthreads()
        gone, new = self._workers.keys() - workers.keys(), workers.keys() - self._workers.keys()
        if self._looked and (gone or new):
            lost = f"lost {', '.join(sorted(gone))}, whose tasks are done again" if gone else ""
            self._report("; ".join(filter(None, [lost, f"{len(workers)} workers"])))
        self._workers, self._looked = dict(workers), time.monotonic()

    def map(
        self,
        function: Callable[[Any, Task], Result],
        tasks: Iterable[Task],
        *,
        common: Any = None,
        folder: Path | None = None,
    ) -> Generator[Result]:
        """Yield results as they get done, see `Engine.map`."""
        if folder is None:
            raise ValueError("on a cluster, tasks need a folder on storage that all machines share")
        client, name = self._client, f"{function.__name__}-{uuid.uuid4().hex}"
        waiting = enumerate(tasks)
        running: set[Any] = set()
        arrived: SimpleQueue[Any] = SimpleQueue()
        with _written(folder.resolve(), function, common) as order:
            try:
                while True:
                    room = max(1, _AHEAD * sum(self._workers.values())) - len(running)
                    for number, task in islice(waiting, max(0, room)):
                        future = client.submit(_work, order, task, key=f"{name}-{number}", pure=False)
                        running.add(future)
                        future.add_done_callback(arrived.put)
                    if not running:
                        return
                    if time.monotonic() - self._looked > _LOOK:
                        self._look()
                    try:
                        future = arrived.get(timeout=_LOOK)
                    except Empty:
                        continue
                    running.remove(future)
                    yield self._result(future)
            finally:
                if running and client.status == "running":
                    client.cancel(list(running), force=True)

    def _result(self, future: Any) -> Any:
        try:
            return future.result()
        except self._distributed.KilledWorker as error:
            raise OSError(
                f"a task ended {error.allowed_failures + 1} workers, perhaps for want of memory: give them "
                "more of it or fewer threads, and run again: what was done is kept"
            ) from error
        except self._distributed.CancelledError as error:
            raise OSError(
                f"the cluster gave up a task ({error}); run again: what was done is kept"
            ) from error


@dataclass(frozen=True)
class _Order:
    """Where function and common part of a `map` are, and how to know that they are these.

    In a file of the folder that all share, rather than with the scheduler: it is not lost with a worker, and
    each process reads it once.
    """

    path: Path
    digest: bytes
    versions: tuple[tuple[str, str], ...]


def _work(order: _Order, task: Any) -> Any:
    """Do a task, on a worker."""
    function, common = _read(order)
    threadpool_limits(1)  # for good, as Dask's own workers are set up
    return function(common, task)


@lru_cache(maxsize=1)
def _read(order: _Order) -> tuple[Callable[[Any, Any], Any], Any]:
    """Return function and common part; refuse where results would differ or be written to nowhere."""
    host, here = socket.gethostname(), versions()
    for name, version in order.versions:  # workers that came late were not asked before
        _compare(name, version, here[name], f"the worker {host}")
    try:
        content = order.path.read_bytes()
    except FileNotFoundError as error:
        raise OSError(
            f"{order.path.parent} is not there, or is another folder, on the worker {host}: it has to be on "
            "storage that all machines of the cluster share, under the same path"
        ) from error
    if hashlib.blake2b(content, digest_size=16).digest() != order.digest:
        raise OSError(f"{order.path} was altered; nothing of it is used")
    return pickle.loads(content)  # the client's own, as the digest that came with the task says


@contextmanager
def _written(folder: Path, function: Callable[[Any, Any], Any], common: Any) -> Iterator[_Order]:
    """Put what all tasks share into a folder, as long as it is needed."""
    content = import_module("cloudpickle").dumps((function, common), protocol=pickle.HIGHEST_PROTOCOL)
    path = folder / f".cosmo-{uuid.uuid4().hex}"
    try:
        write_whole(path, content)
        yield _Order(path, hashlib.blake2b(content, digest_size=16).digest(), tuple(versions().items()))
    finally:
        path.unlink(missing_ok=True)


def _compare(name: str, ours: str | None, theirs: str | None, who: str) -> None:
    if ours != theirs:
        what = f"has {name} {theirs}" if theirs else f"has no {name}"
        raise OSError(f"{who} {what}, here it is {ours}: install the same environment on all machines")
