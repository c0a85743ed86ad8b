"""What a request may take of the machine: bytes, time and a place in the queue."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Limits", "Refusal", "Workers"]

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """The most that one request may bring, and that all together may ask for.

    Parameters
    ----------
    upload_bytes, json_bytes : int
        Of a picture, and of any other body.
    pixels : int
        Of a picture, decoded.
    text, description, name : int
        Characters of a sample, of a class described in words, and of its name.
    body_seconds, answer_seconds : float
        For a body to arrive, and for the answer to be found.
    at_once, waiting : int
        Requests that are worked on, and that may wait for it.
    kept : int
        Classes that can be kept.
    """

    upload_bytes: int = 10_000_000
    json_bytes: int = 100_000
    pixels: int = 50_000_000
    text: int = 20_000
    description: int = 5_000
    name: int = 200
    body_seconds: float = 20.0
    answer_seconds: float = 120.0
    at_once: int = 2
    waiting: int = 30
    kept: int = 100


class Refusal(Exception):
    """A request that is not answered: the status, and a sentence that says why and what to do."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Workers:
    """A few threads, and a queue before them that has an end.

    Parameters
    ----------
    limits : Limits

    Examples
    --------
    >>> async def ask():
    ...     workers = Workers(Limits(at_once=1, waiting=0))
    ...     async with workers.place():
    ...         answer = await workers.run(lambda: 6 * 7)
    ...         try:
    ...             async with workers.place():
    ...                 pass
    ...         except Refusal as refusal:
    ...             return answer, refusal.status
    >>> asyncio.run(ask())
    (42, 503)
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._threads = ThreadPoolExecutor(limits.at_once, thread_name_prefix="studio")
        self._inside = 0
        self._overdue = 0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place in the queue, from before the body is read: bodies that wait take memory.

        Raises
        ------
        Refusal
            If the queue is full.
        """
        if self._inside + self._overdue >= self._limits.at_once + self._limits.waiting:
            raise Refusal(503, "too many requests are being worked on; try again in a second")
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    async def run(self, work: Callable[[], T]) -> T:
        """Return what a function returns, called in a thread of its own.

        Raises
        ------
        Refusal
            If it takes too long. A thread cannot be stopped, so the work keeps its place until it ends.
        """
        future = asyncio.get_running_loop().run_in_executor(self._threads, work)
        try:
            return await asyncio.wait_for(asyncio.shield(future), self._limits.answer_seconds)
        except TimeoutError as error:
            if future.done():
                raise  # the work itself ran into some time limit
            self._overdue += 1
            future.add_done_callback(self._came_late)
            seconds = f"{self._limits.answer_seconds:g} seconds"
            raise Refusal(503, f"there was no answer within {seconds}; ask for less, or try again") from error

    def _came_late(self, future: asyncio.Future[T]) -> None:
        self._overdue -= 1
        if not future.cancelled():
            future.exception()  # nobody waits for it any more

    def close(self) -> None:
        """Begin nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
