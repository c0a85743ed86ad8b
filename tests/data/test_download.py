from __future__ import annotations

import hashlib
import io
import os
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import cosmo.data.download
from cosmo.data.download import ARCHIVES, FetchError, fetch


def zipped(**files: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(f"birds/{name}.txt"), text)  # dated 1980: the same every time
    return content.getvalue()


NOISE = np.random.default_rng(0).bytes(300_000)
BIRDS = zipped(list=b"robin", noise=NOISE)
SHA256 = hashlib.sha256(BIRDS).hexdigest()


class Server(ThreadingHTTPServer):
    """Files by path. `drops`: after how many bytes the next answers break off."""

    files: dict[str, bytes]
    drops: list[int]
    asked: list[tuple[str, str | None]]
    with_ranges = True
    version: str | None = '"1"'

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.asked.append((self.path, asked))
        content = self.server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = 0
        fresh = self.headers.get("If-Range") in (None, self.server.version)
        if asked and self.server.with_ranges and fresh:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        if self.server.version is not None:
            self.send_header("ETag", self.server.version)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        stop = start + self.server.drops.pop(0) if self.server.drops else len(content)
        self.wfile.write(content[start:stop])
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as running:
        running.files, running.drops, running.asked = {"/birds.zip": BIRDS}, [], []
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cosmo.data.download.time, "sleep", lambda seconds: None)


def fetch_birds(server: Server, to: Path, **options: object):
    return fetch("birds", to, urls=[f"{server.url}/birds.zip"], **options)  # type: ignore[arg-type]


class TestFetch:
    def test_downloads_checks_and_unpacks(self, server: Server, tmp_path: Path):
        fetched = fetch_birds(server, tmp_path / "data", sha256=SHA256)
        assert (fetched.folder / "list.txt").read_bytes() == b"robin"
        assert (fetched.folder / "noise.txt").read_bytes() == NOISE
        assert fetched.file.read_bytes() == BIRDS
        assert not fetched.trusted_on_first_use
        assert sorted(os.listdir(tmp_path / "data")) == ["birds", "birds.zip"]

    def test_what_is_there_is_not_fetched_again(self, server: Server, tmp_path: Path):
        fetch_birds(server, tmp_path, sha256=SHA256)
        fetch_birds(server, tmp_path, sha256=SHA256)
        assert len(server.asked) == 1

    def test_goes_on_when_the_connection_drops(self, server: Server, tmp_path: Path):
        server.drops = [131_072, 65_536]
        lines: list[str] = []
        fetched = fetch_birds(server, tmp_path, report=lines.append)
        assert fetched.file.read_bytes() == BIRDS
        first, second, third = (asked for _, asked in server.asked)
        assert (first, second, third) == (None, "bytes=131072-", "bytes=196608-")
        assert sum("interrupted" in line for line in lines) == 2

    @pytest.mark.parametrize("sha256", [SHA256, None])
    def test_goes_on_in_a_later_call(self, server: Server, tmp_path: Path, sha256: str | None):
        server.drops = [131_072, 0]
        with pytest.raises(FetchError, match=r"birds.zip could not be fetched"):
            fetch_birds(server, tmp_path, sha256=sha256)
        assert (tmp_path / "birds.zip.partial").stat().st_size == 131_072
        server.asked.clear()
        assert fetch_birds(server, tmp_path, sha256=sha256).file.read_bytes() == BIRDS
        assert server.asked == [("/birds.zip", "bytes=131072-")]
        assert not list(tmp_path.glob("*.partial*"))

    def test_file_that_changed_meanwhile_is_fetched_anew(self, server: Server, tmp_path: Path):
        server.drops = [131_072, 0]
        with pytest.raises(FetchError):
            fetch_birds(server, tmp_path)
        server.files["/birds.zip"], server.version = zipped(list=b"wren", noise=NOISE[::-1]), '"2"'
        assert (fetch_birds(server, tmp_path).folder / "list.txt").read_bytes() == b"wren"

    def test_without_a_version_or_checksum_nothing_is_continued(self, server: Server, tmp_path: Path):
        server.version = None
        server.drops = [131_072]
        assert fetch_birds(server, tmp_path).file.read_bytes() == BIRDS
        assert [asked for _, asked in server.asked] == [None, None]

    def test_server_without_ranges(self, server: Server, tmp_path: Path):
        server.with_ranges = False
        server.drops = [131_072]
        assert fetch_birds(server, tmp_path).file.read_bytes() == BIRDS

    def test_wrong_beginning_is_not_continued_twice(self, server: Server, tmp_path: Path):
        (tmp_path / "birds.zip.partial").write_bytes(b"x" * 1000)
        assert fetch_birds(server, tmp_path, sha256=SHA256).file.read_bytes() == BIRDS

    def test_whole_or_too_long_beginning(self, server: Server, tmp_path: Path):
        for beginning in (BIRDS, BIRDS + b"more"):
            home = tmp_path / str(len(beginning))
            home.mkdir()
            (home / "birds.zip.partial").write_bytes(beginning)
            assert fetch_birds(server, home, sha256=SHA256).file.read_bytes() == BIRDS

    def test_mirrors_in_order(self, server: Server, tmp_path: Path):
        server.files["/other/birds.zip"] = zipped(list=b"another file")
        urls = [f"{server.url}{path}" for path in ("/gone.zip", "/other/birds.zip", "/birds.zip")]
        fetched = fetch("birds", tmp_path, urls=urls, sha256=SHA256)
        assert fetched.file.read_bytes() == BIRDS
        assert [path for path, _ in server.asked] == ["/gone.zip", "/other/birds.zip", "/birds.zip"]

    def test_every_failure_is_told(self, server: Server, tmp_path: Path):
        server.files["/page.zip"] = b"<html>We have moved</html>"
        urls = [f"{server.url}/gone.zip", f"{server.url}/page.zip", "http://127.0.0.1:9/birds.zip"]
        with pytest.raises(FetchError) as caught:
            fetch("birds", tmp_path, urls=urls)
        message = str(caught.value)
        assert "404" in message
        assert "no zip or tar archive: b'<html>We have moved</html>'" in message
        assert "127.0.0.1:9" in message.replace("host='127.0.0.1', port=9", "127.0.0.1:9")
        assert "give another one by --url" in message
        assert not list(tmp_path.iterdir())


class TestTrust:
    def test_first_use_is_noted_and_holds(self, server: Server, tmp_path: Path):
        lines: list[str] = []
        fetched = fetch_birds(server, tmp_path, report=lines.append)
        assert fetched.trusted_on_first_use
        assert (tmp_path / "birds.zip.sha256").read_text() == f"{SHA256}  birds.zip\n"
        assert any("no checksum is known of birds.zip" in line for line in lines)
        fetched.file.unlink()
        server.files["/birds.zip"] = zipped(list=b"cuckoo")
        with pytest.raises(FetchError, match=r"another when it was first fetched; .*birds.zip.sha256"):
            fetch_birds(server, tmp_path)
        assert not fetched.file.exists()

    def test_file_brought_by_hand_is_taken(self, server: Server, tmp_path: Path):
        (tmp_path / "birds.zip").write_bytes(BIRDS)
        assert (fetch_birds(server, tmp_path).folder / "list.txt").exists()
        assert server.asked == []

    @pytest.mark.parametrize(
        ("name", "options", "message"),
        [
            ("eagles", {}, "there is no archive 'eagles' known; there are xlsa17"),
            ("../up", {"urls": ["http://x/y.zip"]}, "cannot be the name of a folder"),
            ("birds", {"urls": ["file:///etc/passwd"]}, "is not an address"),
            ("birds", {"urls": ["http://x/"]}, "does not end in the name of a file"),
            ("birds", {"urls": ["http://x/y.zip"], "sha256": "abc"}, "64 hexadecimal digits"),
        ],
    )
    def test_door(self, tmp_path: Path, name: str, options: dict, message: str):
        with pytest.raises(ValueError, match=message):
            fetch(name, tmp_path, **options)

    def test_table_of_archives(self):
        for name, archive in ARCHIVES.items():
            assert archive.name == name
            assert all(url.startswith(("https://", "http://")) for url in (*archive.urls, archive.page))
            kind, _, digits = (archive.checksum or "sha256:" + "0" * 64).partition(":")
            assert len(digits) == {"md5": 32, "sha256": 64}[kind]
