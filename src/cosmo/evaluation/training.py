"""Experts trained side by side, each at most once and each with one thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass
from functools import cached_property

from sklearn.base import BaseEstimator

from cosmo._core.cache import Cache
from cosmo._core.parallel import Workers, parallel_map
from cosmo.evaluation.stages import Spoken, Stages
from cosmo.experts import UnseenExpert

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
    trainings: Sequence[Training],
    *,
    workers: Workers | None = None,
    report: Callable[[str], None] = lambda text: None,
) -> dict[str, Spoken]:
    """Return what each expert says, by the key of its training.

    Parameters
    ----------
    trainings : sequence of Training
        Equal ones are done once; what the cache has is not done again.
    workers : Workers or None, default=None
        Where experts are trained; by default one after another in this process. On a cluster, the folders of
        the caches must be on storage that all machines share.
    report : function of str
        Told whenever an expert is trained.

    Examples
    --------
    >>> import tempfile
    >>> from cosmo._core.cache import Cache
    >>> from cosmo.data import load_glyphs
    >>> from cosmo.experts import ESZSL
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stages = Stages(load_glyphs(n_classes=40, samples_per_class=12), Cache(folder))
    ...     said = train_all([Training("one", stages, ESZSL()), Training("the same", stages, ESZSL())])
    >>> len(said)
    1
    """
    tasks = {training.key: training for training in trainings}
    spoken = {
        key: _train(task.stages, task.expert) for key, task in tasks.items() if task.stages.kept(task.expert)
    }
    report(f"{len(spoken)} of {len(tasks)} experts are trained already")
    new = {key: task for key, task in tasks.items() if key not in spoken}
    if not new:
        return spoken
    # Trainings share data sets: these travel once, by their place in a list.
    places = {id(task.stages): task.stages for task in new.values()}
    orders = [(key, list(places).index(id(task.stages)), task.expert) for key, task in new.items()]
    common = [_located(stages) for stages in places.values()]
    folder = common[0].cache.folder
    with closing(parallel_map(_do, orders, common=common, workers=workers, folder=folder)) as results:
        for key, said in results:
            spoken[key] = said
            report(f"{len(spoken)} of {len(tasks)}: {tasks[key].name}, {said.cpu_seconds:.0f} CPU s")
    return spoken


def _located(stages: Stages) -> Stages:
    """Return stages whose cache is found from any working directory; what they computed stays with them."""
    located = copy(stages)
    located.cache = Cache(stages.cache.folder.resolve())
    return located


def _do(all_stages: Sequence[Stages], order: tuple[str, int, BaseEstimator]) -> tuple[str, Spoken]:
    """Train an expert; return what it says, under the key of its training."""
    key, place, expert = order
    return key, _train(all_stages[place], expert)


def _train(stages: Stages, expert: BaseEstimator) -> Spoken:
    """Have an expert trained and kept."""
    return stages.unseen(expert) if isinstance(expert, UnseenExpert) else stages.seen(expert)
