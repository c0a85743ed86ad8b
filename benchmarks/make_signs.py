"""Draw the pictures of the starter `cosmo init signs --kind images`: simulated photographs of signs.

    python benchmarks/make_signs.py

A sign has a colour, a shape and a symbol. Size, angle, light, sharpness and wall vary. A fourth of the
classes has pictures for the test only.
"""

import argparse
import io
import itertools
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw, ImageFilter

FOLDER = Path(__file__).parents[1] / "src/cosmo/data/starters/images"
COLOURS = {"red": (190, 30, 40), "blue": (30, 80, 170), "yellow": (240, 195, 30), "green": (20, 125, 70)}
SHAPES = {"round": (60, 0, 1), "square": (4, 45, 1.15), "triangle": (3, -90, 1.15), "diamond": (4, 0, 1.05)}
SYMBOLS = ("arrow", "cross", "bars", "dots")
GROUPS = {"colour": COLOURS, "shape": SHAPES, "symbol": SYMBOLS}
N_CLASSES, N_UNSEEN, N_TRAIN, N_TEST = 32, 8, 8, 5
SIDE, OVERSAMPLING = 80, 4


def corners(n: int, degrees: float = 0.0, size: float = 1.0, at: tuple[float, float] = (0, 0)) -> np.ndarray:
    """Return the corners of a regular polygon."""
    angles = np.deg2rad(degrees) + 2 * np.pi * np.arange(n) / n
    return size * np.stack([np.cos(angles), np.sin(angles)], axis=1) + at


def bar(y: float, width: float, height: float) -> np.ndarray:
    """Return the corners of a rectangle around (0, y)."""
    return np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * (width, height) + (0, y)


def parts(symbol: str) -> list[np.ndarray]:
    """Return the polygons of a symbol."""
    match symbol:
        case "arrow":
            return [np.array([(-0.36, 0), (0, -0.45), (0.36, 0)]), bar(0.2, 0.13, 0.25)]
        case "cross":
            turn = np.array([[1, 1], [-1, 1]]) / np.sqrt(2)
            return [bar(0, *size) @ turn for size in ((0.5, 0.11), (0.11, 0.5))]
        case "bars":
            return [bar(y, 0.38, 0.08) for y in (-0.3, 0, 0.3)]
    return [corners(30, 0, 0.13, (0.24 * i, 0.24 * j)) for i in (-1, 1) for j in (-1, 1)]


def photograph(colour: str, shape: str, symbol: str, rng: np.random.Generator) -> Image.Image:
    """Return a picture of a sign."""
    side = SIDE * OVERSAMPLING
    wall = np.linspace(*rng.uniform(70, 200, 2), side)[:, None] + rng.uniform(-60, 60, 3)
    picture = Image.fromarray(np.broadcast_to(wall[:, None], (side, side, 3)).clip(0, 255).astype(np.uint8))
    angle = np.deg2rad(rng.uniform(-10, 10))
    view = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    view = side * rng.uniform(0.34, 0.42) * np.diag([rng.uniform(0.85, 1), 1]) @ view
    centre = side * (0.5 + rng.uniform(-0.05, 0.05, 2))
    face, down = corners(*SHAPES[shape]), 0.23 * (shape == "triangle")
    ink, small = (30, 30, 30) if colour == "yellow" else (245, 245, 245), 0.8 if down else 1
    layers = [(face, (235, 235, 235)), (0.93 * face, COLOURS[colour])]
    canvas = ImageDraw.Draw(picture)
    for polygon, fill in layers + [(small * part, ink) for part in parts(symbol)]:
        canvas.polygon([*map(tuple, (polygon + np.array([0, down])) @ view + centre)], fill=fill)
    blurred = picture.reduce(OVERSAMPLING).filter(ImageFilter.GaussianBlur(rng.uniform(0, 1)))
    light = rng.uniform(0.65, 1.2) * np.exp(rng.normal(0, 0.04, 3))
    pixels = np.asarray(blurred) * light + rng.normal(0, 2, (SIDE, SIDE, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def draw_classes(rng: np.random.Generator) -> list[tuple[str, ...]]:
    """Return classes, the unseen ones first; each attribute occurs in at least four seen classes."""
    combinations = [*itertools.product(*GROUPS.values())]
    while True:
        classes = [combinations[i] for i in rng.permutation(len(combinations))[:N_CLASSES]]
        words, counts = np.unique(np.array(classes[N_UNSEEN:]), return_counts=True)
        if len(words) == 12 and counts.min() >= 4:
            return classes


def main() -> None:
    """Write `descriptions.csv` and `pictures.zip`."""
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", type=Path, default=FOLDER)
    args = options.parse_args()
    rng = np.random.default_rng(args.seed)
    table = {}
    with zipfile.ZipFile(args.out / "pictures.zip", "w") as archive:
        for k, combination in enumerate(draw_classes(rng)):
            name = "-".join(combination)
            table[name] = {f"{group}::{x}": int(x in combination) for group in GROUPS for x in GROUPS[group]}
            for part, n in (("train", N_TRAIN * (k >= N_UNSEEN)), ("test", N_TEST)):
                for i in range(n):
                    photograph(*combination, rng).save(content := io.BytesIO(), "JPEG", quality=80)
                    archive.writestr(zipfile.ZipInfo(f"{part}/{name}/{i}.jpg"), content.getvalue())
    rows = pd.DataFrame.from_dict(table, orient="index").rename_axis("sign")
    rows.to_csv(args.out / "descriptions.csv", lineterminator="\n")


if __name__ == "__main__":
    main()
