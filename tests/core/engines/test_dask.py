"""On a real cluster: two worker processes of this machine, some of which are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cluster_tasks import Letters, Traveller, dies, fails, greet, noted, slow, threads

from cosmo._core.cache import Cache
from cosmo._core.engines import DaskEngine, LocalEngine
from cosmo.data import DataError, load_glyphs
from cosmo.encoders import ExtractionError, extract
from cosmo.evaluation.compare import Contender, compare
from cosmo.experts import ESZSL
from cosmo.io.model import Model, fit_model
from cosmo.io.partitions import predict_partitions

distributed = pytest.importorskip("distributed")

NAMES = [f"f{k}" for k in range(30)]


def until(true: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def pids(engine: DaskEngine) -> dict[str, int]:
    return engine._client.run(os.getpid)


class TestMap:
    def test_does_all_tasks_with_one_thread_each(self, engine: DaskEngine, tmp_path: Path):
        found = dict(engine.map(slow, range(20), common=0.01, folder=tmp_path))
        assert sorted(found) == list(range(20))
        assert set(found.values()) == set(pids(engine).values())
        assert set().union(*engine.map(threads, range(2), folder=tmp_path)) == {1}
        assert list(tmp_path.iterdir()) == []

    def test_what_is_common_travels_once_to_each_process(self, engine: DaskEngine, tmp_path: Path):
        traveller = Traveller(tmp_path / "log")
        processes = set(engine.map(greet, range(20), common=traveller, folder=tmp_path))
        assert sorted(map(int, traveller.log.read_text().split())) == sorted(processes)

    def test_takes_tasks_as_there_is_room(self, engine: DaskEngine, tmp_path: Path):
        taken, done = [], []

        def tasks() -> Iterator[int]:
            for task in range(30):
                taken.append(task)
                yield task

        for task, _ in engine.map(slow, tasks(), common=0.01, folder=tmp_path):
            done.append(task)
            assert len(taken) - len(done) <= 4  # two for each thread, the one in hand not among them

    def test_an_error_is_raised_as_on_this_machine(self, engine: DaskEngine, tmp_path: Path):
        messages = []
        for one in (engine, LocalEngine()):
            with pytest.raises(LookupError) as caught:
                list(one.map(fails, range(9), common=3, folder=tmp_path))
            messages.append((type(caught.value), str(caught.value)))
        assert messages[0] == messages[1]
        assert list(engine.map(fails, [1], common=3, folder=tmp_path)) == [1]

    def test_closing_gives_up_what_has_not_begun(self, engine: DaskEngine, tmp_path: Path):
        log = tmp_path / "log"
        log.mkdir()
        results = engine.map(noted, range(100), common=log, folder=tmp_path)
        next(results)
        results.close()
        until(lambda: not any(engine._client.processing().values()))
        assert len(list(log.iterdir())) <= 6

    def test_a_killed_worker_costs_its_own_tasks(self, mortal: Any, tmp_path: Path):
        log = tmp_path / "log"
        log.mkdir()
        said: list[str] = []
        with DaskEngine(mortal.scheduler_address, report=said.append) as engine:
            victim = next(iter(pids(engine).values()))

            def kill() -> None:
                until(lambda: len(list(log.iterdir())) >= 4)
                os.kill(victim, signal.SIGKILL)

            thread = Thread(target=kill)
            thread.start()
            found = sorted(engine.map(noted, range(12), common=log, folder=tmp_path))
            thread.join()
            engine._look()
        assert found == list(range(12))
        # The one it was at, and at most one more whose result nobody had fetched yet.
        assert 12 < len(list(log.iterdir())) <= 14
        assert any("whose tasks are done again" in line for line in said)

    def test_a_task_that_kills_its_workers(self, doomed: Any, tmp_path: Path):
        doomed.scheduler.allowed_failures = 0
        says = "a task ended 1 workers, perhaps for want of memory"
        with DaskEngine(doomed.scheduler_address) as engine, pytest.raises(OSError, match=says):
            list(engine.map(dies, [0], common=0, folder=tmp_path))

    @pytest.mark.parametrize(
        ("meddle", "message"),
        [
            (lambda path: path.unlink(), "has to be on storage that all machines of the cluster share"),
            (lambda path: path.write_bytes(b"other"), "was altered"),
        ],
    )
    def test_folder_that_workers_do_not_share(
        self, engine: DaskEngine, tmp_path: Path, meddle: Any, message: str
    ):
        def tasks() -> Iterator[int]:
            (order,) = tmp_path.glob(".cosmo-*")
            meddle(order)
            yield 1

        with pytest.raises(OSError, match=message):
            list(engine.map(fails, tasks(), common=0, folder=tmp_path))

    def test_needs_a_folder(self, engine: DaskEngine):
        with pytest.raises(ValueError, match="a folder on storage that all machines share"):
            list(engine.map(fails, [1]))


class TestCluster:
    def test_none(self):
        with pytest.raises(ValueError, match=r"`dask scheduler`.*`dask worker ADDRESS --nthreads 1`"):
            DaskEngine()

    def test_nobody_answers(self):
        import dask

        with (
            dask.config.set({"distributed.comm.timeouts.connect": "300ms"}),
            pytest.raises(OSError, match="no Dask scheduler answers at tcp://127.0.0.1:9"),
        ):
            DaskEngine("tcp://127.0.0.1:9")

    def test_no_workers(self):
        said: list[str] = []
        with (
            distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as empty,
            pytest.raises(OSError, match=r"has had no workers for . s: start some, `dask worker tcp://"),
        ):
            DaskEngine(empty.scheduler_address, worker_timeout=0.3, report=said.append)
        assert said == ["0 workers, waiting for one (up to 0 s; Ctrl-C ends)"]

    def test_impossible_timeout(self):
        with pytest.raises(ValueError, match="worker_timeout must be above 0 seconds, got 0"):
            DaskEngine("local", worker_timeout=0)

    def test_no_certificates(self):
        with pytest.raises(OSError, match=r"needs certificates .* DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT"):
            DaskEngine("tls://127.0.0.1:9")

    @pytest.mark.parametrize(
        ("version", "message"), [(None, "has no cosmo-gzsl"), ("0.0.9", "has cosmo-gzsl 0.0.9, here it is")]
    )
    def test_workers_with_other_packages(self, tmp_path: Path, version: str | None, message: str):
        """A worker that finds all packages of this environment but ours."""
        (home,) = {Path(np.__file__).parents[1], Path(pd.__file__).parents[1]}
        for path in home.iterdir():
            if "cosmo" not in path.name:
                (tmp_path / path.name).symlink_to(path)
        if version is not None:
            (tmp_path / "cosmo_gzsl-0.0.9.dist-info").mkdir()
            (tmp_path / "cosmo_gzsl-0.0.9.dist-info" / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: cosmo-gzsl\nVersion: {version}\n"
            )
        with distributed.LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as empty:
            options = [empty.scheduler_address, "--no-nanny", "--no-dashboard", "--nthreads", "1"]
            worker = subprocess.Popen(
                [sys.executable, "-S", "-m", "distributed.cli.dask_worker", *options],
                env={**os.environ, "PYTHONPATH": str(tmp_path)},
                stderr=subprocess.DEVNULL,
            )
            try:
                with pytest.raises(OSError, match=f"{message}.*install the same environment"):
                    DaskEngine(empty.scheduler_address)
            finally:
                worker.kill()
                worker.wait()


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight partitions in a folder of folders."""
    home = tmp_path_factory.mktemp("rows")
    glyphs = load_glyphs(n_classes=24, samples_per_class=12)
    table = pd.DataFrame(np.tile(glyphs.features[:, :30], (3, 1)), columns=NAMES)
    for k in range(8):
        (home / f"day={k // 4}").mkdir(exist_ok=True)
        table[k::8].assign(id=range(k, len(table), 8)).to_parquet(home / f"day={k // 4}" / f"{k}.parquet")
    return home


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    glyphs = load_glyphs(n_classes=24, samples_per_class=12)
    train = glyphs.split.trainval
    table = pd.DataFrame(glyphs.features[:, :30], columns=NAMES)
    path = tmp_path_factory.mktemp("model") / "model.cosmo"
    fit_model(table.iloc[train], glyphs.labels[train], glyphs.descriptions).save(path)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def expected(model: Path, rows: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("expected") / "out"
    predict_partitions(Model.load(model), rows, out, keep=["id"], batch_size=4)
    return contents(out)


class TestPrediction:
    def test_is_the_same_byte_by_byte(
        self, engine: DaskEngine, model: Path, rows: Path, expected: dict[str, bytes], tmp_path: Path
    ):
        said: list[str] = []
        out = tmp_path / "out"
        summary = predict_partitions(
            Model.load(model), rows, out, keep=["id"], batch_size=4, engine=engine, report=said.append
        )
        assert contents(out) == expected
        assert len(expected) == 8
        assert [path.name for path in tmp_path.iterdir()] == ["out"]
        assert said[-1].startswith(f"{summary.rows} of {summary.rows} rows, ")

    def test_with_a_worker_killed(
        self,
        mortal: Any,
        model: Path,
        rows: Path,
        expected: dict[str, bytes],
        tmp_path: Path,
    ):
        out, done = tmp_path / "out", tmp_path / "out.parts" / "done"

        def kill() -> None:
            until(lambda: done.exists() and len(list(done.iterdir())) >= 2)
            address, pid = next(iter(victims.items()))
            os.kill(pid, signal.SIGKILL)
            until(lambda: address not in mortal.scheduler.workers)

        def attempts() -> dict[str, int]:
            log = mortal.scheduler.transition_log
            keys = [entry[0] for entry in log if entry[0].startswith("_predict") and entry[2] == "memory"]
            starts = [
                entry[0] for entry in log if entry[0].startswith("_predict") and entry[2] == "processing"
            ]
            assert set(keys) == set(starts)
            return {key: starts.count(key) for key in starts}

        with DaskEngine(mortal.scheduler_address) as engine:
            victims = pids(engine)
            thread = Thread(target=kill)
            thread.start()
            loaded = Model.load(model)
            summary = predict_partitions(loaded, rows, out, keep=["id"], batch_size=4, engine=engine)
            thread.join()
        assert contents(out) == expected
        assert summary.rows == sum(len(pd.read_parquet(path)) for path in rows.rglob("*.parquet"))
        counts = attempts()
        assert len(counts) == 8
        assert sum(counts.values()) > 8, "nothing was lost: the worker was killed too late"
        # What a worker may have: two tasks handed out, and one whose result nobody had fetched yet.
        assert sum(count > 1 for count in counts.values()) <= 3

    def test_bad_input_is_told_as_on_this_machine(
        self, engine: DaskEngine, model: Path, rows: Path, tmp_path: Path
    ):
        for k, path in enumerate(sorted(rows.rglob("*.parquet"))[:4]):
            table = pd.read_parquet(path)
            if k == 2:
                table.loc[table.index[5], "f3"] = np.nan
            (tmp_path / "bad").mkdir(exist_ok=True)
            table.to_parquet(tmp_path / "bad" / path.name)
        messages = []
        for one in (engine, LocalEngine()):
            with pytest.raises(DataError) as caught:
                predict_partitions(
                    Model.load(model), tmp_path / "bad", tmp_path / "out", engine=one, restart=True
                )
            messages.append(str(caught.value))
        assert messages[0] == messages[1]
        assert "2.parquet" in messages[0]
        assert "row 6" in messages[0]
        # What was done is kept, and nothing else.
        data = tmp_path / "out.parts" / "data"
        assert {path.name for path in data.rglob("*.parquet")} <= {"0.parquet", "1.parquet", "3.parquet"}
        assert not (tmp_path / "out").exists()

    def test_ctrl_c_leaves_whole_parts_and_a_second_run_goes_on(
        self, model: Path, rows: Path, expected: dict[str, bytes], tmp_path: Path
    ):
        out, home = tmp_path / "out", tmp_path / "out.parts"
        command = [sys.executable, "-m", "cosmo.cli", "predict", str(model), str(rows), "--out", str(out)]
        command += ["--keep", "id", "--batch", "4", "--engine", "dask", "--scheduler", "local", "--jobs", "2"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            until(lambda: process.poll() is not None or len(list(home.glob("done/*"))) >= 2)
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: everybody hears it
            _, err = process.communicate(timeout=60)
            assert process.returncode == 130
            assert "Traceback" not in err
            until(lambda: not alive(process.pid), 20)
        finally:
            if alive(process.pid):
                os.killpg(process.pid, signal.SIGKILL)
        found = contents(home / "data")
        assert 2 <= len(found) < 8
        assert all(expected[name] == content for name, content in found.items())
        assert list(home.glob(".cosmo-*")) == []
        summary = predict_partitions(Model.load(model), rows, out, keep=["id"], batch_size=4)
        assert contents(out) == expected
        assert 0 < summary.found < summary.rows


def alive(session: int) -> list[str]:
    """Return the processes of a session that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(state[3]) == session and state[0] != "Z":
            found.append(path.parent.name)
    return found


def test_comparison_is_the_same(engine: DaskEngine, tmp_path: Path):
    glyphs = load_glyphs(n_classes=40, samples_per_class=12)
    experts = {
        "one": ESZSL(gamma=1.0, lam=1.0, temperature=0.1),
        "two": ESZSL(gamma=10.0, lam=1.0, temperature=0.1),
    }
    contenders = [Contender(name, expert, glyphs) for name, expert in experts.items()]
    said: list[str] = []
    tables = [
        compare(contenders, Cache(tmp_path / "dask"), engine=engine, report=said.append),
        compare(contenders, Cache(tmp_path / "here")),
    ]
    first, second = (table.drop(columns="cpu_seconds") for table in tables)
    pd.testing.assert_frame_equal(first, second, check_exact=True)
    assert said[0] == "0 of 3 experts are trained already"
    assert {path.name for path in (tmp_path / "dask").iterdir()} == {
        path.name for path in (tmp_path / "here").iterdir()
    }


class TestExtraction:
    def test_is_the_same_and_kept(self, engine: DaskEngine, tmp_path: Path):
        encoder, texts = Letters(), [f"number {k}" for k in range(520)]
        found = extract(encoder, texts, cache=tmp_path, engine=engine)
        np.testing.assert_array_equal(found.features, encoder.encode(texts))
        said: list[str] = []
        again = extract(encoder, texts, cache=tmp_path, report=said.append)
        np.testing.assert_array_equal(again.features, found.features)
        assert said[-1] == "520 of 520 text (520 found)"

    def test_bad_items_are_told_as_on_this_machine(self, engine: DaskEngine, tmp_path: Path):
        encoder = Letters()
        texts = ["" if k in (3, 300) else f"number {k}" for k in range(520)]
        messages = []
        for one in (engine, None):
            with pytest.raises(ExtractionError) as caught:
                extract(encoder, texts, cache=tmp_path, engine=one)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]
        assert messages[0].splitlines()[1:] == ["  row 3: the text is empty", "  row 300: the text is empty"]
