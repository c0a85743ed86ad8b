"""A parallel map in processes or on a Dask cluster, and the threads of BLAS and PyTorch."""

from __future__ import annotations

import logging
import math
import signal
import socket
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from multiprocessing import resource_tracker
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, TypeVar

import joblib
from joblib.externals.loky.backend import resource_tracker as loky_resource_tracker
from joblib.externals.loky.process_executor import TerminatedWorkerError
from threadpoolctl import ThreadpoolController, threadpool_limits  # type: ignore[import-untyped]

from cosmo._core import LIBRARIES, require

logger = logging.getLogger(__name__)

Task = TypeVar("Task")
Result = TypeVar("Result")

_POLL = 2.0  # seconds between two counts of the workers of a cluster
_ANSWER = 30.0  # seconds that a scheduler may take to answer
_LARGE = 2**25  # values in X from which products are worth more than one thread
_controller = lru_cache(maxsize=1)(ThreadpoolController)
_lock = Lock()
_limits: list[Any] = []  # one entry per user; the first one holds the original number of threads
CLUSTER_ADVICE = (
    "start a scheduler (`dask scheduler`) and workers (`dask worker ADDRESS --nthreads 1`) and pass "
    "--scheduler ADDRESS, such as tcp://10.0.0.1:8786; or --scheduler local for processes of this machine"
)


@dataclass(frozen=True)
class Workers:
    """Where tasks run.

    Parameters
    ----------
    jobs : int, default=1
        Number of processes on this machine; 1 is this process. Ignored with a scheduler other than "local".
    scheduler : str or None, default=None
        Dask scheduler: an address (``tcp://...``, or ``tls://...`` with the certificates of Dask's
        configuration), a scheduler file (``*.json``), or "local" for a Dask cluster of `jobs` processes on
        this machine. A scheduler executes what its clients send: use a trusted network, or TLS.
    timeout : float, default=600.0
        Seconds to wait while the cluster has no workers, before `OSError` is raised.
    """

    jobs: int = 1
    scheduler: str | None = None
    timeout: float = 600.0


def parallel_map(
    function: Callable[[Any, Task], Result],
    tasks: Iterable[Task],
    *,
    workers: Workers | None = None,
    common: Any = None,
    folder: Path | None = None,
) -> Generator[Result]:
    """Yield ``function(common, task)`` for each task, in the order of completion.

    Each task uses one thread of the numerical libraries. Tasks are taken from the iterable as workers become
    free. The first error of a task is raised here; tasks that have not started are cancelled then, and when
    the generator is closed. A task of a lost Dask worker is repeated on another one.

    `function` is of an importable module. `common`, such as a model, is loaded once by each process. With a
    scheduler, `folder` must be on storage that all machines of the cluster share. OSError is raised if a
    process is killed, or the cluster cannot be reached or has no workers.
    """
    workers = workers or Workers()
    if workers.scheduler is not None:
        yield from _map_on_cluster(function, tasks, workers, common, folder)
    elif workers.jobs > 1:
        yield from _map_in_processes(function, tasks, workers.jobs, common)
    else:
        for task in tasks:
            with threadpool_limits(1):
                result = function(common, task)
            yield result


@contextmanager
def block_sigint() -> Iterator[None]:
    """Start processes that ignore Ctrl-C, which this process handles and ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    for tracker in (resource_tracker, loky_resource_tracker):
        tracker.ensure_running()  # Its start would reset the signal mask.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _stored(common: Any, folder: Path | None) -> Iterator[str]:
    """Store the common argument in a file while the tasks run; yield its path."""
    with TemporaryDirectory(prefix=".cosmo-", dir=folder, ignore_cleanup_errors=True) as scratch:
        path = str(Path(scratch, "common"))
        joblib.dump(common, path)
        yield path


@lru_cache(maxsize=1)
def _load(path: str, mmap_mode: str | None) -> Any:
    try:
        return joblib.load(path, mmap_mode=mmap_mode)
    except FileNotFoundError as error:
        raise OSError(
            f"{Path(path).parents[1]} is missing, or is another folder, on the worker "
            f"{socket.gethostname()}: it must be on storage that all machines share, under the same path"
        ) from error


def _run(
    function: Callable[[Any, Task], Result], path: str, task: Task, mmap_mode: str | None = None
) -> Result:
    """Run a task in a worker process."""
    threadpool_limits(1)
    return function(_load(path, mmap_mode), task)


def _map_in_processes(
    function: Callable[[Any, Task], Result], tasks: Iterable[Task], jobs: int, common: Any
) -> Generator[Result]:
    # joblib replaces processes that hold much memory, as training takes; no task is lost.
    warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
    with _stored(common, None) as path:
        # Mapped, so that the arrays are in memory once for all processes.
        calls = (joblib.delayed(_run)(function, path, task, "r") for task in tasks)
        with block_sigint(), joblib.parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1):
            results = joblib.Parallel(return_as="generator_unordered", batch_size=1)(calls)
        try:
            for result in results:  # noqa: UP028  (`yield from` would close the results with warnings)
                yield result
        except TerminatedWorkerError as error:
            raise OSError(
                "a worker process was killed, perhaps for lack of memory; use fewer --jobs"
            ) from error
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about results that were not used
                results.close()


def _map_on_cluster(
    function: Callable[[Any, Task], Result],
    tasks: Iterable[Task],
    workers: Workers,
    common: Any,
    folder: Path | None,
) -> Generator[Result]:
    if folder is None:
        raise ValueError("on a cluster, tasks need a folder on storage that all machines share")
    distributed = require("distributed")
    waiting, running = iter(tasks), set[Any]()
    with _connect(workers) as client, _stored(common, folder.resolve()) as path:
        count = _Counter(client, workers.timeout)
        while not count.threads():
            time.sleep(_POLL)
        _check_versions(client)
        try:
            while True:
                # Two tasks for each thread: one that runs and one to continue with.
                room = max(1, 2 * count.threads()) - len(running)
                for task in islice(waiting, max(0, room)):
                    running.add(client.submit(_run, function, path, task, pure=False))
                if not running:
                    return
                try:
                    done = distributed.wait(running, timeout=_POLL, return_when="FIRST_COMPLETED").done
                except TimeoutError:
                    continue
                for future in done:
                    try:
                        result = future.result(timeout=_POLL)
                    except TimeoutError:
                        if future.status == "error":  # of the task
                            raise
                        continue  # The result was lost with its worker; Dask repeats the task.
                    running.remove(future)
                    yield result
        except distributed.KilledWorker as error:
            raise OSError(
                f"a task ended {error.allowed_failures + 1} workers, perhaps for lack of memory: give them "
                "more memory or fewer threads, and run again: finished work is kept"
            ) from error
        except distributed.CancelledError as error:
            raise _lost_scheduler(client) from error
        finally:
            for future in running:
                future.release()


@contextmanager
def _connect(workers: Workers) -> Iterator[Any]:
    """Yield a client of the cluster, which is started here if it is "local"."""
    distributed = require("distributed")
    address: Any = workers.scheduler
    client_logger = logging.getLogger("distributed.client")
    with ExitStack() as stack:
        # Lost connections are reported by our errors.
        stack.callback(client_logger.setLevel, client_logger.level)
        client_logger.setLevel(logging.CRITICAL + 1)
        if address == "local":
            with block_sigint():
                address = stack.enter_context(
                    distributed.LocalCluster(
                        n_workers=workers.jobs,
                        threads_per_worker=1,
                        processes=True,
                        dashboard_address="127.0.0.1:0",
                        silence_logs=logging.CRITICAL,
                    )
                )
        where = {"scheduler_file" if str(address).endswith(".json") else "address": address}
        try:
            client = stack.enter_context(distributed.Client(**where))
        except (OSError, ValueError) as error:
            raise OSError(f"no Dask scheduler answers at {address} ({error}): {CLUSTER_ADVICE}") from error
        except TypeError as error:
            raise OSError(f"{address} needs certificates ({error}): set distributed.comm.tls") from error
        yield client


class _Counter:
    """Counts the threads of a cluster and logs workers that join or are lost."""

    def __init__(self, client: Any, timeout: float) -> None:
        self._client, self._timeout = client, timeout
        self._workers: dict[str, int] = {}
        self._time, self._last_seen = -math.inf, time.monotonic()

    def threads(self) -> int:
        """Return the number of threads; raise if there have been none for too long."""
        address, now = self._client.scheduler.address, time.monotonic()
        if now - self._time < _POLL:
            return sum(self._workers.values())
        try:
            found = self._client.sync(self._client.scheduler.ncores, workers=None, callback_timeout=_ANSWER)
        except OSError as error:
            raise _lost_scheduler(self._client) from error
        if found.keys() != self._workers.keys() or self._time < 0:
            lost = ", ".join(sorted(self._workers.keys() - found.keys()))
            wait = "" if found else f", waiting up to {self._timeout:.0f} s for one"
            logger.info("%s: %d workers%s%s", address, len(found), wait, f"; lost {lost}" if lost else "")
        self._workers, self._time = dict(found), now
        if found:
            self._last_seen = now
        elif now - self._last_seen >= self._timeout:
            raise OSError(
                f"the scheduler {address} has had no workers for {now - self._last_seen:.0f} s: start some, "
                f"`dask worker {address} --nthreads 1`, and run again: finished work is kept; or wait "
                "longer, --worker-timeout SECONDS"
            )
        return sum(found.values())


def _lost_scheduler(client: Any) -> OSError:
    return OSError(f"the scheduler {client.scheduler.address} is gone: start it, and run again")


def _check_versions(client: Any) -> None:
    """Raise if scheduler or workers have other versions of the packages that results depend on."""
    found = client.get_versions(packages=LIBRARIES)
    ours = found["client"]["packages"]
    for name, node in {client.scheduler.address: found["scheduler"], **found["workers"]}.items():
        for package in ("python", "distributed", "cloudpickle", *LIBRARIES):
            theirs = node["packages"][package]
            if theirs != ours[package]:
                raise OSError(f"{name} has {package} {theirs}, not {ours[package]}: install the same")


@contextmanager
def blas_threads(values: int) -> Iterator[None]:
    """Use one BLAS thread for input of few values: threads of small products mostly wait for each other.

    Several threads of Python may be inside at the same time; the last one restores the number.
    """
    if values >= _LARGE:
        yield
        return
    with _lock:
        _limits.append(None if _limits else _controller().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            if len(_limits) == 1:
                _limits[0].restore_original_limits()
            _limits.pop()


@contextmanager
def single_torch_thread() -> Iterator[int]:
    """Use one thread of PyTorch for each thread of Python; yield the number that was set before."""
    torch = require("torch")
    number = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield number
    finally:
        torch.set_num_threads(number)
