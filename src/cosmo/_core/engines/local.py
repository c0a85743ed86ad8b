"""`LocalEngine`: tasks in this process, or in several on this machine."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from multiprocessing import resource_tracker
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import joblib
from joblib.externals.loky.backend import resource_tracker as loky_resource_tracker
from joblib.externals.loky.process_executor import TerminatedWorkerError
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from cosmo._core.engines.base import Engine, Result, Task
from cosmo._core.files import mark_drafts, remove_drafts

__all__ = ["LocalEngine", "deaf_to_interrupts", "use_one_thread"]

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class LocalEngine(Engine):
    """Does tasks on this machine.

    Parameters
    ----------
    jobs : int
        Processes; with one, tasks are done in this one, in their order.

    Examples
    --------
    >>> sorted(LocalEngine(jobs=2).map(pow, range(5), common=2))
    [1, 2, 4, 8, 16]
    """

    def __init__(self, jobs: int = 1) -> None:
        if jobs < 1:
            raise ValueError(f"jobs must be at least 1, got {jobs}")
        self.jobs = jobs

    def map(
        self,
        function: Callable[[Any, Task], Result],
        tasks: Iterable[Task],
        *,
        common: Any = None,
        folder: Path | None = None,
    ) -> Generator[Result]:
        """Yield results as they get done, see `Engine.map`."""
        if self.jobs > 1:
            yield from self._apart(function, tasks, common, folder)
            return
        for task in tasks:
            with threadpool_limits(1):
                result = function(common, task)
            yield result

    def close(self) -> None:
        """Do nothing: processes end by themselves when they have been idle for a while."""

    def _apart(
        self, function: Callable[[Any, Task], Result], tasks: Iterable[Task], common: Any, folder: Path | None
    ) -> Generator[Result]:
        done = False
        # joblib replaces processes that hold much memory, as training takes; nothing is lost.
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
        with TemporaryDirectory(prefix="cosmo-", ignore_cleanup_errors=True) as scratch:
            path = str(Path(scratch, "common"))
            joblib.dump(common, path)
            calls = (joblib.delayed(_do)(function, path, task) for task in tasks)
            with deaf_to_interrupts():
                results = joblib.Parallel(n_jobs=self.jobs, return_as="generator_unordered")(calls)
            try:
                for result in results:  # noqa: UP028  (which would close the results before we can)
                    yield result
                done = True
            except TerminatedWorkerError as error:
                raise OSError(
                    "a process that did a part of the work was killed, perhaps for want of memory; take "
                    "fewer jobs (--jobs), and run again: what was done is kept"
                ) from error
            finally:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # that not all were wanted: whoever stops knows
                    results.close()
                if folder is not None and not done:
                    remove_drafts(folder, Path(scratch).name)


def _do(function: Callable[[Any, Task], Result], path: str, task: Task) -> Result:
    use_one_thread()
    mark_drafts(Path(path).parent.name)
    return function(_common(path), task)


@lru_cache(maxsize=1)
def _common(path: str) -> Any:
    """Return what all tasks share; its arrays are in memory once for all processes."""
    return joblib.load(path, mmap_mode="r")


def use_one_thread() -> None:
    """Have the numerical libraries use one thread in this process, which is an engine's, for good."""
    os.environ.update(dict.fromkeys(_THREADS, "1"))  # those that are imported later
    threadpool_limits(1)


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Start processes that leave Ctrl-C to this one, which ends them, rather than each complaining of it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    for tracker in (resource_tracker, loky_resource_tracker):
        tracker.ensure_running()  # whose start would open our ears again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
