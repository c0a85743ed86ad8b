"""Downloads that come damaged: they are not kept for good."""

from __future__ import annotations

import io
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cosmo.data._unpacking import ArchiveError
from cosmo.data.download import FetchError, fetch


def zipped() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("birds/list.txt", "robin" * 100)
    return content.getvalue()


GOOD = zipped()
FLIPPED = GOOD.replace(b"robin", b"rabin", 1)


@pytest.fixture
def address() -> Iterator[tuple[str, list[bytes]]]:
    """An address, and what it will give: one after the other, the last one again and again."""
    answers: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = answers.pop(0) if len(answers) > 1 else answers[0]
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/birds.zip", answers
        server.shutdown()
        thread.join()


def test_a_damaged_archive_is_not_trusted_on_first_use(tmp_path: Path, address: tuple[str, list[bytes]]):
    url, answers = address
    answers += [FLIPPED, GOOD]
    with pytest.raises(ArchiveError, match=r"birds\.zip: damaged"):
        fetch("birds", tmp_path, urls=[url])
    assert list(tmp_path.iterdir()) == []
    assert (fetch("birds", tmp_path, urls=[url]).folder / "list.txt").read_text() == "robin" * 100


def test_a_file_of_ones_own_is_left_alone(tmp_path: Path, address: tuple[str, list[bytes]]):
    url, answers = address
    answers += [GOOD]
    (tmp_path / "birds.zip").write_bytes(FLIPPED)
    with pytest.raises(ArchiveError):
        fetch("birds", tmp_path, urls=[url])
    assert (tmp_path / "birds.zip").read_bytes() == FLIPPED


@pytest.mark.parametrize("note", [b"", b"\n", b"abc  birds.zip\n", b"\xff" * 64])
def test_a_note_that_is_half_written(tmp_path: Path, address: tuple[str, list[bytes]], note: bytes):
    url, answers = address
    answers += [GOOD]
    (tmp_path / "birds.zip.sha256").write_bytes(note)
    with pytest.raises(FetchError, match=r"birds\.zip\.sha256: holds no checksum"):
        fetch("birds", tmp_path, urls=[url])
