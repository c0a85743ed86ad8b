"""Measure the accuracy of intents that are added after training, by description and then by 20 texts.

A model is trained on the first draw of `benchmarks/intents.py`, without some of the unseen intents, and
saved. For each of those the file is loaded, the intent is added by its description, then promoted with its
first texts. Accuracies are those of the intent, on its other texts, and of all other intents.

    COSMO_DATA=... python benchmarks/new_intents.py --write docs/results/new-intents.md
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

import cosmo
from cosmo._core.files import write_atomic
from cosmo.experts import SimilarityExpert, make_seen_expert
from cosmo.metrics.accuracy import per_class_accuracy
from intents import SEEN, read

WORDING = "description and name"


def measure(folder: Path, cache: str | None, later: int, texts: int) -> pd.DataFrame:
    intents = read(folder, cache)
    data = intents.drawn(WORDING, 0)
    rng = np.random.default_rng(0)
    new = data.unseen_classes[np.sort(rng.permutation(len(data.unseen_classes))[:later])]
    others = data.unseen_classes.drop(new)
    train = np.sort(data.split.trainval)
    model = cosmo.fit_model(
        data.features[train],
        data.labels[train],
        data.descriptions.drop(index=new),
        seen=make_seen_expert(SEEN),
        unseen=SimilarityExpert(),
    )
    seen_rows, unseen_rows = data.split.test_seen, data.split.test_unseen
    other_rows = unseen_rows[data.labels[unseen_rows].isin(others)]

    def accuracies(changed: cosmo.Model, rows: np.ndarray, name: str) -> dict[str, float]:
        def accuracy(rows: np.ndarray, classes: pd.Index) -> float:
            guess = changed.predict(data.features[rows])
            return 100 * per_class_accuracy(data.labels[rows], guess, classes)

        return {
            f"{name}: the intent": accuracy(rows, data.labels[rows].unique()) if len(rows) else np.nan,
            f"{name}: seen intents": accuracy(seen_rows, data.seen_classes),
            f"{name}: other unseen": accuracy(other_rows, others),
        }

    found = {}
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "intents.cosmo")
        model.save(path)
        before = accuracies(model, np.array([], dtype=int), "before")
        for one in new:
            rows = unseen_rows[data.labels[unseen_rows] == one]
            first, rest = rows[:texts], rows[texts:]
            changed = cosmo.Model.load(path).add_classes(data.descriptions.loc[[one]])
            line = before | accuracies(changed, rest, "added")
            start = time.process_time()
            changed.promote(one, data.features[first])
            line["promote, CPU s"] = time.process_time() - start
            found[one] = line | accuracies(changed, rest, "promoted")
    return pd.DataFrame.from_dict(found, orient="index")


def document(found: pd.DataFrame, texts: int) -> str:
    factor = stats.t.ppf(0.975, len(found) - 1) / np.sqrt(len(found))
    rise = found["promoted: the intent"] - found["added: the intent"]
    lines = [
        "# New intents: by description, then by their first texts",
        "",
        "Written by `python benchmarks/new_intents.py --write docs/results/new-intents.md`: the first draw "
        f"of [intents](intents.md), known by {WORDING}. {len(found)} of the unseen intents are unknown to "
        f"the model when it is saved; each is added to it by its description, then promoted by {texts} "
        "texts. Mean accuracy per class on other texts, among all intents, percent.",
        "",
        "| | before | added by description | promoted |",
        "|---|---:|---:|---:|",
    ]
    for what in ("the intent", "seen intents", "other unseen"):
        cells = [found[f"{when}: {what}"].mean() for when in ("before", "added", "promoted")]
        lines.append(f"| {what} | " + " | ".join("" if np.isnan(c) else f"{c:.1f}" for c in cells) + " |")
    better = int((rise >= 0).sum())
    lines += [
        "",
        f"The promoted intent rises by {rise.mean():.1f} ± {factor * rise.std():.1f} points (95 % interval "
        f"over intents), and rises or stays for {better} of {len(found)}. A promotion takes "
        f"{found['promote, CPU s'].mean():.1f} CPU seconds.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--cache", default="cosmo-runs/cache", metavar="DIR")
    options.add_argument(
        "--later", type=int, default=25, help="intents that come after training (%(default)s)"
    )
    options.add_argument("--texts", type=int, default=20, help="to promote with (default %(default)s)")
    options.add_argument("--write", metavar="FILE")
    args = options.parse_args()
    folder = Path(os.environ.get("COSMO_DATA", "../shared/data"), "intents", "clinc")
    text = document(measure(folder, args.cache, args.later, args.texts), args.texts)
    print(text)
    if args.write:
        write_atomic(Path(args.write), text.encode())


if __name__ == "__main__":
    main()
