import re
import unicodedata

import numpy as np
import pytest

from cosmo.data.glyphs import _random_transforms, glyph_features, load_glyphs

N_AVAILABLE = 254
SMALL = {"n_classes": 30, "samples_per_class": 5}


@pytest.fixture(scope="module")
def small():
    return load_glyphs(**SMALL)


@pytest.fixture(scope="module")
def clean():
    """Every available character in every type face."""
    return load_glyphs(n_classes=N_AVAILABLE, samples_per_class=16, difficulty=0)


def rows_of(data):
    return {
        part: getattr(data.split, part) for part in ("trainval", "test_seen", "test_unseen", "train", "val")
    }


def test_equal_seed_equal_data(small):
    again = load_glyphs(**SMALL)
    np.testing.assert_array_equal(small.images, again.images)
    np.testing.assert_array_equal(small.features, again.features)
    assert small.sample_names == again.sample_names
    assert small.descriptions.equals(again.descriptions)
    for part, rows in rows_of(small).items():
        np.testing.assert_array_equal(rows, rows_of(again)[part])


def test_other_seed_other_data(small):
    other = load_glyphs(**SMALL, seed=1)
    assert list(small.classes) != list(other.classes)
    assert not np.array_equal(small.images, other.images)
    everything = [load_glyphs(n_classes=N_AVAILABLE, samples_per_class=2, seed=seed) for seed in (0, 1)]
    assert list(everything[0].unseen_classes) != list(everything[1].unseen_classes)


@pytest.mark.parametrize(("n_classes", "seed"), [(12, 0), (12, 1), (33, 0), (140, 1), (N_AVAILABLE, 0)])
def test_held_out_classes_recombine_attributes_of_training_classes(n_classes, seed):
    data = load_glyphs(n_classes=n_classes, samples_per_class=2, seed=seed)
    codes = {part: np.unique(data.codes[rows]) for part, rows in rows_of(data).items()}
    table = data.descriptions.to_numpy()
    known = table[codes["train"]].sum(axis=0) >= 2
    for part in ("val", "test_unseen"):
        assert known[table[codes[part]].any(axis=0)].all()

    np.testing.assert_array_equal(np.union1d(codes["train"], codes["val"]), codes["trainval"])
    assert not np.intersect1d(codes["train"], codes["val"]).size
    assert len(codes["train"]) / n_classes == pytest.approx(0.5, abs=0.05)
    assert len(codes["val"]) / n_classes == pytest.approx(0.2, abs=0.05)
    assert len(codes["test_unseen"]) / n_classes == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize(("samples", "back"), [(2, 1), (5, 1), (10, 2), (24, 5)])
def test_a_fifth_of_every_seen_class_is_held_back(samples, back):
    data = load_glyphs(n_classes=12, samples_per_class=samples)
    per_class = np.bincount(data.codes[data.split.test_seen], minlength=12)
    assert set(per_class[data.classes.get_indexer(data.seen_classes)]) == {back}


def test_descriptions_say_what_the_unicode_names_say(clean):
    assert clean.descriptions.columns.names == ["group", "attribute"]
    assert list(clean.descriptions.columns.unique(level="group")) == ["letter", "case", "mark"]
    assert set(np.unique(clean.descriptions)) == {0, 1}
    for character, row in clean.descriptions.iterrows():
        said = {group: attribute for (group, attribute), value in row.items() if value}
        assert row.sum() == len(said) == 3
        name = f"LATIN {said['case']} LETTER {said['letter']}"
        if said["mark"] != "none":
            name += f" WITH {said['mark']}"
        assert name.upper() == unicodedata.name(character)


def test_descriptions_are_distinct_and_every_attribute_occurs(clean, small):
    for data in (clean, small):
        assert not data.descriptions.duplicated().any()
        assert data.descriptions.any().all()
    assert {"é", "Å", "ø", "z"} <= set(clean.classes)
    assert not {"Ǿ", "æ", "ß"} & set(clean.classes)


def test_shapes_names_and_types():
    data = load_glyphs(n_classes=14, samples_per_class=3, image_size=24)
    assert data.name == "glyphs"
    assert len(data.classes) == 14
    assert data.images.shape == (42, 24, 24)
    assert data.images.dtype == np.uint8
    assert data.features.shape == (42, 576)
    assert data.features.dtype == np.float32
    assert list(data.labels) == [character for character in data.classes for _ in range(3)]
    np.testing.assert_array_equal(data.features, glyph_features(data.images))
    for label, name in zip(data.labels, data.sample_names, strict=True):
        assert re.fullmatch(rf"U\+{ord(label):04X} (DejaVu|STIX)\S+ #[012]", name)


@pytest.mark.parametrize("difficulty", [0, 0.5, 1, 3])
def test_perturbed_ink_stays_inside_the_picture(difficulty):
    rng = np.random.default_rng(7)
    side, n = 96, 500
    ends = np.sort(rng.uniform(0, side, (n, 2, 2)), axis=1)
    left, top, right, bottom = ends.reshape(n, 4).T
    coefficients = _random_transforms(ends.reshape(n, 4), side, difficulty, rng).reshape(n, 2, 3)
    to_clean, origin = coefficients[:, :, :2], coefficients[:, :, 2:]
    for x, y in ((left, top), (right, top), (left, bottom), (right, bottom)):
        corner = np.linalg.solve(to_clean, np.stack([x, y], axis=1)[:, :, None] - origin)
        assert corner.min() > -1e-9
        assert corner.max() < side + 1e-9
    assert np.allclose(coefficients, np.eye(2, 3)) == (difficulty == 0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"n_classes": N_AVAILABLE + 1},
            rf"n_classes must be from 12 to {N_AVAILABLE}, got 255; {N_AVAILABLE} char",
        ),
        ({"n_classes": 11}, "n_classes must be from 12"),
        ({"samples_per_class": 1}, "samples_per_class must be at least 2, got 1"),
        ({"image_size": 15}, "image_size must be from 16 to 256"),
        ({"difficulty": -0.1}, r"difficulty must be from 0 to 3, got -0\.1"),
        ({"difficulty": float("nan")}, "difficulty must be from 0 to 3, got nan"),
    ],
)
def test_parameters_out_of_range(wrong, message):
    with pytest.raises(ValueError, match=message):
        load_glyphs(**wrong)


@pytest.mark.parametrize("size", [16, 32, 50])
def test_features_of_one_picture_are_those_in_a_batch(size):
    images = np.random.default_rng(0).integers(0, 256, (300, size, size), dtype=np.uint8)
    batch = glyph_features(images)
    assert batch.shape == (300, 576)
    assert batch.dtype == np.float32
    assert np.isfinite(batch).all()
    for i in (0, 255, 256, 299):
        np.testing.assert_allclose(glyph_features(images[i]), batch[i : i + 1], atol=1e-6)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((2, 32, 32)), "uint8"),
        (np.zeros(32, dtype=np.uint8), "shape"),
        (np.zeros((2, 15, 32), dtype=np.uint8), "at least 16 pixels"),
    ],
)
def test_features_of_unusable_pictures(images, message):
    with pytest.raises(ValueError, match=message):
        glyph_features(images)
