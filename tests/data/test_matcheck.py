import io
import struct
import subprocess
import sys
import zlib

import numpy as np
import pandas as pd
import pytest
from scipy.io import loadmat, savemat
from scipy.sparse import csc_matrix

from cosmo.data import GZSLDataset, Split
from cosmo.data._matfile import check_v5
from cosmo.data.xlsa17 import write_xlsa17

MATRIX, COMPRESSED = 14, 15
INT8, INT32, UINT32, DOUBLE, UTF8 = 1, 5, 6, 9, 16
CELL, STRUCT, TEXT, SPARSE, NUMBERS, FUNCTION, OPAQUE = 1, 2, 4, 5, 6, 16, 17


def element(kind, content, order="<"):
    return struct.pack(f"{order}II", kind, len(content)) + content + bytes(-len(content) % 8)


def integers(*values, order="<"):
    return struct.pack(f"{order}{len(values)}I", *values)


def matrix(category, dimensions, *parts, flags=0, name=b"x"):
    return element(
        MATRIX,
        element(UINT32, integers(category | flags, 0))
        + element(INT32, integers(*dimensions))
        + element(INT8, name)
        + b"".join(parts),
    )


def file(*variables):
    return b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + b"".join(variables)


def saved(fields, **options):
    stream = io.BytesIO()
    savemat(stream, fields, **options)
    return stream.getvalue()


NUMBER = element(DOUBLE, struct.pack("<d", 1.5))
DOUBLE_X = element(INT32, integers(1, 1)) + element(INT8, b"x") + NUMBER
NAME_LENGTH = element(INT32, integers(4))
CELLS = np.empty((2, 1), dtype=object)
CELLS[:, 0] = ["cat", np.eye(2)]
VALUES = [
    np.eye(2, 3),
    np.zeros((0, 4)),
    np.ones((2, 2, 2), dtype=np.uint8),
    np.array([[1j, 2]]),
    "Möwe 鳥",
    "",
    np.array(["cat", "fox"]),
    CELLS,
    np.empty((0, 0), dtype=object),
    {"a": 1.0, "b": "text", "c": CELLS},
    csc_matrix(np.eye(50)),
    csc_matrix(np.eye(3) * 1j),
]


class TestWholeFiles:
    @pytest.mark.parametrize("compressed", [False, True])
    @pytest.mark.parametrize("value", VALUES, ids=repr)
    def test_of_every_kind_pass(self, value, compressed):
        check_v5(saved({"x": value, "y": 1.0}, do_compression=compressed), ["x", "y"])

    def test_passes_what_savemat_does_not_write(self):
        field = matrix(NUMBERS, (1, 1), NUMBER)
        inner = matrix(STRUCT, (1, 1), NAME_LENGTH, element(INT8, b"abc\0"), field)
        check_v5(file(matrix(FUNCTION, (1, 1), inner)), ["x"])
        texts = b"".join(element(INT8, text) for text in (b"x", b"MCOS", b"string"))
        opaque = element(MATRIX, element(UINT32, integers(OPAQUE, 0)) + texts + field)
        check_v5(file(opaque), ["x"])

    def test_of_the_other_byte_order(self):
        parts = [
            element(UINT32, integers(NUMBERS, 0, order=">"), ">"),
            element(INT32, integers(1, 1, order=">"), ">"),
            struct.pack(">HH4s", 1, INT8, b"x"),
            element(DOUBLE, struct.pack(">d", 1.5), ">"),
        ]
        content = b"MATLAB 5.0".ljust(124) + b"\x01\x00MI" + element(MATRIX, b"".join(parts), ">")
        check_v5(content, ["x"])
        assert loadmat(io.BytesIO(content))["x"] == 1.5

    def test_pass_without_variables(self):
        check_v5(file(), ["x"])


DAMAGES = {
    "type unknown": matrix(NUMBERS, (1, 1), element(8, bytes(8))),
    "type beyond the table": matrix(NUMBERS, (1, 1), element(200, bytes(8))),
    "matrix for numbers": matrix(NUMBERS, (1, 1), matrix(NUMBERS, (1, 1), NUMBER)),
    "numbers for a cell": matrix(CELL, (1, 1), NUMBER),
    "imaginary part absent": matrix(NUMBERS, (1, 1), NUMBER, flags=1 << 11),
    "real part absent": matrix(NUMBERS, (1, 1)),
    "columns of a sparse matrix absent": matrix(SPARSE, (1, 1), element(INT32, integers(0)), NUMBER),
    "class unknown": matrix(99, (1, 1), NUMBER),
    "no dimensions": matrix(TEXT, (), element(UTF8, b"a")),
    "one dimension": matrix(TEXT, (1,), element(UTF8, b"a")),
    "text longer than the file": matrix(TEXT, (1, 2**31 - 1), element(UTF8, b"")),
    "negative dimension": matrix(TEXT, (1, 2**32 - 1), element(UTF8, b"a")),
    "struct longer than the file": matrix(STRUCT, (2**20, 2**20), NAME_LENGTH, element(INT8, b"")),
    "too many cells": matrix(CELL, (2**30, 1), element(MATRIX, b"")),
    "too few cells": matrix(CELL, (1, 1), element(MATRIX, b""), element(MATRIX, b"")),
    "short element too long": matrix(NUMBERS, (1, 1), struct.pack("<HH4s", DOUBLE, 5, b"")),
    "element beyond its matrix": matrix(NUMBERS, (1, 1), struct.pack("<II", DOUBLE, 64) + bytes(8)),
    "rest of an element": matrix(NUMBERS, (1, 1), NUMBER, bytes(4)),
    "flags in the short form": element(MATRIX, struct.pack("<HH4s8x", UINT32, 4, b"\6") + DOUBLE_X),
    "flags alone": element(MATRIX, element(UINT32, integers(NUMBERS, 0))),
    "empty variable": element(MATRIX, b""),
}  # fmt: skip


class TestDamagedFiles:
    @pytest.mark.parametrize("damage", DAMAGES)
    def test_are_found(self, damage):
        with pytest.raises((ValueError, struct.error)):
            check_v5(file(DAMAGES[damage]), ["x"])

    @pytest.mark.parametrize("damage", [damage for damage in DAMAGES if damage != "empty variable"])
    def test_are_found_within_a_cell(self, damage):
        with pytest.raises((ValueError, struct.error)):
            check_v5(file(matrix(CELL, (1, 1), DAMAGES[damage])), ["x"])

    @pytest.mark.parametrize("damage", DAMAGES)
    def test_are_found_when_compressed(self, damage):
        packed = zlib.compress(DAMAGES[damage])
        content = file(struct.pack("<II", COMPRESSED, len(packed)) + packed)
        with pytest.raises((ValueError, struct.error)):
            check_v5(content, ["x"])

    def test_wherever_they_are_cut(self):
        content = saved({"x": CELLS})
        for length in range(129, len(content)):
            with pytest.raises((ValueError, struct.error)):
                check_v5(content[:length], ["x"])

    def test_of_other_types_at_the_top(self):
        with pytest.raises(ValueError, match="an element of type 9 stands in the place of a matrix"):
            check_v5(file(element(DOUBLE, matrix(NUMBERS, (1, 1), NUMBER)[8:])), ["x"])

    def test_nested_too_deeply_for_scipy(self):
        cell = element(MATRIX, b"")
        for _ in range(2000):
            cell = matrix(CELL, (1, 1), cell)
        with pytest.raises(RecursionError):
            check_v5(file(cell), ["x"])

    def test_fields_that_are_not_read_do_not_matter(self):
        check_v5(file(DAMAGES["type unknown"], matrix(NUMBERS, (1, 1), NUMBER, name=b"y")), ["y"])


READ_MUTATIONS = """
import sys
from pathlib import Path
from cosmo.data import DataError
from cosmo.data._matfile import read_mat

path, fields = Path(sys.argv[1]), sys.argv[2].split(",")
n_read = n_refused = 0
with path.open("r+b", buffering=0) as file:
    for place, byte in enumerate(file.read()):
        for mutation in {byte ^ 1, byte ^ 16, byte ^ 128, 255} - {byte}:
            file.seek(place)
            file.write(bytes([mutation]))
            try:
                read_mat(path, fields)
                n_read += 1
            except DataError as error:
                assert "damaged" in str(error)
                n_refused += 1
        file.seek(place)
        file.write(bytes([byte]))
print(n_read, n_refused)
"""


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("res101", "features,labels,image_files"),
        ("att_splits", "allclasses_names,att,trainval_loc,test_seen_loc,test_unseen_loc"),
    ],
)
def test_no_mutation_of_a_byte_ends_the_process(tmp_path, name, fields):
    table = pd.DataFrame([[1, 0], [0, 1], [1, 1]], index=["cat", "a longer name", ""])
    names = ["", "b", "Möwe", "a longer name", "e"]
    split = Split(trainval=[2, 0], test_seen=[1, 3], test_unseen=[4])
    labels = table.index[[0, 0, 1, 1, 2]]
    write_xlsa17(GZSLDataset(np.eye(5, 2), labels, table, split, sample_names=names), tmp_path)
    path = tmp_path / f"{name}.mat"
    child = subprocess.run(
        [sys.executable, "-c", READ_MUTATIONS, path, fields], capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, f"{path} ends the process as it is left now: {child.stderr}"
    n_read, n_refused = map(int, child.stdout.split())
    assert n_read > 1000
    assert n_refused > 1000
