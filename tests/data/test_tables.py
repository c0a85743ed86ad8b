"""Tables of samples: what is read, and what is said about those that cannot be."""

import gzip
import json
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest

from cosmo._core import MissingExtra
from cosmo.data import DataError, read_features, read_table, read_texts

TABLE = pd.DataFrame({"a": [1.5, 2.5, -3.0], "b": [1, 2, 3], "label": ["cat", "dog", "cat"]})


def write(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.fixture(params=["csv", "tsv", "semicolons", "bom", "gz", "parquet", "json", "jsonl"])
def path(request, tmp_path):
    kind = request.param
    if kind == "parquet":
        pytest.importorskip("pyarrow")
        TABLE.to_parquet(tmp_path / "t.parquet")
        return tmp_path / "t.parquet"
    contents = {
        "csv": ("t.csv", TABLE.to_csv(index=False)),
        "tsv": ("t.tsv", TABLE.to_csv(index=False, sep="\t")),
        "semicolons": ("t.csv", TABLE.to_csv(index=False, sep=";")),
        "bom": ("t.csv", "\ufeff" + TABLE.to_csv(index=False)),
        "gz": ("t.csv.gz", gzip.compress(TABLE.to_csv(index=False).encode())),
        "json": ("t.json", TABLE.to_json(orient="records")),
        "jsonl": ("t.jsonl", TABLE.to_json(orient="records", lines=True)),
    }
    return write(tmp_path, *contents[kind])


def test_all_kinds_give_the_same(path):
    pd.testing.assert_frame_equal(read_table(path), TABLE, check_dtype=False)
    X, y = read_features(path)
    assert list(X.columns) == ["a", "b"]
    assert (X.dtypes == np.float32).all()
    np.testing.assert_array_equal(X, TABLE[["a", "b"]])
    assert list(y) == ["cat", "dog", "cat"]


def test_names_that_look_like_missing_values_are_names(tmp_path):
    path = write(tmp_path, "t.csv", "text,label\nNA,None\nnull,nan\n")
    texts, y = read_texts(path)
    assert texts == ["NA", "null"]
    assert list(y) == ["None", "nan"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "", "the file is empty"),
        ("t.csv", "a,label\n", "the table has no rows"),
        ("t.csv", "\n\n", "the table has no rows"),
        ("t.csv", "a,a,label\n1,2,x\n", "two columns are called 'a'"),
        ("t.csv", "a,label\n1,2,x\n3,4,y\n", "more cells than the header"),
        ("t.csv", "a,label\n1,x\n1,2,3,4\n", "damaged.*line 3"),
        ("t.csv", 'a,label\n1,x\n2,"y', "damaged"),
        ("t.csv", "a,label\n1,é\n".encode("latin-1"), "not UTF-8"),
        ("t.csv", "a,label\n1,é\n".encode("utf-16"), "not UTF-8"),
        ("t.json", '[{"a": 1}, {"a":', "damaged"),
        ("t.json", '{"a": 1}', "a list of objects"),
        ("t.json", "[1, 2]", "a list of objects"),
        ("t.jsonl", '{"a": 1}\n{"a":\n', "line 2 is not JSON"),
        ("t.jsonl", "[1]\n", "line 1 is not an object"),
        ("t.csv.gz", gzip.compress(b"a,label\n1,x\n" * 99, mtime=0)[:-20], "damaged"),
        ("t.parquet", b"PAR1 and then nothing", "damaged"),
        ("t.xlsx", "anything", "a table is one of .csv, .tsv"),
    ],
)
def test_unusable_tables(tmp_path, name, content, message):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    with pytest.raises(DataError, match=f"{name}: .*{message}"):
        read_table(write(tmp_path, name, content))


@pytest.mark.parametrize("read", [read_table, read_features, read_texts])
def test_parquet_with_texts_that_are_none(tmp_path, read):
    """Arrow does not look at letters until they are asked for."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    words = pyarrow.array([b"cat", b"d\xffg", b"cat"]).cast(pyarrow.string(), safe=False)
    table = pyarrow.table({"a": [1.5, 2.5, -3.0], "text": words, "label": ["cat", "dog", "cat"]})
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t\.parquet: (damaged|not UTF-8)"):
        read(tmp_path / "t.parquet")


def test_no_file(tmp_path):
    with pytest.raises(DataError, match="absent.csv: no such file"):
        read_table(tmp_path / "absent.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="a folder, not a table"):
        read_table(tmp_path / "folder.csv")
    for name in ("absent.npy", "absent.npz"):
        with pytest.raises(DataError, match=f"{name}: no such file"):
            read_features(tmp_path / name)


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'pyarrow"):
        read_table(write(tmp_path, "t.parquet", "PAR1"))


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("many", "'many', not a finite number"),
        ("", "empty"),
        ("inf", "not a finite number"),
        ("1e99", "not a finite number"),
    ],
)
def test_cells_that_are_no_numbers_are_located(tmp_path, cell, said):
    path = write(tmp_path, "t.csv", f"a,b,label\n1,2,x\n3,{cell},y\n")
    with pytest.raises(DataError, match=f"t.csv: row 2, column 'b' is .*{said}"):
        read_features(path)


def test_columns_are_chosen():
    table = TABLE.assign(note=["x", "y", "z"], c=[7, 8, 9])
    assert list(read_features(table)[0].columns) == ["a", "b", "c"]
    assert list(read_features(table, features="b")[0].columns) == ["b"]
    assert list(read_features(table, features=["c", "a"])[0].columns) == ["c", "a"]
    assert list(read_features(table, label="note", features=["a"])[1]) == ["x", "y", "z"]
    assert read_features(table.drop(columns="label"))[1] is None
    for options, message in (
        ({"label": "species"}, "no column 'species' for labels; there are 'a', 'b', 'label'"),
        ({"features": ["z"]}, "no column 'z' for features"),
        ({"features": "z_"}, "none begins with 'z_'"),
        ({"features": ["note"]}, "row 1, column 'note' is 'x', not a finite number"),
    ):
        with pytest.raises(DataError, match=message):
            read_features(table, **options)
    with pytest.raises(DataError, match="none has numbers among 'label'"):
        read_features(TABLE[["label"]])


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([1, 2, 1], [1, 2, 1]),
        ([1.0, 2.0, 1.0], [1, 2, 1]),
        (["1", "b", "1"], ["1", "b", "1"]),
        ([True, False, True], ["True", "False", "True"]),
    ],
)
def test_types_of_labels(values, labels):
    y = read_features(TABLE.assign(label=values))[1]
    assert list(y) == labels


def test_unusable_labels():
    for values, message in (
        (["x", None, "y"], "row 2 has no label"),
        (["x", " ", "y"], "row 2 has no label"),
        ([1.0, 2.0, 2.5], "row 3 is 2.5; labels are names or integers"),
    ):
        with pytest.raises(DataError, match=message):
            read_features(TABLE.assign(label=values))


def test_npz(tmp_path):
    X = np.arange(6.0).reshape(3, 2)
    np.savez(tmp_path / "d.npz", X=X, y=np.array(["a", "b", "a"]))
    found, y = read_features(tmp_path / "d.npz")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, X)
    assert list(y) == ["a", "b", "a"]
    np.savez(tmp_path / "d.npz", X=X)
    assert read_features(tmp_path / "d.npz")[1] is None


def test_unusable_arrays(tmp_path):
    X = np.arange(6.0).reshape(3, 2)
    np.savez(tmp_path / "names.npz", data=X)
    np.savez(tmp_path / "objects.npz", X=np.array([[1, "a"]], dtype=object))
    np.savez(tmp_path / "short.npz", X=X, y=np.array(["a"]))
    np.savez(tmp_path / "nan.npz", X=np.where(X == 3, np.nan, X))
    np.savez(tmp_path / "flat.npz", X=X[0])
    np.save(tmp_path / "empty.npy", X[:0])
    np.savez(tmp_path / "cut.npz", X=X)
    content = (tmp_path / "cut.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(content[: len(content) // 2])
    for name, message in (
        ("names.npz", "no array X; there are data"),
        ("objects.npz", "Object arrays cannot be loaded"),
        ("short.npz", "3 rows of features need as many labels"),
        ("nan.npz", "row 1, column 1"),
        ("flat.npz", "2 dimensions"),
        ("empty.npy", "no rows"),
        ("cut.npz", "cut short"),
    ):
        with pytest.raises(DataError, match=f"{name}: .*{message}"):
            read_features(tmp_path / name)


def test_npy_with_labels(tmp_path):
    X = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.save(tmp_path / "X.npy", X)
    assert read_features(tmp_path / "X.npy")[1] is None
    for name, content, labels in (
        ("words.txt", "cat\ndog\ncat\n", ["cat", "dog", "cat"]),
        ("numbers.txt", "1\n2\n1\n", [1, 2, 1]),
    ):
        found, y = read_features(tmp_path / "X.npy", labels=write(tmp_path, name, content))
        np.testing.assert_array_equal(found, X)
        assert list(y) == labels
    np.save(tmp_path / "y.npy", [4, 5, 6])
    assert list(read_features(tmp_path / "X.npy", labels=tmp_path / "y.npy")[1]) == [4, 5, 6]
    with pytest.raises(DataError, match="short.txt: 3 rows of features need as many labels"):
        read_features(tmp_path / "X.npy", labels=write(tmp_path, "short.txt", "cat\n"))
    with pytest.raises(DataError, match="labels in a file of their own go with .npy"):
        read_features(write(tmp_path, "t.csv", "a\n1\n"), labels=tmp_path / "y.npy")


def test_texts(tmp_path):
    records = [{"utterance": "hello", "intents": "greet"}, {"utterance": "bye", "intents": "leave"}]
    path = write(tmp_path, "t.jsonl", "\n".join(map(json.dumps, records)))
    assert read_texts(path, text="utterance")[1] is None
    texts, y = read_texts(path, text="utterance", label="intents")
    assert texts == ["hello", "bye"]
    assert list(y) == ["greet", "leave"]
    with pytest.raises(DataError, match="no column is called text; .* 'utterance', 'intents'"):
        read_texts(path)
    with pytest.raises(DataError, match="row 2, column 'text' is nan, not a text"):
        read_texts(pd.DataFrame({"text": ["a", np.nan]}))


def test_compressed_files_that_unpack_to_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr("cosmo.data._tablefile._FREE_BYTES", 10_000)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,label\n1,x\n" + b"0" * 10**6))
    with pytest.raises(DataError, match=r"t.csv.gz: unpacks to more than [\d,]+ bytes"):
        read_table(tmp_path / "t.csv.gz")
    np.savez_compressed(tmp_path / "t.npz", X=np.zeros((1000, 1000)))
    with pytest.raises(DataError, match=r"t.npz: unpacks to more than [\d,]+ bytes"):
        read_features(tmp_path / "t.npz")
    with zipfile.ZipFile(tmp_path / "l.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("X.npy", b"\x93NUMPY")
    with pytest.raises(DataError, match=r"'X.npy' is compressed by another method"):
        read_features(tmp_path / "l.npz")
