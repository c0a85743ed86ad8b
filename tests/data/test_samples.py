"""Samples of any kind, whole and in batches."""

import gzip
import json
import os

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from cosmo.data import DataError
from cosmo.data.samples import SampleSet, file_fingerprint, open_batches, read_samples

TABLE = pd.DataFrame({"id": [f"{k:02}" for k in range(23)], "a": range(23), "b": np.arange(23) / 2})


def write(path, table=TABLE):
    name = path.name
    if name.endswith((".csv", ".csv.gz")):
        table.to_csv(path, index=False)
    elif name.endswith(".tsv"):
        table.to_csv(path, index=False, sep="\t")
    elif name.endswith(".parquet"):
        table.to_parquet(path, row_group_size=7)
    else:
        lines = "".join(f"{json.dumps(row)}\n" for row in table.to_dict("records")).encode()
        path.write_bytes(gzip.compress(lines) if name.endswith(".gz") else lines)
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv", "t.parquet", "t.jsonl", "t.jsonl.gz"])
@pytest.mark.parametrize("start", [0, 5, 20, 25])
def test_tables_from_any_batch_on(tmp_path, name, start):
    write(tmp_path / name)
    batches = list(open_batches(tmp_path / name, features=["b", "a"], keep=["id"]).read(5, start))
    assert [batch.start for batch in batches] == list(range(start, 23, 5))
    rows = np.concatenate([batch.items for batch in batches]) if batches else np.empty((0, 2))
    np.testing.assert_array_equal(rows, TABLE[["b", "a"]].to_numpy()[start:])
    assert rows.shape[0] == 0 or batches[0].items.dtype == np.float32
    assert [one for batch in batches for one in batch.kept["id"]] == TABLE["id"].tolist()[start:]
    assert not batches or batches[-1].share == 1.0


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("start", [0, 10, 30])
def test_arrays_from_any_batch_on(tmp_path, order, start):
    rows = np.asarray(np.random.default_rng(0).normal(size=(23, 4)), order=order)
    np.save(tmp_path / "a.npy", rows)
    np.savez(tmp_path / "b.npz", X=rows, y=np.arange(23))
    np.savez_compressed(tmp_path / "c.npz", X=rows)
    for name in ("a.npy", "b.npz", "c.npz"):
        batches = open_batches(tmp_path / name)
        found = [batch.items for batch in batches.read(5, start)]
        assert len(found) == len(range(start, 23, 5))
        if found:
            np.testing.assert_array_equal(np.concatenate(found), rows[start:].astype(np.float32))


def test_pictures(tmp_path):
    for name in ("a/1.png", "a/2.png", "b/1.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("L", (4, 4)).save(tmp_path / name)
    batches = list(open_batches(tmp_path, "images").read(2))
    assert [batch.kept for batch in batches] == [{"path": ["a/1.png", "a/2.png"]}, {"path": ["b/1.png"]}]
    (one,) = open_batches(tmp_path / "b" / "1.png", "images").read(2)
    assert (one.items, one.kept) == ([tmp_path / "b" / "1.png"], {"path": ["1.png"]})
    (tmp_path / "list.csv").write_text("file,n\na/1.png,1\n")
    (one,) = open_batches(tmp_path / "list.csv", "images", keep=["n"]).read(2)
    assert (one.items, one.kept) == ([tmp_path / "a" / "1.png"], {"n": ["1"]})


def test_features_without_names(tmp_path):
    write(tmp_path / "t.csv", TABLE.assign(label="x", note="y"))
    batches = open_batches(tmp_path / "t.csv", n_features=2, keep=["id"])
    assert next(batches.read(5)).items.shape == (5, 2)
    with pytest.raises(DataError, match=r"t.csv: 3 columns of numbers, but rows of 2 features"):
        open_batches(tmp_path / "t.csv", n_features=2)


def test_semicolons_quotes_and_line_breaks(tmp_path):
    (tmp_path / "t.csv").write_text('\ufefftext;n\n"a;b\nc";1\n\nplain;2\n', encoding="utf-8")
    (batch,) = open_batches(tmp_path / "t.csv", "text", keep=["n"]).read(5)
    assert (batch.items, batch.kept) == (["a;b\nc", "plain"], {"n": ["1", "2"]})


def test_fingerprint_follows_the_content(tmp_path):
    path = write(tmp_path / "t.csv")
    first, state = file_fingerprint([path]), path.stat()
    assert file_fingerprint([path]) == first
    path.write_text(path.read_text().replace("22,11.0", "22,11.5"))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert file_fingerprint([path]) != first


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("t.csv", b"a,b\n1,2\n3\n", {"features": ["a", "b"]}, "row 2, column 'b' is empty"),
        ("t.csv", b"a,b\n1,2\n3,inf\n", {"features": ["a", "b"]}, "row 2, column 'b' is .*inf"),
        ("t.csv", b"a,b\n1,2\n3,4,5\n", {"features": ["a", "b"]}, "t.csv: damaged, cut short"),
        (
            "t.csv",
            b"a,b\n1,2\n",
            {"features": ["a", "c", "d"]},
            "no column 'c' for features; there are 'a', 'b'",
        ),
        ("t.csv", b"a\n\xff\n", {"kind": "text", "column": "a"}, "UTF-8"),
        ("t.csv", b"a,b\n1,2\n", {"kind": "text"}, "no column is called text; name the column of the text"),
        ("t.csv", b"path,b\n,2\n", {"kind": "images"}, "row 1 is nan, not a path"),
        ("t.jsonl", b'{"a": 1}\n{"b": 1}\n', {"features": ["a"]}, "row 2, column 'a' is empty"),
        ("t.jsonl.gz", b"nonsense", {}, "t.jsonl.gz"),
        ("t.parquet", b"PAR1....", {}, "t.parquet: damaged"),
        ("t.npy", b"nonsense", {}, "t.npy: damaged"),
        ("t.npz", b"nonsense", {}, "t.npz: damaged"),
        ("t.npy", b"nonsense", {"keep": ["id"]}, "an array has no columns to keep"),
        ("t.txt", b"x", {}, "t.txt: a table is one of .csv"),
        ("t.npy", b"x", {"kind": "text"}, "t.npy: a table is one of"),
    ],
)
def test_what_is_wrong(tmp_path, name, content, options, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(open_batches(tmp_path / name, **options).read(5))


def test_damage_in_the_middle(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((9, 4)))
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-10])
    with pytest.raises(DataError, match=r"a.npy: damaged, cut short"):
        list(open_batches(tmp_path / "a.npy").read(5))
    rows = np.ones((9, 4))
    rows[7, 2] = np.nan
    np.save(tmp_path / "a.npy", rows)
    with pytest.raises(DataError, match=r"a.npy, from row 6 on: .* row 2, column 2"):
        list(open_batches(tmp_path / "a.npy").read(5))


def test_nothing_there(tmp_path):
    with pytest.raises(DataError, match="no such file or folder"):
        open_batches(tmp_path / "no.csv")
    with pytest.raises(DataError, match="a folder has images"):
        open_batches(tmp_path)
    np.savez(tmp_path / "a.npz", Z=np.ones(3))
    with pytest.raises(DataError, match="no array X; there are Z"):
        open_batches(tmp_path / "a.npz")


@pytest.mark.parametrize("items", [pd.DataFrame({"x": [1, 2, 3]}), np.arange(3), list("abc")], ids=type)
def test_take(items):
    few = SampleSet(items, pd.Index(["p", "q", "r"])).take(np.array([2, 0]))
    assert len(few) == 2
    assert list(few.require_labels("here")) == ["r", "p"]
    assert np.asarray(few.items).ravel().tolist() == np.asarray(items).ravel()[[2, 0]].tolist()
    assert SampleSet(items, None).take([1]).labels is None


def test_labels_that_are_not_there():
    with pytest.raises(DataError, match=r"^here: there are no labels; name their column"):
        SampleSet(["a"], None).require_labels("here")


def test_pictures_in_folders_and_in_a_table(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "p" / name).mkdir(parents=True)
        Image.new("L", (8, 8)).save(tmp_path / "p" / name / "1.png")
    (tmp_path / "t.csv").write_text("picture,kind\np/cat/1.png,cat\np/dog/1.png,dog\n")
    one = read_samples(tmp_path / "p", "images")
    other = read_samples(tmp_path / "t.csv", "images", image="picture", label="kind")
    assert one.items == other.items
    assert list(one.require_labels("p")) == list(other.require_labels("t")) == ["cat", "dog"]
