"""Measure the groups that `discover` finds: intents without a description, and out-of-scope queries.

As in `benchmarks/intents.py`, 100 of the CLINC intents are seen and 50 are unseen; the model does not know
of ten of these. It gets the test texts of all intents and queries that are out of scope, without labels. A
group is of the intent that most of its texts have. Purity is the share of that intent in the groups of
withheld intents, recall the share of the texts of withheld intents that is in a group of their intent. Then
all those groups are added with their drafts, and accuracies are compared with those of the withheld
descriptions.

    COSMO_DATA=... python benchmarks/discover.py --write docs/results/discover.md
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cosmo import Model, discover, fit_model
from cosmo._core.files import write_atomic
from cosmo.encoders import extract, make_encoder
from cosmo.experts import make_seen_expert, make_unseen_expert
from cosmo.metrics.accuracy import per_class_accuracy
from intents import draw, read

WITHHELD, SCOPE = 10, "out of scope"


def measure(
    folder: Path, cache: str, seed: int, part: str, reject: float
) -> tuple[dict[str, Any], pd.DataFrame]:
    """Return the figures of one draw, and its groups."""
    data, encoder = read(folder, cache), make_encoder("minilm")
    sentences = json.loads((folder / "descriptions.json").read_text())
    scope = pd.read_csv(folder / "out_of_scope.csv")
    others = scope.loc[(scope["part"] == "test") == (part == "test"), "text"].tolist()
    split = draw(data.y, pd.Index(sorted(sentences)), seed)
    unseen = data.y[split.test_unseen].unique().sort_values()
    withheld = unseen[np.random.default_rng(seed).permutation(len(unseen))[:WITHHELD]]
    rows = data.X[split.trainval]
    known = {name: text for name, text in sentences.items() if name not in withheld}
    experts = {"seen": make_seen_expert("logistic-unit"), "unseen": make_unseen_expert("similarity")}
    model = fit_model(rows, data.y[split.trainval], known, encoder=encoder, **experts)

    test = np.concatenate([split.test_seen, split.test_unseen])
    X = np.concatenate([data.X[test], extract(encoder, others, cache=cache).features])
    texts = pd.read_csv(folder / "utterances.csv")["text"].to_numpy()[test].tolist() + others
    truth = np.concatenate([data.y[test].to_numpy(dtype=object), np.full(len(others), SCOPE)])
    found = discover(model, texts, rows=X, reject=reject)

    conformity = model.cosmo.conformity(X)
    is_new = np.isin(truth, withheld)
    groups = found.groups
    counts = [pd.Series(truth[found.labels == name]).value_counts() for name in groups.index]
    groups["intent"], groups["share"] = [c.index[0] for c in counts], [c.iloc[0] / c.sum() for c in counts]
    of_new = groups[groups["intent"].isin(withheld)]
    right = of_new["size"] * of_new["share"]
    figures: dict[str, Any] = {
        "rejected, withheld": (conformity[is_new] <= reject).mean(),
        "rejected, out of scope": (conformity[truth == SCOPE] <= reject).mean(),
        "rejected, known": (conformity[~is_new & (truth != SCOPE)] <= reject).mean(),
        "groups": len(groups),
        "groups of withheld intents": len(of_new),
        "groups of known intents": int((~groups["intent"].isin([*withheld, SCOPE])).sum()),
        "withheld intents with a group": of_new["intent"].nunique(),
        "first ten groups of withheld intents": groups["intent"][:10].isin(withheld).sum(),
        "purity": right.sum() / of_new["size"].sum(),
        "recall": right.sum() / is_new.sum(),
    }
    intent = dict(zip(of_new.index, of_new["intent"], strict=True))
    drafts = {name: found.descriptions[name] for name in intent}
    own = {name: sentences[name] for name in withheld}
    for kind, added, meant in (
        ("nothing", {}, {}),
        ("drafts", drafts, intent),
        ("withheld descriptions", own, {}),
    ):
        figures |= accuracies(model, added, meant, X, truth, withheld, kind)
    return figures, groups


def accuracies(
    model: Model,
    added: dict[str, str],
    meant: dict[str, str],
    X: np.ndarray,
    truth: np.ndarray,
    withheld: Any,
    kind: str,
) -> dict[str, float]:
    """Return accuracies after classes were added to a copy; `meant` is the intent of a new class."""
    from copy import copy

    model = copy(model)
    model.cosmo = copy(model.cosmo)
    if added:
        model.add_classes(added)
    guess = [meant.get(one, one) for one in model.predict(X)]
    known = truth != SCOPE
    named = pd.Index(truth[known]), pd.Index(np.array(guess, dtype=object)[known])
    others = named[0].unique().difference(pd.Index(withheld))
    return {
        f"withheld, {kind} added": per_class_accuracy(*named, withheld),
        f"others, {kind} added": per_class_accuracy(*named, others),
    }


def document(frame: pd.DataFrame, groups: pd.DataFrame, reject: float) -> Iterator[str]:
    """Return the lines of the page."""
    mean, deviation = frame.mean(), frame.std()

    def percent(name: str) -> str:
        return f"{100 * mean[name]:.1f} ± {100 * deviation[name]:.1f}"

    yield "# Discovery: intents that nobody has described\n"
    yield "Written by `python benchmarks/discover.py --write docs/results/discover.md`.\n"
    yield f"CLINC, {len(frame)} draws: 100 seen and 40 unseen intents, {WITHHELD} intents whose descriptions"
    yield "are withheld (150 texts each), and queries that are out of scope. All test texts are given to"
    yield "`discover` without labels; its parameters were chosen on draws 100 and 101 and other queries."
    yield "A group is of the intent that most of its texts have. Means over draws ± standard deviation.\n"
    yield "| | |\n|---|---:|"
    few = f"texts of withheld intents with a conformity of at most {reject:g}, percent"
    yield f"| {few} | {percent('rejected, withheld')} |"
    yield f"| the same of queries out of scope | {percent('rejected, out of scope')} |"
    yield f"| the same of known intents | {percent('rejected, known')} |"
    counts = "groups", "groups of withheld intents", "groups of known intents"
    for name in (*counts, "withheld intents with a group", "first ten groups of withheld intents"):
        label = f"{name} (of {WITHHELD})" if name == "withheld intents with a group" else name
        yield f"| {label} | {mean[name]:.1f} ± {deviation[name]:.1f} |"
    yield f"| purity of groups of withheld intents, percent | {percent('purity')} |"
    yield f"| recall of their texts, percent | {percent('recall')} |"
    yield "\nAccuracy per intent after adding these groups as classes, by their drafts, percent:\n"
    yield "| added | withheld intents | other intents |\n|---|---:|---:|"
    for kind in ("nothing", "drafts", "withheld descriptions"):
        yield f"| {kind} | {percent(f'withheld, {kind} added')} | {percent(f'others, {kind} added')} |"
    yield "\nGroups of the first draw, the least known first:\n"
    yield "| proposed name | texts | intent of most | share | nearest class |\n|---|---:|---|---:|---|"
    for name, row in groups.iterrows():
        nearest = row["nearest"].split(", ")[0]
        yield f"| {name} | {row['size']} | {row['intent']} | {100 * row['share']:.0f} | {nearest} |"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--draws", type=int, default=3)
    options.add_argument("--first", type=int, default=0, metavar="SEED", help="of the first draw")
    options.add_argument("--part", choices=["development", "test"], default="test", help="of the queries")
    options.add_argument("--reject", type=float, default=0.3)
    options.add_argument("--cache", default="cosmo-runs/cache", metavar="DIR")
    options.add_argument("--write", metavar="FILE")
    args = options.parse_args()
    folder = Path(os.environ.get("COSMO_DATA", "../shared/data"), "intents", "clinc")
    seeds = range(args.first, args.first + args.draws)
    found = [measure(folder, args.cache, seed, args.part, args.reject) for seed in seeds]
    text = "\n".join(document(pd.DataFrame([one for one, _ in found]), found[0][1], args.reject)) + "\n"
    print(text)
    if args.write:
        write_atomic(Path(args.write), text.encode())


if __name__ == "__main__":
    main()
