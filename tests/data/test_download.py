import hashlib
import io
import os
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from cosmo.data.download import ARCHIVES, FetchError, fetch, unpack


def zipped(**files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(f"birds/{name}.txt"), text)  # dated 1980: the same every time
    return content.getvalue()


NOISE = np.random.default_rng(0).bytes(300_000)
BIRDS = zipped(list=b"robin", noise=NOISE)
SHA256 = hashlib.sha256(BIRDS).hexdigest()


class Server(ThreadingHTTPServer):
    """Files by path."""

    files: dict[str, bytes]
    requests: list[str]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        self.server.requests.append(self.path)
        content = self.server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = True

    def log_message(self, format, *args):
        pass


@pytest.fixture
def server():
    with Server(("127.0.0.1", 0), Handler) as running:
        running.files, running.requests = {"/birds.zip": BIRDS}, []
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def fetch_birds(server, to, **options):
    return fetch("birds", to, urls=[f"{server.url}/birds.zip"], **options)


class TestFetch:
    def test_downloads_checks_and_unpacks(self, server, tmp_path):
        fetched = fetch_birds(server, tmp_path / "data", sha256=SHA256)
        assert (fetched.folder / "list.txt").read_bytes() == b"robin"
        assert (fetched.folder / "noise.txt").read_bytes() == NOISE
        assert fetched.file.read_bytes() == BIRDS
        assert not fetched.trusted_on_first_use
        assert sorted(os.listdir(tmp_path / "data")) == ["birds", "birds.zip"]

    def test_existing_file_is_not_downloaded(self, server, tmp_path):
        (tmp_path / "birds.zip").write_bytes(BIRDS)
        assert (fetch_birds(server, tmp_path, sha256=SHA256).folder / "list.txt").exists()
        assert fetch_birds(server, tmp_path, sha256=SHA256).folder.exists()
        assert server.requests == []

    def test_mirrors_in_order(self, server, tmp_path):
        server.files["/other/birds.zip"] = zipped(list=b"another file")
        urls = [f"{server.url}{path}" for path in ("/gone.zip", "/other/birds.zip", "/birds.zip")]
        fetched = fetch("birds", tmp_path, urls=urls, sha256=SHA256)
        assert fetched.file.read_bytes() == BIRDS
        assert server.requests == ["/gone.zip", "/other/birds.zip", "/birds.zip"]

    def test_message_has_every_failure(self, server, tmp_path):
        server.files["/page.zip"] = b"<html>We have moved</html>"
        urls = [f"{server.url}/gone.zip", f"{server.url}/page.zip", "http://127.0.0.1:9/birds.zip"]
        with pytest.raises(FetchError) as caught:
            fetch("birds", tmp_path, urls=urls)
        message = str(caught.value)
        assert "404" in message
        assert "not an intact zip or tar archive" in message
        assert "port=9" in message
        assert "give it by --url" in message
        assert not list(tmp_path.iterdir())

    def test_damaged_archive_is_not_trusted(self, server, tmp_path):
        server.files["/birds.zip"] = BIRDS.replace(b"robin", b"rabin", 1)
        with pytest.raises(FetchError, match=r"birds\.zip: not an intact"):
            fetch_birds(server, tmp_path)
        assert not list(tmp_path.iterdir())
        server.files["/birds.zip"] = BIRDS
        assert fetch_birds(server, tmp_path).folder.exists()


class TestTrust:
    def test_first_checksum_is_stored_and_verified(self, server, tmp_path):
        counts = []
        fetched = fetch_birds(server, tmp_path, report=lambda *count: counts.append(count))
        assert counts[-1] == (len(BIRDS), len(BIRDS))
        assert fetched.trusted_on_first_use
        assert (tmp_path / "birds.zip.sha256").read_text() == f"{SHA256}  birds.zip\n"
        fetched.file.unlink()
        server.files["/birds.zip"] = zipped(list=b"cuckoo")
        with pytest.raises(FetchError, match=f"does not have the checksum sha256:{SHA256}"):
            fetch_birds(server, tmp_path)
        assert not fetched.file.exists()

    def test_stored_checksum_that_is_damaged(self, server, tmp_path):
        (tmp_path / "birds.zip.sha256").write_bytes(b"abc  birds.zip\n")
        with pytest.raises(FetchError, match=r"birds\.zip\.sha256: holds no checksum"):
            fetch_birds(server, tmp_path)

    def test_damaged_file_of_the_user_is_left_alone(self, server, tmp_path):
        (tmp_path / "birds.zip").write_bytes(b"PK")
        with pytest.raises(FetchError):
            fetch_birds(server, tmp_path)
        assert (tmp_path / "birds.zip").read_bytes() == b"PK"

    @pytest.mark.parametrize(
        ("name", "options", "message"),
        [
            ("eagles", {}, "unknown archive 'eagles'; known are xlsa17"),
            ("../up", {"urls": ["http://x/y.zip"]}, "cannot be the name of a folder"),
            ("birds", {"urls": ["http://x/"]}, "does not end in the name of a file"),
            ("birds", {"urls": ["http://x/y.zip"], "sha256": "abc"}, "64 hexadecimal digits"),
        ],
    )
    def test_bad_arguments(self, tmp_path, name, options, message):
        with pytest.raises(ValueError, match=message):
            fetch(name, tmp_path, **options)

    def test_table_of_archives(self):
        for name, archive in ARCHIVES.items():
            assert archive.name == name
            assert all(url.startswith(("https://", "http://")) for url in (*archive.urls, archive.page))
            kind, _, digits = (archive.checksum or "sha256:" + "0" * 64).partition(":")
            assert len(digits) == {"md5": 32, "sha256": 64}[kind]


class TestUnpack:
    def tar(self, path, name, kind=tarfile.REGTYPE, target=""):
        with tarfile.open(path, "w:gz") as archive:
            info = tarfile.TarInfo(name)
            info.size, info.type, info.linkname = 5, kind, target
            archive.addfile(info, io.BytesIO(b"robin"))
        return path

    def test_single_top_level_folder_is_replaced(self, tmp_path):
        unpack(self.tar(tmp_path / "a.tgz", "birds/list.txt"), tmp_path / "new")
        assert (tmp_path / "new" / "list.txt").read_bytes() == b"robin"

    @pytest.mark.parametrize(
        ("name", "kind", "target"),
        [
            ("../up.txt", tarfile.REGTYPE, ""),
            ("birds/list.txt", tarfile.SYMTYPE, "../../up.txt"),
            ("birds/list.txt", tarfile.LNKTYPE, "/etc/passwd"),
            ("birds/device", tarfile.CHRTYPE, ""),
        ],
    )
    def test_members_outside_the_folder(self, tmp_path, name, kind, target):
        (tmp_path / "home").mkdir()
        path = self.tar(tmp_path / "a.tgz", name, kind, target)
        with pytest.raises(FetchError, match=r"a\.tgz: not an intact"):
            unpack(path, tmp_path / "home" / "new")
        assert not list((tmp_path / "home").iterdir())
        assert not (tmp_path / "up.txt").exists()

    def test_zip_members_stay_in_the_folder(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            archive.writestr("../up.txt", "robin")
            archive.writestr("/etc/list.txt", "robin")
        unpack(tmp_path / "a.zip", tmp_path / "new")
        assert sorted(os.listdir(tmp_path)) == ["a.zip", "new"]

    def test_wrong_gzip_checksum(self, tmp_path):
        path = self.tar(tmp_path / "a.tgz", "birds/list.txt")
        content = bytearray(path.read_bytes())
        content[-8] ^= 1
        path.write_bytes(content)
        with pytest.raises(FetchError, match=r"a\.tgz: not an intact"):
            unpack(path, tmp_path / "new")
        assert os.listdir(tmp_path) == ["a.tgz"]

    @pytest.mark.parametrize("start", [b"\x1f\x8b\x08\0garbage!!", b"BZh9garbage", b"\xfd7zXZ\0garbage"])
    def test_other_files(self, tmp_path, start):
        (tmp_path / "a").write_bytes(start + bytes(600))
        with pytest.raises(FetchError, match="not an intact zip or tar archive"):
            unpack(tmp_path / "a", tmp_path / "new")
