"""Files of a few kilobytes that stand for more than any machine should hold, and those that only look so."""

from __future__ import annotations

import gzip
import io
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cosmo.data import DataError, read_features, read_table
from cosmo.data._packed import RowGroups, Unpacked, check_parquet
from cosmo.data.batches import open_batches
from cosmo.data.plain import read_plain
from cosmo.data.predictions import read_predictions

MOST = 10**5  # bytes that may be packed as tightly as they like, in most of these tests


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cosmo.data._packed._FREE", MOST)


def refused(read: Callable[[Path], object], path: Path, *, free: int = MOST) -> str:
    most = max(free, 200 * path.stat().st_size)
    with pytest.raises(
        DataError, match=f"more than {most:,} bytes, too much for a file of this size"
    ) as told:
        read(path)
    assert str(path) in str(told.value)
    assert "split it, or save it unpacked" in str(told.value)
    return str(told.value)


def batches(path: Path, size: int = 100, **options: Any) -> list[Any]:
    return [batch.items for batch in open_batches(path, **options).read(size)]


def parquet(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    pyarrow, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pyarrow.table(columns), path, **options)
    return path


def equal_rows(path: Path, n_rows: int, n_columns: int = 2, **options: Any) -> Path:
    """Write numbers that are all the same, so that next to nothing is stored."""
    return parquet(path, {f"f{k}": np.zeros(n_rows) for k in range(n_columns)}, **options)


def zigzag(value: int) -> bytes:
    """Return a number as it stands in a footer."""
    value, content = 2 * value, b""
    while value > 127:
        value, content = value >> 7, content + bytes([value & 127 | 128])
    return content + bytes([value])


def packed_lines(path: Path, line: bytes, times: int) -> Path:
    path.write_bytes(
        gzip.compress(b"a,b\n", mtime=0) + gzip.compress(line * 10_000, mtime=0) * (times // 10_000)
    )
    return path


class TestGzip:
    @pytest.mark.parametrize("name", ["a.csv.gz", "a.tsv.gz", "a.json.gz", "a.jsonl.gz"])
    def test_a_bomb_is_refused_before_it_is_parsed(self, tmp_path: Path, small: None, name: str):
        path = packed_lines(tmp_path / name, b"1,2\n", 400_000)
        assert path.stat().st_size < 5000
        refused(read_table, path)

    def test_what_is_well_packed_is_read(self, tmp_path: Path, small: None):
        rows = np.random.default_rng(0).integers(0, 9, size=(40_000, 2))
        path = tmp_path / "a.csv.gz"
        pd.DataFrame(rows, columns=["a", "b"]).to_csv(path, index=False)
        assert path.stat().st_size * 200 > 160_000 > MOST
        assert len(read_table(path)) == 40_000

    def test_long_files_go_through_in_batches(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("cosmo.data._packed._FREE", 400_000)  # pandas reads 256 KB ahead
        path = packed_lines(tmp_path / "a.csv.gz", b"1,2\n", 300_000)
        refused(read_table, path, free=400_000)
        assert [len(rows) for rows in batches(path, 25_000)] == [25_000] * 12
        # What was done by an earlier run is passed over, and counts for nothing.
        assert [batch.start for batch in open_batches(path).read(25_000, 275_000)] == [275_000]
        lines = tmp_path / "b.jsonl.gz"
        lines.write_bytes(gzip.compress(b'{"a": 1}\n' * 60_000))
        assert sum(map(len, batches(lines, 5000))) == 60_000
        assert [batch.start for batch in open_batches(lines).read(5000, 55_000)] == [55_000]

    @pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.gz"])
    def test_a_line_without_end_is_refused_in_batches(self, tmp_path: Path, small: None, name: str):
        path = tmp_path / name
        path.write_bytes(gzip.compress(b'"' + b"x" * 10**6))
        refused(batches, path)
        path.write_bytes(gzip.compress(b'{"a": 1}\n{"a": 2}\n{"a": "' + b"x" * 10**6))
        refused(batches, path)

    def test_counting_begins_anew(self, tmp_path: Path, small: None):
        path = tmp_path / "a.gz"
        path.write_bytes(gzip.compress(bytes(10**6)))
        with path.open("rb") as raw, Unpacked(path, raw) as file:
            for _ in range(20):
                file.read1(50_000)
                file.forget()
            assert file.read1() == b""


class TestArrays:
    def test_bombs(self, tmp_path: Path, small: None):
        path = tmp_path / "features.npz"
        np.savez_compressed(path, X=np.zeros((9000, 9)), y=["a"] * 9000)
        assert path.stat().st_size < 3000
        refused(read_features, path)
        refused(lambda path: read_plain(path.parent), path)
        assert sum(map(len, batches(path))) == 9000
        assert "9,000 rows of X" in refused(lambda path: batches(path, 9999), path)
        np.savez_compressed(tmp_path / "rows_test.npz", rows=np.zeros(99_000))
        refused(lambda path: read_predictions(path.parent, "test"), tmp_path / "rows_test.npz")

    def test_columns_that_are_read_together(self, tmp_path: Path, small: None):
        path = tmp_path / "a.npz"
        np.savez_compressed(path, X=np.asfortranarray(np.zeros((9000, 9))))
        refused(batches, path)

    def test_what_is_claimed_is_not_taken(self, tmp_path: Path):
        header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (9, 99999999999), }".ljust(117) + b"\n"
        path = tmp_path / "a.npy"
        path.write_bytes(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + bytes(72))
        refused(batches, path, free=10**8)


class TestParquet:
    def test_many_equal_rows(self, tmp_path: Path, small: None):
        path = equal_rows(tmp_path / "a.parquet", 50_000)
        assert path.stat().st_size < 3000
        assert "its 50,000 rows" in refused(read_table, path)
        assert sum(map(len, batches(path, 2000))) == 50_000

    def test_pages_that_are_packed_tightly(self, tmp_path: Path, small: None):
        options = {"use_dictionary": False, "compression": "zstd", "data_page_size": 2**16}
        path = equal_rows(tmp_path / "a.parquet", 500_000, 1, **options)
        refused(read_table, path)
        assert sum(map(len, batches(path, 9999))) == 500_000  # page by page

    def test_pages_larger_than_the_footer_says(self, tmp_path: Path, small: None):
        """What the footer says is not believed: it is the header of a page that Arrow takes memory for."""
        path = parquet(tmp_path / "a.parquet", {"text": ["x" * 2_000_000]}, compression="zstd")
        content = path.read_bytes()
        end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
        with RowGroups(path) as groups:
            size = groups.file.metadata.row_group(0).column(0).total_uncompressed_size
        claimed = content[end:].replace(zigzag(size), zigzag(2**20))
        assert len(claimed) == len(content) - end
        path.write_bytes(content[:end] + claimed)
        with RowGroups(path) as groups:
            assert groups.file.metadata.row_group(0).column(0).total_uncompressed_size == 2**20
        assert "a page of column 'text'" in refused(lambda path: batches(path, kind="text"), path)

    def test_texts_that_are_stored_once(self, tmp_path: Path, small: None):
        texts = ["x" * 5000] * 3000
        for encoding in ({}, {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}):
            path = parquet(tmp_path / "a.parquet", {"text": texts}, **encoding)
            assert path.stat().st_size < 4000
            refused(read_table, path)
            refused(lambda path: batches(path, 3000, kind="text"), path)
            assert sum(map(len, batches(path, 20, kind="text"))) == 3000

    def test_many_empty_texts(self, tmp_path: Path, small: None):
        path = parquet(tmp_path / "a.parquet", {"text": [""] * 200_000})
        assert "its 200,000 rows" in refused(read_table, path)

    def test_names_of_classes_are_no_bomb(self, tmp_path: Path, small: None):
        names = np.array([f"class {k} {'x' * 40}" for k in range(50)])[np.arange(1500) % 50]
        path = parquet(tmp_path / "a.parquet", {"a": np.arange(1500.0), "label": names})
        with RowGroups(path) as groups:
            assert groups.rows_at_once(0) < 1500  # so that the texts are measured
        X, y = read_features(path)
        assert (X.shape, y.tolist()) == ((1500, 1), names.tolist())

    def test_only_what_is_read_counts(self, tmp_path: Path, small: None):
        columns = {"a.b": np.zeros(999), "text": ["x" * 9000] * 999}
        path = parquet(tmp_path / "a.parquet", columns)
        assert sum(map(len, batches(path, 500, features=["a.b"]))) == 999
        refused(lambda path: batches(path, 500, features=["a.b"], keep=["text"]), path)

    def test_lists(self, tmp_path: Path, small: None):
        path = parquet(tmp_path / "a.parquet", {"a": [1.0] * 100, "long": [[0.0] * 2000] * 100})
        refused(read_table, path)
        assert sum(map(len, batches(path, features=["a"]))) == 100

    @pytest.mark.parametrize("size", [7, 30, 1000])
    @pytest.mark.parametrize("start", [0, 30, 90, 210])
    def test_pieces_are_put_together_as_before(self, tmp_path: Path, size: int, start: int):
        rows = np.arange(200, dtype=np.float32)
        path = parquet(tmp_path / "a.parquet", {"a": rows, "b": rows}, row_group_size=47)
        start = start // size * size
        found = list(open_batches(path).read(size, start))
        assert [batch.start for batch in found] == list(range(start, 200, size))
        assert all(len(batch) == size for batch in found[:-1])
        assert [row for batch in found for row in batch.items[:, 0]] == rows[start:].tolist()

    def test_rows_that_are_declared_must_be_there(self, tmp_path: Path):
        """A count in the footer that is one too high must not cost the rows of the last batch."""
        path = parquet(tmp_path / "a.parquet", {"a": np.arange(1000.0)}, compression="none")
        content = path.read_bytes()
        end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
        assert zigzag(1000) in content[end:]
        path.write_bytes(content[:end] + content[end:].replace(zigzag(1000), zigzag(1001)))
        with pytest.raises(DataError, match=re.escape(str(path))):
            batches(path)

    def test_no_rows(self, tmp_path: Path):
        check_parquet(equal_rows(tmp_path / "a.parquet", 0))


BOMBS = """
import sys
from pathlib import Path
from cosmo.data import DataError, read_table, read_features
from cosmo.data.batches import open_batches
import pandas, pyarrow.parquet  # what is imported late counts as well
from soak.guard import limit_memory
limit_memory(500_000_000)
for path in sorted(Path(sys.argv[1]).iterdir()):
    try:
        read_features(path)
    except DataError as error:
        assert not isinstance(error.__cause__, MemoryError), error
        print(path.name, "too much" in str(error))
    if path.name == "rows.parquet":
        print(path.name, sum(map(len, open_batches(path).read(100_000))))
"""


def test_bombs_take_no_memory(tmp_path: Path):
    """With the bounds as they are, 500 MB are enough to refuse what would take more, up to 10 GB."""
    pq, pyarrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    (tmp_path / "lines.csv.gz").write_bytes(gzip.compress(b"1,2\n" * 10**6) * 40)
    np.savez_compressed(tmp_path / "zeros.npz", X=np.zeros((900_000, 14)))
    columns = [f"f{k}" for k in range(16)]
    group = pyarrow.table({name: pyarrow.array(np.zeros(10**5)) for name in columns})
    with pq.ParquetWriter(tmp_path / "rows.parquet", group.schema) as writer:
        for _ in range(10):
            writer.write_table(group)
    texts = pyarrow.DictionaryArray.from_arrays(np.zeros(10**4, dtype=np.int32), ["x" * 10**6])
    pq.write_table(pyarrow.table({"text": texts}), tmp_path / "texts.parquet", store_schema=False)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert all(size < 4_000_000 for size in sizes.values()), sizes
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-c", BOMBS, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **threads},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == [
        "lines.csv.gz True",
        "rows.parquet True",
        "rows.parquet 1000000",
        "texts.parquet True",
        "zeros.npz True",
    ]


def test_arrays_in_a_rare_packing(tmp_path: Path):
    """Its memory is what the file asks for, before a byte is unpacked."""
    content = io.BytesIO()
    np.save(content, np.ones((2, 3), dtype=np.float32))
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("X.npy", content.getvalue())
    for read in (read_features, lambda path: batches(path, 1)):
        with pytest.raises(DataError, match=r"a\.npz: 'X\.npy' is packed in a rare way; save it again"):
            read(path)


def test_statistics_that_contradict_the_schema(tmp_path: Path):
    """Arrow ends the process when it is asked about such a column."""
    path = parquet(tmp_path / "a.parquet", {"a": [1.0, None, 3.0], "b": [1.0, 2.0, 3.0]})
    content, optional = path.read_bytes(), b"\x25\x02\x18\x01a"  # how often it is there, and its name
    assert content.count(optional) == 1
    path.write_bytes(content.replace(optional, b"\x25\x00\x18\x01a"))
    for read in (read_table, batches):
        with pytest.raises(DataError, match=r"a\.parquet"):
            read(path)


@pytest.mark.parametrize("cut", [0, 4, 8, 100])
def test_no_end(tmp_path: Path, cut: int):
    path = parquet(tmp_path / "a.parquet", {"a": [1.0, 2.0]})
    path.write_bytes(path.read_bytes()[:cut])
    for read in (read_table, batches):
        with pytest.raises(DataError, match=r"a\.parquet"):
            read(path)
