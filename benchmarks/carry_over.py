"""Measure how well probabilities and the operating point carry over to test, for both methods of `Cosmo`.

Tasks: glyphs (30 and 98 seen classes), CLINC intents (12, 60 and 100) and CUB (attributes, sentences; the
150 seen classes of the benchmark), with 1 to 50 unseen classes, several draws each. For every task and
method: Acc_H at the chosen point, the best Acc_H that any point has on test, AUSUC, and calibration errors of
p(y) and p(U) (15 bins of equal mass). Test rows are opened here only, after all choices.

    python benchmarks/carry_over.py --write docs/results/carry-over.md
    python benchmarks/carry_over.py --data glyphs --counts 1 10 --draws 2

Data below the folder that COSMO_DATA names; sets that are absent are left out.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from joblib import Memory
from scipy.special import logit

from cosmo import Cosmo
from cosmo._core.files import write_atomic
from cosmo.data import load_glyphs, read_xlsa17
from cosmo.encoders import extract, make_encoder
from cosmo.experts import make_seen_expert, make_unseen_expert
from cosmo.experts._linear import unit_rows
from cosmo.metrics.calibration import Calibration, calibration
from cosmo.mixture.outputs import ExpertOutputs

COUNTS = (1, 2, 3, 5, 10, 30, 50)
SEEN = {"glyphs": (30, 98), "clinc": (12, 60, 100), "cub-att": (150,), "cub-sent": (150,)}
EXPERTS = {"clinc": ("logistic-unit", "similarity")}
SHARES = (0.0, 0.05, 0.2, 0.5, 0.8)
BATCH = 400
ROOT = Path(os.environ.get("COSMO_DATA", "../shared/data"))


LEGEND = """\
Percent, means over draws of classes. *H*: Acc_H at the point chosen without the test set; *best*: the largest
that any point has on test; *loss*: their difference; *±*: standard error of H new minus H paper over the
draws. *p(y)*, *p(U)*: calibration errors (15 bins of equal mass) at the chosen point and, for the calibrated
method (*new*), at the true share of unseen samples (*share*). Few samples raise them: *chance* is what
perfect probabilities would show on as many, and *debiased* is the error at the share less its bias, found by
resampling the frequencies of the bins (Kumar, Liang & Ma, "Verified uncertainty calibration", NeurIPS 2019).
Neither allows for samples of one class being alike; *pooled* takes all draws of a row together, at the share.

The method was designed on other draws of the same classes of glyphs and intents (100 and above), and on
training classes of CUB.
"""


class Task(NamedTuple):
    """Training and test rows of one draw."""

    X: np.ndarray
    y: np.ndarray
    table: pd.DataFrame
    train: np.ndarray
    test: np.ndarray


@lru_cache(maxsize=1)
def source(name: str) -> tuple[np.ndarray, np.ndarray, pd.DataFrame, Any]:
    if name == "glyphs":
        data = load_glyphs()
        return data.features, data.labels.to_numpy(), data.descriptions, None
    if name == "clinc":
        folder, encoder = ROOT / "intents/clinc", make_encoder("minilm")
        utterances = pd.read_csv(folder / "utterances.csv")
        X = extract(encoder, utterances["text"].tolist(), cache="cosmo-runs/cache").features
        words = [
            pd.Series(json.loads((folder / f"{kind}.json").read_text())).sort_index()
            for kind in ("descriptions", "names")
        ]
        described, named = (unit_rows(encoder.encode_descriptions(part)) for part in words)
        table = pd.DataFrame((described + named) / 2, index=words[0].index)
        return X, utterances["intents"].to_numpy(), table, None
    kind = "att_splits" if name == "cub-att" else "sent_splits"
    data = read_xlsa17(ROOT / "xlsa17/CUB", features="res50", descriptions=kind)
    return data.features, data.labels.to_numpy(), data.descriptions, data.split


def draw(name: str, n_seen: int, n_unseen: int, seed: int) -> Task:
    """Return a task; of CUB, the unseen classes are drawn among those of the benchmark."""
    X, y, table, split = source(name)
    rng = np.random.default_rng(seed)
    if split is not None:
        unseen = rng.permutation(pd.unique(y[split.test_unseen]))[:n_unseen]
        kept = split.test_unseen[np.isin(y[split.test_unseen], unseen)]
        seen = pd.unique(y[split.trainval])
        rows = np.sort(split.trainval), np.concatenate([np.sort(split.test_seen), np.sort(kept)])
        return Task(X, y, table.loc[np.concatenate([seen, unseen])], *rows)
    classes = rng.permutation(table.index.to_numpy())
    seen, unseen = classes[:n_seen], classes[n_seen : n_seen + n_unseen]
    place = pd.Series(rng.permutation(len(y)).argsort()).groupby(y).rank(pct=True).to_numpy()
    is_seen, is_test = np.isin(y, seen), place <= 0.2
    test = np.concatenate([np.flatnonzero(is_seen & is_test), np.flatnonzero(np.isin(y, unseen))])
    return Task(X, y, table.loc[np.concatenate([seen, unseen])], np.flatnonzero(is_seen & ~is_test), test)


def probabilities(model: Cosmo, outputs: ExpertOutputs, threshold: float) -> tuple[np.ndarray, ...]:
    """Return the largest p(y), whether it is right, and p(U) at a threshold."""
    point = model.combination_.operating_point_
    model.combination_.operating_point_ = point._replace(threshold=threshold)
    scores = model.combination_.scores(outputs)
    scores /= scores.sum(axis=1, keepdims=True)
    belief = model.combination_.belief(outputs)
    model.combination_.operating_point_ = point
    right = scores.argmax(axis=1) == outputs.labels
    return np.clip(scores.max(axis=1), 0, 1), right, belief


def debiased(curve: Calibration) -> float:
    """Return the calibration error less its bias, from frequencies of bins drawn around the observed ones."""
    spread = np.sqrt(curve.frequency * (1 - curve.frequency) / curve.samples)
    drawn = np.random.default_rng(0).normal(curve.frequency, spread, size=(1000, len(spread)))
    errors = np.average(np.abs(curve.probability - drawn), weights=curve.samples, axis=1)
    return max(0.0, 2 * curve.error - float(errors.mean()))


def measure(name: str, n_seen: int, n_unseen: int, seed: int, method: str) -> dict[str, Any]:
    """Return the figures of one draw and method."""
    task = draw(name, n_seen, n_unseen, seed)
    seen, unseen = EXPERTS.get(name, ("logistic", "eszsl"))
    experts = {"seen": make_seen_expert(seen), "unseen": make_unseen_expert(unseen)}
    model = Cosmo(task.table, method=method, random_state=seed, **experts)
    start = time.process_time()
    model.fit(task.X[task.train], task.y[task.train])
    seconds = time.process_time() - start
    rows = task.X[task.test]
    outputs = model.outputs(rows, task.y[task.test])
    curve, point = model.combination_.curve(outputs), model.operating_point_
    chosen, best = curve.at(point.threshold), curve.best()
    share = float((~outputs.is_seen).mean())
    found = {
        "data": f"{name} {n_seen}", "unseen": n_unseen, "seed": seed, "method": method,
        "acc_ts": chosen.acc_ts, "acc_tr": chosen.acc_tr, "acc_h": chosen.acc_h,
        "best": best.acc_h, "ausuc": curve.area, "cpu": seconds,
    }  # fmt: skip
    top, right, belief = probabilities(model, outputs, point.threshold)
    found |= {"ece": calibration(top, right).error, "ece_gate": calibration(belief, ~outputs.is_seen).error}
    if method == "calibrated":
        top, right, belief = probabilities(model, outputs, float(logit(share)))
        answer, gate = calibration(top, right), calibration(belief, ~outputs.is_seen)
        found |= {"ece_share": answer.error, "ece_gate_share": gate.error, "chance": answer.chance}
        found |= {"debiased": debiased(answer), "debiased_gate": debiased(gate)}
        expected = model.expected_scores()
        for key, interval in zip(("acc_ts", "acc_tr", "acc_h"), expected.intervals, strict=True):
            # Sums of gains round.
            found[f"covered_{key}"] = interval.low - 1e-9 <= found[key] <= interval.high + 1e-9
            found[f"width_{key}"] = interval.high - interval.low
        rng = np.random.default_rng(seed)
        domains = np.flatnonzero(outputs.is_seen), np.flatnonzero(~outputs.is_seen)
        for true in SHARES:
            n = round(true * BATCH)
            batch = np.concatenate([rng.choice(domains[0], BATCH - n), rng.choice(domains[1], n)])
            estimate = model.estimate_share(rows[batch])
            found[f"share_{true}"] = estimate.low <= true <= estimate.high
            found[f"share_error_{true}"] = abs(estimate.share - true)
    found["sample"] = (top, right, belief, ~outputs.is_seen)
    return found


def _measure(task: tuple[Any, ...]) -> dict[str, Any]:
    # Finished tasks are kept, so that data sets can run one after the other.
    result: dict[str, Any] = Memory(task[-1], verbose=0).cache(measure)(*task[:-1])
    return result


def pooled_errors(group: pd.DataFrame) -> pd.Series:
    """Return calibration errors of all draws together."""
    parts = [np.concatenate(part) for part in zip(*group["sample"], strict=True)]
    answer, gate = calibration(parts[0], parts[1]), calibration(parts[2], parts[3])
    return pd.Series({"pooled": answer.error, "pooled_gate": gate.error})


def table_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per task, in percent, both methods side by side."""
    keys = ["data", "unseen"]
    numbers = frame.drop(columns=["sample", "seed"])
    means = numbers.groupby([*keys, "method"], sort=False).mean(numeric_only=True)
    heights = frame.pivot_table(index=[*keys, "seed"], columns="method", values="acc_h")
    noise = (heights["calibrated"] - heights["paper"]).groupby(keys).sem()
    rows = {}
    for (data, unseen), _ in frame.groupby(keys, sort=False):
        paper, new = means.loc[(data, unseen, "paper")], means.loc[(data, unseen, "calibrated")]
        same = (frame["data"] == data) & (frame["unseen"] == unseen) & (frame["method"] == "calibrated")
        pooled = pooled_errors(frame[same])
        rows[f"{data} + {unseen}"] = {
            "H paper": paper["acc_h"], "best paper": paper["best"], "H new": new["acc_h"],
            "±": noise.loc[(data, unseen)], "best new": new["best"],
            "loss paper": paper["best"] - paper["acc_h"],
            "loss new": new["best"] - new["acc_h"], "AUSUC paper": paper["ausuc"], "AUSUC new": new["ausuc"],
            "p(y) paper": paper["ece"], "p(y) new": new["ece"], "p(y) share": new["ece_share"],
            "chance": new["chance"], "debiased": new["debiased"], "pooled": pooled["pooled"],
            "p(U) paper": paper["ece_gate"], "p(U) share": new["ece_gate_share"],
            "debiased p(U)": new["debiased_gate"], "pooled p(U)": pooled["pooled_gate"],
        }  # fmt: skip
    return 100 * pd.DataFrame.from_dict(rows, orient="index")


def document(frame: pd.DataFrame, command: str) -> Iterator[str]:
    """Return the lines of the result page."""
    table = table_of(frame)
    n_unseen = table.index.str.extract(r"\+ (\d+)$", expand=False).astype(int)
    few = np.asarray(n_unseen <= 2)
    yield "# Probabilities and operating points, from held-out classes to test\n"
    yield f"Written by `{command}`.\n"
    yield LEGEND
    yield _markdown(table)
    yield "\n## In short\n"
    for title, rows in (("1 or 2 unseen classes", few), ("3 and more", ~few)):
        if rows.any():
            mean = table[rows].mean()
            yield (
                f"- {title}: mean loss {mean['loss new']:.2f} (paper's {mean['loss paper']:.2f}), mean "
                f"Acc_H {mean['H new']:.1f} ({mean['H paper']:.1f}), mean AUSUC {mean['AUSUC new']:.1f} "
                f"({mean['AUSUC paper']:.1f}), mean error of p(y) {mean['p(y) share']:.1f} "
                f"({mean['p(y) paper']:.1f}), debiased {mean['debiased']:.1f}"
            )
    worst = (table["H new"] - table["H paper"]).nsmallest(3)
    named = ", ".join(f"{k} {v:+.1f} ± {table.loc[k, '±']:.1f}" for k, v in worst.items())
    yield f"- Acc_H least above the paper's method: {named}"
    worst = (table["AUSUC new"] - table["AUSUC paper"]).nsmallest(3)
    yield f"- AUSUC least above it: {', '.join(f'{k} {v:+.1f}' for k, v in worst.items())}"
    new = frame[frame["method"] == "calibrated"]
    for key in ("acc_ts", "acc_tr", "acc_h"):
        covered, width = new[f"covered_{key}"].astype(float), 100 * new[f"width_{key}"].astype(float)
        yield (
            f"- 90 % interval of {key}: contains the test figure in {100 * covered.mean():.0f} of 100 draws "
            f"({len(new)} draws), mean width {width.mean():.0f}"
        )
    for true in SHARES:
        covered = new[f"share_{true}"].astype(float).mean()
        error = 100 * new[f"share_error_{true}"].astype(float).mean()
        yield (
            f"- batches of {BATCH} with a share of {true:g} unseen samples: within the 90 % interval in "
            f"{100 * covered:.0f} of 100, mean error {error:.1f}"
        )
    ratio = frame.pivot_table(index=["data", "unseen", "seed"], columns="method", values="cpu")
    ratio = (ratio["calibrated"] / ratio["paper"]).groupby("data").median()
    costs = ", ".join(f"{name} {value:.1f}" for name, value in ratio.items())
    yield f"- CPU time of a fit, relative to the paper's method, both with the choice of parameters: {costs}"


def _markdown(table: pd.DataFrame) -> str:
    lines = ["| task | " + " | ".join(table.columns) + " |", "|---" * (len(table.columns) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(f"{v:.1f}" for v in row) + " |" for name, row in table.iterrows()]
    return "\n".join(lines)


def main() -> None:
    """Print the tables, or write them to a file."""
    options = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--data", nargs="+", choices=list(SEEN), default=list(SEEN))
    options.add_argument("--counts", nargs="+", type=int, default=COUNTS, help="numbers of unseen classes")
    options.add_argument("--draws", type=int, default=5)
    options.add_argument("--few", type=int, default=10, help="draws of glyphs with at most 3 unseen classes")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--cache", default="cosmo-runs/carry-over", help="for finished tasks")
    options.add_argument("--write", metavar="FILE")
    args = options.parse_args()
    tasks = []
    for name in args.data:
        if name != "glyphs" and not (ROOT / ("intents" if name == "clinc" else "xlsa17")).is_dir():
            print(f"{name}: no data below {ROOT}; left out")
            continue
        for n_seen in SEEN[name]:
            counts = [*args.counts, *([42] if (name, n_seen) == ("glyphs", 98) else [])]
            most = {"glyphs": 140 - n_seen, "clinc": 150 - n_seen}.get(name, 50)
            for n_unseen in sorted({count for count in counts if count <= most}):
                few = name == "glyphs" and n_unseen <= 3
                for seed in range(max(args.draws, args.few) if few else args.draws):
                    tasks += [(name, n_seen, n_unseen, seed, method) for method in ("paper", "calibrated")]
    results, start = [], time.monotonic()
    with multiprocessing.get_context("fork").Pool(args.jobs) as workers:
        for result in workers.imap(_measure, [(*task, args.cache) for task in tasks]):
            results.append(result)
            left = (time.monotonic() - start) / len(results) * (len(tasks) - len(results))
            label = f"{result['data']} + {result['unseen']}, {result['method']}"
            print(f"{len(results)} of {len(tasks)}, {left / 60:.1f} min left: {label}", flush=True)
    words = ["python benchmarks/carry_over.py"]
    for name in ("data", "counts", "draws", "few", "write"):
        value = getattr(args, name)
        if value != options.get_default(name):
            words += [f"--{name}", *(map(str, value) if isinstance(value, list) else [str(value)])]
    command = " ".join(words)
    text = "\n".join(document(pd.DataFrame(results), command)) + "\n"
    print(text)
    if args.write:
        write_atomic(Path(args.write), text.encode())


if __name__ == "__main__":
    main()
