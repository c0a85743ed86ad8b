"""Partitioned predictions: what a row costs here and on Dask workers, and what 10^9 rows would take.

Writes Parquet partitions of made-up features and predicts them in this process, and on one and two Dask
workers of this machine, in partitions of several sizes; compares the results byte by byte; then works out
cores and hours for 10^9 rows from the measured CPU seconds of a row.

    python benchmarks/cluster.py                        200 000 rows x 256, a minute
    python benchmarks/cluster.py --rows 1000000 --partitions 32 4 128
"""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

import plotting

HERE = "this process"
_BILLION = 10**9
_TASK = 1 << 18  # rows of a partition, unless row groups are larger


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = options.add_argument
    add("--rows", type=int, default=200_000)
    add("--features", type=int, default=256)
    add("--partitions", type=int, nargs="+", default=[8, 2, 32, 128], help="the first for all workers")
    add("--seen", type=int, default=100, help="classes with examples")
    add("--unseen", type=int, default=50, help="classes with a description only")
    add("--tasks", type=int, default=200, help="empty tasks, to see what one costs")
    add("--folder", help="where to put the files (default: a temporary folder)")
    plotting.add_option(options)
    args = options.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        table = measure(Path(folder), args, Console(width=110))
    if args.plot:
        draw(table, args.plot)


def measure(folder: Path, args: argparse.Namespace, console: Console) -> Table:
    """Print what is measured; return the table of workers and partitions."""
    from distributed import Client, LocalCluster

    from cosmo._core.parallel import Workers, parallel_map
    from cosmo.io.predict import predict_file

    usual, *others = args.partitions
    make(folder / "few", 800, 8, args)
    for count in args.partitions:
        model = make(folder / f"rows-{count}", args.rows, count, args)
    size = sum(path.stat().st_size for path in (folder / f"rows-{usual}").iterdir())
    table = Table(title=f"{args.rows:,} rows x {args.features} features, {size / 2**20:.0f} MB of Parquet")
    for name in ("workers", "partitions", "seconds", "rows/s", "ratio", "CPU µs a row", "ratio", "equal"):
        table.add_column(name, justify="left" if name == "workers" else "right")
    first: list[float] = []

    def predict(workers: Workers | None, name: str, count: int, used: Callable[[], float]) -> float:
        sink = folder / f"{name}-{count}"
        start, cpu = time.monotonic(), used()
        predict_file(model, folder / f"rows-{count}", sink, workers=workers)
        wall, cpu = time.monotonic() - start, (used() - cpu) / args.rows
        first[:] = first or [wall, cpu]
        same = (
            "" if count != usual else "yes" if _digest(sink) == _digest(folder / f"{HERE}-{usual}") else "no"
        )
        speed = f"{args.rows / wall:,.0f}", f"{first[0] / wall:.2f}"
        table.add_row(
            name, str(count), f"{wall:.2f}", *speed, f"{1e6 * cpu:.1f}", f"{cpu / first[1]:.2f}", same
        )
        return cpu

    predict(None, HERE, usual, time.process_time)
    written = sum(path.stat().st_size for path in (folder / f"{HERE}-{usual}").iterdir())
    notes = []
    for n_workers, name in ((1, "1 Dask worker"), (2, "2 Dask workers")):
        start = time.monotonic()
        with (
            LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address="127.0.0.1:0") as local,
            Client(local) as client,
        ):
            workers = Workers(scheduler=local.scheduler_address)
            started = time.monotonic() - start
            # Imports are not counted, which come with the first rows.
            predict_file(model, folder / "few", folder / f"few-{n_workers}", workers=workers)
            used = lambda client=client: _cpu(client)  # noqa: E731
            cpu = predict(workers, name, usual, used)
            if n_workers == 1:  # what cores of a cluster will take
                per_row, most = cpu, max(client.run(_peak).values())
                notes.append(f"a worker: {started:.1f} s to start, {most:.0f} MB at its peak")
                continue
            for count in others:
                predict(workers, name, count, used)
            start, before = time.monotonic(), time.process_time()
            list(parallel_map(_nothing, range(args.tasks), workers=workers, folder=folder))
            wall, cpu = time.monotonic() - start, time.process_time() - before
            wall, cpu = 1000 * wall / args.tasks, 1000 * cpu / args.tasks
            notes.append(f"a task: {wall:.1f} ms, {cpu:.1f} ms of CPU in the client and the scheduler")
    table.caption = "\n".join(notes)
    console.print(table)
    console.print(sizing(per_row, size / args.rows, written / args.rows, cpu / 1000))
    return table


def sizing(per_row: float, read: float, written: float, per_task: float) -> Table:
    """Return cores, hours and the bandwidth that storage has to give, for 10^9 rows."""
    hours = per_row * _BILLION / 3600
    table = Table(title=f"10^9 rows, worked out: {hours:.1f} core hours at {1e6 * per_row:.1f} CPU µs a row")
    for name in ("cores", "hours", "rows/s", "read MB/s", "write MB/s"):
        table.add_column(name, justify="right")
    for cores in (8, 32, 128, 512):
        rate = cores / per_row
        storage = f"{rate * read / 1e6:,.0f}", f"{rate * written / 1e6:,.0f}"
        table.add_row(str(cores), f"{hours / cores:.2f}", f"{rate:,.0f}", *storage)
    total = read * _BILLION / 1e12, written * _BILLION / 1e12
    task = per_row * _TASK
    table.caption = (
        f"{total[0]:.2f} TB to read, {total[1]:.2f} TB to write\n"
        f"{_BILLION / _TASK:,.0f} tasks of {_TASK:,} rows, "
        f"{task:.1f} s each:\none scheduler can keep {task / per_task:,.0f} workers busy"
    )
    return table


def draw(table: Table, file: Path) -> None:
    """Draw speed against workers, and against the size of partitions."""
    engines, counts = plotting.cells(table, "workers"), plotting.numbers(table, "partitions")
    rates = plotting.numbers(table, "rows/s") / 1e3
    total = float(str(table.title).partition(" ")[0].replace(",", ""))
    figure, (axes,) = plotting.panels(1, 2, height=2.6, sharey=True)
    usual = counts == counts[0]
    names = [name.replace(" Dask", "\nDask").replace("this process", "this\nprocess") for name in engines]
    axes[0].bar(np.array(names)[usual], rates[usual], width=0.5, color=plotting.line(0)["color"])
    axes[0].grid(visible=False, axis="x")
    axes[0].set_ylabel("thousand rows a second")
    axes[0].set_title(f"{counts[0]:.0f} partitions")
    swept = np.flatnonzero(np.array(engines) == engines[-1])
    swept = swept[np.argsort(counts[swept])]
    axes[1].semilogx(total / counts[swept], rates[swept], **plotting.line(0))
    axes[1].set(title=engines[-1], xlabel="rows in a partition", ylim=(0, None))
    plotting.plain_ticks(axes[1].xaxis)
    plotting.save(figure, file)


def make(folder: Path, rows: int, partitions: int, args: argparse.Namespace) -> Any:
    """Write partitions; return a model for them."""
    from cosmo.io.model import fit_model

    folder.mkdir()
    rng = np.random.default_rng(0)
    n_classes = args.seen + args.unseen
    table = pd.DataFrame(
        rng.normal(size=(n_classes, 40)).astype(np.float32), index=[f"class {k}" for k in range(n_classes)]
    )
    centres = table.to_numpy() @ rng.normal(size=(40, args.features)).astype(np.float32) / 6
    names = [f"f{k}" for k in range(args.features)]

    def draw_rows(codes: np.ndarray) -> pd.DataFrame:
        noise = rng.standard_normal((len(codes), args.features), dtype=np.float32)
        return pd.DataFrame(centres[codes] + noise, columns=names)

    for k in range(partitions):
        n_rows = len(range(k, rows, partitions))
        frame = draw_rows(rng.integers(n_classes, size=n_rows))
        frame.to_parquet(folder / f"{k:05}.parquet", index=False)
    codes = np.repeat(np.arange(args.seen), 30)
    return fit_model(draw_rows(codes), table.index[codes], table)


def _cpu(client: Any) -> float:
    return sum(client.run(time.process_time).values())


def _peak() -> float:
    """Return the largest memory so far in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()  # getrusage counts the parent's, too
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def _nothing(_: None, task: int) -> int:
    return task


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
