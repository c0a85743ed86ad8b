"""Partitioned predictions: what a row costs here and on Dask workers, and what 10^9 rows would take.

Writes Parquet partitions of made-up features and predicts them in this process, and on one and two Dask
workers of this machine; compares the results byte by byte; then works out cores and hours for 10^9 rows from
the measured CPU seconds of a row.

    python benchmarks/cluster.py                        200 000 rows x 256, less than two minutes
    python benchmarks/cluster.py --rows 1000000 --partitions 32
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

_BILLION = 10**9


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = options.add_argument
    add("--rows", type=int, default=200_000)
    add("--features", type=int, default=256)
    add("--partitions", type=int, default=8)
    add("--seen", type=int, default=100, help="classes with examples")
    add("--unseen", type=int, default=50, help="classes with a description only")
    add("--tasks", type=int, default=200, help="empty tasks, to see what one costs")
    add("--folder", help="where to put the files (default: a temporary folder)")
    args = options.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        measure(Path(folder), args)


def measure(folder: Path, args: argparse.Namespace) -> None:
    from cosmo.engines import DaskEngine, LocalEngine
    from cosmo.partitions import predict_partitions

    model = make(folder / "rows", args)
    size = sum(path.stat().st_size for path in (folder / "rows").iterdir())
    print(f"{args.rows} rows x {args.features} features, {args.partitions} partitions, {size / 2**20:.0f} MB")
    start, cpu = time.monotonic(), time.process_time()
    predict_partitions(model, folder / "rows", folder / "here", engine=LocalEngine())
    wall, cpu = time.monotonic() - start, time.process_time() - cpu
    written = sum(path.stat().st_size for path in (folder / "here").iterdir())
    print(f"this process      {_rate(args.rows, wall, cpu)}")
    for workers in (1, 2):
        start = time.monotonic()
        with DaskEngine("local", jobs=workers) as engine:
            started = time.monotonic() - start
            list(engine.map(_load, range(4 * workers), folder=folder))  # imports are not counted
            used = _cpu(engine)
            start = time.monotonic()
            predict_partitions(model, folder / "rows", folder / f"dask-{workers}", engine=engine)
            wall, cpu = time.monotonic() - start, _cpu(engine) - used
            same = _digest(folder / "here") == _digest(folder / f"dask-{workers}")
            name = "1 Dask worker" if workers == 1 else f"{workers} Dask workers"
            print(f"{name:18}{_rate(args.rows, wall, cpu)}; equal: {same}; start {started:.1f} s")
            if workers == 1:  # what cores of a cluster will take
                per_row = cpu / args.rows
                print(f"{'':18}peak memory {max(engine._client.run(_peak).values()):.0f} MB")
            if workers == 2:
                start, used = time.monotonic(), time.process_time()
                list(engine.map(_nothing, range(args.tasks), folder=folder))
                each = 1000 / args.tasks
                wall, cpu = (time.monotonic() - start) * each, (time.process_time() - used) * each
                print(f"a task            {wall:.1f} ms, {cpu:.1f} ms of CPU in the client and the scheduler")
    print(sizing(per_row, size / args.rows, written / args.rows))


def sizing(per_row: float, read: float, written: float) -> str:
    """Return a table of cores, hours and the bandwidth that storage has to give, for 10^9 rows."""
    hours = per_row * _BILLION / 3600
    lines = [
        f"\n10^9 rows: {hours:.1f} core hours at {1e6 * per_row:.1f} CPU microseconds a row; "
        f"{read * _BILLION / 1e12:.2f} TB to read, {written * _BILLION / 1e12:.2f} TB to write\n",
        "| cores | hours | rows/s | read MB/s | write MB/s |",
        "|---:|---:|---:|---:|---:|",
    ]
    for cores in (8, 32, 128, 512):
        rate = cores / per_row
        lines.append(
            f"| {cores} | {hours / cores:.2f} | {rate:,.0f} | {rate * read / 1e6:,.0f} | "
            f"{rate * written / 1e6:,.0f} |"
        )
    return "\n".join(lines)


def make(folder: Path, args: argparse.Namespace) -> object:
    """Write partitions; return a model for them."""
    from cosmo.model import fit_model

    folder.mkdir()
    rng = np.random.default_rng(0)
    n_classes = args.seen + args.unseen
    table = pd.DataFrame(
        rng.normal(size=(n_classes, 40)).astype(np.float32), index=[f"class {k}" for k in range(n_classes)]
    )
    centres = table.to_numpy() @ rng.normal(size=(40, args.features)).astype(np.float32) / 6
    names = [f"f{k}" for k in range(args.features)]

    def rows(codes: np.ndarray) -> pd.DataFrame:
        noise = rng.standard_normal((len(codes), args.features), dtype=np.float32)
        return pd.DataFrame(centres[codes] + noise, columns=names)

    for k in range(args.partitions):
        n_rows = len(range(k, args.rows, args.partitions))
        frame = rows(rng.integers(n_classes, size=n_rows))
        frame.to_parquet(folder / f"{k:05}.parquet", index=False)
    codes = np.repeat(np.arange(args.seen), 30)
    return fit_model(rows(codes), table.index[codes], table)


def _rate(rows: int, wall: float, cpu: float) -> str:
    return f"{wall:6.1f} s, {rows / wall:7.0f} rows/s, {1e6 * cpu / rows:6.1f} CPU microseconds a row"


def _cpu(engine: object) -> float:
    return sum(engine._client.run(time.process_time).values())  # type: ignore[attr-defined]


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _load(_: None, task: int) -> None:
    import pyarrow.parquet  # noqa: F401

    import cosmo.partitions  # noqa: F401


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
