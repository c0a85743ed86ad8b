"""Write the tables of the starter `cosmo init fruit`: simulated measurements of a sorting line.

    python benchmarks/make_fruit.py

The measurements of a fruit follow from its attributes (`descriptions.csv`): light that it reflects in five
bands, diameter and weight, gloss and texture, sugar and acid, all relative to the range of the sensor.
"""

from pathlib import Path

import numpy as np
import pandas as pd

FOLDER = Path(__file__).parents[1] / "src/cosmo/data/starters/features"
BANDS = [f"{name}_light" for name in ("blue", "green", "yellow", "orange", "red")]
LIGHT = {
    "green": (0.25, 0.75, 0.50, 0.30, 0.20),
    "yellow": (0.20, 0.60, 0.85, 0.75, 0.65),
    "orange": (0.10, 0.20, 0.50, 0.85, 0.75),
    "red": (0.10, 0.08, 0.12, 0.30, 0.80),
    "blue": (0.65, 0.25, 0.15, 0.12, 0.15),
}
DIAMETER = {"small": 0.12, "medium": 0.4, "large": 0.9}


def measure(row: pd.Series, rng: np.random.Generator) -> dict[str, float]:
    """Return the measurements of one fruit of a class."""
    has = dict(column.split("::") for column in row.index[row == 1])
    light = np.clip(LIGHT[has["colour"]] + rng.normal(0, 0.06, 5), 0.01, 0.99)
    diameter = DIAMETER[has["size"]] * rng.lognormal(0, 0.08)
    weight = diameter**3 * rng.lognormal(0, 0.1)
    smooth, sweet = has["skin"] == "smooth", has["taste"] == "sweet"
    others = {
        "diameter": diameter,
        "weight": min(weight, 1.0),
        "gloss": (0.8 if smooth else 0.3) + rng.normal(0, 0.1),
        "texture": (0.2 if smooth else 0.7) + rng.normal(0, 0.1),
        "sugar": (0.7 if sweet else 0.4) + rng.normal(0, 0.1),
        "acid": (0.2 if sweet else 0.6) + rng.normal(0, 0.1),
    }
    return dict(zip(BANDS, light.round(3), strict=True)) | {name: round(x, 3) for name, x in others.items()}


def main() -> None:
    """Write `samples.csv` and `test.csv`."""
    rng = np.random.default_rng(0)
    table = pd.read_csv(FOLDER / "descriptions.csv", index_col=0)
    for name in ("samples.csv", "test.csv"):
        fruit = pd.read_csv(FOLDER / name)["fruit"]
        rows = pd.DataFrame([measure(table.loc[label], rng) for label in fruit])
        rows.assign(fruit=fruit).to_csv(FOLDER / name, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
