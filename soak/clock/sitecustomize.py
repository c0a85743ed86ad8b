"""A clock that jumps by years, for Python processes that have this folder on `PYTHONPATH`.

Python imports this module when it starts. Twice a second, by the clock that only goes forward, what `time`
says is moved to another moment between 1971 and 2150, drawn from `SOAK_CLOCK`.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Any

_SECONDS = 0.5  # between jumps
_EARLIEST, _LATEST = 4e7, 5.7e9
_real, _began, _seed = time.time, time.monotonic(), os.environ.get("SOAK_CLOCK", "0")


def _time() -> float:
    slot = int((time.monotonic() - _began) / _SECONDS)
    moment = random.Random(f"{_seed} {slot}").uniform(_EARLIEST, _LATEST)
    return moment + _real() % _SECONDS


def _by(shown: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that shows a moment, by default the one that `_time` tells."""
    return lambda moment=None: shown(_time() if moment is None else moment)


time.time = _time
time.time_ns = lambda: int(_time() * 1e9)
time.localtime, time.gmtime, time.ctime = _by(time.localtime), _by(time.gmtime), _by(time.ctime)
_strftime, _asctime = time.strftime, time.asctime
time.strftime = lambda layout, shown=None: _strftime(layout, shown or time.localtime())
time.asctime = lambda shown=None: _asctime(shown or time.localtime())
