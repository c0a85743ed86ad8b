import os
import tempfile

import h5py
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io import loadmat, savemat
from scipy.sparse import csc_matrix

from cosmo.data import DataError, GZSLDataset, Split
from cosmo.data import _matfile as matfile
from cosmo.data.xlsa17 import known_groups, read_xlsa17, read_xlsa17_split, write_xlsa17

CLASSES = ["cat", "dog", "fox", "hen"]
LABELS = [1, 1, 1, 2, 2, 3, 3, 4]
PARTS = ("trainval", "test_seen", "test_unseen", "train", "val")


def cells(texts):
    column = np.empty((len(texts), 1), dtype=object)
    column[:, 0] = texts
    return column


def column(numbers, dtype=np.uint16):
    return np.array(numbers, dtype=dtype).reshape(-1, 1)


def sample_fields(**changes):
    fields = {
        "features": np.arange(24, dtype=np.float64).reshape(8, 3).T / 7,
        "labels": column(LABELS, np.float64),
        "image_files": cells([f"image_{i}.jpg" for i in range(8)]),
    }
    return {field: value for field, value in (fields | changes).items() if value is not None}


def class_fields(**changes):
    att = np.arange(8, dtype=np.float64).reshape(2, 4) / 8
    fields = {
        "allclasses_names": cells(CLASSES),
        "att": att,
        "original_att": 10 * att,
        "trainval_loc": column([6, 1, 4, 2]),
        "test_seen_loc": column([7, 3, 5]),
        "test_unseen_loc": column([8]),
        "train_loc": column([5, 3, 1, 2, 4]),
        "val_loc": column([7, 6]),
    }
    return {field: value for field, value in (fields | changes).items() if value is not None}


def save_v73(path, fields):
    """Write the way MATLAB does with -v7.3: reversed axes, text as 16-bit numbers, cells as references."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for field, value in fields.items():
            if value.dtype == object:
                node = file.create_dataset(field, value.T.shape, dtype=h5py.ref_dtype)
                for place, cell in np.ndenumerate(value.T):
                    node[place] = _v73_node(file, f"#refs#/{field}{place}", np.array([cell])).ref
                node.attrs["MATLAB_class"] = np.bytes_("cell")
            else:
                _v73_node(file, field, value)
    with path.open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")


def _v73_node(file, place, value):
    kind = {"U": "char", "f": "double", "u": "uint16", "i": "int16"}[value.dtype.kind]
    if value.dtype.kind == "U":
        letters = [np.frombuffer(text.encode("utf-16-le"), dtype=np.uint16) for text in value.tolist()]
        value = np.array(letters)
    if value.size:
        node = file.create_dataset(place, data=value.T)
    else:
        node = file.create_dataset(place, data=np.array(value.shape, dtype=np.uint64))
        node.attrs["MATLAB_empty"] = np.uint8(1)
    node.attrs["MATLAB_class"] = np.bytes_(kind)
    return node


SAVERS = {"v5": savemat, "v5 compressed": lambda *a: savemat(*a, do_compression=True), "v7.3": save_v73}


@pytest.fixture(params=list(SAVERS))
def save(request):
    return SAVERS[request.param]


@pytest.fixture
def folder(tmp_path):
    savemat(tmp_path / "res101.mat", sample_fields())
    savemat(tmp_path / "att_splits.mat", class_fields())
    return tmp_path


def small_dataset(**changes):
    table = pd.DataFrame(np.linspace(-1, 1, 8).reshape(4, 2), index=CLASSES)
    split = Split(trainval=[5, 0, 3, 1], test_seen=[6, 2, 4], test_unseen=[7])
    given = {"descriptions": table, "split": split, "labels": [CLASSES[i - 1] for i in LABELS]} | changes
    return GZSLDataset(np.random.default_rng(0).normal(size=(8, 3)), **given)


class TestReading:
    def test_every_field_of_either_format(self, tmp_path, save):
        save(tmp_path / "res101.mat", sample_fields())
        save(tmp_path / "att_splits.mat", class_fields())
        data = read_xlsa17(tmp_path)
        assert data.name == tmp_path.name
        np.testing.assert_array_equal(data.features, sample_fields()["features"].T.astype(np.float32))
        assert list(data.labels) == [CLASSES[i - 1] for i in LABELS]
        assert list(data.classes) == CLASSES
        assert data.sample_names == [f"image_{i}.jpg" for i in range(8)]
        np.testing.assert_array_equal(data.descriptions, class_fields()["att"].T)
        for part in PARTS:
            expected = class_fields()[f"{part}_loc"].ravel().astype(int) - 1
            np.testing.assert_array_equal(getattr(data.split, part), expected)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.int16])
    def test_features_are_contiguous_float32(self, folder, save, dtype):
        save(folder / "res101.mat", sample_fields(features=np.ones((3, 8), dtype=dtype, order="C")))
        features = read_xlsa17(folder).features
        assert features.dtype == np.float32
        assert features.flags.c_contiguous

    def test_float32_features_are_not_copied(self, folder, monkeypatch):
        stored = np.ones((3, 8), dtype=np.float32, order="F")
        monkeypatch.setattr(matfile, "_load", lambda *_: sample_fields(features=stored) | class_fields())
        assert np.shares_memory(read_xlsa17(folder).features, stored)

    @pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.int64, np.float32, np.float64])
    def test_positions_of_any_number_type(self, folder, save, dtype):
        save(folder / "res101.mat", sample_fields(labels=column(LABELS, dtype).T))
        save(folder / "att_splits.mat", class_fields(trainval_loc=column([6, 1, 4, 2], dtype)))
        data = read_xlsa17(folder)
        np.testing.assert_array_equal(data.codes, np.array(LABELS) - 1)
        np.testing.assert_array_equal(data.split.trainval, [5, 0, 3, 1])

    def test_optional_fields_may_be_absent(self, folder, save):
        save(folder / "res101.mat", sample_fields(image_files=None))
        save(folder / "att_splits.mat", class_fields(original_att=None, train_loc=None, val_loc=None))
        data = read_xlsa17(folder)
        assert data.sample_names is None
        assert data.split.train is None
        assert data.split.val is None

    def test_names_in_a_character_matrix(self, folder, save):
        save(folder / "att_splits.mat", class_fields(allclasses_names=np.array(["cat", "dog", "f  ", "hen"])))
        assert list(read_xlsa17(folder).classes) == ["cat", "dog", "f", "hen"]

    def test_names_beyond_ascii(self, folder, save):
        names = ["Möwe", "鳥", "🦊 fox", ""]
        save(folder / "att_splits.mat", class_fields(allclasses_names=cells(names)))
        assert list(read_xlsa17(folder).classes) == names

    def test_hdf5_text_without_matlab_attributes(self, folder):
        save_v73(folder / "att_splits.mat", class_fields())
        with h5py.File(folder / "att_splits.mat", "r+") as file:
            for reference in file["allclasses_names"][()].ravel():
                del file[reference].attrs["MATLAB_class"]
        assert list(read_xlsa17(folder).classes) == CLASSES

    def test_split_alone(self, folder, save):
        save(folder / "labels.mat", {"labels": column(LABELS)})
        labels, split = read_xlsa17_split(folder, labels="labels")
        assert list(labels) == [CLASSES[i - 1] for i in LABELS]
        np.testing.assert_array_equal(split.trainval, [5, 0, 3, 1])
        np.testing.assert_array_equal(split.val, [6, 5])


class TestOriginalDescriptions:
    def read(self, folder, table):
        savemat(folder / "att_splits.mat", class_fields(original_att=table))
        return read_xlsa17(folder, original=True).descriptions.to_numpy()

    def test_missing_percentages_become_the_mean_of_the_others(self, folder):
        table = np.array([[-1, 30, 60, 90], [5, -1, -1, 15]], dtype=np.float64)
        np.testing.assert_array_equal(self.read(folder, table), [[60, 5], [30, 10], [60, 10], [90, 15]])

    @pytest.mark.parametrize("other", [-0.5, 1.0, 101.0])
    def test_minus_one_is_a_value_outside_percentages(self, folder, other):
        table = np.array([[-1, 1, other, 0], [0, 0, 1, 1]])
        np.testing.assert_array_equal(self.read(folder, table), table.T.astype(np.float32))

    def test_attribute_without_any_value(self, folder):
        with pytest.raises(
            DataError, match=r"att_splits.mat: original_att is -1 for every class in row 2; drop"
        ):
            self.read(folder, np.array([[10, 20, 30, 40], [-1, -1, -1, -1]]))

    def test_absent(self, folder):
        savemat(folder / "att_splits.mat", class_fields(original_att=None))
        with pytest.raises(DataError, match=r"att_splits.mat: original_att is missing; .*original=False"):
            read_xlsa17(folder, original=True)


class TestAttributeNames:
    def columns(self, folder, text):
        path = folder / "names.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_xlsa17(folder, attributes=path).descriptions.columns

    @pytest.mark.parametrize(
        "text",
        [
            "color::red\nshape::round thing\n",
            "1 color::red\n2 shape::round thing",
            "  0\tcolor::red \r\n\r\n 1\tshape::round thing\r\n\r\n",
            "\ufeffcolor::red\nshape::round thing",
        ],
    )
    def test_groups_and_attributes(self, folder, text):
        columns = self.columns(folder, text)
        assert list(columns) == [("color", "red"), ("shape", "round thing")]
        assert list(columns.names) == ["group", "attribute"]

    def test_a_group_may_begin_with_a_number(self, folder):
        assert list(self.columns(folder, "4 legs::long\nshape::round")) == [
            ("4 legs", "long"),
            ("shape", "round"),
        ]

    def test_repeated_names_are_told_apart(self, folder):
        assert list(self.columns(folder, "a::b\na::b")) == [("a", "b"), ("a", "b (2)")]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("a::b", "1 attributes for 2 columns"),
            ("", "0 attributes for 2 columns"),
            ("a::b\nc", "line 2 is 'c', not group::attribute"),
            ("a::b\nc::", "line 2 is 'c::'"),
            ("2 a::b\n1 c::d", "not in order; sort them"),
            (b"a::\xff\xfe\nb::c", "cannot be read as a list of attributes"),
        ],
    )
    def test_faults(self, folder, text, message):
        with pytest.raises(DataError, match=rf"names\.txt: .*{message}"):
            self.columns(folder, text)


STRUCT = np.array([(1.0,)], dtype=[("a", "f8")])
SAMPLE_FAULTS = [
    ({"features": None}, r"features is missing; .* the file has labels, image_files"),
    ({"features": cells([1.0])}, r"features must be a full matrix of real numbers, got a cell array"),
    ({"features": STRUCT}, r"features must be a full matrix of real numbers, got a struct"),
    ({"features": np.full((3, 8), 1j)}, r"features must be a full matrix of real numbers, got complex"),
    (
        {"features": csc_matrix(np.eye(3, 8))},
        r"features must be a full matrix of real numbers, got a struct or sp",
    ),
    (
        {"features": np.ones((8, 3))},
        r"features must have 8 columns, .*labels, got shape \(8, 3\); save its tr",
    ),
    ({"features": np.ones((3, 7))}, r"features must have 8 columns, .*got shape \(3, 7\); take both from"),
    ({"features": np.ones((0, 8))}, r"features has no columns"),
    ({"features": np.full((3, 8), np.nan)}, r"features has a value that is not finite .* row 0, column 0"),
    ({"labels": np.ones((2, 4))}, r"labels must be a vector, got shape \(2, 4\)"),
    ({"labels": column([1.5, *LABELS[1:]], float)}, r"labels must hold whole numbers, got 1.5"),
    ({"labels": column([*LABELS[1:], np.inf], float)}, r"labels points to class inf of 4"),
    ({"labels": column([0, *LABELS[1:]])}, r"labels has the index 0; indices are 1-based: add 1"),
    ({"labels": column([5, *LABELS[1:]])}, r"labels points to class 5 of 4; is it of this data set"),
    ({"image_files": cells(["a"])}, r"image_files has 1 names for 8 labels; correct or drop it"),
    ({"image_files": column(LABELS)}, r"image_files must be a cell array of character vectors, got numbers"),
]
CLASS_FAULTS = [
    ({"att": None}, r"att is missing; .* has allclasses_names, original_att, trainval_loc"),
    ({"test_unseen_loc": None}, r"test_unseen_loc is missing"),
    ({"train_loc": None}, r"split\.train and split\.val come together"),
    (
        {"att": np.ones((4, 2))},
        r"att must have 4 columns, one per entry of allclasses_names, .*save its transp",
    ),
    (
        {"att": np.full((2, 4), np.nan)},
        r"att has a missing or infinite value: class 'cat', attribute 0; fill it in or drop",
    ),
    (
        {"allclasses_names": np.ones((4, 1))},
        r"allclasses_names must be a cell array of char.* got numbers; use",
    ),
    ({"allclasses_names": cells(["a", "b", 3.0, "d"])}, r"allclasses_names must .* only, entry 3 is not one"),
    ({"allclasses_names": cells(["a", "b", "c", "b"])}, r"allclasses_names has 'b' more than once; rename"),
    ({"trainval_loc": column([1, 4, 1])}, r"split\.trainval names a row more than once .*trainval_loc"),
    ({"test_seen_loc": column([1])}, r"split\.trainval and split\.test_seen share 1 rows"),
    ({"val_loc": column([8])}, r"split\.val has unseen classes: 'hen' .*trainval_loc"),
]


class TestFaults:
    @pytest.mark.parametrize(("changes", "message"), SAMPLE_FAULTS, ids=[fault[1] for fault in SAMPLE_FAULTS])
    def test_of_the_samples(self, folder, changes, message):
        savemat(folder / "res101.mat", sample_fields(**changes))
        with pytest.raises(DataError, match=rf"res101\.mat: {message}"):
            read_xlsa17(folder)

    @pytest.mark.parametrize(("changes", "message"), CLASS_FAULTS, ids=[fault[1] for fault in CLASS_FAULTS])
    def test_of_the_classes(self, folder, changes, message):
        savemat(folder / "att_splits.mat", class_fields(**changes))
        with pytest.raises(DataError, match=rf"att_splits\.mat: {message}"):
            read_xlsa17(folder)

    def test_hdf5_struct_or_sparse(self, folder):
        save_v73(folder / "res101.mat", sample_fields(features=None))
        with h5py.File(folder / "res101.mat", "r+") as file:
            file.create_group("features").attrs["MATLAB_sparse"] = np.uint64(3)
        with pytest.raises(DataError, match=r"features must be .*, got a struct or sparse matrix; convert"):
            read_xlsa17(folder)

    def test_hdf5_cells_of_numbers(self, folder):
        save_v73(folder / "att_splits.mat", class_fields())
        with h5py.File(folder / "att_splits.mat", "r+") as file:
            file["allclasses_names"][0, 2] = file["att"].ref
        with pytest.raises(DataError, match=r"allclasses_names must .* only, entry 3 is not one"):
            read_xlsa17(folder)

    def test_file_cut_short_anywhere(self, folder, save):
        path = folder / "res101.mat"
        save(path, sample_fields(image_files=None))
        whole = read_xlsa17(folder)
        content = path.read_bytes()
        for length in [*range(0, len(content), max(1, len(content) // 150)), len(content) - 1]:
            path.write_bytes(content[:length])
            try:
                data = read_xlsa17(folder)
            except DataError as error:
                assert "res101.mat: " in str(error)  # noqa: PT017
            else:
                np.testing.assert_array_equal(data.features, whole.features)
                np.testing.assert_array_equal(data.codes, whole.codes)

    def test_field_given_twice(self, folder):
        savemat(folder / "once.mat", {"labels": column(LABELS)})
        content = (folder / "once.mat").read_bytes()
        (folder / "res101.mat").write_bytes(content + content[128:])
        with pytest.raises(DataError, match=r"res101\.mat: cannot be read .*the variable labels twice"):
            read_xlsa17(folder)


class TestVariants:
    """Files as they circulate."""

    def test_flo_has_no_class_names(self, folder):
        savemat(folder / "att_splits.mat", class_fields(allclasses_names=None, original_att=None))
        data = read_xlsa17(folder)
        assert list(data.classes) == ["1", "2", "3", "4"]
        assert list(data.labels) == [str(number) for number in LABELS]
        assert list(read_xlsa17_split(folder)[0]) == list(data.labels)

    def test_names_beside_the_file(self, folder):
        savemat(folder / "att_splits.mat", class_fields(allclasses_names=None))
        (folder / "allclasses.txt").write_text("cat\npink primrose\n\nfox \nhen\n", encoding="utf-8")
        assert list(read_xlsa17(folder).classes) == ["cat", "pink primrose", "fox", "hen"]
        (folder / "allclasses.txt").write_text("cat\ndog\nfox\n", encoding="utf-8")
        with pytest.raises(DataError, match=r"res101\.mat: labels points to class 4 of 3"):
            read_xlsa17(folder)

    def test_validation_classes_beside_the_file(self, folder, save):
        save(folder / "att_splits.mat", class_fields(train_loc=None, val_loc=None))
        (folder / "valclasses1.txt").write_text("fox\r\n\n", encoding="utf-8")
        split = read_xlsa17(folder).split
        np.testing.assert_array_equal(split.val, [5])
        np.testing.assert_array_equal(split.train, [0, 3, 1])
        assert read_xlsa17_split(folder)[1].val.tolist() == [5]

    def test_validation_class_of_another_data_set(self, folder):
        savemat(folder / "att_splits.mat", class_fields(train_loc=None, val_loc=None))
        (folder / "valclasses1.txt").write_text("fox\nowl\n", encoding="utf-8")
        with pytest.raises(DataError, match=r"valclasses1\.txt: no class 'owl' in att_splits\.mat"):
            read_xlsa17(folder)


class TestMissingFiles:
    def test_files_in_the_folder_are_listed(self, folder):
        (folder / "res101.mat").rename(folder / "res50.mat")
        listed = r"res101\.mat: no such file; .* folder: att_splits.mat, res50.mat; name one by features"
        with pytest.raises(DataError, match=listed):
            read_xlsa17(folder)


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)


@st.composite
def datasets(draw):
    n_classes = draw(st.integers(3, 6))
    n_unseen = draw(st.integers(1, n_classes - 2))
    copies = draw(st.integers(2, 4))
    codes = np.array(draw(st.permutations(list(range(n_classes)) * copies)))
    classes = draw(st.lists(names, min_size=n_classes, max_size=n_classes, unique=True))
    rows = np.array(draw(st.permutations(range(len(codes)))))
    seen = rows[codes[rows] >= n_unseen]
    held_back = np.isin(np.arange(len(seen)), np.unique(codes[seen], return_index=True)[1])
    val = codes[seen] == n_unseen
    with_val = draw(st.booleans())
    values = draw(
        st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=9)
    )
    return GZSLDataset(
        np.resize(np.array(values, dtype=np.float32), (len(codes), draw(st.integers(1, 3)))),
        [classes[code] for code in codes],
        pd.DataFrame(np.resize(np.array(values, dtype=np.float32)[::-1], (n_classes, 2)), index=classes),
        Split(
            trainval=seen[~held_back],
            test_seen=seen[held_back],
            test_unseen=rows[codes[rows] < n_unseen],
            train=seen[~val] if with_val else None,
            val=seen[val] if with_val else None,
        ),
        sample_names=draw(st.none() | st.lists(names, min_size=len(codes), max_size=len(codes))),
    )


class TestWriting:
    @settings(max_examples=60, deadline=None)
    @given(datasets())
    def test_round_trip(self, data):
        with tempfile.TemporaryDirectory() as folder:
            write_xlsa17(data, folder)
            back = read_xlsa17(folder)
        np.testing.assert_array_equal(back.features, data.features)
        np.testing.assert_array_equal(back.descriptions.to_numpy(), data.descriptions.to_numpy())
        assert list(back.labels) == list(data.labels)
        assert list(back.classes) == list(data.classes)
        assert back.sample_names == data.sample_names
        for part in PARTS:
            np.testing.assert_array_equal(getattr(back.split, part), getattr(data.split, part))

    def test_layout_of_the_files(self, tmp_path):
        data = small_dataset()
        write_xlsa17(data, tmp_path / "new" / "folder", features="res50", descriptions="sent_splits")
        assert sorted(os.listdir(tmp_path / "new" / "folder")) == ["res50.mat", "sent_splits.mat"]
        samples = loadmat(tmp_path / "new" / "folder" / "res50.mat")
        described = loadmat(tmp_path / "new" / "folder" / "sent_splits.mat")
        assert samples["features"].shape == (3, 8)
        assert "image_files" not in samples
        np.testing.assert_array_equal(samples["labels"], column(LABELS))
        np.testing.assert_array_equal(described["trainval_loc"], column([6, 1, 4, 2]))
        np.testing.assert_array_equal(described["att"], data.descriptions.to_numpy().T)
        np.testing.assert_array_equal(described["original_att"], described["att"])
        assert "train_loc" not in described

    def test_groups_survive(self, tmp_path):
        columns = pd.MultiIndex.from_tuples([("4 legs", "a::b"), ("color", "red (or so)")])
        table = pd.DataFrame(np.eye(4, 2), index=CLASSES, columns=columns)
        write_xlsa17(small_dataset(descriptions=table), tmp_path)
        back = read_xlsa17(tmp_path, attributes=tmp_path / "attributes.txt").descriptions
        assert list(back.columns) == list(columns)

    @pytest.mark.parametrize("column", [("a::b", "c"), (" a", "c"), ("a", "c\nd"), ("", "c"), ("a", "")])
    def test_groups_that_would_not_survive(self, tmp_path, column):
        columns = pd.MultiIndex.from_tuples([column, ("color", "red")])
        table = pd.DataFrame(np.eye(4, 2), index=CLASSES, columns=columns)
        with pytest.raises(DataError, match=r"the column .* cannot be written to attributes.txt; give"):
            write_xlsa17(small_dataset(descriptions=table), tmp_path)

    def test_labels_become_strings(self, tmp_path):
        table = pd.DataFrame(np.eye(4, 2), index=[10, 20, 30, 40])
        write_xlsa17(small_dataset(descriptions=table, labels=[10 * i for i in LABELS]), tmp_path)
        assert list(read_xlsa17(tmp_path).labels) == [str(10 * i) for i in LABELS]

    def test_labels_that_become_the_same_string(self, tmp_path):
        table = pd.DataFrame(np.eye(4, 2), index=pd.Index([1, "1", 3, 4], dtype=object))
        labels = [1, 1, 1, "1", "1", 3, 3, 4]
        with pytest.raises(DataError, match="two classes are both written as '1'; rename"):
            write_xlsa17(small_dataset(descriptions=table, labels=labels), tmp_path)

    @pytest.mark.parametrize("name", ["att_splits", "att_splits.mat", "../res101", "a/b"])
    def test_file_names(self, tmp_path, name):
        with pytest.raises(DataError, match="need two different file names, not paths"):
            write_xlsa17(small_dataset(), tmp_path, features=name)

    def test_interruption_leaves_the_old_files(self, folder, monkeypatch):
        before = {path.name: path.read_bytes() for path in folder.iterdir()}

        def interrupted(path, fields, **options):
            if "att" in fields:
                raise KeyboardInterrupt
            savemat(path, fields, **options)

        monkeypatch.setattr(matfile, "savemat", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write_xlsa17(small_dataset(), folder)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("name", "n_attributes", "n_groups"),
    [("CUB", 312, 28), ("AWA1", 85, 11), ("awa2", 85, 11), ("SUN", 102, 4)],
)
def test_known_groups(tmp_path, name, n_attributes, n_groups):
    columns = known_groups(name, n_attributes)
    assert columns.names == ["group", "attribute"]
    assert columns.is_unique
    assert columns.get_level_values("group").nunique() == n_groups
    for _, numbers in columns.to_frame(index=False).groupby("group")["attribute"]:
        assert list(numbers) == [str(number) for number in range(1, len(numbers) + 1)]
    assert known_groups(name, n_attributes - 1) is None
    assert known_groups("FLO", n_attributes) is None
    table = pd.DataFrame(np.random.default_rng(0).random((3, n_attributes)), index=["cat", "dog", "fox"])
    split = Split(trainval=[0, 2], test_seen=[1, 3], test_unseen=[4])
    labels = ["cat", "cat", "dog", "dog", "fox"]
    write_xlsa17(GZSLDataset(np.eye(5, 4), labels, table, split), tmp_path / name)
    data = read_xlsa17(tmp_path / name)
    assert data.descriptions.columns.equals(columns)
    np.testing.assert_allclose(data.descriptions, table, rtol=1e-6)
    assert read_xlsa17(tmp_path / name, name="other").descriptions.columns.nlevels == 1
