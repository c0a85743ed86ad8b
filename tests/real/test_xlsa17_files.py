import numpy as np
import pytest
from scipy.io import loadmat, savemat

from cosmo.data.plain import read_predictions
from cosmo.data.xlsa17 import read_xlsa17, read_xlsa17_split, write_xlsa17

LABEL_FILE = {"AWA1": "labels", "CUB": "res50", "SUN": "labels"}
SPLITS = {
    "AWA1": {"images": 30475, "train": 16864, "val": 7926, "trainval": 19832, "seen": 4958, "unseen": 5685},
    "CUB": {"images": 11788, "train": 5875, "val": 2946, "trainval": 7057, "seen": 1764, "unseen": 2967},
    "SUN": {"images": 14340, "train": 11600, "val": 1300, "trainval": 10320, "seen": 2580, "unseen": 1440},
}
CLASSES = {"AWA1": (27, 13, 10), "CUB": (100, 50, 50), "SUN": (580, 65, 72)}
OVERLAPS = {"AWA1": (13460, 6372, 1554), "CUB": (4702, 2355, 591), "SUN": (9280, 1040, 260)}
PUBLISHED = {
    ("LAGO", "CUB"): (24.6, 64.8, 35.6),
    ("LAGO", "AWA1"): (21.8, 73.6, 33.7),
    ("fCLSWGAN", "CUB"): (45.1, 55.5, 49.8),
    ("fCLSWGAN", "AWA1"): (53.6, 67.0, 59.6),
}


@pytest.fixture(scope="module")
def cub(data_folder):
    return read_xlsa17(
        data_folder / "xlsa17" / "CUB",
        features="res50",
        attributes=data_folder / "groups" / "CUB_attributes.txt",
    )


@pytest.mark.parametrize("name", SPLITS)
def test_counts_of_the_split(data_folder, name):
    labels, split = read_xlsa17_split(data_folder / "xlsa17" / name, labels=LABEL_FILE[name])
    assert SPLITS[name] == {
        "images": len(labels),
        "train": len(split.train),
        "val": len(split.val),
        "trainval": len(split.trainval),
        "seen": len(split.test_seen),
        "unseen": len(split.test_unseen),
    }
    assert (
        tuple(labels[rows].nunique() for rows in (split.train, split.val, split.test_unseen)) == CLASSES[name]
    )
    assert OVERLAPS[name] == (
        len(np.intersect1d(split.trainval, split.train)),
        len(np.intersect1d(split.trainval, split.val)),
        len(np.intersect1d(split.test_seen, split.val)),
    )


def test_cub_with_attributes(cub):
    assert cub.features.shape == (11788, 2048)
    assert cub.features.dtype == np.float32
    assert cub.features.flags.c_contiguous
    assert cub.descriptions.shape == (200, 312)
    assert cub.descriptions.columns.is_unique
    assert cub.descriptions.columns.get_level_values("group").nunique() == 28
    np.testing.assert_allclose(np.linalg.norm(cub.descriptions, axis=1), 1, rtol=1e-5)
    assert (len(cub.seen_classes), len(cub.unseen_classes)) == (150, 50)
    assert all(label in path for label, path in zip(cub.labels, cub.sample_names, strict=True))


def test_cub_with_sentences(data_folder, cub):
    sentences = read_xlsa17(data_folder / "xlsa17" / "CUB", features="res50", descriptions="sent_splits")
    assert sentences.descriptions.shape == (200, 1024)
    assert np.linalg.norm(sentences.descriptions, axis=1).min() > 10
    assert list(sentences.classes) == list(cub.classes)
    np.testing.assert_array_equal(sentences.split.trainval, cub.split.trainval)


def test_cub_original_percentages(data_folder):
    table = read_xlsa17(data_folder / "xlsa17" / "CUB", features="res50", original=True).descriptions
    assert table.min(axis=None) == 0
    assert table.max(axis=None) == 100


def test_awa_missing_percentages_are_filled(data_folder, tmp_path):
    source = data_folder / "xlsa17" / "AWA1"
    (tmp_path / "att_splits.mat").symlink_to(source / "att_splits.mat")
    n_samples = SPLITS["AWA1"]["images"]
    labels = loadmat(source / "labels.mat", variable_names=["labels"])["labels"]
    savemat(tmp_path / "res101.mat", {"features": np.zeros((1, n_samples), np.float32), "labels": labels})
    table = read_xlsa17(tmp_path, original=True).descriptions
    stored = loadmat(source / "att_splits.mat")["original_att"].T
    assert np.argwhere(stored == -1).tolist() == [[0, 0], [0, 1], [0, 2], [0, 3]]
    np.testing.assert_allclose(table.iloc[0, :4], stored[1:, :4].mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(table.to_numpy()[stored != -1], stored[stored != -1], rtol=1e-6)


def test_cub_survives_writing(cub, tmp_path):
    write_xlsa17(cub, tmp_path)
    back = read_xlsa17(tmp_path, attributes=tmp_path / "attributes.txt")
    np.testing.assert_array_equal(back.features, cub.features)
    np.testing.assert_array_equal(back.codes, cub.codes)
    assert back.descriptions.equals(cub.descriptions)
    assert back.sample_names == cub.sample_names
    np.testing.assert_array_equal(back.split.trainval, cub.split.trainval)


def balanced_accuracy(stage, classes):
    predicted = stage.proba.columns.to_numpy()[stage.proba.to_numpy().argmax(axis=1)]
    return float(np.mean([(predicted[stage.y == label] == label).mean() for label in classes]))


@pytest.mark.parametrize(("expert", "name"), PUBLISHED)
def test_published_accuracies(data_folder, expert, name):
    stage = read_predictions(data_folder / "predictions" / expert / name, "test")
    unseen = balanced_accuracy(stage, stage.unseen_classes)
    seen = balanced_accuracy(stage, stage.seen_classes)
    harmonic = 2 * unseen * seen / (unseen + seen)
    assert tuple(round(100 * value, 1) for value in (unseen, seen, harmonic)) == PUBLISHED[expert, name]


@pytest.mark.parametrize(("expert", "name"), PUBLISHED)
def test_rows_are_those_of_the_split(data_folder, expert, name):
    labels, split = read_xlsa17_split(data_folder / "xlsa17" / name, labels=LABEL_FILE[name])
    folder = data_folder / "predictions" / expert / name
    test, val = read_predictions(folder, "test"), read_predictions(folder, "val")
    assert np.array_equal(np.sort(test.rows), np.union1d(split.test_seen, split.test_unseen))
    assert np.isin(val.rows, split.trainval).all()
    assert test.seed is None
    assert val.seed is not None
    for stage in (test, val):
        names = {id_: labels[row] for id_, row in zip(stage.y, stage.rows, strict=True)}
        assert [names[id_] for id_ in stage.y] == list(labels[stage.rows])
