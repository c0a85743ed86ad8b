"""Compare unseen experts (alone, stacked, inside COSMO, beside published figures), and gates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.base import BaseEstimator

from cosmo._core.cache import Cache
from cosmo._core.parallel import Workers
from cosmo.classifier.combinations import Combination, GatedMixture, Outputs
from cosmo.classifier.ways import make_way
from cosmo.data.dataset import GZSLDataset
from cosmo.data.splits import Protocol, gating_split
from cosmo.evaluation.expert_cache import ExpertCache, Training, train_all
from cosmo.evaluation.run import evaluate, with_bounds
from cosmo.experts import UnseenExpert, make_seen_expert
from cosmo.gates import GATES, make_gate
from cosmo.gates.base import ScoreScale
from cosmo.metrics.accuracy import fpr_at_tpr, gate_auc, zsl_accuracy
from cosmo.metrics.calibration import calibration
from cosmo.mixture.outputs import ExpertOutputs, OutputsSummary

_WAYS = {"alone": "", "CS": "CS + ", "COSMO": "COSMO + "}
_METRICS = ["acc_ts", "acc_tr", "acc_h", "ausuc", "t1"]
_NOT_PUBLISHED = {**{f"published_{name}": float("nan") for name in _METRICS}, "note": ""}


@cache
def _numbers() -> pd.DataFrame:
    with files("cosmo.evaluation").joinpath("published.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file).fillna({"note": ""})


def published_numbers() -> pd.DataFrame:
    """Return all published numbers as a tidy table.

    Returns
    -------
    numbers : DataFrame
        One number per row. `table`, `method`, `dataset` and `metric` together tell rows apart; `kind` groups
        methods; `split` is test or validation; `value` is as printed, in percent; `corrected` is the right
        number where the printed one is wrong, else NaN; `note` gives the reason or a comment; `source` gives
        where the number is from. *chosen on test* in a note means that the authors' code picks the reported
        model by its test figures, *unverified* that the source was not seen.

    Notes
    -----
    Tables: "main" (COSMO Table 1), "benchmark" (rows that the paper leaves out), "zsl" (T1, mostly from other
    papers), "lago" (T1 of its variants), "ausuc" (Table 2), "gating" (Table 3), "smoothing" (Table 4),
    "combination" (Table 5) and "joint" (supplement D).
    """
    return _numbers().copy()


def published_rows(expert: str, dataset: str) -> pd.DataFrame:
    """Return what was published on test for an unseen expert: alone, with calibrated stacking, inside COSMO.

    `expert` is the name of the method or of its class ("FCLSWGAN" is f-CLSWGAN); AWA1 is "AWA". The columns
    `acc_ts`, `acc_tr`, `acc_h`, `ausuc`, `t1` are in percent, NaN where nothing was published. Misprints of
    the paper are corrected.
    """
    numbers = _numbers()
    numbers = numbers[
        numbers["table"].isin(["main", "benchmark", "ausuc", "zsl"])
        & (numbers["dataset"] == ("AWA" if dataset == "AWA1" else dataset))
    ]
    names = numbers["method"].map(_plain)
    rows = pd.DataFrame(index=list(_WAYS), columns=_METRICS, dtype=float)
    rows["note"] = ""
    for way, prefix in _WAYS.items():
        found = numbers[names == _plain(prefix + expert)].set_index("metric")
        rows.loc[way, _METRICS] = found["corrected"].fillna(found["value"]).reindex(_METRICS)
        notes = "; ".join(note for note in found["note"] if note).split("; ")
        rows.loc[way, "note"] = "; ".join(dict.fromkeys(notes))
    return rows


def _plain(name: str) -> str:
    """Return a method's name as class names can spell it."""
    return "".join(letter for letter in name.casefold() if letter.isalnum() or letter in "*+")


@dataclass(frozen=True, eq=False)
class Candidate:
    """An unseen expert to compare, with the data set in the form that it needs.

    `published` is the name of the method in the table of published numbers, if they can be compared.
    """

    name: str
    expert: UnseenExpert
    dataset: GZSLDataset
    published: str = ""


@dataclass(frozen=True, eq=False)
class CandidateResult:
    """Labelled outputs of a candidate and its fitted combinations.

    `fitted` has "alone", "CS" and "COSMO", and "own gate" for an expert that detects novelty.
    """

    name: str
    fitted: dict[str, Combination]
    validation: ExpertOutputs
    test: ExpertOutputs


def compare(
    candidates: list[Candidate],
    cache: Cache,
    *,
    seen: BaseEstimator | None = None,
    seed: int = 0,
    workers: Workers | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[pd.DataFrame, list[CandidateResult]]:
    """Return a table with a row for each expert and combination, and the outputs behind it.

    Accuracies and areas are in percent with 95 % intervals (`acc_h`, `acc_h_low`, `acc_h_high`); `t1` is the
    accuracy on unseen samples among unseen classes; `cpu_seconds` covers choosing parameters and training of
    the unseen expert in both stages; `published_*` are published figures for that data set, on other
    features, and `note` comments on them. The row "calibrated" is COSMO by the calibrated method. `report`
    receives the number of trained experts and of all experts.
    """
    if not candidates:
        raise ValueError("there are no candidates to compare; give at least one")
    seen = make_seen_expert("logistic") if seen is None else seen
    # Candidates may need different forms of the data set; one protocol serves all with the same one.
    stages: dict[int, ExpertCache] = {}
    for one in candidates:
        if id(one.dataset) not in stages:
            stages[id(one.dataset)] = ExpertCache(Protocol(one.dataset, seed=seed), cache)
    trainings = [Training(one.name, stages[id(one.dataset)], seen, one.expert) for one in candidates]
    train_all(trainings, workers=workers, report=report)
    outputs = [training.experts.fit(seen, training.unseen) for training in trainings]
    fitted = []
    for found in outputs:
        names = ["alone", *(["own gate"] if found.test.novelty is not None else []), "CS", "COSMO"]
        fitted.append({name: make_way(name).fit(found.validation) for name in names})
    models = [one.experts.fit_calibrated(seen, one.unseen) for one in trainings]
    # All choices are made: now the test sets are opened.
    results = [
        CandidateResult(one.name, ways, found.validation, found.labelled(stages[id(one.dataset)].test_labels))
        for one, ways, found in zip(candidates, fitted, outputs, strict=True)
    ]
    rows: list[dict[str, Any]] = []
    for one, result, found, model in zip(candidates, results, outputs, models, strict=True):
        rows += _rows(one, found.cpu_seconds, result)
        last = evaluate("calibrated", *stages[id(one.dataset)].tested(model))
        rows.append({**rows[-1], "way": "calibrated", **with_bounds(last.measures), **_NOT_PUBLISHED})
    return pd.DataFrame(rows), results


def _rows(one: Candidate, cpu_seconds: float, found: CandidateResult) -> Iterator[dict[str, Any]]:
    test = found.test
    truth = test.classes[test.labels]
    common = {
        "method": one.name,
        "t1": 100 * zsl_accuracy(truth, test.unseen, test.unseen_classes),
        "cpu_seconds": cpu_seconds,
    }
    published = published_rows(one.published, one.dataset.name)
    # The papers mark a method with its own gate by a star.
    published.loc["own gate"] = published_rows(f"{one.published}*", one.dataset.name).loc["alone"]
    for way, combination in found.fitted.items():
        result = evaluate(way, combination, found.validation, test)
        beside = published.loc[way]
        yield {
            **common,
            "way": way,
            **with_bounds(result.measures),
            **{f"published_{name}": value for name, value in beside.drop("note").items()},
            "note": beside["note"],
        }


_CALIBRATED = (
    "log-odds of the calibrated method, fitted and, except on test, measured on all its hold-out rounds"
)
POOLED = ("confidence", "evidence")
"""Gates that are also fitted on several hold-outs of classes."""


@dataclass(frozen=True, eq=False)
class GateResult:
    """Results of a gate: measures in percent, and its scores on test.

    `auc` and `fpr` (the share of unseen samples above the score that 95 % of the seen ones exceed) are on
    Gating-Val, `test_auc` and `test_fpr` on test; `acc_h` on GZSL-Val and `test_acc_h` are of the soft
    combination without smoothing; `ece` is the expected calibration error on Gating-Val of the score as a
    probability of "seen", `scaled_ece` the same after Platt scaling on Gating-Train.
    """

    name: str
    about: str
    measures: dict[str, float]
    scores: NDArray[np.float64]
    is_seen: NDArray[np.bool_]


def compare_gates(
    experts: ExpertCache, seen: BaseEstimator, unseen: UnseenExpert, names: Sequence[str], *, folds: int = 1
) -> list[GateResult]:
    """Fit and measure gates on the same experts; this opens the test set.

    As in the paper's table of gates there is no smoothing; a gate is fitted on Gating-Train and its threshold
    and softness are chosen on GZSL-Val. If `folds` is more than 1, the gates in `POOLED` are also fitted on
    as many hold-outs of classes. The last result is the gate of the calibrated method.
    """
    cases = []
    for name in names:
        cases.append((name, GATES[name], name, 1))
        if name in POOLED and folds > 1:
            about = f"the same, fitted on {folds} hold-outs that hold out every seen class once"
            cases.append((f"{name}, {folds} folds", about, name, folds))
    stages = [experts.fit(seen, unseen, gate=make_gate(gate), folds=n) for _, _, gate, n in cases]
    model = experts.fit_calibrated(seen, unseen)
    results = [
        _measure(shown, about, one.model.combination_, one.validation, one.labelled(experts.test_labels))
        for (shown, about, _, _), one in zip(cases, stages, strict=True)
    ]
    return [*results, _measure("calibrated", _CALIBRATED, *experts.tested(model))]


def _measure(
    name: str, about: str, mixture: GatedMixture, validation: Outputs, test: ExpertOutputs
) -> GateResult:
    train, val = gating_split(len(validation))
    if isinstance(validation, OutputsSummary):  # of rounds
        train = val = np.arange(len(validation))
    score, on_test = mixture.gate_score(validation), mixture.gate_.score(test)
    is_seen = validation.is_seen
    scaled = ScoreScale().fit(score[train], is_seen[train])(score[val])
    proba = np.clip(score, 0, 1)
    if mixture.gate_.log_odds:  # at equal shares
        proba = expit(score + logit(is_seen.mean()))
    threshold = mixture.operating_point_.threshold
    measures = {
        "auc": gate_auc(is_seen[val], score[val]),
        "fpr": fpr_at_tpr(is_seen[val], score[val]),
        "ece": calibration(proba[val], is_seen[val]).error,
        "scaled_ece": calibration(scaled, is_seen[val]).error,
        "acc_h": mixture.curve(validation).at(threshold).acc_h,
        "test_auc": gate_auc(test.is_seen, on_test),
        "test_fpr": fpr_at_tpr(test.is_seen, on_test),
        "test_acc_h": mixture.curve(test).at(threshold).acc_h,
    }
    percent = {key: 100 * value for key, value in measures.items()}
    return GateResult(name, about, percent, on_test, test.is_seen)
