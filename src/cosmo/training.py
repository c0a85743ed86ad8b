"""Experts trained side by side, each at most once and each in its own process."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import resource_tracker

from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError
from sklearn.base import BaseEstimator

from cosmo.experts import UnseenExpert
from cosmo.stages import Spoken, Stages

__all__ = ["Training", "train_all"]


@dataclass(frozen=True, eq=False)
class Training:
    """An expert to train for both stages.

    Parameters
    ----------
    name : str
        Shown in reports.
    stages : Stages
        Data set, split and cache.
    expert : classifier or UnseenExpert
    """

    name: str
    stages: Stages
    expert: BaseEstimator

    @cached_property
    def key(self) -> str:
        """The same for trainings that would give the same."""
        return self.stages.key(self.expert)


def train_all(
    trainings: Sequence[Training], *, jobs: int = 1, report: Callable[[str], None] = lambda text: None
) -> dict[str, Spoken]:
    """Return what each expert says, by the key of its training.

    Parameters
    ----------
    trainings : sequence of Training
        Equal ones are done once; what the cache has is not done again.
    jobs : int
        Experts trained at the same time, each in its own process.
    report : function of str
        Told whenever an expert is trained.

    Examples
    --------
    >>> import tempfile
    >>> from cosmo.cache import Cache
    >>> from cosmo.data import load_glyphs
    >>> from cosmo.experts import ESZSL
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stages = Stages(load_glyphs(n_classes=40, samples_per_class=12), Cache(folder))
    ...     said = train_all([Training("one", stages, ESZSL()), Training("the same", stages, ESZSL())])
    >>> len(said)
    1
    """
    tasks = {training.key: training for training in trainings}
    spoken = {key: _train(task)[1] for key, task in tasks.items() if task.stages.kept(task.expert)}
    report(f"{len(spoken)} of {len(tasks)} experts are trained already")
    new = [delayed(_train)(task) for key, task in tasks.items() if key not in spoken]
    try:
        with _deaf_to_interrupts():
            results = Parallel(n_jobs=jobs, return_as="generator_unordered")(new) if new else []
        for key, said in results:
            spoken[key] = said
            report(f"{len(spoken)} of {len(tasks)}: {tasks[key].name}, {said.cpu_seconds:.0f} CPU s")
    except TerminatedWorkerError as error:
        raise OSError(
            "a process that trained an expert was killed, perhaps for want of memory; take fewer jobs "
            "(--jobs), and run again: what was trained is kept"
        ) from error
    return spoken


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Start processes that leave Ctrl-C to this one, which ends them, rather than each complaining of it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # that one's start would open our ears again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _train(task: Training) -> tuple[str, Spoken]:
    """Have an expert trained and kept; return what it says, under its key."""
    stages, expert = task.stages, task.expert
    return task.key, stages.unseen(expert) if isinstance(expert, UnseenExpert) else stages.seen(expert)
