"""`cosmo serve`, as a process on this machine."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import httpx
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("prometheus_client")

from cosmo import ESZSL
from cosmo.cli import main
from cosmo.io.model import Model, fit_model

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    folder, train = tmp_path_factory.mktemp("serve"), data.split.trainval
    for name, gamma in (("a", 1.0), ("b", 100.0)):
        model = fit_model(
            data.features[train], data.labels[train], data.descriptions, unseen=ESZSL(gamma, 1.0)
        )
        model.save(folder / f"{name}.cosmo")
    shutil.copy(folder / "a.cosmo", folder / "model.cosmo")
    return folder


@contextmanager
def serve(folder, *arguments, **variables):
    """Start a server; give the process and its address, and end it."""
    command = [sys.executable, "-m", "cosmo", "serve", "model.cosmo", "--port", "0", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    with (
        open(folder / "log", "w") as log,
        subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            found = re.fullmatch(
                r"cosmo serve: (http://\S+)  \(Ctrl-C ends it\)\n", process.stdout.readline()
            )
            assert found is not None, (folder / "log").read_text()
            yield process, found[1]
        finally:
            if process.poll() is None:
                process.kill()


def test_reload_under_load_loses_no_request(folder, data):
    rows = data.features[:20]
    expected = {
        tuple(Model.load(folder / f"{name}.cosmo").predict(rows).tolist()): name for name in ("a", "b")
    }
    assert len(expected) == 2
    answers, stop = [], threading.Event()

    def client(address):
        with httpx.Client(base_url=address, timeout=60) as connection:
            while not stop.is_set():
                answer = connection.post("/predict", json={"features": rows.tolist(), "top": 1})
                found = answer.json()
                labels = tuple(one["label"] for one in found["predictions"])
                answers.append((answer.status_code, found["model"], expected.get(labels)))

    with serve(folder) as (process, address):
        clients = [threading.Thread(target=client, args=(address,)) for _ in range(4)]
        for one in clients:
            one.start()
        try:
            for name in ("b", "a", "bad", "b"):
                before = httpx.get(f"{address}/health").json()
                if name == "bad":
                    (folder / "next").write_bytes(b"no model")
                else:
                    shutil.copy(folder / f"{name}.cosmo", folder / "next")
                os.replace(folder / "next", folder / "model.cosmo")
                for _ in range(200):
                    if httpx.get(f"{address}/health").json() != before:
                        break
                    time.sleep(0.05)
                else:
                    pytest.fail(f"{name} was not noticed")
        finally:
            stop.set()
            for one in clients:
                one.join()
        process.send_signal(signal.SIGTERM)
        process.wait(30)
    assert {status for status, _, _ in answers} == {200}
    assert {name for _, _, name in answers} == {"a", "b"}
    assert (
        len({(model, name) for _, model, name in answers}) == 2
    )  # Each answer is of the model that it names.
    lines = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    messages = [line["message"] for line in lines]
    assert messages.count("loaded the changed model") == 3
    assert messages.count("kept the old model") == 1
    assert sum(line.get("path") == "/predict" and line["status"] == 200 for line in lines) == len(answers)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)])
def test_a_signal_lets_requests_finish(folder, data, number, status):
    shutil.copy(folder / "a.cosmo", folder / "model.cosmo")
    body = json.dumps({"features": data.features[:1].tolist()}).encode()
    with serve(folder, COSMO_TOKEN="secret") as (process, address):
        host, port = re.fullmatch(r"http://([\d.]+):(\d+)", address).groups()
        head = f"POST /predict HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer secret\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        assert httpx.get(f"{address}/metrics").status_code == 401
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(head.encode() + body[:10])
            assert httpx.get(f"{address}/health").status_code == 200  # The first request has arrived.
            process.send_signal(number)
            time.sleep(0.3)
            with pytest.raises(httpx.ConnectError):
                httpx.get(f"{address}/health")
            connection.sendall(body[10:])
            assert connection.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"
        assert process.wait(30) == status


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["missing.cosmo"], "missing.cosmo"),
        (["model.cosmo", "--port", "70000"], "--port must be from 0 to 65535, got 70000"),
        (["model.cosmo", "--max-rows", "0"], "--max-rows must be at least 1, got 0"),
        (["model.cosmo", "--max-body", "-1"], "--max-body must be at least 1, got -1"),
        (["model.cosmo", "--host", "192.0.2.1"], "--host 192.0.2.1 is no address of this machine"),
    ],
    ids=str,
)
def test_wrong_input(arguments, reason, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert main(["serve", *arguments]) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("package", ["fastapi", "uvicorn", "prometheus_client"])
def test_a_light_install(package, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["serve", "model.cosmo"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"cosmo serve: {package} is not installed: pip install ")
