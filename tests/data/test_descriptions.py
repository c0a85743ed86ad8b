"""Class descriptions from files."""

import json

import numpy as np
import pandas as pd
import pytest

from cosmo.data import DataError, match_labels, read_descriptions


def write(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("d.csv", "class,legs,tail\ncat,4,1\nant,6,0\n"),
        ("d.csv", "legs,label,tail\n4,cat,1\n6,ant,0\n"),
        ("d.csv", "animal,legs,tail\ncat,4,1\nant,6,0\n"),
        ("d.tsv", "class\tlegs\ttail\ncat\t4\t1\nant\t6\t0\n"),
        ("d.json", {"cat": {"legs": 4, "tail": 1}, "ant": {"tail": 0, "legs": 6}}),
        ("d.json", [{"class": "cat", "legs": 4, "tail": 1}, {"class": "ant", "legs": 6, "tail": 0}]),
    ],
)
def test_numbers(tmp_path, name, content):
    table = read_descriptions(write(tmp_path, name, content))
    assert list(table.index) == ["cat", "ant"]
    assert list(table.columns) == ["legs", "tail"]
    np.testing.assert_array_equal(table, [[4, 1], [6, 0]])
    assert (table.dtypes == np.float32).all()


@pytest.mark.parametrize("kind", ["index", "column"])
def test_parquet(tmp_path, kind):
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"legs": [4, 6]}, index=pd.Index(["cat", "ant"], name="class"))
    (table if kind == "index" else table.reset_index()).to_parquet(tmp_path / "d.parquet")
    assert read_descriptions(tmp_path / "d.parquet").loc["ant", "legs"] == 6


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("d.csv", "class,description\ncat,a small hunter\nant,it works\n"),
        ("d.json", {"cat": "a small hunter", "ant": "it works"}),
    ],
)
def test_texts(tmp_path, name, content):
    texts = read_descriptions(write(tmp_path, name, content))
    assert isinstance(texts, pd.Series)
    assert texts.to_dict() == {"cat": "a small hunter", "ant": "it works"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("d.csv", "class,text\ncat,a small hunter\nant,it works\ncat,it purrs\ncat,it purrs\n"),
        ("d.csv", "class,first,second\ncat,a small hunter,it purrs\nant,it works,\n"),
        ("d.json", {"cat": ["a small hunter", " it purrs"], "ant": "it works"}),
    ],
)
def test_several_texts_are_lines(tmp_path, name, content):
    texts = read_descriptions(write(tmp_path, name, content))
    assert texts.to_dict() == {"cat": "a small hunter\nit purrs", "ant": "it works"}


def test_groups(tmp_path):
    content = "class,colour::red,colour::a::b,size::big\ncat,1,0,0\nant,0,1,0\n"
    table = read_descriptions(write(tmp_path, "d.csv", content))
    assert table.columns.names == ["group", "attribute"]
    assert list(table.columns) == [("colour", "red"), ("colour", "a::b"), ("size", "big")]
    with pytest.raises(DataError, match="column 'big' has no group"):
        read_descriptions(write(tmp_path, "d.csv", "class,colour::red,big\ncat,1,0\nant,0,1\n"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.csv", "", "the file is empty"),
        ("d.csv", "class\ncat\n", "the only column is 'class'"),
        ("d.csv", "class,legs\ncat,4\ncat,3\n", "described more than once: 'cat'"),
        ("d.csv", "class,legs\ncat,4\nant,\n", "'ant', column 'legs' is empty"),
        ("d.csv", "class,legs\ncat,4\nant,many\n", "'ant', column 'legs' is 'many'"),
        ("d.csv", "class,legs\n,4\nant,6\n", "row 1 has no label"),
        ("d.csv", "class,text\ncat,\nant,x\n", "class 'cat' has no text"),
        ("d.csv", "class,text,legs\ncat,x,4\nant,y,6\n", "column 'text' has no numbers"),
        ("d.json", "{}", "no class is described"),
        ("d.json", '{"cat": "a", "cat": "b"}', "'cat' occurs more than once"),
        ("d.json", '{"cat": "a", "ant": [1]}', "classes need all a text"),
        ("d.json", '{"cat": 1}', "classes need all a text"),
        ("d.json", '{"cat": " "}', "class 'cat' has no text"),
        ("d.json", '{"cat": [1, 2], "ant": [1]}', "'ant' has 1 numbers, others 2"),
        ("d.json", '{"cat": {"a": 1}, "ant": {"b": 1}}', "'ant', column 'a' is empty"),
        ("d.json", '{"cat": [NaN]}', "'cat', column 0 is empty"),
        ("d.json", '{"cat": ["x", 1]}', "'cat', column 0 is 'x'"),
        ("d.json", '{"cat": "a', "damaged, cut short"),
    ],
)
def test_unusable(tmp_path, name, content, message):
    with pytest.raises(DataError, match=f"{name}: .*{message}"):
        read_descriptions(write(tmp_path, name, content))


def test_no_file(tmp_path):
    for name in ("d.csv", "d.json"):
        with pytest.raises(DataError, match=f"{name}: no such file"):
            read_descriptions(tmp_path / name)


def test_numbers_as_labels_match_either_way():
    assert list(match_labels([1, 2], pd.Index(["1", "2", "3"]))) == ["1", "2"]
    assert list(match_labels(["1", "2"], pd.Index([1, 2, 3]))) == [1, 2]
    assert list(match_labels(["a", "b"], pd.Index(["a", "b"]))) == ["a", "b"]


def test_labels_without_descriptions_are_named():
    with pytest.raises(DataError, match=r"1 classes of samples .*: 4; described are '1', '2', '3'"):
        match_labels([1, 4], pd.Index(["1", "2", "3"]))
    with pytest.raises(DataError, match="'fox'; described are 'cat', 'dog'"):
        match_labels(["cat", "fox"], pd.Index(["cat", "dog"]))
