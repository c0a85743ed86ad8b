"""Downloads from a server that breaks off, lies about lengths, changes the file, or sends something else."""

from __future__ import annotations

import hashlib
import io
import logging
import random
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import cosmo.data.download
from cosmo.data._unpacking import ArchiveError
from cosmo.data.download import fetch
from soak.tally import LET_IN, LOST, SURVIVED, Tally

__all__ = ["downloads"]

_NOISE = random.Random(0).randbytes(200_000)


def _archive(note: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in {"birds/noise.bin": _NOISE, "birds/note.txt": note}.items():
            archive.writestr(zipfile.ZipInfo(name), text)  # dated 1980: the same every time
    return content.getvalue()


_GOOD = _archive(b"robin")
_OTHER = _archive(b"plover")
_SHA256 = hashlib.sha256(_GOOD).hexdigest()


class _Server(ThreadingHTTPServer):
    """A server with moods: each answer is made by the next of `moods`, and a good one when they are over."""

    moods: list[str]
    rng: random.Random
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that hang up."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        mood = self.server.moods.pop(0) if self.server.moods else "good"
        rng = self.server.rng
        content = _OTHER if mood == "changed" else _GOOD
        if mood in ("404", "500", "503"):
            self.send_error(int(mood))
            return
        if mood == "page":
            content = b"<html>please log in</html>" * 50
        asked = self.headers.get("Range", "")
        version = hashlib.md5(content).hexdigest()
        fresh = self.headers.get("If-Range", f'"{version}"') == f'"{version}"'
        first = 0
        if asked and fresh and mood != "no ranges":
            first = int(asked.removeprefix("bytes=").removesuffix("-"))
        if first >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.end_headers()
            return
        self.send_response(206 if first else 200)
        if first:
            shift = 7 if mood == "wrong part" else 0
            self.send_header("Content-Range", f"bytes {first + shift}-{len(content) - 1}/{len(content)}")
        if mood != "no version":
            self.send_header("ETag", f'"{version}"')
        length = len(content) - first
        claimed = {"too long": length + 1000, "too short": max(1, length - 1000)}.get(mood, length)
        if mood != "no length":
            self.send_header("Content-Length", str(claimed))
        self.end_headers()
        body = bytearray(content[first:])
        if mood == "flipped" and body:
            body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
        if mood in ("breaks off", "no length"):
            del body[rng.randrange(len(body)) :]
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


_MOODS = (
    *("breaks off", "breaks off", "breaks off", "too long", "too short", "no ranges", "no length", "changed"),
    *("wrong part", "flipped", "page", "404", "503", "no version"),
)


def downloads(minutes: float, seed: int, report: Callable[[str], None]) -> Iterator[Tally]:
    """Fetch again and again, with and without a known checksum, until the time is over."""
    logging.disable()
    rng = random.Random(f"downloads {seed}")
    pause, cosmo.data.download.time.sleep = cosmo.data.download.time.sleep, lambda seconds: None  # type: ignore[attr-defined]
    checked, trusting = Tally("download, known checksum"), Tally("download, trusted on first use")
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.moods, server.rng = [], rng
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}/birds.zip"
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end or trusting.tried == 0:
            for tally, sha256 in ((checked, _SHA256), (trusting, None)):
                with tally.timed(), tempfile.TemporaryDirectory(prefix="soak-") as home:
                    server.moods = rng.choices(_MOODS, k=rng.randrange(1, 6))
                    moods = list(server.moods)
                    tally.add(*_fetch_until_good(server, url, Path(home), sha256, moods))
        server.shutdown()
        thread.join()
    cosmo.data.download.time.sleep = pause
    for tally in (checked, trusting):
        report(f"{tally.kind}: {tally.tried} downloads, {len(tally.findings)} not survived")
        yield tally


def _fetch_until_good(
    server: _Server, url: str, home: Path, sha256: str | None, moods: list[str]
) -> tuple[str, str]:
    """Fetch until the server is in good mood: what is there then, and at any time, must be right."""
    may = [_GOOD] if sha256 or not {"changed", "flipped", "too short", "no length"} & set(moods) else None
    for _ in range(8):
        try:
            fetched = fetch("birds", home, urls=[url], sha256=sha256, report=lambda line: None)
        except (OSError, ArchiveError) as error:
            said = str(error)
            if "birds.zip" not in said:
                return LOST, f"the message does not name the file: {said} {moods}"
            if server.moods or sha256:
                continue
            # An older checksum is kept: somebody has to decide.
            return SURVIVED, ""
        except Exception as error:
            return LOST, f"{type(error).__name__}: {error} {moods}"
        content = fetched.file.read_bytes()
        if may and content not in may:
            return LET_IN, f"another file was taken {moods}"
        if sha256 and (fetched.folder / "noise.bin").read_bytes() != _NOISE:
            return LET_IN, f"unpacked otherwise {moods}"
        left = {path.name for path in home.iterdir()} - {"birds", "birds.zip", "birds.zip.sha256"}
        return (LOST, f"left behind: {left} {moods}") if left else (SURVIVED, "")
    return LOST, f"not fetched from a good server {moods}"
