"""Measure `cosmo serve` on loopback: latency and throughput, reloads under load, hostile requests.

A model of the size of CUB (`benchmarks/inference.py`) is served by a process of its own. Eight clients,
threads of one process, send the next request when they have the answer to the last one. In the same run the
model itself is called with the same rows. Then the model's file is replaced under load, and each answer is
compared with the predictions of the model that it names; at last requests are sent that must be refused.

    python benchmarks/serving.py --write docs/results/serving.md
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np

from cosmo._core.files import write_atomic
from cosmo.io.model import Model
from inference import make_model

CLIENTS, TOP = 8, 3
BATCHES = {1: 400, 64: 160}  # rows of a request: number of requests
JSON = {"Content-Type": "application/json"}
MAX_BODY = 4  # MB


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, int]]:
    """Serve `model.cosmo`; give host and port."""
    command = [
        sys.executable,
        "-m",
        "cosmo",
        "serve",
        "model.cosmo",
        "--port",
        "0",
        "--max-body",
        str(MAX_BODY),
    ]
    with (
        open(folder / "log", "w") as log,
        subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            address = re.search(r"http://([\d.]+):(\d+)", process.stdout.readline())
            if address is None:
                raise RuntimeError((folder / "log").read_text())
            yield address[1], int(address[2])
        finally:
            process.terminate()


def send(
    connection: HTTPConnection, body: bytes | None, path: str = "/predict", headers: dict[str, str] = JSON
) -> tuple[int, bytes]:
    """Return status and body of the response."""
    connection.request("GET" if body is None else "POST", path, body, headers)
    response = connection.getresponse()
    return response.status, response.read()


def timed(n: int, job: Callable[[], Any]) -> list[float]:
    """Return the seconds of each call."""
    found = []
    for _ in range(n):
        start = time.perf_counter()
        job()
        found.append(time.perf_counter() - start)
    return found


def load(
    address: tuple[str, int], n: int, body: bytes | None, path: str = "/predict"
) -> tuple[list[float], float]:
    """Return the seconds of each of `n` requests by all clients together, and those of all of them."""

    def client(share: int) -> list[float]:
        connection = HTTPConnection(*address)

        def request() -> None:
            status, answer = send(connection, body, path)
            assert status == 200, answer

        return timed(share, request)

    with ThreadPoolExecutor(CLIENTS) as pool:
        start = time.perf_counter()
        parts = list(pool.map(client, [n // CLIENTS] * CLIENTS))
        return [one for part in parts for one in part], time.perf_counter() - start


def latencies(model: Model, rows: np.ndarray, address: tuple[str, int]) -> Iterator[str]:
    """Measure, and return the lines of the table."""
    yield "| | rows of a request | requests | p50, ms | p99, ms | requests/s | rows/s |"
    yield "|---|---:|---:|---:|---:|---:|---:|"

    def line(name: str, size: int, seconds: list[float], total: float) -> str:
        p50, p99 = 1000 * np.percentile(seconds, (50, 99))
        rate = len(seconds) / total
        rows = f"{rate * size:.0f}" if size else ""
        return f"| {name} | {size or ''} | {len(seconds)} | {p50:.2f} | {p99:.2f} | {rate:.0f} | {rows} |"

    n = max(BATCHES.values())
    yield line(f"`GET /health`, {CLIENTS} clients", 0, *load(address, n, None, "/health"))
    for size, n in BATCHES.items():
        some = rows[:size]
        body = json.dumps({"features": some.tolist(), "top": TOP}).encode()
        model.predict_frame(some, TOP)
        load(address, CLIENTS, body)
        bare = timed(n, lambda some=some: model.predict_frame(some, TOP))
        yield line("model alone", size, bare, sum(bare))
        yield line("one client", size, *(lambda s: (s, sum(s)))(one_client(address, n, body)))
        yield line(f"{CLIENTS} clients", size, *load(address, n, body))


def one_client(address: tuple[str, int], n: int, body: bytes) -> list[float]:
    """Return the seconds of each of `n` requests, one after the other."""
    connection = HTTPConnection(*address)
    return timed(n, lambda: send(connection, body))


def reloads(folder: Path, rows: np.ndarray, address: tuple[str, int], n: int = 6) -> str:
    """Replace the file `n` times under load; return what was answered."""
    names, body = ("a", "b"), json.dumps({"features": rows.tolist(), "top": 1}).encode()
    models = {one.fingerprint()[:16]: one for one in (Model.load(folder / f"{name}.cosmo") for name in names)}
    expected = {key: one.predict(rows).tolist() for key, one in models.items()}
    assert len(expected) == 2
    found: Counter[str] = Counter()
    stop, lock = threading.Event(), threading.Lock()

    def client(_: int) -> None:
        connection = HTTPConnection(*address)
        while not stop.is_set():
            try:
                status, answer = send(connection, body)
                content = json.loads(answer)
                labels = [one["label"] for one in content["predictions"]]
                right = status == 200 and labels == expected[content["model"]]
                kind = content["model"] if right else f"wrong, status {status}"
            except Exception as error:
                kind = f"lost: {error!r}"
                connection = HTTPConnection(*address)
            with lock:
                found[kind] += 1

    health = HTTPConnection(*address)
    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = pool.map(client, range(CLIENTS))
        try:
            for k in range(n):
                before = send(health, None, "/health")
                shutil.copy(folder / f"{names[1 - k % 2]}.cosmo", folder / "next")
                os.replace(folder / "next", folder / "model.cosmo")
                while send(health, None, "/health") == before:
                    time.sleep(0.05)
        finally:
            stop.set()
        list(clients)
    of_models = [found.pop(key) for key in expected]
    faults = ", ".join(f"{count} {kind}" for kind, count in found.items()) or "none"
    return (
        f"The file was replaced {n} times by another model, while {CLIENTS} clients sent {sum(of_models)}\n"
        f"requests of {len(rows)} rows. {' and '.join(map(str, of_models))} answers were those of the model "
        f"that they named. Lost or wrong:\n{faults}."
    )


def hostile(model: Model, address: tuple[str, int]) -> Iterator[str]:
    """Send requests that must be refused, then a good one; return the lines of the table."""
    width = int(model.cosmo.n_features_in_)
    row = ",".join(["0"] * width)
    good = f'{{"features": [[{row}]]}}'.encode()
    cases: dict[str, tuple[bytes, dict[str, str]]] = {
        f"body of {MAX_BODY} MB and a byte": (b" " * (MAX_BODY * 1_000_000 + 1), JSON),
        "half of a JSON document": (good[: len(good) // 2], JSON),
        "not UTF-8": (b'{"features": "\xff\xfe"}', JSON),
        "NaN": (good.replace(b"[[0", b"[[NaN"), JSON),
        "1e400": (good.replace(b"[[0", b"[[1e400"), JSON),
        "text in place of a number": (good.replace(b"[[0", b'[["0"'), JSON),
        "a number too few": (good.replace(b"[[0,", b"[["), JSON),
        "100,000 brackets": (b"[" * 100_000, JSON),
        "100,000 brackets as features": (b'{"features": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", JSON),
        "unknown field": (good.replace(b"{", b'{"path": "/etc/passwd", '), JSON),
        "2,000 rows": (b'{"features": [' + b",".join([b"[0]"] * 2000) + b"]}", JSON),
        "form of a web page": (good, {"Content-Type": "text/plain"}),
        "host name of a web page": (good, {**JSON, "Host": "rebound.example"}),
    }
    yield "| request | status | answer |\n|---|---:|---|"
    for name, (body, headers) in cases.items():
        connection = HTTPConnection(*address, timeout=30)
        try:
            status, answer = send(connection, body, headers=headers)
        except (BrokenPipeError, ConnectionResetError):  # The server does not wait for the rest of a body.
            yield f"| {name} | | connection closed |"
        else:
            assert 400 <= status < 500, (name, status)
            try:
                text = json.loads(answer)["error"]
            except ValueError:
                text = answer.decode()
            yield f"| {name} | {status} | {' '.join(text.split())[:90].replace('|', ' ')} |"
    status, _ = send(HTTPConnection(*address), good)
    assert status == 200, status
    yield "\nA good request after these is answered."


def document(folder: Path) -> Iterator[str]:
    """Measure, and return the lines of the page."""
    cosmo, rows = make_model()
    models = [Model(cosmo), Model(make_model(seed=1)[0])]
    for name, model in zip("ab", models, strict=True):
        model.save(folder / f"{name}.cosmo")
    shutil.copy(folder / "a.cosmo", folder / "model.cosmo")
    with served(folder) as address:
        classes = len(cosmo.classes_)
        yield "# Serving\n"
        yield "Written by `python benchmarks/serving.py --write docs/results/serving.md`.\n"
        yield f"`cosmo serve` with a model of {rows.shape[1]} features and {classes} classes, on"
        yield f"{os.cpu_count()} cores that server and clients share, with other work on the machine. Each"
        yield 'client sends its next request when it has the answer. "Model alone" is `Model.predict_frame`'
        yield "with the same rows, in the process of the clients. Most of the rest is JSON: a row takes"
        yield f"{len(json.dumps(rows[0].tolist())) / 1000:.0f} kB.\n"
        yield from latencies(models[0], rows, address)
        yield "\n## Reload under load\n"
        yield reloads(folder, rows[:4], address)
        yield "\n## Hostile requests\n"
        yield from hostile(models[0], address)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--write", metavar="FILE")
    args = options.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as place:
        text = "\n".join(document(Path(place))) + "\n"
    print(text)
    if args.write:
        write_atomic(Path(args.write), text.encode())


if __name__ == "__main__":
    main()
