"""Threads of BLAS and PyTorch in proportion to the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from cosmo._core import require

_LARGE = 2**25  # values in X from which products are worth more than one thread
_controller = lru_cache(maxsize=1)(ThreadpoolController)
_lock = Lock()
_limits: list[Any] = []  # one entry per user; the first one holds the original number of threads


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
