"""Profile the other benchmarks by function.

Small versions of the benchmarks run under a sampling profiler, with a sample every few milliseconds of CPU
time. Shares are relative to the function on the first line; the time of a library counts for the function of
`cosmo` that calls it. With COSMO_DATA, selection and LAGO use real data.

    python benchmarks/where.py
    python benchmarks/where.py "predict, one row" LAGO
"""

from __future__ import annotations

import argparse
import json
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import cluster
import experts
import growth
import inference
import lago
import selection
from cosmo import ESZSL
from cosmo.classifier.ways import make_way
from cosmo.data.splits import hold_out
from cosmo.experts import select

INTERVAL = 0.002  # CPU seconds between two samples
LEAST, DEEPEST = 0.06, 3  # smallest share and largest depth that are printed
OURS = tuple(
    str(Path(part).resolve())
    for part in (Path(select.__code__.co_filename).parents[1], Path(__file__).parent)
)

Stack = tuple[str, ...]


@contextmanager
def profile() -> Iterator[Counter[Stack]]:
    """Count the seconds in each stack of functions of this repository, outermost first."""
    seconds: Counter[Stack] = Counter()
    last = time.process_time()

    def take_sample(_: int, frame: FrameType | None) -> None:
        nonlocal last
        stack = []
        while frame is not None:
            if frame.f_code.co_filename.startswith(OURS):
                stack.append(frame.f_code.co_qualname)
            frame = frame.f_back
        now = time.process_time()  # a long call into a library is interrupted only at its end
        seconds[tuple(reversed(stack))] += now - last
        last = now

    before = signal.signal(signal.SIGPROF, take_sample)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
    try:
        yield seconds
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def shares(seconds: Counter[Stack], root: str) -> Iterator[tuple[int, str, float]]:
    """Yield depth, function and share of the functions that `root` calls, above the smallest share."""
    below: Counter[Stack] = Counter()
    for stack, spent in seconds.items():
        if root in stack:
            path = tuple(name for name in stack[stack.index(root) :] if "<" not in name.rpartition(".")[2])
            for depth in range(1, len(path) + 1):
                below[path[:depth]] += spent
    yield from _lines(below, (root,), below[root,])


def _lines(
    below: Counter[Stack], path: Stack, total: float, depth: int = 0
) -> Iterator[tuple[int, str, float]]:
    inner = [one for one in below if len(one) == len(path) + 1 and one[:-1] == path]
    inner.sort(key=lambda one: -below[one])
    if depth and inner and below[inner[0]] > 0.95 * below[path]:  # a wrapper
        yield from _lines(below, inner[0], total, depth)
        return
    yield depth, path[-1], below[path] / total
    for one in inner:
        if below[one] / total >= LEAST and depth < DEEPEST:
            yield from _lines(below, one, total, depth + 1)


def repeat(job: Callable[[], object], seconds: float = 2.0) -> None:
    """Repeat a job for some CPU seconds."""
    start = time.process_time()
    while time.process_time() - start < seconds:
        job()


def _selection(way: str) -> None:
    _, _, validation, test = next(selection.predictions())
    if way == "study":
        repeat(lambda: selection.study(validation, test))
        return
    mixture = make_way("COSMO").fit(validation)
    if way == "exact":
        repeat(lambda: selection.exact(mixture, selection.fresh(validation), selection.fresh(test)))
    else:
        selection.full_grid(mixture, validation, test, selection.AUTHORS_GRIDS["CUB"])


def _predict(rows: int) -> None:
    model, X = inference.make_model()
    repeat(lambda: model.predict(X[:rows]))


def _eszsl() -> None:
    X, y, table = experts.draw()
    select(ESZSL(temperature=1.0), X, y, table, hold_out(y, seed=0))


def _lago(variant: str) -> None:
    for _ in lago.ours(lago.load(0), variant, 4):
        pass


def _partition() -> None:
    from cosmo.io.predict import predict_file

    args = argparse.Namespace(features=256, seen=100, unseen=50)
    with tempfile.TemporaryDirectory() as folder:
        model = cluster.make(Path(folder, "rows"), 100_000, 1, args)
        predict_file(model, Path(folder, "rows"), Path(folder, "predictions"))


def _grow(work: str, **size: int) -> None:
    growth.WORK[work](growth.Size(**size))


WORK: dict[str, tuple[str, Callable[[], None]]] = {
    "operating point and curve": ("exact", lambda: _selection("exact")),
    "the same by a grid": ("full_grid", lambda: _selection("grid")),
    "study": ("study", lambda: _selection("study")),
    "predict, 8192 rows": ("Cosmo.predict", lambda: _predict(8192)),
    "predict, one row": ("Cosmo.predict", lambda: _predict(1)),
    "choice of ESZSL's regularisers": ("select", _eszsl),
    "LAGO, soft groups": ("ours", lambda: _lago("semantic-soft")),
    "LAGO, hard groups": ("ours", lambda: _lago("semantic-hard")),
    "stream, 16 features": ("predict_file", lambda: _grow("predict", samples=200_000, features=16)),
    "stream, 2048 features": ("predict_file", lambda: _grow("predict", features=2048)),
    "stream, 21,000 classes": ("predict_file", lambda: _grow("predict", samples=5000, classes=21_000)),
    "curve, 10^7 samples": ("curve.<locals>.best", lambda: _grow("curve", samples=10**7)),
    "fit, 8000 samples": ("fit_model", lambda: _grow("fit", samples=8000)),
    "fit, 1024 features": ("fit_model", lambda: _grow("fit", samples=4000, features=1024)),
    "a partition of Parquet": ("predict_file", _partition),
}
"""The function whose time is divided, and the work."""


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("work", nargs="*", metavar="WORK", help=f"words of its name: {json.dumps([*WORK])}")
    words = options.parse_args().work
    table = Table(title="shares of CPU time, one thread")
    table.add_column("work")
    table.add_column("function")
    table.add_column("share", justify="right")
    for name, (root, work) in WORK.items():
        if words and not any(word in name for word in words):
            continue
        with threadpool_limits(limits=1), profile() as seconds:
            work()
        for depth, function, share in shares(seconds, root):
            table.add_row("" if depth else name, "  " * depth + function, f"{100 * share:.0f} %")
        table.add_section()
    Console(width=110).print(table)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
