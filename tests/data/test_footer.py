"""What the end of a Parquet file says about its columns, as Arrow reads it."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from cosmo.data._footer import column_chunks

pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")


@pytest.mark.parametrize("dictionary", [True, False])
def test_as_arrow_reads_it(tmp_path: Path, dictionary: bool):
    rng = np.random.default_rng(0)
    columns = {f"x{k}": rng.normal(size=500) for k in range(20)}
    columns |= {"text": [f"{k % 7}" for k in range(500)], "list": [[k] * (k % 3) for k in range(500)]}
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table(columns), path, use_dictionary=dictionary, row_group_size=170)
    about = parquet.read_metadata(path)
    with path.open("rb") as file:
        groups = column_chunks(file)
    assert [len(group) for group in groups] == [22] * 3
    for group, chunks in enumerate(groups):
        for column, chunk in enumerate(chunks):
            theirs = about.row_group(group).column(column)
            assert chunk == (
                theirs.num_values,
                theirs.total_uncompressed_size,
                theirs.total_compressed_size,
                theirs.dictionary_page_offset or theirs.data_page_offset,
            )


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"\xff\xff\0\0PAR1", b"\0\x01\0\0\0PAR1", b"\x49\x1c\0\x03\0\0\0PAR1"]
)
def test_no_end(content: bytes):
    with pytest.raises(ValueError, match="the end of the file is"):
        column_chunks(io.BytesIO(content))
