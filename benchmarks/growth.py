"""Measure the growth of cost with samples, classes and dimensions, and fit exponents.

Generated data have the structure of real data: every class has a row of attributes, a few of them large; its
samples are a linear image of that row plus noise, clipped at zero like features after a rectifier. Half of
`classes`, at most 1,000, have samples, as in ImageNet; the others are added by description.

Each line is a process of its own: CPU seconds of the task, the system's part of them (mostly for memory),
and the additional memory at its peak. An exponent of 1 means that twice the size takes twice the cost.

    python benchmarks/growth.py            four minutes
    python benchmarks/growth.py --full     21,000 classes x 1,000,000 samples, ten minutes
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

import plotting

N_ATTRIBUTES = 100
MOST_SEEN = 1000
ROWS_PER_CLASS = 20
_PIECE = 20_000  # rows that are drawn at once


class Size(NamedTuple):
    """Size of the generated data."""

    samples: int = 20_000
    classes: int = 200
    features: int = 256


SMALL = {
    "predict": [
        ("samples", [Size(samples=10**k, features=16) for k in (4, 5, 6, 7)]),
        ("classes", [Size(classes=n) for n in (50, 500, 5_000, 21_000)]),
        ("features", [Size(features=n) for n in (64, 256, 1024, 2048)]),
    ],
    "curve": [
        ("samples", [Size(samples=10**k) for k in (4, 5, 6, 7)]),
    ],
    "fit": [
        ("samples", [Size(samples=n) for n in (2_000, 8_000, 32_000)]),
        ("classes", [Size(samples=8_000, classes=n) for n in (50, 200, 800)]),
        ("features", [Size(samples=4_000, features=n) for n in (64, 256, 1024)]),
    ],
}
FULL = {
    "predict": [
        ("samples", [Size(samples=10**k, classes=21_000, features=128) for k in (4, 5, 6)]),
    ]
}


class World:
    """Classes with attributes, and samples of them."""

    def __init__(self, size: Size, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        shape = (size.classes, N_ATTRIBUTES)
        attributes = rng.random(shape, dtype=np.float32) ** 4
        self.table = pd.DataFrame(attributes, index=[f"class {k}" for k in range(size.classes)])
        image = rng.standard_normal((N_ATTRIBUTES, size.features), dtype=np.float32)
        self.centres = (attributes - attributes.mean(axis=0)) @ image
        self.n_seen = min(size.classes // 2, MOST_SEEN)
        self.rng = rng

    def rows(self, codes: np.ndarray) -> np.ndarray:
        """Return a sample of each class named."""
        X = self.rng.standard_normal((len(codes), self.centres.shape[1]), dtype=np.float32)
        X += self.centres[codes]
        return np.maximum(X, 0, out=X)


def model_of(world: World, size: Size) -> Any:
    """Return a fitted model of all classes."""
    from sklearn.linear_model import LogisticRegression

    from cosmo.experts import ESZSL
    from cosmo.io.model import fit_model

    n_first = min(size.classes, 2 * world.n_seen)
    codes = np.repeat(np.arange(world.n_seen), ROWS_PER_CLASS)
    model = fit_model(
        world.rows(codes),
        world.table.index[codes],
        world.table.iloc[:n_first],
        seen=LogisticRegression(max_iter=5),  # how well it learns does not change what it costs to ask it
        unseen=ESZSL(gamma=10.0, lam=1.0),
        exemplars=0,
    )
    return model.add_classes(world.table.iloc[n_first:]) if n_first < size.classes else model


def predict(size: Size) -> dict[str, float]:
    """Stream samples from a file to a file of predictions."""
    from cosmo.io.predict import predict_file

    world = World(size)
    model = model_of(world, size)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "rows.npy")
        rows = np.lib.format.open_memmap(source, "w+", np.float32, (size.samples, size.features))
        for start in range(0, size.samples, _PIECE):
            piece = rows[start : start + _PIECE]
            piece[:] = world.rows(world.rng.integers(size.classes, size=len(piece)))
        rows.flush()
        del rows, piece
        return measured(lambda: predict_file(model, source, Path(folder, "answers.parquet")))


def curve(size: Size) -> dict[str, float]:
    """Choose the operating point of a mixture from the experts' best answers."""
    from cosmo.mixture.curve import SeenUnseenCurve

    rng = np.random.default_rng(0)
    seen = rng.random(size.samples) < 0.5
    flips = rng.normal(size=size.samples) + seen
    right = rng.random(size.samples) < 0.7
    gain = right / (size.samples / 2)

    def best() -> None:
        found = SeenUnseenCurve(flips, np.where(seen, gain, 0), np.where(seen, 0, gain))
        assert found.best().acc_h + found.area > 0

    return measured(best)


def fit(size: Size) -> dict[str, float]:
    """Fit a model with the default experts: both stages, the gate and the operating point."""
    from cosmo.experts import ESZSL
    from cosmo.io.model import fit_model

    world = World(size)
    codes = np.arange(size.samples) % world.n_seen
    X, y = world.rows(codes), world.table.index[codes]
    return measured(lambda: fit_model(X, y, world.table, unseen=ESZSL(), exemplars=0))


def measured(work: Callable[[], object]) -> dict[str, float]:
    """Return CPU seconds, the system's among them, and the peak memory beyond that of the start, in MB."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted anew from here on
    before, start, system = _memory("VmRSS"), time.process_time(), _system()
    work()
    seconds, system = time.process_time() - start, _system() - system
    return {"seconds": seconds, "system": system, "memory": _memory("VmHWM") - before}


def _system() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_stime


def _memory(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


WORK = {"predict": predict, "curve": curve, "fit": fit}


def ask(job: str, size: Size) -> dict[str, float]:
    """Do the work in a process of its own."""
    command = [sys.executable, __file__, "--worker", job, json.dumps(size)]
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, check=True, env={**os.environ, **threads, "PYTHONWARNINGS": "ignore"}
    )
    return json.loads(done.stdout)


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return the slope of the line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def table_of(job: str, axis: str, sizes: list[Size], console: Console) -> Table:
    """Measure all sizes along one axis."""
    fixed = {name: value for name, value in sizes[0]._asdict().items() if name != axis}
    others = ", ".join(f"{value:,} {name}" for name, value in fixed.items()) if job != "curve" else ""
    table = Table(title=f"{job} against {axis}" + (f" ({others})" if others else ""))
    for column in (
        axis,
        "CPU s",
        "times the first",
        "µs a sample",
        "of the system",
        "MB beyond the start",
        "times the first",
    ):
        table.add_column(column, justify="right")
    found = []
    for size in sizes:
        console.print(f"{job}: {size}", style="dim", highlight=False)
        found.append(ask(job, size))
        found[-1]["memory"] = max(found[-1]["memory"], 0.1)  # it is counted in pages
        seconds, system, memory = (found[-1][name] for name in ("seconds", "system", "memory"))
        found[-1]["own"] = max(seconds - system, 1e-4)  # the system's is counted in ticks
        table.add_row(
            f"{getattr(size, axis):,}",
            f"{seconds:.4g}",
            f"{seconds / found[0]['seconds']:.1f}",
            f"{1e6 * seconds / size.samples:.2f}",
            f"{100 * min(system / seconds, 1):.0f} %",
            f"{memory:.1f}",
            f"{memory / found[0]['memory']:.1f}",
        )
    along = [getattr(size, axis) for size in sizes]
    notes = []
    for name, unit in (("seconds", "CPU"), ("own", "without the system's"), ("memory", "memory")):
        costs = [one[name] for one in found]
        whole, last = exponent(along, costs), exponent(along[-2:], costs[-2:])
        notes.append(f"{unit}: exponent {whole:.2f}, between the two largest {last:.2f}")
    table.caption = "\n".join(notes)
    return table


def draw(found: dict[tuple[str, str], Table], file: Path) -> None:
    """Draw cost and memory against each kind of size, with the exponents."""
    axes = list(dict.fromkeys(axis for _, axis in found))
    jobs = list(WORK)
    if len(axes) > 1:
        figure, panels = plotting.panels(2, len(axes), height=4.6, sharex="col")
    else:
        figure, panels = plotting.panels(1, 2, height=2.6)
        panels = panels.T
    for (job, axis), table in found.items():
        sizes = plotting.numbers(table, axis)
        for row, name in enumerate(("CPU s", "MB beyond the start")):
            costs = plotting.numbers(table, name)
            panel = panels[row, axes.index(axis)]
            style = plotting.line(jobs.index(job))
            panel.loglog(sizes, costs, label=f"{job}, {exponent(sizes, costs):.2f}", **style)
    for row in panels[1:] if len(axes) > 1 else panels:
        for panel, axis in zip(row, axes, strict=True):
            panel.set_xlabel(axis)
    for row, unit in enumerate(("CPU seconds", "peak memory beyond\nthe start, MB")):
        panels[row, 0].set_ylabel(unit)
        for panel in panels[row]:
            low, high = panel.get_ylim()
            panel.set_ylim(low, high * (high / low) ** 0.45)  # room for the legend
            panel.legend(loc="upper left", fontsize=8, title="exponent", title_fontsize=8, alignment="left")
            plotting.plain_ticks(panel.xaxis)
            plotting.plain_ticks(panel.yaxis)
    plotting.save(figure, file)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="the largest sizes, instead")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    plotting.add_option(parser)
    arguments = parser.parse_args()
    if arguments.worker:
        job, size = arguments.worker
        print(json.dumps(WORK[job](Size(*json.loads(size)))))
        return
    console, progress, found = Console(width=110), Console(stderr=True), {}
    for job, axes in (FULL if arguments.full else SMALL).items():
        for axis, sizes in axes:
            found[job, axis] = table_of(job, axis, sizes, progress)
            console.print(found[job, axis])
    if arguments.plot:
        draw(found, arguments.plot)


if __name__ == "__main__":
    main()
