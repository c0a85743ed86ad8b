"""The contract of an engine: many tasks, done somewhere, each by the same function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any, Self, TypeVar

__all__ = ["Engine"]

Task = TypeVar("Task")
Result = TypeVar("Result")


class Engine(ABC):
    """Does tasks that do not depend on each other, side by side.

    Every task is done with one thread of the numerical libraries, so that its result is the same wherever
    it is done, to the bit. An engine holds processes or connections: `close` it, or use it in a `with`.

    Examples
    --------
    >>> from cosmo._core.engines import LocalEngine
    >>> with LocalEngine() as engine:
    ...     list(engine.map(pow, [3, 4], common=2))
    [8, 16]
    """

    @abstractmethod
    def map(
        self,
        function: Callable[[Any, Task], Result],
        tasks: Iterable[Task],
        *,
        common: Any = None,
        folder: Path | None = None,
    ) -> Generator[Result]:
        """Yield ``function(common, task)`` for each task, in the order in which they get done.

        Tasks are taken from the iterable as there is room for them. An error that a task raises is raised
        here, and the tasks that have not begun are given up; so are they when the generator is closed.

        Parameters
        ----------
        function : callable
            Of a module, so that other processes can import it.
        tasks : iterable
            Small values.
        common : object
            What all tasks need, a model for example: it travels once to each process, not with each task.
        folder : Path, optional
            Where tasks keep files. A cluster needs one, which all its machines see under this name (that is
            checked).
        """

    @abstractmethod
    def close(self) -> None:
        """End what the engine holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
