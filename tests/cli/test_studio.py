"""`cosmo studio`, as a process on this machine."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx
import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from cosmo import ESZSL
from cosmo.cli import main
from cosmo.cli._output import Progress
from cosmo.cli.serve import _live, listen, studio_parser
from cosmo.io.model import Model, fit_model
from cosmo.viz.page import read_view, render_page

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")},
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
}
RUN_VIEW = {
    "format": 1, "kind": "run", "title": "Letters", "lead": "A run.", "version": "", "arrays": [], "sets": [],
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(data, train, tmp_path_factory):
    """A model, samples, and a run that has a report."""
    folder = tmp_path_factory.mktemp("studio")
    model = fit_model(*train, data.descriptions, unseen=ESZSL(1.0, 1.0), name="letters")
    model.save(folder / "model.cosmo")
    test = np.concatenate([data.split.test_seen, data.split.test_unseen])
    np.savez(folder / "test.npz", X=data.features[test], y=np.asarray(data.labels[test], dtype=str))
    for name in ("old", "new"):
        run = folder / "cosmo-runs" / name
        run.mkdir(parents=True)
        model.save(run / "model.cosmo")
        (run / "report.html").write_text(render_page({**RUN_VIEW, "title": name}), encoding="utf-8")
    os.utime(folder / "cosmo-runs/old/model.cosmo", (1, 1))
    return folder


@contextmanager
def studio(folder, *arguments, **variables):
    """Start a studio; give the process and the address that it prints, and end it."""
    command = [sys.executable, "-m", "cosmo", "studio", *arguments, "--port", "0", "-q"]
    with subprocess.Popen(
        command,
        cwd=folder,
        env={**ENVIRONMENT, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            line = process.stdout.readline()
            found = re.fullmatch(r"cosmo studio: (http://\S+/\?token=[\w-]{43})  \(Ctrl-C ends it\)\n", line)
            if found is None:
                process.kill()
                pytest.fail(f"no address: {line!r} {process.communicate()}")
            yield process, found[1]
        finally:
            if process.poll() is None:
                process.kill()


@pytest.fixture(scope="module")
def server(folder):
    with studio(folder, "model.cosmo", "test.npz") as running:
        yield running


@pytest.fixture
def client(server):
    """A browser that has opened the address."""
    _, address = server
    base, _, token = address.partition("?token=")
    with httpx.Client(base_url=base, headers={"X-Cosmo": "1"}, timeout=60, follow_redirects=True) as client:
        assert client.get("/", params={"token": token}).status_code == 200
        yield client


def raw(address, request):
    """Send bytes as they are; return what comes back before the connection is closed."""
    host, port = re.search(r"//([\d.]+):(\d+)/", address).groups()
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(request)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer


class TestServer:
    def test_page_and_answers(self, client, folder):
        page = client.get("/")
        assert "server" not in page.headers
        assert read_view(page.text)["kind"] == "studio"
        X = np.load(folder / "test.npz")["X"]
        record = client.post("/api/predict", json={"features": X[3].tolist()}).json()
        assert record["answer"] == Model.load(folder / "model.cosmo").predict(X[3:4])[0]

    def test_cookie_of_its_own(self, client):
        (cookie,) = client.cookies.jar
        assert cookie.name == f"cosmo_{client.base_url.port}"
        assert cookie.has_nonstandard_attr("HttpOnly")

    @pytest.mark.parametrize(
        "path",
        ["/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/.%2e/x", "/api/model/../x"],
    )
    def test_paths_as_no_browser_sends_them(self, client, server, path):
        _, address = server
        token, host = address.partition("=")[2], f"127.0.0.1:{client.base_url.port}"
        request = (
            f"GET {path} HTTP/1.1\r\nHost: {host}\r\nX-Cosmo-Token: {token}\r\nConnection: close\r\n\r\n"
        )
        answer = raw(address, request.encode())
        assert answer.startswith(b"HTTP/1.1 404 ")
        assert b"root:" not in answer

    def test_a_connection_that_says_nothing_holds_up_nobody(self, client, server):
        port = client.base_url.port
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        try:
            for connection in idle:
                connection.sendall(b"POST /api/predict HTTP/1.1\r\nHost: ")
            assert client.get("/api/health").json() == {"ok": True}
        finally:
            for connection in idle:
                connection.close()


class TestStartAndStop:
    @pytest.mark.skipif(sys.platform == "win32", reason="signals")
    def test_newest_run_on_all_addresses_until_it_is_stopped(self, folder, tmp_path):
        visited = tmp_path / "visited"
        browser = tmp_path / "browser"
        browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {visited}.part && mv {visited}.part {visited}\n')
        browser.chmod(0o700)
        with studio(folder, "--host", "0.0.0.0", DISPLAY=":9", BROWSER=f"{browser} %s") as (process, address):
            assert address.startswith("http://127.0.0.1:")
            for _ in range(300):
                if visited.exists():
                    break
                time.sleep(0.1)
            opened = visited.read_text()
            assert opened.partition("=")[0] == address.partition("=")[0]
            assert opened != address  # which would be there for all to see
            assert [httpx.get(opened).status_code for _ in range(2)] == [303, 401]
            page = httpx.get(address, follow_redirects=False)
            assert page.status_code == 303
            token = address.partition("=")[2]
            page = httpx.get(address.partition("?")[0], headers={"X-Cosmo-Token": token})
            assert {**read_view(page.text), "title": "new"} == {**RUN_VIEW, "title": "new"}
            assert '"samples": false' in page.text
            # A connection that stays open must not keep it from ending.
            with socket.create_connection(("127.0.0.1", int(address.split(":")[2].split("/")[0]))):
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=30)
        assert process.returncode == 130
        assert out == ""
        assert err.splitlines()[0].startswith("cosmo studio: warning: anybody who reaches 0.0.0.0")
        assert err.splitlines()[1:] == ["cosmo: stopped; no incomplete file was written"]

    def test_port_is_the_next_that_is_free(self):
        with listen("127.0.0.1", None, 8765) as first, listen("127.0.0.1", None, 8765) as second:
            ports = [listener.getsockname()[1] for listener in (first, second)]
        assert len(set(ports)) == 2
        assert all(8765 <= port <= 8785 for port in ports)

    def test_small_responses_are_sent_at_once(self):
        with (
            listen("127.0.0.1", 0, 0) as listener,
            socket.create_connection(listener.getsockname()),
            listener.accept()[0] as connection,
        ):
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


class TestSources:
    def live(self, *arguments):
        return _live(studio_parser().parse_args(arguments), Progress(quiet=True))

    @pytest.fixture(autouse=True)
    def here(self, folder, monkeypatch):
        monkeypatch.chdir(folder)

    def test_a_run(self):
        live = self.live("cosmo-runs/old")
        assert (live.title, live._samples) == ("old", None)
        page = live.page({"api": "/api"})
        assert read_view(page)["title"] == "old"

    def test_a_run_on_samples(self):
        live = self.live("cosmo-runs/old", "test.npz")
        assert live._samples is not None
        assert read_view(live.page({}))["kind"] == "studio"

    def test_a_run_whose_report_is_older(self, tmp_path, folder):
        (tmp_path / "model.cosmo").write_bytes((folder / "model.cosmo").read_bytes())
        (tmp_path / "report.html").write_text("<html>an older report</html>")
        said = []
        live = _live(studio_parser().parse_args([str(tmp_path)]), said.append)
        assert "not a report of this version" in said[-1]
        assert read_view(live.page({}))["sets"][0]["stage"] == "validation"

    def test_a_model_alone(self):
        assert read_view(self.live("model.cosmo").page({}))["sets"][0]["stage"] == "validation"


class TestErrors:
    @pytest.fixture(autouse=True)
    def here(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            ([], "there is no run below cosmo-runs: begin with `cosmo run`"),
            (["missing.cosmo"], "missing.cosmo"),
            (["."], ". has no model.cosmo"),
            (["--port", "70000"], "--port must be from 0 to 65535, got 70000"),
            (["--host", "no such host"], "--host no such host is no address of this machine"),
            (["--host", "192.0.2.1"], "--host 192.0.2.1 is no address of this machine"),
        ],
        ids=str,
    )
    def test_wrong_input(self, arguments, reason, capsys):
        assert main(["studio", "-q", *arguments]) == 2
        output = capsys.readouterr()
        assert output.err.startswith("cosmo studio: ")
        assert reason in output.err
        assert output.out == ""

    def test_a_port_that_is_taken(self, capsys):
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            assert main(["studio", "-q", "--port", str(port)]) == 2
        assert f"port {port} of 127.0.0.1 is taken" in capsys.readouterr().err

    def test_samples_without_labels(self, folder, data, capsys):
        np.savez("bare.npz", X=data.features[:5])
        assert main(["studio", str(folder / "model.cosmo"), "bare.npz", "-q"]) == 2
        assert "bare.npz" in capsys.readouterr().err

    @pytest.mark.parametrize("package", ["fastapi", "uvicorn"])
    def test_a_light_install(self, package, monkeypatch, capsys):
        monkeypatch.setitem(sys.modules, package, None)
        assert main(["studio"]) == 2
        message = capsys.readouterr().err
        assert message.startswith(f"cosmo studio: {package} is not installed: pip install 'fastapi>=")
