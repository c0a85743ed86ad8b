"""What a run does when all workers are lost, or the scheduler: processes of this machine, killed for good."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
from cluster_tasks import arrow_threads, fragile, noted, slow

from cosmo._core.engines import DaskEngine

pytest.importorskip("distributed")


class Cluster:
    """A scheduler and workers, in processes of their own that nobody starts again."""

    def __init__(self, home: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        self.home, self.address = home, f"tcp://127.0.0.1:{port}"
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", port)
        self.workers: list[subprocess.Popen[bytes]] = []

    def add_worker(self) -> None:
        self.workers.append(self._start("worker", self.address, "--nthreads", "1", "--no-nanny"))

    def kill_workers(self) -> None:
        for worker in self.workers:
            worker.kill()

    def _start(self, what: str, *options: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "dask", what, *options, "--no-dashboard"],
            cwd=self.home,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "2"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    for _ in range(2):
        cluster.add_worker()
    yield cluster
    cluster.close()


@pytest.fixture
def lonely(processes: Cluster) -> Cluster:
    """With a worker at least: a test may have killed all."""
    if all(worker.poll() is not None for worker in processes.workers):
        processes.add_worker()
    return processes


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cosmo._core.engines.dask._LOOK", 0.2)


def when(true: Callable[[], bool], act: Callable[[], object]) -> Thread:
    """Do something as soon as it is time."""

    def wait() -> None:
        end = time.monotonic() + 60
        while not true() and time.monotonic() < end:
            time.sleep(0.01)
        in_time = true()
        act()
        assert in_time, "waited in vain"

    thread = Thread(target=wait)
    thread.start()
    return thread


def test_all_workers_lost_with_their_results(lonely: Cluster, tmp_path: Path):
    """The run waits, and says so; it goes on with a worker that comes. (It used to wait in silence.)"""
    log, said = tmp_path / "log", []
    log.mkdir()
    with DaskEngine(lonely.address, report=said.append) as engine:
        assert set(engine.map(arrow_threads, range(4), folder=tmp_path)) == {1}
        thread = when(lambda: any("0 workers, waiting for one" in line for line in said), lonely.add_worker)
        found = list(engine.map(fragile, range(5), common=log, folder=tmp_path))
        thread.join()
    assert sorted(found) == list(range(5))
    assert len(list(log.iterdir())) == 2
    assert said[-1] == "1 workers"


def work(engine: DaskEngine, folder: Path, done: list[int]) -> None:
    for task, _ in engine.map(slow, range(10_000), common=0.02, folder=folder):
        done.append(task)


def test_nobody_comes(lonely: Cluster, tmp_path: Path):
    done: list[int] = []
    with DaskEngine(lonely.address, worker_timeout=1.0) as engine:
        thread = when(lambda: len(done) >= 2, lonely.kill_workers)
        with pytest.raises(OSError, match=r"has had no workers for [1-9]\d* s.*what was done is kept"):
            work(engine, tmp_path, done)
        thread.join()
    assert 2 <= len(done) < 10_000
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes cannot be stopped here")
def test_scheduler_does_not_answer(lonely: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    done: list[int] = []

    def freeze() -> None:
        lonely.scheduler.send_signal(signal.SIGSTOP)
        monkeypatch.setattr("cosmo._core.engines.dask._ANSWER", 0.5)

    with DaskEngine(lonely.address) as engine:
        thread = when(lambda: len(done) >= 2, freeze)
        with pytest.raises(OSError, match="is gone, or does not answer"):
            work(engine, tmp_path, done)
        thread.join()
        lonely.scheduler.send_signal(signal.SIGCONT)
    assert 2 <= len(done) < 10_000
    assert list(tmp_path.iterdir()) == []


def test_scheduler_is_lost(lonely: Cluster, tmp_path: Path):
    """The last with these processes: nobody starts it again."""
    done: list[int] = []
    with DaskEngine(lonely.address) as engine:
        thread = when(lambda: len(done) >= 2, lonely.scheduler.kill)
        with pytest.raises(OSError, match="is gone, or does not answer: start it and its workers again"):
            work(engine, tmp_path, done)
        thread.join()
    assert 2 <= len(done) < 10_000
    assert list(tmp_path.iterdir()) == []


def test_all_workers_killed_and_started_again_by_nannies(tmp_path: Path):
    log = tmp_path / "log"
    log.mkdir()
    with DaskEngine("local", jobs=2, worker_timeout=60) as engine:
        victims = engine._client.run(os.getpid).values()

        def kill() -> None:
            for victim in victims:
                os.kill(victim, signal.SIGKILL)

        thread = when(lambda: len(list(log.iterdir())) >= 4, kill)
        found = list(engine.map(noted, range(8), common=log, folder=tmp_path))
        thread.join()
    assert sorted(found) == list(range(8))
    assert 8 < len(list(log.iterdir())) <= 12
