"""Measure how well samples of no known class are rejected, and what the promises are worth on new draws.

Intents (CLINC): 100 seen intents, 50 with a description only, and queries that were collected as out of
scope; the draws are those of `benchmarks/intents.py`. Glyphs: 78 seen classes, 42 by description, and 20 that
the model does not know. Detectors are compared by the area under the ROC curve, known against unknown
samples, with the same weight for each known class. Thresholds come from hold-out rounds of the training rows.

    python benchmarks/unknown.py --write docs/results/unknown.md

Intents below the folder that COSMO_DATA names; without it they are left out.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import logsumexp
from sklearn.metrics import roc_auc_score

from cosmo import Cosmo
from cosmo._core.files import write_atomic
from cosmo.data import load_glyphs
from cosmo.encoders import extract, make_encoder
from cosmo.evaluation.evaluate import class_weights, risk
from cosmo.experts import make_seen_expert, make_unseen_expert
from cosmo.experts._linear import unit_rows
from intents import draw, read

COVERAGES = (0.2, 0.4, 0.5, 0.6, 0.7)
ALPHAS, ACCURACIES = (0.02, 0.05, 0.1), (0.95, 0.98)
TITLES = {
    "intents": "CLINC intents, 100 seen and 50 unseen",
    "glyphs": "Glyphs, 78 seen and 42 unseen",
}
KINDS = ("seen", "unseen", "unknown")


class Task(NamedTuple):
    """Rows and labels; labels of unknown samples are None."""

    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    table: pd.DataFrame
    experts: dict[str, Any]


def intents_task(folder: Path, cache: str, seed: int, part: str) -> Task:
    data = read(folder, cache)
    table = data.descriptions["description and name"]
    scope = pd.read_csv(folder / "out_of_scope.csv")
    texts = scope.loc[(scope["part"] == "test") == (part == "test"), "text"].tolist()
    unknown = extract(make_encoder("minilm"), texts, cache=cache).features
    split = draw(data.y, table.index, seed)
    test = np.concatenate([split.test_seen, split.test_unseen])
    labels = np.concatenate([data.y[test].to_numpy(dtype=object), np.full(len(unknown), None)])
    experts = {"seen": make_seen_expert("logistic-unit"), "unseen": make_unseen_expert("similarity")}
    train = data.X[split.trainval], data.y[split.trainval].to_numpy()
    return Task(train, (np.concatenate([data.X[test], unknown]), labels), table, experts)


def glyphs_task(seed: int) -> Task:
    data = load_glyphs()
    rng = np.random.default_rng(seed)
    classes, y = rng.permutation(data.descriptions.index.to_numpy()), data.labels.to_numpy()
    seen, unseen, unknown = classes[:78], classes[78:120], classes[120:]
    place = pd.Series(rng.permutation(len(y)).argsort()).groupby(y).rank(pct=True).to_numpy()
    is_seen, is_test = np.isin(y, seen), place <= 0.2
    train, test = np.flatnonzero(is_seen & ~is_test), np.flatnonzero(~is_seen | is_test)
    labels = y[test].astype(object)
    labels[np.isin(y[test], unknown)] = None
    table = data.descriptions.loc[np.concatenate([seen, unseen])]
    return Task((data.features[train], y[train]), (data.features[test], labels), table, {})


def measure(task: Task) -> dict[str, Any]:
    """Return the figures of one draw."""
    start = time.process_time()
    model = Cosmo(task.table, **task.experts).fit(*task.train)
    seconds = time.process_time() - start
    X, truth = task.test
    is_seen = np.isin(truth, model.seen_classes_)
    is_known = np.array([label is not None for label in truth])
    kind = np.where(is_seen, 0, np.where(is_known, 1, 2))
    weights = class_weights(truth)
    found: dict[str, Any] = {"cpu": seconds}
    for name, score in detectors(model, task).items():
        found[f"auroc {name}"] = roc_auc_score(is_known, score, sample_weight=weights)
        for k in (0, 1):
            rows = (kind == k) | (kind == 2)
            found[f"auroc {KINDS[k]} {name}"] = roc_auc_score(is_known[rows], score[rows])
        order = np.argsort(score[is_known])
        share = np.cumsum(weights[is_known][order]) / weights[is_known].sum()
        found[f"fpr {name}"] = (
            score[~is_known] >= score[is_known][order][np.searchsorted(share, 0.05)]
        ).mean()

    def mean(values: np.ndarray, k: int) -> float:
        return float(np.average(values[kind == k], weights=weights[kind == k]))

    conformity = model.conformity(X)
    for alpha in ALPHAS:
        for k, name in enumerate(KINDS):
            found[f"rejected {alpha} {name}"] = mean(conformity <= alpha, k)
        sets = model.predict_set(X[is_known], alpha)
        covered, size = np.zeros(len(X)), np.zeros(len(X))
        covered[is_known] = [label in one for label, one in zip(truth[is_known], sets, strict=True)]
        size[is_known] = [len(one) for one in sets]
        for k in (0, 1):
            found[f"covered {alpha} {KINDS[k]}"], found[f"size {alpha} {KINDS[k]}"] = (
                mean(covered, k),
                mean(size, k),
            )
    labels, probability, _ = model.predict_top(X, 1)
    right, answer = labels[:, 0] == truth, np.isin(labels[:, 0], model.seen_classes_)
    share = model.combination_.unseen_share
    for accuracy in ACCURACIES:
        try:
            least = model.least_probability(accuracy)
        except ValueError:  # No share of the answers has this accuracy.
            found |= {f"answered {accuracy}": 0.0, f"accuracy {accuracy}": np.nan}
            continue
        kept = probability[:, 0] >= least
        answered = [mean(kept, k) for k in (0, 1)]
        correct = [mean(kept & right, k) for k in (0, 1)]
        at = np.array([1 - share, share])
        found[f"answered {accuracy}"] = at @ answered
        found[f"accuracy {accuracy}"] = at @ correct / (at @ answered)
    given = np.where(conformity <= 0.05, 2, np.where(answer, 0, 1))
    for k, name in enumerate(KINDS):
        for j, other in enumerate(KINDS):
            found[f"table {name} {other}"] = mean(given == j, k)
    thirds = weights / np.bincount(kind, weights=weights)[kind]
    for coverage in COVERAGES:
        found[f"risk {coverage}"] = risk(conformity, ~right, thirds, coverage)
        found[f"risk p(y) {coverage}"] = risk(probability[:, 0], ~right, thirds, coverage)
    return found


def detectors(model: Cosmo, task: Task) -> dict[str, np.ndarray]:
    """Return scores, larger for known classes."""
    X = task.test[0]
    experts = model.experts_
    logits, scores = experts._predict(X)
    temperatures, n_seen = experts.temperatures, logits.shape[1]
    both = np.hstack([logits / temperatures.seen, scores[:, n_seen:] / temperatures.unseen])
    support = experts.support(X)
    rejection = model.combination_.rejection_
    near = rejection.mean[2]
    found = {
        "cosmo": rejection.score(support),
        "cosmo without distance": rejection.score(np.column_stack([support[:, :2], np.full(len(X), near)])),
        "largest p(y)": model.predict_top(X, 1)[1][:, 0],
        "max-softmax of the seen expert": experts.predictions(X).seen.max(axis=1),
        "energy of the seen expert": logsumexp(logits, axis=1),
        "energy of both experts": logsumexp(both, axis=1),
        "best score of the unseen expert": scores.max(axis=1),
    }
    table = task.table.to_numpy()
    if X.shape[1] == table.shape[1]:
        found["nearest description"] = (unit_rows(X) @ unit_rows(table).T).max(axis=1)
    return found


def document(frames: dict[str, pd.DataFrame]) -> Iterator[str]:
    """Return the lines of the result page."""
    yield "# Unknown: samples of no class that the model knows\n"
    yield "Written by `python benchmarks/unknown.py --write docs/results/unknown.md`.\n"
    yield "Percent; means over draws of the classes ± their standard deviation. Known classes count the same."
    yield "The score was designed on other draws (100 to 107) and on other out-of-scope queries."
    for name, frame in frames.items():
        mean = 100 * frame.mean()
        cell = (mean.map("{:.1f}".format) + (100 * frame.std()).map(" ± {:.1f}".format)).__getitem__
        yield f"\n## {name}, {len(frame)} draws\n\n### Known against unknown\n"
        yield "| detector | AUROC | seen only | unseen only | unknown taken for known, at 95 % of the known |"
        yield "|---|---:|---:|---:|---:|"
        keys = [key.removeprefix("fpr ") for key in frame if key.startswith("fpr ")]
        for key in keys:
            cells = [cell(f"{part}{key}") for part in ("auroc ", "auroc seen ", "auroc unseen ", "fpr ")]
            yield f"| {key} | {' | '.join(cells)} |"
        yield "\n### Promise (a): at most a share of the known samples is rejected\n"
        yield "| share | seen rejected | unseen rejected | unknown rejected |\n|---|---:|---:|---:|"
        for alpha in ALPHAS:
            yield f"| {100 * alpha:g} | {' | '.join(cell(f'rejected {alpha} {kind}') for kind in KINDS)} |"
        yield "\n### Promise (b): accuracy of the answers, for known classes\n"
        yield "A draw in which no threshold has the accuracy on held-out samples answers nothing.\n"
        yield "| at least | accuracy | answered | draws in which it was reached |\n|---|---:|---:|---:|"
        for least in ACCURACIES:
            reached = (frame[f"accuracy {least}"] >= least).mean()
            never = frame[f"accuracy {least}"].isna().all()
            cells = (
                "" if never else cell(f"accuracy {least}"),
                cell(f"answered {least}"),
                f"{100 * reached:.0f}",
            )
            yield f"| {100 * least:g} | {' | '.join(cells)} |"
        yield "\n### Prediction sets\n"
        yield "| nominal | seen covered | unseen covered | classes in a set, seen | unseen |"
        yield "|---|---:|---:|---:|---:|"
        for alpha in ALPHAS:
            sizes = [f"{mean[f'size {alpha} {kind}'] / 100:.2f}" for kind in KINDS[:2]]
            cells = [cell(f"covered {alpha} {kind}") for kind in KINDS[:2]] + sizes
            yield f"| {100 - 100 * alpha:g} | {' | '.join(cells)} |"
        yield "\n### Three-way table, 5 % rejected\n"
        yield "| sample is \\ answer is | seen | unseen | unknown |\n|---|---:|---:|---:|"
        for kind in KINDS:
            yield f"| {kind} | {' | '.join(cell(f'table {kind} {other}') for other in KINDS)} |"
        yield "\n### Risk and coverage, a third of the samples of each kind\n"
        risks = [key.removeprefix("risk ") for key in frame if key.startswith("risk 0")]
        yield f"| answered | {' | '.join(f'{100 * float(key):g}' for key in risks)} |"
        yield "|---|" + "---:|" * len(risks)
        for label, key in (
            ("wrong, rejected by conformity", "risk "),
            ("wrong, rejected by p(y)", "risk p(y) "),
        ):
            yield f"| {label} | {' | '.join(cell(key + one) for one in risks)} |"
        yield f"\nCPU time of a fit: {mean['cpu'] / 100:.1f} s."


def main() -> None:
    """Print the tables, or write them to a file."""
    options = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--data", nargs="+", choices=["intents", "glyphs"], default=["intents", "glyphs"])
    options.add_argument("--draws", type=int, default=6)
    options.add_argument("--first", type=int, default=0, metavar="SEED", help="of the first draw")
    options.add_argument(
        "--part", choices=["development", "test"], default="test", help="of the unknown queries"
    )
    options.add_argument("--cache", default="cosmo-runs/cache", help="keeps the encoded texts")
    options.add_argument("--write", metavar="FILE")
    args = options.parse_args()
    folder = Path(os.environ.get("COSMO_DATA", ""), "intents", "clinc")
    frames = {}
    for name in args.data:
        if name == "intents" and not folder.is_dir():
            print("intents: set COSMO_DATA to the folder that has intents/clinc; left out")
            continue
        results = []
        for seed in range(args.first, args.first + args.draws):
            task = (
                glyphs_task(seed) if name == "glyphs" else intents_task(folder, args.cache, seed, args.part)
            )
            results.append(measure(task))
            print(f"{name}, draw {seed}: AUROC {100 * results[-1]['auroc cosmo']:.1f}", flush=True)
        frames[
            {"intents": "CLINC intents, 100 seen and 50 unseen", "glyphs": "Glyphs, 78 seen and 42 unseen"}[
                name
            ]
        ] = pd.DataFrame(results)
    text = "\n".join(document(frames)) + "\n"
    if args.write:
        write_atomic(Path(args.write), text.encode())
    else:
        print(text)


if __name__ == "__main__":
    main()
