"""The sizes that pages declare, of files by Arrow, and of what is no page."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmo.data._pages import page_sizes

pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_pages_add_up_to_what_the_footer_says(
    tmp_path: Path, compression: str, version: str, dictionary: bool
):
    options: dict[str, Any] = {"compression": compression, "data_page_version": version}
    texts = [f"{k % 7} {'x' * (k % 90)}" for k in range(3000)]
    table = pyarrow.table({"a": np.arange(3000.0), "b": texts, "c": [[k] * (k % 3) for k in range(3000)]})
    path = tmp_path / "a.parquet"
    parquet.write_table(
        table, path, use_dictionary=dictionary, data_page_size=2000, row_group_size=1700, **options
    )
    about = parquet.read_metadata(path)
    with path.open("rb") as file:
        for group in range(about.num_row_groups):
            for column in range(about.num_columns):
                chunk = about.row_group(group).column(column)
                start = chunk.dictionary_page_offset or chunk.data_page_offset
                sizes = list(page_sizes(file, start, start + chunk.total_compressed_size))
                assert len(sizes) > 1
                headers = chunk.total_uncompressed_size - sum(sizes)  # which the footer counts as well
                assert 10 * len(sizes) < headers < 500 * len(sizes)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x15",
        b"\x15\0\x15\x14\0",  # without the second size
        b"\x15\0\x15\x13\x15\x08\0",  # negative
        b"\x1c" * 50,
        b"\x15" + b"\xff" * 20,
        b"\x19\x15\0",  # a list
        b"\x18\xff\xff\xff\xff\x0f",
    ],
)
def test_what_is_no_page(content: bytes):
    with pytest.raises(ValueError, match="a page"):
        list(page_sizes(io.BytesIO(content), 0, 100))
