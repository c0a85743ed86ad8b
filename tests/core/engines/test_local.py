from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_tasks import Traveller, dies, fails, greet, half_written, keeps_memory, slow, threads
from joblib import Parallel, delayed

from cosmo._core.engines import LocalEngine, make_engine
from cosmo._core.engines.local import deaf_to_interrupts


@pytest.mark.parametrize("jobs", [1, 2])
class TestMap:
    def test_does_all_tasks_with_one_thread_each(self, jobs: int):
        with LocalEngine(jobs) as engine:
            assert sorted(task for task, _ in engine.map(slow, range(9), common=0.0)) == list(range(9))
            assert set().union(*engine.map(threads, range(2))) == {1}

    def test_an_error_is_raised_as_it_is(self, jobs: int):
        with pytest.raises(LookupError, match=r"^'?task 3 cannot be done'?$"):
            list(LocalEngine(jobs).map(fails, range(9), common=3))

    def test_takes_tasks_as_there_is_room(self, jobs: int):
        taken: list[int] = []

        def tasks() -> Iterator[int]:
            for task in range(50):
                taken.append(task)
                yield task

        results = LocalEngine(jobs).map(slow, tasks(), common=0.0)
        next(results)
        assert len(taken) <= 1 if jobs == 1 else len(taken) < 20
        results.close()


def test_what_is_common_travels_once_to_each_process(tmp_path: Path):
    traveller = Traveller(tmp_path / "log")
    processes = set(LocalEngine(2).map(greet, range(20), common=traveller))
    assert sorted(map(int, traveller.log.read_text().split())) == sorted(processes)
    assert os.getpid() not in processes


def test_a_process_that_got_large_is_replaced_in_silence():
    pytest.importorskip("psutil", reason="joblib looks at the memory of its processes with psutil")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        processes = list(LocalEngine(2).map(keeps_memory, range(12)))
    assert len(processes) == 12
    assert len(set(processes)) > 2
    assert [str(warning.message) for warning in said] == []


def test_what_killed_processes_have_half_written_is_removed(tmp_path: Path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / ".1.npz.0a1b2c3d").touch()  # somebody else's
    results = LocalEngine(2).map(half_written, range(3), common=tmp_path, folder=tmp_path)
    assert next(results) == 0
    end = time.monotonic() + 60
    while len(list(tmp_path.rglob(".*.npz.*"))) < 3 and time.monotonic() < end:
        time.sleep(0.01)
    assert len(list(tmp_path.rglob(".*.npz.*"))) == 3
    results.close()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [".1.npz.0a1b2c3d"]


def test_a_killed_process_is_told():
    with pytest.raises(OSError, match="was killed, perhaps for want of memory; take fewer jobs"):
        list(LocalEngine(2).map(dies, range(4), common=2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "spark"}, "engine must be local or dask"),
        ({"name": "local", "scheduler": "tcp://x:1"}, "is for the engine dask"),
        ({"name": "local", "jobs": 0}, "jobs must be at least 1"),
    ],
)
def test_options(options: dict[str, object], message: str):
    with pytest.raises(ValueError, match=message):
        make_engine(**options)  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="no signal masks here")
def test_workers_leave_ctrl_c_to_the_command():
    with deaf_to_interrupts():
        masks = Parallel(n_jobs=2, return_as="generator_unordered")([delayed(_is_deaf)() for _ in range(2)])
    assert list(masks) == [True, True]
    assert not _is_deaf()


def _is_deaf() -> bool:
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
