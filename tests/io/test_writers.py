import csv
import io
import json

import pandas as pd
import pytest

from cosmo.data import DataError
from cosmo.io.writers import CsvWriter, make_writer

FRAME = pd.DataFrame({"label": ["=1", "b"], "probability": [1 / 3, 1e-9]})


@pytest.mark.parametrize("cell", ["=1+2", "+x", "-x", "@now", "\tx", "\rx", '=HYPERLINK("a","b")'])
def test_formulas_are_disarmed(cell):
    (row,) = csv.reader(io.StringIO(CsvWriter().encode({"id": [cell]}, FRAME[:1]).decode(), newline=""))
    assert row == [f"'{cell}", "'=1", "0.333333"]
    (row,) = csv.reader(
        io.StringIO(CsvWriter(raw=True).encode({"id": [cell]}, FRAME[:1]).decode(), newline="")
    )
    assert row == [cell, "=1", "0.333333"]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("-5", "-5"),
        ("+1e3", "+1e3"),
        (None, ""),
        (-5, "-5"),
        ("a\nb", "a\nb"),
        ('say "x", y', 'say "x", y'),
        ([1], "[1]"),
    ],
)
def test_other_cells_come_through(value, cell):
    (row,) = csv.reader(io.StringIO(CsvWriter().encode({"id": [value]}, FRAME[1:]).decode(), newline=""))
    assert row == [cell, "b", "1e-09"]


def test_lines_have_any_value_and_any_name():
    values = [None, {"a": ["é", 1.5]}]
    lines = make_writer(".jsonl").encode({'100 % "x"': values}, FRAME).decode().splitlines()
    found = [json.loads(line) for line in lines]
    assert [line['100 % "x"'] for line in found] == values
    assert [line["label"] for line in found] == ["=1", "b"]
    assert found[1]["probability"] == 1e-9


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([[1, 2], [None, 3.5]], [1.0, 2.0, None, 3.5]),
        ([[None, None], [1, 2]], [None, None, 1, 2]),
        ([[1, 2], ["x", None]], ["1", "2", "x", None]),
        ([[1, "x"], [2, 3]], ["1", "x", "2", "3"]),
        ([[["a"], []], [["b"], None]], [["a"], [], ["b"], None]),
    ],
)
def test_parquet_finds_a_type_for_all_parts(tmp_path, parts, expected):
    import pyarrow.parquet

    writer = make_writer(".parquet")
    paths = []
    for k, values in enumerate(parts):
        paths.append(tmp_path / str(k))
        batch = writer.encode({"id": values}, FRAME)
        paths[-1].write_bytes(writer.file_content([batch], ["id", "label", "probability"]))
    writer.join(paths, ["id", "label", "probability"], tmp_path / "x.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "x.parquet")
    assert table["id"].to_pylist() == expected
    assert table["label"].to_pylist() == ["=1", "b"] * 2


def test_unknown_kind():
    with pytest.raises(DataError, match=r"predictions go to a .csv, .jsonl or .parquet"):
        make_writer(".xls")
