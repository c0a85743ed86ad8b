"""Streaming predictions: memory, speed, and what a killed run costs.

Writes a Parquet file of made-up features, predicts it with `predict_file` in a process of its own, kills
others (SIGKILL) at random moments, lets them go on, and compares the results byte by byte. The CPU time of a
row is compared with that of `Model.predict` on rows that are in memory already, in the same process.

    python benchmarks/streaming.py                      100 000 rows, less than a minute
    python benchmarks/streaming.py --rows 2000000       2 GB on disk
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

_PIECE = 50_000  # rows that are made at once


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = options.add_argument
    add("--rows", type=int, default=100_000)
    add("--features", type=int, default=256)
    add("--seen", type=int, default=100, help="classes with examples")
    add("--unseen", type=int, default=50, help="classes with a description only")
    add("--kills", type=int, default=2, help="how often the second run is killed")
    add("--out", choices=["csv", "jsonl", "parquet"], default="csv")
    add("--folder", help="where to put the files (default: a temporary folder)")
    add("--seed", type=int, default=0)
    add("--worker", nargs=3, help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.worker:
        work(*map(Path, args.worker))
        return
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        measure(Path(folder), args)


def work(model: Path, source: Path, sink: Path) -> None:
    from cosmo.io.model import Model
    from cosmo.io.predict import predict_file

    loaded = Model.load(model)
    before, wall, start = _peak(), time.monotonic(), time.process_time()
    summary = predict_file(loaded, source, sink)
    wall, cpu, peak = time.monotonic() - wall, time.process_time() - start, _peak()
    figures = {"before": before, "peak": peak, "rows": summary.rows, "found": summary.found, "cpu": cpu}
    print(json.dumps({**figures, "seconds": wall, "in memory": in_memory(loaded, source)}))


def in_memory(model: Any, source: Path) -> float:
    """Return CPU seconds a row of predictions for rows of the file that are in memory."""
    from pyarrow import parquet

    X = parquet.ParquetFile(source).read_row_group(0).to_pandas()
    start = time.process_time()
    model.predict(X)
    return (time.process_time() - start) / len(X)


def measure(folder: Path, args: argparse.Namespace) -> None:
    model, source = folder / "model.cosmo", folder / "rows.parquet"
    _make(model, source, args)
    print(f"{args.rows} rows x {args.features} features, {source.stat().st_size / 2**20:.0f} MB of Parquet")
    whole, killed = folder / f"whole.{args.out}", folder / f"killed.{args.out}"
    first = json.loads(_start(model, source, whole).communicate()[0])
    rng = np.random.default_rng(args.seed)
    moments = []
    for _ in range(args.kills):
        moment = rng.uniform(0.2, 0.9) * first["seconds"] / args.kills
        process = _start(model, source, killed)
        parts = folder / f"{killed.name}.parts" / "manifest.json"
        while not parts.exists():
            time.sleep(0.05)
        time.sleep(moment)
        process.kill()
        process.communicate()
        moments.append(moment)
    last = json.loads(_start(model, source, killed).communicate()[0])
    cpu, added = first["cpu"] / first["rows"], first["peak"] - first["before"]
    figures = {
        "rows per second": f"{first['rows'] / first['seconds']:.0f}",
        "seconds": f"{first['seconds']:.1f}",
        "CPU a row": f"{1e6 * cpu:.1f} µs, {cpu / first['in memory']:.2f} times predict on rows in memory",
        "peak memory": f"{first['peak']:.0f} MB, {first['before']:.0f} MB of it before the first row",
        "memory beyond that": f"{added * 2**20 / source.stat().st_size:.2f} times the file",
        "killed after": ", ".join(f"{moment:.1f} s" for moment in moments),
        "rows found by the last run": f"{last['found']} of {last['rows']}",
        "results equal": _digest(whole) == _digest(killed),
        "left on disk": sorted(path.name for path in folder.iterdir()),
    }
    for name, value in figures.items():
        print(f"{name:28}{value}")


def _make(model: Path, source: Path, args: argparse.Namespace) -> None:
    import pyarrow
    from pyarrow import parquet

    from cosmo.io.model import fit_model

    rng = np.random.default_rng(args.seed)
    n_classes = args.seen + args.unseen
    table = rng.normal(size=(n_classes, 40)).astype(np.float32)
    table = pd.DataFrame(table, index=[f"class {k}" for k in range(n_classes)])
    centres = table.to_numpy() @ rng.normal(size=(40, args.features)).astype(np.float32) / 6
    names = [f"f{k}" for k in range(args.features)]

    def rows(codes: np.ndarray) -> np.ndarray:
        noise = rng.standard_normal((len(codes), args.features), dtype=np.float32)
        return centres[codes] + noise

    codes = np.repeat(np.arange(args.seen), 30)
    fit_model(pd.DataFrame(rows(codes), columns=names), table.index[codes], table).save(model)
    schema = pyarrow.schema([(name, pyarrow.float32()) for name in names])
    with parquet.ParquetWriter(source, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, args.rows, _PIECE):
            piece = rows(rng.integers(n_classes, size=min(_PIECE, args.rows - start)))
            writer.write_table(pyarrow.table(list(np.ascontiguousarray(piece.T)), schema=schema))


def _start(*paths: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, "--worker", *map(str, paths)], stdout=subprocess.PIPE)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _peak() -> float:
    """Return the largest memory so far in MB."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage counts what the process that started this one had, too
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
