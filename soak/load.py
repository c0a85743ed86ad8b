"""The studio's server under load: clients that ask, err, shout, hang up; then Ctrl-C."""

from __future__ import annotations

import importlib.util
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
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import cosmo
from soak.readers import fruit
from soak.tally import LET_IN, LOST, SURVIVED, Tally
from soak.verbs import start

__all__ = ["load"]

_CLIENTS = 16
_CROWD = 80  # at once, to have some refused
_BUSY = {429, 503}
_GROWTH = 60_000_000  # bytes of memory that are no leak yet
_JSON = {"Content_Type": "application/json"}


class _Studio:
    """A running studio: where it is, and its token."""

    def __init__(self, process: subprocess.Popen[bytes], host: str, port: int, token: str) -> None:
        self.process, self.place, self.token = process, (host, port), token

    def memory(self) -> int:
        """Return the bytes that it has in memory."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        """Return status and body of an answer."""
        connection = HTTPConnection(*self.place, timeout=60)
        try:
            own = {"X-Cosmo-Token": self.token, **({"X-Cosmo": "1"} if method == "POST" else {})}
            sent = {**own, **{name.replace("_", "-"): value for name, value in headers.items()}}
            connection.request(method, path, body, {name: value for name, value in sent.items() if value})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def hang_up(self) -> tuple[int, bytes]:
        """Promise a body, and go away."""
        with socket.create_connection(self.place, timeout=20) as line:
            line.sendall(b"POST /api/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5000\r\n\r\n{")
        return 0, b""


def load(minutes: float, seed: int, report: Callable[[str], None]) -> Iterator[Tally]:
    """Have many clients ask for some minutes."""
    if importlib.util.find_spec("cosmo.viz.studio") is None or importlib.util.find_spec("uvicorn") is None:
        report("there is no studio here, or its extra is not installed: left out")
        return
    tally = Tally("studio: requests")
    stop = Tally("studio: memory, saturation, end")
    with tempfile.TemporaryDirectory(prefix="soak-") as home:
        cosmo.io.model_file.save(fruit(), Path(home, "model.cosmo"))
        log = Path(home, "log")
        arguments = ("studio", "model.cosmo", "--port", "0", "--no-browser", "-q")
        process = start(arguments, Path(home), log)
        try:
            with tally.timed():
                studio = _wait(process, log)
                if studio is None:
                    tally.add(LOST, f"it did not start: {log.read_text(errors='replace')[-300:]}")
                    yield tally
                    return
                counts, sizes = _crowd(studio, 60 * minutes, seed, tally, report)
            with stop.timed():
                _saturate(studio, stop, counts)
                sizes.append(studio.memory())
                grown = sizes[-1] - sizes[len(sizes) // 2]
                stop.check(grown < _GROWTH, f"memory grew by {grown / 1e6:.0f} MB in the second half")
                _end(studio, stop)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    shown = ", ".join(f"{status or 'hung up'}: {count}" for status, count in sorted(counts.items()))
    megabytes = " / ".join(f"{size / 1e6:.0f}" for size in (sizes[0], sizes[len(sizes) // 2], sizes[-1]))
    tally.note = f"answers {shown}; memory at start, middle and end {megabytes} MB"
    report(f"{tally.kind}: {tally.tried}, {len(tally.findings)} not as they should be; {tally.note}")
    yield from (tally, stop)


def _wait(process: subprocess.Popen[bytes], log: Path) -> _Studio | None:
    """Wait for the address that the studio prints."""
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        found = re.search(r"http://([\d.]+):(\d+)/\?token=([\w-]+)", log.read_text(errors="replace"))
        if found:
            return _Studio(process, found[1], int(found[2]), found[3])
        time.sleep(0.2)
    return None


def _crowd(
    studio: _Studio, seconds: float, seed: int, tally: Tally, report: Callable[[str], None]
) -> tuple[Counter[int], list[int]]:
    """Ask from several threads; return how often each status came, and the memory over time."""
    counts: Counter[int] = Counter()
    guard = threading.Lock()
    sizes: list[int] = []
    end = time.monotonic() + seconds

    def client(number: int) -> None:
        rng = random.Random(f"client {seed} {number}")
        while time.monotonic() < end:
            name, good, ask = rng.choice(_KINDS)
            try:
                status, body = ask(studio, rng)
                outcome, what = _judge(name, good, status, body)
            except (OSError, HTTPException) as error:
                status, outcome, what = -1, LOST, f"{name}: {type(error).__name__}: {error}"
            with guard:
                counts[status] += 1
                tally.add(outcome, what)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(_CLIENTS)]
    for thread in threads:
        thread.start()
    told = time.monotonic()
    while any(thread.is_alive() for thread in threads):
        time.sleep(0.5)
        if studio.process.poll() is None and tally.tried > _CLIENTS:  # warm by then
            sizes.append(studio.memory())
        if time.monotonic() - told > 30:
            told = time.monotonic()
            report(f"{tally.tried} requests, {sizes[-1] / 1e6:.0f} MB")
    return counts, sizes or [studio.memory()]


def _judge(name: str, good: set[int], status: int, body: bytes) -> tuple[str, str]:
    if status not in good | _BUSY:
        what = f"{name}: {status} {body[:150]!r}"
        return (LET_IN if status == 200 else LOST), what
    if status >= 400:
        try:
            if not json.loads(body)["error"]:
                raise ValueError
        except (ValueError, KeyError, TypeError):
            return LOST, f"{name}: {status} without a sentence: {body[:150]!r}"
    return SURVIVED, ""


def _saturate(studio: _Studio, tally: Tally, counts: Counter[int]) -> None:
    """Ask from more clients than may wait: each is answered, or refused at once and in words."""
    statuses: list[int] = []

    def client(number: int) -> None:
        try:
            statuses.append(_predict(studio, random.Random(number))[0])
        except (OSError, HTTPException):
            statuses.append(-1)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(_CROWD)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts.update(statuses)
    tally.check(set(statuses) <= {200, *_BUSY} and 200 in statuses, f"{_CROWD} at once: {Counter(statuses)}")
    status, _ = studio.ask("GET", "/api/health")
    tally.check(status == 200, f"after {_CROWD} at once, health is {status}")


def _end(studio: _Studio, tally: Tally) -> None:
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


def _features(rng: random.Random, n: int = 7) -> bytes:
    return json.dumps({"features": [rng.random() for _ in range(n)]}).encode()


def _predict(studio: _Studio, rng: random.Random) -> tuple[int, bytes]:
    return studio.ask("POST", "/api/predict", _features(rng), Content_Type="application/json")


def _preview(studio: _Studio, rng: random.Random) -> tuple[int, bytes]:
    values = [float(rng.randrange(2)) for _ in range(12)]
    body = json.dumps({"name": f"fruit {rng.randrange(9)}", "values": values}).encode()
    return studio.ask("POST", "/api/classes/preview", body, Content_Type="application/json")


def _bad(studio: _Studio, rng: random.Random) -> tuple[int, bytes]:
    bodies = (
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"features": "no"}',
        b'{"features": [1, 2]}',
        b"\xff\xfe",
        b"[" * 5000,
    )
    bodies += (b'{"features": [1e999, 0, 0, 0, 0, 0, 0]}', b'{"features": [NaN, 0, 0, 0, 0, 0, 0]}')
    path = rng.choice(("/api/predict", "/api/classes/preview", "/api/classes/keep"))
    return studio.ask("POST", path, rng.choice(bodies), Content_Type="application/json")


_REFUSED = {400, 401, 403, 404, 405, 413, 415, 422}
_KINDS: tuple[tuple[str, set[int], Callable[[_Studio, random.Random], tuple[int, bytes]]], ...] = (
    ("page", {200}, lambda studio, rng: studio.ask("GET", "/")),
    ("view", {200}, lambda studio, rng: studio.ask("GET", "/api/view")),
    ("health", {200}, lambda studio, rng: studio.ask("GET", "/api/health")),
    ("predict", {200}, _predict),
    ("predict again", {200}, _predict),
    ("preview", {200}, _preview),
    ("bad body", _REFUSED, _bad),
    ("too much", _REFUSED, lambda studio, rng: studio.ask("POST", "/api/predict", b" " * 300_000, **_JSON)),
    ("no token", _REFUSED, lambda studio, rng: studio.ask("GET", "/api/view", X_Cosmo_Token="")),
    ("wrong token", _REFUSED, lambda studio, rng: studio.ask("GET", "/api/model", X_Cosmo_Token="x" * 43)),
    ("no mark", _REFUSED, lambda studio, rng: studio.ask("POST", "/api/classes/undo", b"{}", X_Cosmo="")),
    ("other host", _REFUSED, lambda studio, rng: studio.ask("GET", "/api/view", Host="evil.example")),
    ("no such page", _REFUSED, lambda studio, rng: studio.ask("GET", "/../../etc/passwd")),
    ("hung up", {0}, lambda studio, rng: studio.hang_up()),
)
