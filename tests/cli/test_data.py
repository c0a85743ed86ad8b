import json
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cosmo.cli import main
from cosmo.data.download import ARCHIVES


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


@pytest.fixture
def url(tmp_path):
    home = tmp_path / "served"
    home.mkdir()
    with zipfile.ZipFile(home / "birds.zip", "w") as archive:
        archive.writestr("data/CUB/list.txt", "robin")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=home)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/birds.zip"
        server.shutdown()
        thread.join()


def test_fetch(url, tmp_path, capsys):
    assert main(["data", "fetch", "birds", "--to", str(tmp_path / "to"), "--url", url]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0] == str(tmp_path / "to" / "birds")
    assert "(trusted on first use)" in printed.out
    assert "no checksum is known of birds.zip" in printed.err
    assert (tmp_path / "to" / "birds" / "CUB" / "list.txt").read_text() == "robin"


def test_a_mirror_goes_before_the_known_addresses(url, tmp_path, capsys):
    argv = ["data", "fetch", "xlsa17", "--to", str(tmp_path), "--url", url, "-q"]
    assert main(argv) == 0
    assert (tmp_path / "xlsa17.zip").exists()
    assert capsys.readouterr().err == ""


def test_failure_is_one_message(url, tmp_path, capsys):
    argv = ["data", "fetch", "birds", "--to", str(tmp_path), "--url", url, "--sha256", "0" * 64, "-q"]
    assert main(argv) == 2
    error = capsys.readouterr().err
    assert error.startswith("cosmo data: birds.zip could not be fetched:\n")
    assert "does not have the checksum sha256:0000" in error
    assert not (tmp_path / "birds").exists()
    assert main(["data", "fetch", "nothing"]) == 2
    assert "unknown archive 'nothing'" in capsys.readouterr().err


def test_list(capsys):
    assert main(["data", "list"]) == 0
    page = capsys.readouterr().out
    for name, archive in ARCHIVES.items():
        assert f"{name}\n  {archive.about}" in page
        assert archive.page in page
    assert main(["data", "list", "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == list(ARCHIVES)
