"""`load_glyphs`: letters with diacritics, each class described by its Unicode name; nothing to download."""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from scipy.ndimage import gaussian_filter

from cosmo._core.files import write_whole
from cosmo.data._glyph_features import glyph_features
from cosmo.data.dataset import GZSLDataset, Split

__all__ = ["load_glyphs", "write_glyph_images"]

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
_MIN_IN_TRAIN = 2  # in one class only, a mark could not be told from the letter under it

_OVERSAMPLING = 3  # letters are drawn, turned and moved at this multiple of the image size, then averaged
_EM, _BASELINE = 0.68, 0.715  # of the image size: the tallest and the deepest letter both just fit

# The largest perturbations at difficulty 1; shift and blur are relative to the image size.
_TURN = np.deg2rad(10)
_SHRINK = 0.2
_SHIFT = 0.065
_BLUR = 0.025
_FADE = 0.5
_NOISE = 0.1


class _Glyph(NamedTuple):
    character: str
    letter: str
    case: str
    mark: str


def load_glyphs(
    *,
    n_classes: int = 140,
    samples_per_class: int = 40,
    image_size: int = 32,
    difficulty: float = 1.0,
    seed: int = 0,
) -> GZSLDataset:
    """Draw Latin letters with diacritics in 16 type faces, as a generalized zero-shot task.

    A class is a character, such as ``"é"``, and its description is what its Unicode name says
    (LATIN SMALL LETTER E WITH ACUTE): one attribute each of the groups *letter*, *case* and *mark*.
    Unseen classes are combinations without training pictures. Each attribute of an unseen or a
    validation class occurs in at least two of the training classes (those of `split.train`).

    Parameters
    ----------
    n_classes : int
        Characters in all, from 12: half for training, a fifth for validation, three tenths unseen. The
        fewer they are, the more are letters and marks preferred that have many combinations.
    samples_per_class : int
        Pictures of each character, from 2, spread over the type faces. A fifth of those of every seen
        class is held back as `split.test_seen`.
    image_size : int
        Height and width in pixels, 16 to 256.
    difficulty : float
        Strength of rotation, shift, size, blur, contrast and noise, 0 (clean pictures, which repeat
        after 16 samples) to 3.
    seed : int
        Draws the classes, the split and the perturbations; equal arguments give equal data.

    Returns
    -------
    GZSLDataset
        With `images` (n_samples, image_size, image_size), uint8, dark on light, and `features`
        (n_samples, 576), which are `glyph_features` of the images.

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
    kinds = _attribute_numbers(glyphs)
    chosen, roles = _draw_classes(kinds, n_classes, rng)
    glyphs = tuple(glyphs[i] for i in chosen)
    split = _split_rows(roles, samples_per_class, rng)
    faces = rng.permuted(np.tile(np.arange(len(_FACES)), (n_classes, 1)), axis=1)
    faces = faces[:, np.arange(samples_per_class) % len(_FACES)]
    images = _draw([glyph.character for glyph in glyphs], faces, image_size, difficulty, rng)
    return GZSLDataset(
        glyph_features(images),
        np.repeat([glyph.character for glyph in glyphs], samples_per_class),
        _describe(glyphs),
        split,
        sample_names=[
            f"U+{ord(glyph.character):04X} {_FACES[face]} #{i}"
            for glyph, row in zip(glyphs, faces, strict=True)
            for i, face in enumerate(row)
        ],
        images=images,
        name="glyphs",
    )


def write_glyph_images(folder: str | os.PathLike[str], **options: Any) -> None:
    """Write the glyphs as picture files, as somebody who brings a task of their own would have them.

    `train` has a folder of PNG files for each seen class, `test` one for each class, and
    `descriptions.csv` a row of attributes (`group::attribute`) for each class. Classes are called by
    names that any disk can keep apart, such as "small-e-with-acute".

    Parameters
    ----------
    folder : path
        Made if need be; it must not have a `train` or `test` yet.
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
            raise FileExistsError(f"{folder / part} is there already; give another folder")
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
    write_whole(folder / "descriptions.csv", table.astype(int).to_csv().encode())


def _file_name(character: str) -> str:
    """Return the Unicode name without what all have in common: "small-e-with-acute"."""
    words = unicodedata.name(character).lower().split()
    return "-".join(word for word in words if word not in ("latin", "letter"))


def _check_range(name: str, value: float, low: int, high: int | None, why: str = "") -> None:
    if not low <= value <= (np.inf if high is None else high):
        limits = f"at least {low}" if high is None else f"from {low} to {high}"
        raise ValueError(f"{name} must be {limits}, got {value}" + (f"; {high} {why}" if why else ""))


@cache
def _available() -> tuple[_Glyph, ...]:
    """Return the characters that every face can draw, with what their names say, in Unicode order."""
    from matplotlib.ft2font import FT2Font

    charmaps = [FT2Font(str(_font_path(face))).get_charmap() for face in _FACES]
    drawable = set.intersection(*({code for code, glyph in chars.items() if glyph} for chars in charmaps))
    named = ((chr(code), _NAME.fullmatch(unicodedata.name(chr(code), ""))) for code in sorted(drawable))
    glyphs = [
        _Glyph(character, name[2].lower(), name[1].lower(), (name[3] or "none").lower())
        for character, name in named
        if name
    ]
    per_mark = Counter(glyph.mark for glyph in glyphs)
    return tuple(glyph for glyph in glyphs if per_mark[glyph.mark] >= _MIN_PER_MARK)


def _font_path(face: str) -> Path:
    import matplotlib  # here, since it takes a third of a second and only this data set needs it

    return Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{face}.ttf"


def _attribute_numbers(glyphs: tuple[_Glyph, ...]) -> NDArray[np.intp]:
    """Return (n_glyphs, 3): letter, case and mark of each, numbered through from 0."""
    columns: list[NDArray[np.intp]] = []
    used = 0
    for attribute in ("letter", "case", "mark"):
        codes, values = pd.factorize(np.array([getattr(glyph, attribute) for glyph in glyphs]))
        columns.append(codes + used)
        used += len(values)
    return np.stack(columns, axis=1)


def _draw_classes(
    kinds: NDArray[np.intp], n: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.str_]]:
    """Return `n` sorted rows of `kinds` and the role of each.

    A few classes drawn from all hardly share letters and marks. Each time that leaves no split, the
    draw goes on without a class whose attribute is the rarest, towards a dense table of combinations.
    """
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
    """Return "train", "val" or "test" per class, or None when the draw left too few to hold out.

    Every attribute of the classes held out for "val" and "test" occurs in two or more of "train".
    """
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
    """Return the split of the rows, which are ordered by class with `per_class` rows each."""
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


def _describe(glyphs: tuple[_Glyph, ...]) -> pd.DataFrame:
    """Return the one-hot table of shape (n_glyphs, n_attributes) with the attributes that occur."""
    groups = {}
    for group in ("letter", "case", "mark"):
        values = pd.Series([getattr(glyph, group) for glyph in glyphs])
        groups[group] = pd.get_dummies(values, dtype=np.float32)
    table = pd.concat(groups, axis=1, names=["group", "attribute"])
    table.index = pd.Index([glyph.character for glyph in glyphs])
    return table


def _draw(
    characters: list[str],
    faces: NDArray[np.intp],
    size: int,
    difficulty: float,
    rng: np.random.Generator,
) -> NDArray[np.uint8]:
    """Return (n_characters * n_samples, size, size) pictures; `faces` is (n_characters, n_samples)."""
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
    placed = _place(boxes, side, difficulty, rng)
    ink = np.empty((len(keys), size, size), dtype=np.float32)
    for picture, key, coefficients in zip(ink, keys, placed, strict=True):
        moved = clean[key].transform(
            (side, side), Image.Transform.AFFINE, tuple(coefficients), Image.Resampling.BILINEAR
        )
        picture[:] = np.asarray(moved.reduce(_OVERSAMPLING))
    ink /= 255
    return _on_paper(ink, difficulty, rng)


def _place(
    boxes: NDArray[Any], side: int, difficulty: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return random rotations, sizes and shifts as rows of Pillow's six affine coefficients.

    `boxes` (n, 4) are the left, top, right and lower ends of the ink; it never leaves the picture.
    """
    n = len(boxes)
    turn = difficulty * _TURN * rng.uniform(-1, 1, n)
    scale = np.exp(-difficulty * _SHRINK * rng.uniform(0, 1, n))
    shift = difficulty * _SHIFT * side * rng.uniform(-1, 1, (n, 2))
    cos, sin = np.cos(turn), np.sin(turn)
    rotation = np.array([[cos, -sin], [sin, cos]]).transpose(2, 0, 1)
    corners = np.stack([boxes[:, [0, 1]], boxes[:, [2, 1]], boxes[:, [0, 3]], boxes[:, [2, 3]]], axis=2)
    corners = rotation @ (corners - side / 2)
    low, high = corners.min(axis=2), corners.max(axis=2)
    scale = np.minimum(scale, side / (high - low).max(axis=1))[:, None]
    shift = np.clip(shift, -side / 2 - scale * low, side / 2 - scale * high)
    # Pillow wants the way back: from a pixel of the result to a place in the clean picture.
    back = rotation.transpose(0, 2, 1) / scale[:, :, None]
    origin = side / 2 - (back @ (side / 2 + shift)[:, :, None])
    return np.concatenate([back, origin], axis=2).reshape(n, 6)


def _on_paper(ink: NDArray[np.float32], difficulty: float, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Return ink (n, size, size) between 0 and 1 as dark on light, blurred, faded and noisy at random."""
    n, size, _ = ink.shape
    draw = rng.uniform(0, 1, (3, n, 1, 1)).astype(np.float32)
    if difficulty > 0:
        blurred = gaussian_filter(ink, sigma=difficulty * _BLUR * size, axes=(1, 2))
        ink = ink + draw[0] * (blurred - ink)
    ink = ink * np.exp(-difficulty * _FADE * draw[1])
    noise = rng.standard_normal(ink.shape, dtype=np.float32)
    ink = ink + difficulty * _NOISE * draw[2] * noise
    return np.rint(255 * (1 - np.clip(ink, 0, 1))).astype(np.uint8)
