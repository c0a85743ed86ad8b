"""The studio with many clients, some of them hostile; then Ctrl-C."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from soak.commands import start
from soak.samples import N_ATTRIBUTES, N_FEATURES, fruit_model
from soak.tally import LET_IN, LOST, SURVIVED, Tally

_CLIENTS, _CROWD = 16, 80  # at once; the crowd is more than the studio's queue takes
_BUSY = {429, 503}
_REFUSED = {400, 401, 403, 404, 405, 413, 415, 422}
_GROWTH = 60_000_000  # bytes; more memory in the second half is a leak
_PREDICT, _PREVIEW, _KEEP = "/api/predict", "/api/classes/preview", "/api/classes/keep"
_BODIES = (
    *(b"", b"{", b"[]", b"null", b'{"features": "no"}', b'{"features": [1, 2]}', b"\xff\xfe", b"[" * 5000),
    *(b'{"features": [1e999, 0, 0, 0, 0, 0, 0]}', b'{"features": [NaN, 0, 0, 0, 0, 0, 0]}'),
)


class _Studio:
    """A running studio."""

    def __init__(self, process: subprocess.Popen[bytes], host: str, port: int, token: str) -> None:
        self.process, self.place, self.token = process, (host, port), token

    def memory(self) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        return self._request("GET", path, None, headers)

    def post(self, path: str, body: bytes, **headers: str) -> tuple[int, bytes]:
        return self._request(
            "POST", path, body, {"X-Cosmo": "1", "Content-Type": "application/json"} | headers
        )

    def _request(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        headers = {"X-Cosmo-Token": self.token} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        connection = HTTPConnection(*self.place, timeout=60)
        try:
            connection.request(method, path, body, {name: value for name, value in headers.items() if value})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def hang_up(self) -> tuple[int, bytes]:
        """Announce a body, and close the connection."""
        with socket.create_connection(self.place, timeout=20) as line:
            line.sendall(b"POST /api/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5000\r\n\r\n{")
        return 0, b""


def _predict(studio: _Studio, rng: random.Random) -> tuple[int, bytes]:
    body = {"features": [rng.random() for _ in range(N_FEATURES)]}
    return studio.post(_PREDICT, json.dumps(body).encode())


def _preview(studio: _Studio, rng: random.Random) -> tuple[int, bytes]:
    values = [float(rng.randrange(2)) for _ in range(N_ATTRIBUTES)]
    return studio.post(_PREVIEW, json.dumps({"name": f"new {rng.randrange(9)}", "values": values}).encode())


def _bad(studio: _Studio, rng: random.Random) -> tuple[int, bytes]:
    return studio.post(rng.choice((_PREDICT, _PREVIEW, _KEEP)), rng.choice(_BODIES))


_KINDS: tuple[tuple[str, set[int], Callable[[_Studio, random.Random], tuple[int, bytes]]], ...] = (
    ("page", {200}, lambda studio, rng: studio.get("/")),
    ("view", {200}, lambda studio, rng: studio.get("/api/view")),
    ("health", {200}, lambda studio, rng: studio.get("/api/health")),
    ("predict", {200}, _predict),
    ("predict", {200}, _predict),
    ("preview", {200}, _preview),
    ("bad body", _REFUSED, _bad),
    ("large body", _REFUSED, lambda studio, rng: studio.post(_PREDICT, b" " * 300_000)),
    ("no token", _REFUSED, lambda studio, rng: studio.get("/api/view", X_Cosmo_Token="")),
    ("wrong token", _REFUSED, lambda studio, rng: studio.get("/api/model", X_Cosmo_Token="x" * 43)),
    ("no header", _REFUSED, lambda studio, rng: studio.post("/api/classes/undo", b"{}", **{"X-Cosmo": ""})),
    ("other host", _REFUSED, lambda studio, rng: studio.get("/api/view", Host="evil.example")),
    ("no such page", _REFUSED, lambda studio, rng: studio.get("/../../etc/passwd")),
    ("hung up", {0}, lambda studio, rng: studio.hang_up()),
)


def run_trials(minutes: float, seed: int) -> Iterator[Tally]:
    """Send requests from many clients for some minutes."""
    requests, shutdown = Tally("studio: requests"), Tally("studio: memory, overload, Ctrl-C")
    with tempfile.TemporaryDirectory(prefix="soak-") as home:
        fruit_model().save(Path(home, "model.cosmo"))
        log = Path(home, "log")
        process = start(("studio", "model.cosmo", "--port", "0", "--no-browser", "-q"), Path(home), log)
        try:
            studio = _wait(process, log)
            with requests.timed():
                sizes = _many_clients(studio, 60 * minutes, seed, requests)
            with shutdown.timed():
                _overload(studio, shutdown)
                grown = studio.memory() - sizes[len(sizes) // 2]
                shutdown.check(grown < _GROWTH, f"memory grew by {grown / 1e6:.0f} MB in the second half")
                _interrupt(studio, shutdown)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    yield from (requests, shutdown)


def _wait(process: subprocess.Popen[bytes], log: Path) -> _Studio:
    """Wait for the address that the studio prints."""
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        found = re.search(r"http://([\d.]+):(\d+)/\?token=([\w-]+)", log.read_text(errors="replace"))
        if found:
            return _Studio(process, found[1], int(found[2]), found[3])
        time.sleep(0.2)
    raise RuntimeError(f"the studio did not start: {log.read_text(errors='replace')[-300:]}")


def _many_clients(studio: _Studio, seconds: float, seed: int, tally: Tally) -> list[int]:
    """Send requests from several threads; return the memory over time."""
    lock, end = threading.Lock(), time.monotonic() + seconds

    def client(number: int) -> None:
        rng = random.Random(f"client {seed} {number}")
        while time.monotonic() < end:
            name, expected, send = rng.choice(_KINDS)
            try:
                status, body = send(studio, rng)
                outcome, reason = _judge(name, expected, status, body)
            except (OSError, HTTPException) as error:
                outcome, reason = LOST, f"{name}: {type(error).__name__}: {error}"
            with lock:
                tally.add(outcome, reason)

    sizes = [studio.memory()]
    with ThreadPoolExecutor(_CLIENTS) as pool:
        clients = [pool.submit(client, number) for number in range(_CLIENTS)]
        while not all(one.done() for one in clients):
            time.sleep(0.5)
            sizes.append(studio.memory())
    return sizes


def _judge(name: str, expected: set[int], status: int, body: bytes) -> tuple[str, str]:
    if status not in expected | _BUSY:
        return (LET_IN if status == 200 else LOST), f"{name}: {status} {body[:150]!r}"
    if status >= 400 and not body.startswith(b'{"error":'):
        return LOST, f"{name}: {status} without a message: {body[:150]!r}"
    return SURVIVED, ""


def _overload(studio: _Studio, tally: Tally) -> None:
    """Send more requests at once than may wait: each is answered or refused."""

    def status(number: int) -> int:
        with suppress(OSError, HTTPException):
            return _predict(studio, random.Random(number))[0]
        return -1

    with ThreadPoolExecutor(_CROWD) as pool:
        counts = Counter(pool.map(status, range(_CROWD)))
    tally.check(set(counts) <= {200, *_BUSY} and counts[200] > 0, f"{_CROWD} at once: {counts}")
    tally.check(studio.get("/api/health")[0] == 200, f"not healthy after {_CROWD} requests at once")


def _interrupt(studio: _Studio, tally: Tally) -> None:
    studio.process.send_signal(signal.SIGINT)
    try:
        status = studio.process.wait(20)
    except subprocess.TimeoutExpired:
        tally.add(LOST, "it did not end within 20 seconds of Ctrl-C")
        return
    tally.check(status in (0, 130), f"after Ctrl-C: exit status {status}")
    try:
        os.killpg(studio.process.pid, 0)
        tally.add(LOST, "a process was left")
    except ProcessLookupError:
        tally.add(SURVIVED)
