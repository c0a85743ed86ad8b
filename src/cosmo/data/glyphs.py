"""The built-in data set: letters with diacritics, described by their Unicode names."""

from __future__ import annotations

import os
import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import gaussian_filter, uniform_filter

from cosmo._core.files import write_atomic
from cosmo.data.dataset import GZSLDataset, Split

_FACES = tuple(
    family + face
    for family, faces in {
        "DejaVuSans": ("", "-Bold", "-Oblique", "-BoldOblique"),
        "DejaVuSansMono": ("", "-Bold", "-Oblique", "-BoldOblique"),
        "DejaVuSerif": ("", "-Bold", "-Italic", "-BoldItalic"),
        "STIXGeneral": ("", "Bol", "Italic", "BolIta"),
    }.items()
    for face in faces
)
_NAME = re.compile(r"LATIN (SMALL|CAPITAL) LETTER ([A-Z])(?: WITH (?!.* AND )(.+))?")
_MIN_PER_MARK = 4
_MIN_CLASSES = 12
_MIN_IN_TRAIN = 2  # in one class only, a mark could not be told from its letter

_OVERSAMPLING = 3  # letters are drawn and transformed at this multiple of the image size, then averaged
_EM, _BASELINE = 0.68, 0.715  # of the image size: the tallest and the deepest letter both just fit

# The largest perturbations at difficulty 1; shift and blur are relative to the image size.
_ROTATION = np.deg2rad(10)
_SHRINK = 0.2
_SHIFT = 0.065
_BLUR = 0.025
_FADE = 0.5
_NOISE = 0.1

_CELLS = 8  # of the features, along each side of the image
_ORIENTATIONS = 8
_BATCH = 256  # images at a time: the gradient maps of all of them would fill hundreds of megabytes
_SMOOTHING = 1 / 40  # of the side; finer gradients are mostly noise
_FLAT = 0.05  # regularises the normalisation, so that empty cells are not amplified
# Centred and of similar variance, features suit linear models that do not scale them.
_GRADIENT_CENTRE, _PIXEL_SCALE = 0.2, 0.3


def load_glyphs(
    *,
    n_classes: int = 140,
    samples_per_class: int = 40,
    image_size: int = 32,
    difficulty: float = 1.0,
    seed: int = 0,
) -> GZSLDataset:
    """Return images of Latin letters in 16 type faces as a zero-shot data set.

    A class is a character, such as ``"é"``. Its description comes from its Unicode name (LATIN SMALL
    LETTER E WITH ACUTE): one attribute each of the groups *letter*, *case* and *mark*. Each attribute of
    an unseen or a validation class occurs in at least two of the training classes (`split.train`).

    Parameters
    ----------
    n_classes : int, default=140
        Number of characters, at least 12: half for training, a fifth for validation, three tenths unseen.
    samples_per_class : int, default=40
        Images of each class, at least 2, spread over the type faces. A fifth of those of every seen class
        becomes `split.test_seen`.
    image_size : int, default=32
        Height and width in pixels, 16 to 256.
    difficulty : float, default=1.0
        Strength of rotation, shift, scaling, blur, fading and noise, 0 to 3. At 0 images repeat after 16
        samples.
    seed : int, default=0
        Seed of the classes, the split and the perturbations.

    Returns
    -------
    GZSLDataset
        With `images` (n_samples, image_size, image_size), uint8, dark on light, and `features`
        (n_samples, 576), see `glyph_features`.

    Raises
    ------
    ValueError
        When a parameter is out of range.

    Examples
    --------
    >>> data = load_glyphs(n_classes=24, samples_per_class=5)
    >>> data
    GZSLDataset('glyphs': 120 samples x 576 features, 17 seen + 7 unseen classes, 14 attributes)
    >>> data.descriptions.columns.names
    FrozenList(['group', 'attribute'])
    """
    glyphs = _available()
    _check_range("n_classes", n_classes, _MIN_CLASSES, len(glyphs), "characters exist in all type faces")
    _check_range("samples_per_class", samples_per_class, 2, None)
    _check_range("image_size", image_size, 16, 256)
    _check_range("difficulty", difficulty, 0, 3)
    rng = np.random.default_rng(seed)
    rows, roles = _draw_classes(_attribute_codes(glyphs), n_classes, rng)
    glyphs = glyphs.iloc[rows]
    split = _split_rows(roles, samples_per_class, rng)
    faces = rng.permuted(np.tile(np.arange(len(_FACES)), (n_classes, 1)), axis=1)
    faces = faces[:, np.arange(samples_per_class) % len(_FACES)]
    images = _draw(glyphs.index.tolist(), faces, image_size, difficulty, rng)
    one_hot = {group: pd.get_dummies(glyphs[group], dtype=np.float32) for group in glyphs}
    return GZSLDataset(
        glyph_features(images),
        np.repeat(glyphs.index.to_numpy(), samples_per_class),
        pd.concat(one_hot, axis=1, names=["group", "attribute"]),
        split,
        sample_names=[
            f"U+{ord(character):04X} {_FACES[face]} #{i}"
            for character, row in zip(glyphs.index, faces, strict=True)
            for i, face in enumerate(row)
        ],
        images=images,
        name="glyphs",
    )


def write_glyph_images(folder: str | os.PathLike[str], **options: Any) -> None:
    """Write the glyphs as image files with a table of descriptions.

    `train` has a folder of PNG files for each seen class, `test` one for each class, and
    `descriptions.csv` a row of attributes (`group::attribute`) for each class. Class names are
    ASCII, such as "small-e-with-acute".

    Parameters
    ----------
    folder : path
        Created if necessary. It must not contain `train` or `test`.
    **options
        Of `load_glyphs`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_glyph_images(folder, n_classes=24, samples_per_class=2)
    ...     sorted(os.listdir(folder)), len(os.listdir(folder + "/train")), len(os.listdir(folder + "/test"))
    (['descriptions.csv', 'test', 'train'], 17, 24)
    """
    folder = Path(folder)
    for part in ("train", "test"):
        if (folder / part).exists():
            raise FileExistsError(f"{folder / part} exists already; choose another folder")
    data = load_glyphs(**options)
    assert data.images is not None
    names = [_file_name(character) for character in data.classes]
    split = data.split
    for part, rows in (("train", [split.trainval]), ("test", [split.test_seen, split.test_unseen])):
        for row in np.concatenate(rows):
            home = folder / part / names[data.codes[row]]
            home.mkdir(parents=True, exist_ok=True)
            Image.fromarray(data.images[row]).save(home / f"{row:05d}.png")
    table = data.descriptions.set_axis(pd.Index(names, name="class"))
    table.columns = pd.Index(["::".join(pair) for pair in table.columns])
    write_atomic(folder / "descriptions.csv", table.astype(int).to_csv().encode())


def glyph_features(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return histograms of oriented gradients and reduced pixels of images.

    The image is divided into 8 x 8 overlapping cells. A cell has the strength of gradients in 8
    directions, normalised over its neighbourhood, and its mean ink. Images are independent of each other.

    Parameters
    ----------
    images : uint8 array of shape (n_images, height, width) or (height, width)
        Dark letters on light paper; each side at least 16 pixels.

    Returns
    -------
    float32 array of shape (n_images, 576)

    Examples
    --------
    >>> glyph_features(np.full((32, 32), 255, dtype=np.uint8)).shape
    (1, 576)
    """
    pixels = np.asarray(images)
    if pixels.ndim == 2:
        pixels = pixels[None]
    if pixels.dtype != np.uint8:
        raise ValueError(f"images must be uint8 (0 is black, 255 is white), got {pixels.dtype}")
    if pixels.ndim != 3 or min(pixels.shape[1:]) < 2 * _CELLS:
        raise ValueError(
            f"images must be (n, height, width), at least {2 * _CELLS} pixels, got shape {pixels.shape}"
        )
    features = np.empty((len(pixels), _CELLS * _CELLS * (_ORIENTATIONS + 1)), dtype=np.float32)
    for start in range(0, len(pixels), _BATCH):
        features[start : start + _BATCH] = _batch_features(pixels[start : start + _BATCH])
    return features


def _file_name(character: str) -> str:
    """Return the Unicode name as a file name: "small-e-with-acute"."""
    words = unicodedata.name(character).lower().split()
    return "-".join(word for word in words if word not in ("latin", "letter"))


def _check_range(name: str, value: float, low: int, high: int | None, why: str = "") -> None:
    if not low <= value <= (np.inf if high is None else high):
        limits = f"at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(f"{name} must be {limits}, got {value}" + (f"; {high} {why}" if why else ""))


@cache
def _available() -> pd.DataFrame:
    """Return letter, case and mark of the characters that every type face has, in Unicode order."""
    from matplotlib.ft2font import FT2Font

    charmaps = [FT2Font(str(_font_path(face))).get_charmap() for face in _FACES]
    drawable = set.intersection(*({code for code, glyph in chars.items() if glyph} for chars in charmaps))
    named = ((chr(code), _NAME.fullmatch(unicodedata.name(chr(code), ""))) for code in sorted(drawable))
    glyphs = {
        character: (name[2].lower(), name[1].lower(), (name[3] or "none").lower())
        for character, name in named
        if name
    }
    table = pd.DataFrame.from_dict(glyphs, orient="index", columns=["letter", "case", "mark"])
    return table[table.groupby("mark")["mark"].transform("size") >= _MIN_PER_MARK]


def _font_path(face: str) -> Path:
    import matplotlib  # takes a third of a second, and only this data set needs it

    return Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{face}.ttf"


def _attribute_codes(glyphs: pd.DataFrame) -> NDArray[np.intp]:
    """Return an integer for each attribute of each glyph, shape (n_glyphs, 3)."""
    names = [f"{group} {value}" for _, row in glyphs.iterrows() for group, value in row.items()]
    return pd.factorize(np.array(names))[0].reshape(glyphs.shape)


def _draw_classes(
    kinds: NDArray[np.intp], n: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.str_]]:
    """Return `n` sorted rows of `kinds` and the role of each."""
    # Few classes drawn from all of them rarely share letters and marks. After each draw without a valid
    # split, a class with the rarest attribute leaves the pool.
    while True:
        pool = np.arange(len(kinds))
        while len(pool) >= n:
            chosen = np.sort(rng.choice(pool, n, replace=False))
            roles = _draw_roles(kinds[chosen], rng)
            if roles is not None:
                return chosen, roles
            rarest = np.bincount(kinds[pool].ravel())[kinds[pool]].min(axis=1)
            pool = np.delete(pool, rng.choice(np.flatnonzero(rarest == rarest.min())))


def _draw_roles(kinds: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.str_] | None:
    """Return "train", "val" or "test" per class, or None if the draw left too few to hold out."""
    n_val, n_test = round(0.2 * len(kinds)), round(0.3 * len(kinds))
    roles = np.full(len(kinds), "train")
    still_to_fill = rng.permutation(["val"] * n_val + ["test"] * n_test).tolist()
    in_train = np.bincount(kinds.ravel())
    for i in rng.permutation(len(kinds)):
        if still_to_fill and (in_train[kinds[i]] > _MIN_IN_TRAIN).all():
            in_train[kinds[i]] -= 1
            roles[i] = still_to_fill.pop()
    return None if still_to_fill else roles


def _split_rows(roles: NDArray[np.str_], per_class: int, rng: np.random.Generator) -> Split:
    row_role = np.repeat(roles, per_class)
    order = rng.permuted(np.tile(np.arange(per_class), (len(roles), 1)), axis=1).ravel()
    back = order < max(1, round(0.2 * per_class))
    unseen = row_role == "test"
    return Split(
        trainval=np.flatnonzero(~unseen & ~back),
        test_seen=np.flatnonzero(~unseen & back),
        test_unseen=np.flatnonzero(unseen),
        train=np.flatnonzero(row_role == "train"),
        val=np.flatnonzero(row_role == "val"),
    )


def _draw(
    characters: list[str], faces: NDArray[np.intp], size: int, difficulty: float, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Return images (n_characters * n_samples, size, size); `faces` is (n_characters, n_samples)."""
    side = _OVERSAMPLING * size
    fonts = [
        # The basic layout is the one every build of Pillow has.
        ImageFont.truetype(str(_font_path(face)), round(_EM * side), layout_engine=ImageFont.Layout.BASIC)
        for face in _FACES
    ]
    clean: dict[tuple[int, int], Image.Image] = {}
    keys = [(i, int(face)) for i, row in enumerate(faces) for face in row]
    for i, face in keys:
        if (i, face) not in clean:
            sheet = Image.new("L", (side, side))
            position = (side // 2, round(_BASELINE * side))
            ImageDraw.Draw(sheet).text(position, characters[i], fill=255, font=fonts[face], anchor="ms")
            clean[i, face] = sheet
    boxes = np.array([clean[key].getbbox() for key in keys], dtype=float)
    transforms = _random_transforms(boxes, side, difficulty, rng)
    ink = np.empty((len(keys), size, size), dtype=np.float32)
    for picture, key, coefficients in zip(ink, keys, transforms, strict=True):
        moved = clean[key].transform(
            (side, side), Image.Transform.AFFINE, tuple(coefficients), Image.Resampling.BILINEAR
        )
        picture[:] = np.asarray(moved.reduce(_OVERSAMPLING))
    ink /= 255
    return _degrade(ink, difficulty, rng)


def _random_transforms(
    boxes: NDArray[Any], side: int, difficulty: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return random rotations, sizes and shifts as Pillow's affine coefficients, shape (n, 6)."""
    n = len(boxes)
    turn = difficulty * _ROTATION * rng.uniform(-1, 1, n)
    scale = np.exp(-difficulty * _SHRINK * rng.uniform(0, 1, n))
    shift = difficulty * _SHIFT * side * rng.uniform(-1, 1, (n, 2))
    cos, sin = np.cos(turn), np.sin(turn)
    rotation = np.array([[cos, -sin], [sin, cos]]).transpose(2, 0, 1)
    corners = np.stack([boxes[:, [0, 1]], boxes[:, [2, 1]], boxes[:, [0, 3]], boxes[:, [2, 3]]], axis=2)
    corners = rotation @ (corners - side / 2)
    low, high = corners.min(axis=2), corners.max(axis=2)
    scale = np.minimum(scale, side / (high - low).max(axis=1))[:, None]
    shift = np.clip(shift, -side / 2 - scale * low, side / 2 - scale * high)
    # Pillow takes the inverse map, from the result to the clean image. Ink stays within the image.
    back = rotation.transpose(0, 2, 1) / scale[:, :, None]
    origin = side / 2 - (back @ (side / 2 + shift)[:, :, None])
    return np.concatenate([back, origin], axis=2).reshape(n, 6)


def _degrade(ink: NDArray[np.float32], difficulty: float, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return ink (n, size, size) between 0 and 1 as dark on light, with blur, fading and noise."""
    n, size, _ = ink.shape
    draw = rng.uniform(0, 1, (3, n, 1, 1)).astype(np.float32)
    if difficulty > 0:
        blurred = gaussian_filter(ink, sigma=difficulty * _BLUR * size, axes=(1, 2))
        ink = ink + draw[0] * (blurred - ink)
    ink = ink * np.exp(-difficulty * _FADE * draw[1])
    noise = rng.standard_normal(ink.shape, dtype=np.float32)
    ink = ink + difficulty * _NOISE * draw[2] * noise
    return np.rint(255 * (1 - np.clip(ink, 0, 1))).astype(np.uint8)


def _batch_features(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    n, height, width = images.shape
    ink = np.subtract(1, np.divide(images, 255, dtype=np.float32), dtype=np.float32)
    rows, columns = _pooling(height), _pooling(width).T
    gradients = rows @ _gradients_by_direction(ink) @ columns
    around = uniform_filter(np.square(gradients).sum(axis=1), size=3, axes=(1, 2), mode="nearest")
    gradients = np.sqrt(gradients / np.sqrt(around + _FLAT**2)[:, None])
    pixels = rows @ ink @ columns
    pixels /= pixels.mean(axis=(1, 2), keepdims=True) + _FLAT
    return np.concatenate(
        [(gradients - _GRADIENT_CENTRE).reshape(n, -1), _PIXEL_SCALE * (pixels - 1).reshape(n, -1)], axis=1
    )


def _gradients_by_direction(ink: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return gradient strengths by direction, shape (n, 8, height, width)."""
    _, height, width = ink.shape
    sigma = (_SMOOTHING * height, _SMOOTHING * width)
    # Multiplied by the side, slopes do not depend on the resolution.
    down = gaussian_filter(ink, sigma, order=(1, 0), mode="nearest", axes=(1, 2)) * (height / 32)
    right = gaussian_filter(ink, sigma, order=(0, 1), mode="nearest", axes=(1, 2)) * (width / 32)
    strength = np.hypot(down, right) + np.finfo(np.float32).tiny
    maps = np.empty((len(ink), _ORIENTATIONS, height, width), dtype=np.float32)
    for k, angle in enumerate(2 * np.pi * np.arange(_ORIENTATIONS) / _ORIENTATIONS):
        cosine = np.float32(np.cos(angle)) * right + np.float32(np.sin(angle)) * down
        cosine = np.maximum(cosine, 0) / strength
        np.multiply(strength, np.square(np.square(np.square(cosine))), out=maps[:, k])
    return maps


def _pooling(size: int) -> NDArray[np.float32]:
    """Return weights (8, size) that average pixels into overlapping cells."""
    cell = size / _CELLS
    centres = (np.arange(_CELLS) + 0.5) * cell
    distance = np.abs(np.arange(size) + 0.5 - centres[:, None]) / cell
    weights = np.maximum(1 - distance, 0)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
