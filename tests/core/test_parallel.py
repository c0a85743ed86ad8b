import gc
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from joblib import Parallel, delayed

from cosmo._core import parallel
from cosmo._core.parallel import Workers, block_sigint, parallel_map

sys.path.append(str(Path(__file__).parent))  # for the workers, which inherit it

from parallel_tasks import LoadCounter, die, fail, fragile, log_attempt, process_id, sleep, threads

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster():
    """Two workers that no test kills."""
    with block_sigint():
        cluster = distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
        )
    with cluster:
        yield cluster


@pytest.fixture(params=["this process", "processes", "Dask"])
def workers(request):
    if request.param == "Dask":
        return Workers(scheduler=request.getfixturevalue("cluster").scheduler_address)
    return Workers(jobs=1 if request.param == "this process" else 2)


class TestMap:
    def test_runs_all_tasks_with_one_thread_each(self, workers, tmp_path):
        found = parallel_map(sleep, range(9), common=0.0, workers=workers, folder=tmp_path)
        assert sorted(task for task, _ in found) == list(range(9))
        assert set().union(*parallel_map(threads, range(2), workers=workers, folder=tmp_path)) == {1}
        assert list(tmp_path.iterdir()) == []

    def test_error_of_a_task_is_raised(self, workers, tmp_path):
        with pytest.raises(LookupError, match=r"^'?task 3 cannot be done'?$"):
            list(parallel_map(fail, range(9), common=3, workers=workers, folder=tmp_path))
        assert list(tmp_path.iterdir()) == []

    def test_takes_tasks_as_workers_are_free(self, workers, tmp_path):
        taken = []

        def tasks():
            for task in range(50):
                taken.append(task)
                yield task

        results = parallel_map(sleep, tasks(), common=0.01, workers=workers, folder=tmp_path)
        next(results)
        assert len(taken) < 20
        results.close()

    def test_common_argument_is_loaded_once_by_each_process(self, workers, tmp_path):
        counter = LoadCounter(tmp_path / "log")
        counter.log.touch()
        found = parallel_map(process_id, range(20), common=counter, workers=workers, folder=tmp_path)
        expected = set(found) - {os.getpid()}
        assert sorted(map(int, counter.log.read_text().split())) == sorted(expected)


def test_killed_process():
    with pytest.raises(OSError, match="was killed, perhaps for lack of memory; use fewer --jobs"):
        list(parallel_map(die, range(4), common=2, workers=Workers(jobs=2)))


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no signal masks here")
def test_processes_ignore_ctrl_c():
    with block_sigint():
        masks = Parallel(n_jobs=2, return_as="generator_unordered")([delayed(_blocked)() for _ in range(2)])
    assert list(masks) == [True, True]
    assert not _blocked()


def _blocked():
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])


class TestConnection:
    @pytest.fixture(autouse=True)
    def collected(self):
        """Collect clients that failed to connect; while another starts, they wait for its lock for ever."""
        yield
        gc.collect()

    def run(self, scheduler, folder, **options):
        list(parallel_map(fail, [1], common=0, workers=Workers(1, scheduler, **options), folder=folder))

    def test_no_answer(self, tmp_path):
        import dask

        with (
            dask.config.set({"distributed.comm.timeouts.connect": "300ms"}),
            pytest.raises(OSError, match="no Dask scheduler answers at tcp://127.0.0.1:9"),
        ):
            self.run("tcp://127.0.0.1:9", tmp_path)

    def test_no_certificates(self, tmp_path):
        with pytest.raises(OSError, match=r"needs certificates .* distributed.comm.tls"):
            self.run("tls://127.0.0.1:9", tmp_path)

    def test_no_workers(self, tmp_path, monkeypatch):
        monkeypatch.setattr(parallel, "_POLL", 0.1)
        with (
            distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as empty,
            pytest.raises(OSError, match=r"has had no workers for . s: start some, `dask worker tcp://"),
        ):
            self.run(empty.scheduler_address, tmp_path, timeout=0.3)

    def test_needs_a_folder(self):
        with pytest.raises(ValueError, match="a folder on storage that all machines share"):
            list(parallel_map(fail, [1], workers=Workers(scheduler="local")))

    def test_folder_that_workers_do_not_share(self, cluster, tmp_path):
        def tasks():
            shutil.rmtree(next(tmp_path.glob(".cosmo-*")))
            yield 1

        workers = Workers(scheduler=cluster.scheduler_address)
        with pytest.raises(OSError, match="must be on storage that all machines share"):
            list(parallel_map(fail, tasks(), common=0, workers=workers, folder=tmp_path))

    def test_other_versions(self, cluster, tmp_path, monkeypatch):
        real = distributed.Client.get_versions

        def other(client, packages):
            found = real(client, packages=packages)
            next(iter(found["workers"].values()))["packages"]["cosmo-gzsl"] = "0.0.9"
            return found

        monkeypatch.setattr(distributed.Client, "get_versions", other)
        with pytest.raises(OSError, match=r"has cosmo-gzsl 0.0.9, not .*install the same"):
            self.run(cluster.scheduler_address, tmp_path)


class Cluster:
    """A scheduler and workers, in processes of their own without nannies."""

    def __init__(self, home):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        self.home, self.address = home, f"tcp://127.0.0.1:{port}"
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", port)
        self.workers = []

    def add_worker(self):
        self.workers.append(self._start("worker", self.address, "--nthreads", "1", "--no-nanny"))

    def kill_workers(self):
        for worker in self.workers:
            worker.kill()

    def _start(self, what, *options):
        return subprocess.Popen(
            [sys.executable, "-m", "dask", what, *options, "--no-dashboard"],
            cwd=self.home,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def close(self):
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@contextmanager
def acting(condition, act):
    """Act in a thread as soon as a condition holds."""
    met = []

    def wait():
        end = time.monotonic() + 60
        while not condition() and time.monotonic() < end:
            time.sleep(0.01)
        met.append(condition())
        act()

    thread = Thread(target=wait)
    thread.start()
    yield
    thread.join()
    assert met == [True]


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.close()


class TestLoss:
    """Workers and schedulers that are killed for good, in the order of the tests."""

    @pytest.fixture(autouse=True)
    def one_worker(self, processes, monkeypatch):
        monkeypatch.setattr(parallel, "_POLL", 0.2)
        if all(worker.poll() is not None for worker in processes.workers):
            processes.add_worker()

    def work(self, processes, folder, done, **options):
        workers = Workers(scheduler=processes.address, **options)
        for task, _ in parallel_map(sleep, range(10_000), common=0.02, workers=workers, folder=folder):
            done.append(task)

    def test_a_killed_worker_costs_its_own_tasks(self, processes, tmp_path):
        log = tmp_path / "log"
        log.mkdir()
        processes.add_worker()
        workers = Workers(scheduler=processes.address)
        with acting(lambda: len(list(log.iterdir())) >= 4, processes.workers[0].kill):
            found = list(parallel_map(log_attempt, range(12), common=log, workers=workers, folder=tmp_path))
        assert sorted(found) == list(range(12))
        assert len(list(log.iterdir())) <= 15

    def test_all_workers_lost_with_their_results(self, processes, tmp_path, caplog):
        log = tmp_path / "log"
        log.mkdir()
        caplog.set_level(logging.INFO, "cosmo")
        workers = Workers(scheduler=processes.address)

        def waiting():
            return ": 0 workers, waiting up to 600 s for one" in caplog.text and len(list(log.iterdir())) == 1

        with (
            acting(waiting, processes.add_worker),
            acting(lambda: len(list(log.iterdir())) == 2, processes.add_worker),
        ):
            found = list(parallel_map(fragile, range(5), common=log, workers=workers, folder=tmp_path))
        assert sorted(found) == list(range(5))

    def test_no_worker_joins(self, processes, tmp_path):
        done = []
        with (
            acting(lambda: len(done) >= 2, processes.kill_workers),
            pytest.raises(OSError, match=r"has had no workers for [1-9]\d* s.*finished work is kept"),
        ):
            self.work(processes, tmp_path, done, timeout=1.0)
        assert 2 <= len(done) < 10_000
        assert list(tmp_path.iterdir()) == []

    def test_lost_scheduler(self, processes, tmp_path):
        done = []
        with (
            acting(lambda: len(done) >= 2, processes.scheduler.kill),
            pytest.raises(OSError, match="is gone: start it, and run again"),
        ):
            self.work(processes, tmp_path, done)
        assert 2 <= len(done) < 10_000
        assert list(tmp_path.iterdir()) == []
