from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cosmo._core.engines import LocalEngine
from cosmo.data import DataError, load_glyphs
from cosmo.io.model import Model, fit_model
from cosmo.io.partitions import _cuts, is_partitioned, predict_partitions
from cosmo.io.streaming import predict_stream

NAMES = [f"f{k}" for k in range(30)]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    glyphs = load_glyphs(n_classes=24, samples_per_class=12)
    table = pd.DataFrame(glyphs.features[:, :30], columns=NAMES)
    return table.assign(id=range(len(table)))


@pytest.fixture(scope="module")
def model(table: pd.DataFrame) -> Model:
    glyphs = load_glyphs(n_classes=24, samples_per_class=12)
    train = glyphs.split.trainval
    return fit_model(table[NAMES].iloc[train], glyphs.labels[train], glyphs.descriptions)


@pytest.fixture
def rows(table: pd.DataFrame, tmp_path: Path) -> Path:
    """Three partitions of 40 rows, two of them in a folder, and what is no partition."""
    home = tmp_path / "rows"
    (home / "day=1").mkdir(parents=True)
    for k, name in enumerate(["a", "day=1/a", "day=1/b"]):
        table[40 * k : 40 * k + 40].to_parquet(home / f"{name}.parquet")
    (home / "_metadata.parquet").write_bytes(b"no table")
    (home / "README").write_text("read me")
    return home


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("format", ["parquet", "csv", "jsonl"])
def test_each_file_is_what_a_stream_gives(model: Model, rows: Path, tmp_path: Path, format: Any):
    summary = predict_partitions(model, rows, tmp_path / "out", format=format, keep=["id"], batch_size=16)
    assert (summary.rows, summary.found, summary.skipped) == (120, 0, 0)
    found = contents(tmp_path / "out")
    assert set(found) == {f"{name}.{format}" for name in ("a", "day=1/a", "day=1/b")}
    for name, content in found.items():
        one = tmp_path / f"one.{format}"
        predict_stream(model, (rows / name).with_suffix(".parquet"), one, keep=["id"], batch_size=16)
        assert one.read_bytes() == content
    assert not (tmp_path / "out.parts").exists()


def test_large_files_are_cut_where_row_groups_end(model: Model, table: pd.DataFrame, tmp_path: Path):
    path = tmp_path / "rows.parquet"
    table[:100].to_parquet(path, row_group_size=15)
    predict_partitions(model, path, tmp_path / "out", format="csv", batch_size=8, partition_rows=40)
    parts = sorted((tmp_path / "out").iterdir())
    assert [part.name for part in parts] == [f"rows-0000{k}.csv" for k in range(3)]
    assert [len(pd.read_csv(part)) for part in parts] == [30, 30, 40]
    predict_stream(model, path, tmp_path / "whole.csv")
    pd.testing.assert_frame_equal(
        pd.concat(map(pd.read_csv, parts), ignore_index=True), pd.read_csv(tmp_path / "whole.csv")
    )


@pytest.mark.parametrize(
    ("groups", "rows", "expected"),
    [
        ([], 10, []),
        ([0, 0], 10, []),
        ([4, 4, 4], 8, [(0, 8), (8, 12)]),
        ([20, 3], 8, [(0, 20), (20, 23)]),
        ([3, 20, 3, 3], 8, [(0, 3), (3, 23), (23, 29)]),
    ],
)
def test_cuts(groups: list[int], rows: int, expected: list[tuple[int, int]]):
    assert list(_cuts(groups, rows)) == expected


def test_processes_and_patterns_give_the_same(model: Model, rows: Path, tmp_path: Path):
    predict_partitions(model, rows, tmp_path / "one", batch_size=16)
    predict_partitions(model, rows, tmp_path / "two", batch_size=16, engine=LocalEngine(2))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    predict_partitions(model, str(rows / "day=1" / "*.parquet"), tmp_path / "three", batch_size=16)
    assert contents(tmp_path / "three") == {
        Path(name).name: content for name, content in contents(tmp_path / "one").items() if "day=1" in name
    }


class TestStopped:
    @pytest.fixture
    def stopped(self, model: Model, rows: Path, tmp_path: Path) -> Path:
        """A run in which the second partition was bad, and is not any more."""
        path = rows / "day=1" / "a.parquet"
        good, state = path.read_bytes(), path.stat()
        frame = pd.read_parquet(path)
        frame.loc[frame.index[3], "f2"] = np.inf
        frame.to_parquet(path)
        with pytest.raises(DataError, match=r"a.parquet: .*row 4"):
            predict_partitions(model, rows, tmp_path / "out", batch_size=16)
        path.write_bytes(good)
        assert not (tmp_path / "out").exists()
        assert len(list((tmp_path / "out.parts" / "data").rglob("*.parquet"))) == 1
        assert state.st_size == path.stat().st_size
        return tmp_path / "out"

    def test_other_input_is_noticed(self, model: Model, rows: Path, stopped: Path):
        with pytest.raises(DataError, match=r"out.parts has predictions .* with other input"):
            predict_partitions(model, rows, stopped, batch_size=16)
        assert predict_partitions(model, rows, stopped, batch_size=16, restart=True).rows == 120

    def test_the_same_goes_on(self, model: Model, rows: Path, tmp_path: Path):
        bad = rows / "day=1" / "a.parquet"
        out, said = tmp_path / "out", []

        class Stops(LocalEngine):
            def map(self, *args: Any, **options: Any) -> Any:
                results = super().map(*args, **options)
                yield next(results)
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            predict_partitions(model, rows, out, batch_size=16, engine=Stops())
        first = next((tmp_path / "out.parts" / "data").rglob("*.parquet"))
        before = first.stat().st_ino
        with pytest.raises(DataError, match="with other settings"):
            predict_partitions(model, rows, out, batch_size=16, top=1)
        summary = predict_partitions(model, rows, out, batch_size=16, report=said.append)
        assert (summary.rows, summary.found) == (120, 40)
        assert said[0] == "1 of 3 partitions are here from an earlier run"
        assert (out / "a.parquet").stat().st_ino == before
        assert bad.exists()

    def test_one_that_was_finished_after_all(self, model: Model, rows: Path, tmp_path: Path):
        """A worker that was thought lost wrote its part, but nobody heard of it."""
        from cosmo.io.partitions import _predict

        out = tmp_path / "out"
        seen: list[Any] = []

        class Twice(LocalEngine):
            def map(self, function: Any, tasks: Any, *, common: Any = None, folder: Any = None) -> Any:
                for task in tasks:
                    first = _predict(common, task)
                    target = common.home / "data" / task.target
                    before = target.stat().st_mtime_ns
                    seen.append(_predict(common, task) == first and target.stat().st_mtime_ns == before)
                    yield first

        predict_partitions(model, rows, out, batch_size=16, engine=Twice())
        assert seen == [True] * 3


class TestRefused:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"top": 0}, "top must be"),
            ({"batch_size": 0}, "batch_size must be"),
            ({"partition_rows": 0}, "partition_rows must be"),
            ({"format": "xls"}, "format must be"),
        ],
    )
    def test_options(self, model: Model, rows: Path, tmp_path: Path, options: dict[str, Any], message: str):
        with pytest.raises(ValueError, match=message):
            predict_partitions(model, rows, tmp_path / "out", **options)

    def test_a_result_that_is_there(self, model: Model, rows: Path, tmp_path: Path):
        predict_partitions(model, rows, tmp_path / "out", batch_size=16)
        with pytest.raises(DataError, match="out is there already"):
            predict_partitions(model, rows, tmp_path / "out", batch_size=16)

    @pytest.mark.parametrize("source", ["nothing", "nothing/*.parquet", "rows/README", "rows/*"])
    def test_no_partitions(self, model: Model, rows: Path, tmp_path: Path, source: str):
        with pytest.raises(DataError, match=r"partitions are files that end in .parquet or .pq"):
            predict_partitions(model, str(tmp_path / source), tmp_path / "out")

    def test_damaged_and_empty_tables(self, model: Model, rows: Path, table: pd.DataFrame, tmp_path: Path):
        (rows / "c.parquet").write_bytes(b"PAR1 and no more")
        with pytest.raises(DataError, match=r"c.parquet: damaged, cut short"):
            predict_partitions(model, rows, tmp_path / "out")
        (tmp_path / "none").mkdir()
        table[:0].to_parquet(tmp_path / "none" / "a.parquet")
        with pytest.raises(DataError, match="the tables have no rows"):
            predict_partitions(model, tmp_path / "none", tmp_path / "out")

    def test_two_with_one_name(self, model: Model, rows: Path, tmp_path: Path):
        (rows / "a.pq").write_bytes((rows / "a.parquet").read_bytes())
        with pytest.raises(DataError, match=r"two partitions would both go to a.parquet"):
            predict_partitions(model, rows, tmp_path / "out")


def test_what_is_partitioned(rows: Path, tmp_path: Path):
    (tmp_path / "pictures").mkdir()
    assert is_partitioned(rows)
    assert is_partitioned(tmp_path / "*.parquet")
    assert not is_partitioned(rows / "a.parquet")
    assert not is_partitioned(tmp_path / "pictures")
