"""`DaskEngine`: tasks on the workers of a Dask cluster."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import pickle
import socket
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from cosmo._core.engines.base import Engine, Result, Task
from cosmo._core.engines.local import deaf_to_interrupts, use_one_thread
from cosmo._core.extras import require, versions
from cosmo._core.files import write_whole

__all__ = ["DaskEngine"]

_AHEAD = 2  # tasks with the cluster for each thread of it: one at work, one to go on with
_LOOK = 5.0  # seconds between two looks at who is there
_REMIND = 30.0  # seconds between two lines that say that nobody is
_ANSWER = 30.0  # seconds that a scheduler may take to answer
# A worker that gives memory back after each batch, as Dask has it, takes a quarter longer for predictions.
_KEEPS_MEMORY = {"MALLOC_TRIM_THRESHOLD_": 2**27, "MALLOC_MMAP_THRESHOLD_": 2**25}
_PACKAGES = ("cosmo-gzsl", "numpy", "scipy", "scikit-learn", "pandas")
_HOW = (
    "start a scheduler (`dask scheduler`) and workers (`dask worker ADDRESS --nthreads 1`) and say "
    "--scheduler ADDRESS, such as tcp://10.0.0.1:8786; or take --scheduler local for processes here"
)
_CERTIFICATES = (
    "name the files in Dask's configuration, or in DASK_DISTRIBUTED__COMM__TLS__CA_FILE, "
    "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT and DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY"
)


class DaskEngine(Engine):
    """Does tasks on a Dask cluster.

    At most two tasks for each thread of the cluster are under way, so that neither client nor scheduler
    ever hold many. A worker that is lost costs the tasks that it had: others do them again, and while there
    are none, those that come. An error that a task raises is raised here as it is; it is not tried again.

    A scheduler runs whatever its clients send: keep it in a network that you trust, or use TLS.

    Parameters
    ----------
    scheduler : str, optional
        Address (``tcp://...``, or ``tls://...`` with certificates as Dask's configuration names them), a
        scheduler file (``*.json``), or "local" for a cluster of processes on this machine. By default what
        Dask's configuration says (`DASK_SCHEDULER_ADDRESS`).
    jobs : int
        Processes of a "local" cluster.
    worker_timeout : float
        Seconds to wait while the cluster has no workers, at the start or later; then `OSError` is raised.
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
        worker_timeout: float = 600.0,
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        if not worker_timeout > 0:
            raise ValueError(f"worker_timeout must be above 0 seconds, got {worker_timeout}")
        self._distributed = require("distributed")
        self._worker_timeout = worker_timeout
        self._report = report
        self._workers: dict[str, int] = {}
        self._looked = self._deserted = self._reminded = 0.0
        with ExitStack() as stack:
            stack.enter_context(_quiet("distributed.client"))
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
                config = import_module("dask").config
                environment = {**config.get("distributed.nanny.pre-spawn-environ"), **_KEEPS_MEMORY}
                with (
                    deaf_to_interrupts(),
                    config.set({"distributed.nanny.pre-spawn-environ": environment}),
                ):
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
            except TypeError as error:
                raise OSError(f"{address} needs certificates ({error}): {_CERTIFICATES}") from error
            yield client

    def _check_workers(self) -> None:
        """Wait for a worker; refuse a cluster with other libraries."""
        client = self._client
        self._look()
        while not self._workers:
            time.sleep(min(0.2, self._worker_timeout))
            self._look()
        found = client.get_versions(packages=_PACKAGES)
        ours = found["client"]["packages"]
        others = {f"the scheduler {client.scheduler.address}": found["scheduler"]}  # it reads tasks, too
        others |= {f"the worker {address}": theirs for address, theirs in found["workers"].items()}
        for who, theirs in others.items():
            for name in ("python", "distributed", "cloudpickle", *_PACKAGES):
                _compare(name, ours[name], theirs["packages"][name], who)
        threads = sum(self._workers.values())
        self._report(f"{client.scheduler.address}: {len(self._workers)} workers, {threads} threads")

    def _look(self) -> None:
        """Find out who is there, and say who came or went; give up when nobody comes."""
        client, before, now = self._client, self._workers, time.monotonic()
        try:
            workers = client.sync(client.scheduler.ncores, workers=None, callback_timeout=_ANSWER)
        except OSError as error:
            raise self._lost_scheduler() from error
        gone, new = before.keys() - workers.keys(), workers.keys() - before.keys()
        lost = [f"lost {', '.join(sorted(gone))}, whose tasks are done again"] if gone else []
        if workers and self._looked and (gone or new):
            self._report("; ".join([*lost, f"{len(workers)} workers"]))
        if not workers:
            if before or not self._looked:
                self._deserted, self._reminded = now, now - _REMIND
            self._wait_for_workers(now, lost)
        self._workers, self._looked = dict(workers), now

    def _wait_for_workers(self, now: float, lost: list[str]) -> None:
        """Say from time to time that nobody is there, but not for ever."""
        address, waited = self._client.scheduler.address, now - self._deserted
        if waited >= self._worker_timeout:
            raise OSError(
                f"the scheduler {address} has had no workers for {waited:.0f} s: start some, `dask worker "
                f"{address} --nthreads 1`, and run again: what was done is kept; or wait for them longer, "
                "--worker-timeout SECONDS"
            )
        if now - self._reminded >= _REMIND:
            left = self._worker_timeout - waited
            self._report("; ".join([*lost, f"0 workers, waiting for one (up to {left:.0f} s; Ctrl-C ends)"]))
            self._reminded = now

    def _lost_scheduler(self) -> OSError:
        return OSError(
            f"the scheduler {self._client.scheduler.address} is gone, or does not answer: start it and its "
            "workers again, and run again: what was done is kept"
        )

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
        running: dict[Future[Any], Any] = {}
        arrived: SimpleQueue[Future[Any]] = SimpleQueue()
        with _written(folder.resolve(), function, common) as order:
            try:
                while True:
                    room = max(1, _AHEAD * sum(self._workers.values())) - len(running)
                    for number, task in islice(waiting, max(0, room)):
                        future = client.submit(_work, order, task, key=f"{name}-{number}", pure=False)
                        # Fetched by Dask's own thread. Were it done here, with `future.result()`, this thread
                        # would be stuck, and silent, when a result is lost with the worker that has it.
                        fetched = asyncio.run_coroutine_threadsafe(
                            client.gather(future, asynchronous=True), client.loop.asyncio_loop
                        )
                        running[fetched] = future
                        fetched.add_done_callback(arrived.put)
                    if not running:
                        return
                    if time.monotonic() - self._looked > _LOOK:
                        self._look()
                    try:
                        fetched = arrived.get(timeout=_LOOK)
                    except Empty:
                        continue
                    yield self._result(fetched, running.pop(fetched))
            finally:
                for future in running.values():
                    future.release()  # which nobody has to answer, unlike `cancel`

    def _result(self, fetched: Future[Any], future: Any) -> Any:
        try:
            return fetched.result()
        except self._distributed.KilledWorker as error:
            raise OSError(
                f"a task ended {error.allowed_failures + 1} workers, perhaps for want of memory: give them "
                "more of it or fewer threads, and run again: what was done is kept"
            ) from error
        except (OSError, self._distributed.CancelledError) as error:
            if future.status == "error":  # its own, not of who should have fetched it
                raise
            if isinstance(error, OSError) or self._client.status != "running":
                raise self._lost_scheduler() from error
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
    use_one_thread()
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


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Have a logger be quiet: what it would say of lost connections is said in our own errors."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def _compare(name: str, ours: str | None, theirs: str | None, who: str) -> None:
    if ours != theirs:
        what = f"has {name} {theirs}" if theirs else f"has no {name}"
        raise OSError(f"{who} {what}, here it is {ours}: install the same environment on all machines")
