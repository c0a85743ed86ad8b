"""Evaluate COSMO on images from folders of files, and measure the speed of the encoder.

The glyphs are written as PNG files, a folder for each class, read back, and encoded by the default image
encoder. The result is compared with that of the features designed for glyphs.

    python benchmarks/images.py --write docs/results/images.md
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import cosmo
from cosmo._core.files import write_atomic
from cosmo.data import load_glyphs, match_labels, read_descriptions, read_image_folder, write_glyph_images
from cosmo.encoders import extract, make_encoder
from cosmo.evaluation.evaluate import evaluate_model

ENCODER = "efficientnet-lite0"


def row(name: str, model: cosmo.Model, X: np.ndarray, y: object) -> str:
    found = evaluate_model(model, X, y)
    cells = [f"{100 * value:.1f}" for value in (*found.scores, found.ausuc)]
    return f"| {name} | {' | '.join(cells)} |"


def document(n_classes: int, samples: int) -> str:
    data = load_glyphs(n_classes=n_classes, samples_per_class=samples)
    train = data.split.trainval
    own = cosmo.fit_model(data.features[train], data.labels[train], data.descriptions)
    test = np.concatenate([data.split.test_seen, data.split.test_unseen])
    encoder = make_encoder(ENCODER)
    with tempfile.TemporaryDirectory() as folder:
        write_glyph_images(folder, n_classes=n_classes, samples_per_class=samples)
        descriptions = read_descriptions(Path(folder, "descriptions.csv"))
        parts = [read_image_folder(Path(folder, part)) for part in ("train", "test")]
        wall, cpu = time.perf_counter(), time.process_time()
        features = [extract(encoder, paths, report=print).features for paths, _ in parts]
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    n = sum(map(len, features))
    labels = [match_labels(y, descriptions.index) for _, y in parts]
    model = cosmo.fit_model(features[0], labels[0], descriptions)
    return "\n".join(
        [
            "# Pictures, from folders to answers",
            "",
            f"Written by `python benchmarks/images.py --write docs/results/images.md`. {n:,} glyphs of "
            f"{n_classes} classes as PNG files, a folder for each class, encoded by `{ENCODER}` (made for "
            "photographs), learned by logistic regression and ESZSL; beside it the features that were made "
            "for glyphs. Test, percent:",
            "",
            "| features | Acc_ts | Acc_tr | Acc_H | AUSUC |",
            "|---|---:|---:|---:|---:|",
            row(f"`{ENCODER}`, from files", model, features[1], labels[1]),
            row("made for glyphs", own, data.features[test], data.labels[test]),
            "",
            f"Reading, decoding and encoding: {n / cpu:.0f} pictures a CPU second, {n / wall:.0f} a second.",
            "",
        ]
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--classes", type=int, default=140)
    options.add_argument("--samples", type=int, default=40, help="of each class (default %(default)s)")
    options.add_argument("--write", metavar="FILE")
    args = options.parse_args()
    text = document(args.classes, args.samples)
    print(text)
    if args.write:
        write_atomic(Path(args.write), text.encode())


if __name__ == "__main__":
    main()
