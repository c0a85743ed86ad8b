"""A queue with an end, and work with a time limit."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from cosmo.viz.studio.limits import Limits, Refusal, Workers


def test_no_more_at_once_than_allowed():
    running, most, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1

    async def all_of_them() -> None:
        workers = Workers(Limits(at_once=2, waiting=30))

        async def one() -> None:
            async with workers.place():
                await workers.run(work)

        await asyncio.gather(*(one() for _ in range(20)))
        workers.close()

    asyncio.run(all_of_them())
    assert most == 2


def test_a_full_queue_refuses_and_recovers():
    async def ask() -> list[int]:
        workers = Workers(Limits(at_once=1, waiting=2))
        gate = threading.Event()

        async def one() -> int:
            try:
                async with workers.place():
                    return await workers.run(lambda: 200 if gate.wait(10) else 0)
            except Refusal as refusal:
                return refusal.status

        first = [asyncio.create_task(one()) for _ in range(5)]
        await asyncio.sleep(0.05)
        gate.set()
        answers = [*await asyncio.gather(*first), await one()]
        workers.close()
        return answers

    assert asyncio.run(ask()) == [200, 200, 200, 503, 503, 200]


def test_work_that_takes_too_long_keeps_its_place_until_it_ends():
    async def ask() -> None:
        workers = Workers(Limits(at_once=1, waiting=0, answer_seconds=0.05))
        gate = threading.Event()
        with pytest.raises(Refusal, match=r"no answer within 0.05 seconds"):
            async with workers.place():
                await workers.run(gate.wait)
        with pytest.raises(Refusal, match="too many requests"):
            async with workers.place():
                pass
        gate.set()
        await asyncio.sleep(0.05)
        async with workers.place():
            assert await workers.run(lambda: 7) == 7
        workers.close()

    asyncio.run(ask())


def test_errors_of_the_work_come_through():
    async def ask() -> None:
        workers = Workers(Limits())
        with pytest.raises(ZeroDivisionError):
            async with workers.place():
                await workers.run(lambda: 1 / 0)
        with pytest.raises(TimeoutError, match="its own"):
            await workers.run(_late)
        workers.close()

    asyncio.run(ask())


def _late() -> None:
    raise TimeoutError("its own")
