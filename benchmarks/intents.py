"""Evaluate COSMO on 150 CLINC intents, 50 of which have only a description.

The seen expert is logistic regression, the unseen expert `SimilarityExpert`. Compared are each alone, the
nearest description without training, calibrated stacking and COSMO. The unseen intents are drawn at
random, and so is a fifth of the texts of each seen intent, for the test. Every choice is made on held-out
training texts. Repeated over draws; the first is printed in detail.

Data: intents/clinc below the folder that COSMO_DATA names (utterances.csv, descriptions.json, names.json).
"""

from __future__ import annotations

import argparse
import json
import os
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import clone

from cosmo._core.files import write_atomic
from cosmo.data import GZSLDataset, Split
from cosmo.encoders import extract, make_encoder
from cosmo.evaluation.run import CALIBRATED, Evaluation, Experiment, Settings, run_experiment, summarise
from cosmo.experts._linear import unit_rows

N_UNSEEN, TEST_SHARE = 50, 0.2
SEEN = "logistic-unit"
NEAREST, SIMILARITY = "similarity:whitening=0,adapter=0", "similarity"
CHOSEN = f"{CALIBRATED}, experts chosen by auto"


@dataclass(frozen=True, eq=False)
class Intents:
    """Encoded texts, their intents, and the descriptions of each intent by kind of wording."""

    X: np.ndarray
    y: pd.Index
    descriptions: dict[str, pd.DataFrame]
    texts_per_second: float

    def drawn(self, wording: str, seed: int) -> GZSLDataset:
        """Return the task with the unseen intents and test texts of a draw."""
        table = self.descriptions[wording]
        return GZSLDataset(self.X, self.y, table, draw(self.y, table.index, seed), name="CLINC intents")


def read(folder: Path, cache: str | None) -> Intents:
    encoder = make_encoder("minilm")
    utterances = pd.read_csv(folder / "utterances.csv")
    texts = utterances["text"].tolist()
    X = extract(encoder, texts, cache=cache, report=print).features
    # Most or all of them may have come from the cache.
    some = texts[:: len(texts) // 1000]
    start = time.perf_counter()
    encoder.encode(some)
    rate = len(some) / (time.perf_counter() - start)
    sentences, names = (
        pd.Series(json.loads((folder / f"{kind}.json").read_text())).sort_index()
        for kind in ("descriptions", "names")
    )
    described, named = (unit_rows(encoder.encode_descriptions(words)) for words in (sentences, names))
    wordings = {"description": described, "description and name": (described + named) / 2}
    tables = {wording: pd.DataFrame(rows, index=sentences.index) for wording, rows in wordings.items()}
    return Intents(X, pd.Index(utterances["intents"]), tables, rate)


def draw(labels: pd.Index, classes: pd.Index, seed: int) -> Split:
    """Draw the unseen intents, and the test texts of the others."""
    rng = np.random.default_rng(seed)
    is_unseen = labels.isin(classes[rng.permutation(len(classes))[:N_UNSEEN]])
    place = pd.Series(rng.permutation(len(labels)).argsort()).groupby(labels).rank(pct=True).to_numpy()
    is_test = place <= TEST_SHARE
    return Split(
        trainval=np.flatnonzero(~is_unseen & ~is_test),
        test_seen=np.flatnonzero(~is_unseen & is_test),
        test_unseen=np.flatnonzero(is_unseen),
    )


def contest(intents: Intents, wording: str, seed: int) -> Experiment:
    """Return every way of using the experts, on test; what `cosmo fit` does by default comes last."""
    data = intents.drawn(wording, seed)
    nearest, evidence, paper = (
        run_experiment(data, Settings(unseen, SEEN, gate))
        for unseen, gate in ((NEAREST, "confidence"), (SIMILARITY, "evidence"), (SIMILARITY, "confidence"))
    )

    def rows() -> Iterator[Evaluation]:
        for experiment, expert in ((nearest, "nearest description"), (paper, "SimilarityExpert")):
            alone, stacked = experiment.evaluations[:2]
            yield replace(alone, name=expert)
            yield replace(stacked, name=f"{expert} + calibrated stacking")
        yield replace(named(nearest, "COSMO"), name="COSMO with nearest description")
        yield replace(named(evidence, "COSMO"), name="COSMO, evidence gate")
        yield named(paper, "COSMO")
        yield named(paper, CALIBRATED)
        yield replace(named(run_experiment(data, Settings()), CALIBRATED), name=CHOSEN)

    return replace(paper, evaluations=list(rows()))


def named(experiment: Experiment, name: str) -> Evaluation:
    """Return the row of this name."""
    return next(one for one in experiment.evaluations if one.name == name)


def fit_seconds(experiment: Experiment) -> tuple[float, float]:
    """Return the wall and CPU seconds of the whole fit: choices, gate, and both experts in both stages."""
    data, model = experiment.dataset, clone(experiment.model)
    rows = np.sort(data.split.trainval)
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(data.features[rows], data.labels[rows])
    return time.perf_counter() - wall, time.process_time() - cpu


def document(intents: Intents, contests: dict[str, list[Experiment]]) -> Iterator[str]:
    """Return the lines of docs/results/intents.md."""
    first = next(iter(contests.values()))[0]
    split = first.dataset.split
    yield "# Intents: what users ask for, a third of it known by a description only"
    yield "\nWritten by `python benchmarks/intents.py --write docs/results/intents.md`.\n"
    yield paragraph(f"""
        {len(intents.y):,} texts with {len(first.dataset.classes)} intents (CLINC), encoded by the bundled
        sentence encoder (`minilm`). {N_UNSEEN} intents drawn at random are unseen:
        {len(split.test_unseen):,} texts for the test, none for training. Of the others a fifth of the texts
        is for the test ({len(split.test_seen):,}), the rest for training ({len(split.trainval):,}). Seen
        expert: logistic regression (`{SEEN}`). *Nearest description* is plain zero-shot: the cosine of text
        and description, nothing learned. Every choice (the expert's adaptation, temperature, gate,
        operating point) is made on held-out intents and texts of the training rows; the design was chosen
        on those of the first draw.
    """)
    yield ""
    yield paragraph("""
        Percent. Acc_ts and Acc_tr are per-class accuracies on unseen and on seen intents, among all of
        them; Acc_H is their harmonic mean, AUSUC the area under the seen-unseen curve.
    """)
    for wording, experiments in contests.items():
        yield f"\n## Intents known by their {wording}\n"
        yield from first_draw(experiments[0])
        if len(experiments) > 1:
            yield from over_draws(experiments)
    wall, cpu = fit_seconds(first)
    yield "\n## Time\n"
    yield paragraph(f"""
        Encoding: {intents.texts_per_second:.0f} texts per second. Fitting COSMO on {len(split.trainval):,}
        encoded texts: {wall:.1f} s on {os.cpu_count()} cores ({cpu:.1f} s of CPU time), for choosing the
        adaptation, fitting the gate, and both experts in both stages.
    """)


def first_draw(experiment: Experiment) -> Iterator[str]:
    facts, decided = experiment.facts, experiment.model.experts_.unseen.decided_
    seen, t1 = (100 * facts[name] for name in ("seen_expert_accuracy", "zsl_t1"))
    yield "First draw, with 95 % intervals over other texts of the same intents:\n"
    yield "| | Acc_ts | Acc_tr | Acc_H | AUSUC |\n|---|---:|---:|---:|---:|"
    yield f"| logistic regression | 0.0 | {seen:.1f} | 0.0 | |"
    for e in experiment.evaluations:
        measured = zip((*e.scores, e.ausuc), (*e.intervals, e.ausuc_interval), strict=True)
        cells = [f"{100 * value:.1f} ({100 * low:.1f}–{100 * high:.1f})" for value, (low, high) in measured]
        yield f"| {e.name} | {' | '.join(cells)} |"
    yield ""
    yield paragraph(f"""
        Within their own domains: logistic regression {seen:.1f}, SimilarityExpert {t1:.1f} (T1). Chosen:
        whitening {decided["whitening"]:.1f}, adapter {decided["adapter"]:.1f}, temperature
        {decided["temperature"]:.3f}.
    """)


def over_draws(experiments: list[Experiment]) -> Iterator[str]:
    table = summarise(experiments)
    yield f"\nMean of {len(experiments)} draws of the unseen intents, with 95 % Student intervals, and the"
    yield "lead of the last row over each other row, draw by draw:\n"
    yield "| | Acc_ts | Acc_tr | Acc_H | AUSUC | lead Acc_H | lead AUSUC |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for name, row in table.iterrows():
        cells = [f"{row['mean', column]:.1f} ± {row['±', column]:.1f}" for column in table["mean"]]
        leads = [f"{row['lead', column]:.1f} ± {row['lead ±', column]:.1f}" for column in table["lead"]]
        yield f"| {name} | {' | '.join(cells + (leads if name != table.index[-1] else ['', '']))} |"
    seen, t1 = (
        [100 * experiment.facts[fact] for experiment in experiments]
        for fact in ("seen_expert_accuracy", "zsl_t1")
    )
    yield f"\nLogistic regression {min(seen):.1f} to {max(seen):.1f} on its classes, T1 of SimilarityExpert"
    yield f"{min(t1):.1f} to {max(t1):.1f}."


def paragraph(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 120, break_on_hyphens=False)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: COSMO_DATA=data python benchmarks/intents.py --draws 1",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--draws", type=int, default=5, help="of the unseen intents (default: 5)")
    parser.add_argument(
        "--cache", default="cosmo-runs/cache", help="keeps the encoded texts (default: %(default)s)"
    )
    parser.add_argument(
        "--write", metavar="FILE", help="where the tables go, as Markdown (default: the screen)"
    )
    arguments = parser.parse_args()
    folder = Path(os.environ.get("COSMO_DATA", ""), "intents", "clinc")
    if "COSMO_DATA" not in os.environ or not folder.is_dir():
        parser.error("set COSMO_DATA to the folder that has intents/clinc")
    intents = read(folder, arguments.cache)
    contests: dict[str, list[Experiment]] = {wording: [] for wording in intents.descriptions}
    for seed in range(arguments.draws):
        for wording, done in contests.items():
            done.append(contest(intents, wording, seed))
            cosmo = done[-1].table().loc[CHOSEN]
            print(
                f"draw {seed}, {wording}: Acc_H {cosmo['Acc_H']:.1f}, AUSUC {cosmo['AUSUC']:.1f}", flush=True
            )
    text = "\n".join(document(intents, contests)) + "\n"
    if arguments.write:
        write_atomic(Path(arguments.write), text.encode())
    else:
        print(text)


if __name__ == "__main__":
    main()
