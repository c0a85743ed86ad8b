"""`cosmo data` and `cosmo convert`."""

import json
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cosmo.cli import main
from cosmo.data import GZSLDataset, load_glyphs, write_xlsa17
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small data set in xlsa17 layout, with names of samples and groups of attributes."""
    path = tmp_path_factory.mktemp("convert") / "small"
    glyphs = load_glyphs(n_classes=24, samples_per_class=6)
    names = [f"{k:04}.png" for k in range(len(glyphs))]
    write_xlsa17(
        GZSLDataset(
            glyphs.features[:, ::6], glyphs.labels, glyphs.descriptions, glyphs.split, sample_names=names
        ),
        path,
    )
    return path


def body(path):
    """A file without the time that heads a MATLAB file."""
    return path.read_bytes()[116:] if path.suffix == ".mat" else path.read_bytes()


def test_there_and_back_is_the_same_bit_by_bit(folder, tmp_path, capsys):
    assert main(["convert", str(folder), str(tmp_path / "plain")]) == 0
    assert "descriptions.csv, features.npz, samples.csv, split.csv" in capsys.readouterr().out
    assert main(["convert", str(tmp_path / "plain"), str(tmp_path / "again"), "-q"]) == 0
    assert capsys.readouterr().out == ""
    files = sorted(path.name for path in folder.iterdir())
    assert files == ["att_splits.mat", "attributes.txt", "res101.mat"]
    assert files == sorted(path.name for path in (tmp_path / "again").iterdir())
    for name in files:
        assert body(folder / name) == body(tmp_path / "again" / name)
    assert main(["convert", str(tmp_path / "again"), str(tmp_path / "plain-again"), "-q"]) == 0
    for path in (tmp_path / "plain").iterdir():
        assert path.read_bytes() == (tmp_path / "plain-again" / path.name).read_bytes()


def test_names_of_the_files_can_be_chosen(folder, tmp_path):
    main(["convert", str(folder), str(tmp_path / "plain"), "-q"])
    chosen = ["--features", "vit", "--descriptions", "words"]
    assert main(["convert", str(tmp_path / "plain"), str(tmp_path / "mat"), *chosen, "-q"]) == 0
    assert (tmp_path / "mat" / "vit.mat").exists()
    assert main(["convert", str(tmp_path / "mat"), str(tmp_path / "b"), *chosen, "-q"]) == 0


class TestRefusals:
    def refused(self, capsys, *argv):
        assert main(["convert", *map(str, argv), "-q"]) == 2
        error = capsys.readouterr().err
        assert error.startswith("cosmo convert: ")
        assert "Traceback" not in error
        return error

    def test_target_that_is_there(self, folder, tmp_path, capsys):
        (tmp_path / "notes.txt").write_text("mine")
        assert "exists already; choose a new folder" in self.refused(capsys, folder, tmp_path)
        assert "exists already" in self.refused(capsys, folder, folder)

    def test_source(self, folder, tmp_path, capsys):
        assert "no such folder" in self.refused(capsys, tmp_path / "no", tmp_path / "new")
        assert "neither .mat files nor features.npz" in self.refused(capsys, tmp_path, tmp_path / "new")
        error = self.refused(capsys, folder, tmp_path / "new", "--features", "res50")
        assert "att_splits.mat, res101.mat; name one by features" in error
        assert not (tmp_path / "new").exists()
