"""Many zero-shot experts side by side: alone, with calibrated stacking and inside COSMO."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from sklearn.base import BaseEstimator

from cosmo._core.cache import Cache
from cosmo._core.parallel import Workers
from cosmo.classifier.combinations import CalibratedStacking, Combination, GatedMixture
from cosmo.data import GZSLDataset
from cosmo.evaluation.published import published_rows
from cosmo.evaluation.run import Evaluation, evaluate
from cosmo.evaluation.stages import Stages
from cosmo.evaluation.training import Training, train_all
from cosmo.experts import UnseenExpert, make_seen_expert
from cosmo.gates import make_gate
from cosmo.metrics.accuracy import zsl_accuracy
from cosmo.mixture.outputs import ExpertOutputs

__all__ = ["Answer", "Contender", "compare"]


@dataclass(frozen=True, eq=False)
class Contender:
    """One zero-shot expert to compare, with the descriptions that it takes.

    Parameters
    ----------
    name : str
        Shown in the table.
    expert : UnseenExpert
    dataset : GZSLDataset
    published : str
        Name of the method in the table of published numbers; empty where none compare with this row.
    """

    name: str
    expert: UnseenExpert
    dataset: GZSLDataset
    published: str = ""


@dataclass(frozen=True, eq=False)
class Answer:
    """What one method said, and the ways of using it.

    Parameters
    ----------
    name : str
    fitted : dict of Combination
        "alone", "CS" and "COSMO", and "own gate" where there is one.
    validation, test : ExpertOutputs
        Labelled.
    """

    name: str
    fitted: dict[str, Combination]
    validation: ExpertOutputs
    test: ExpertOutputs


def ways(*, novelty: bool = False) -> dict[str, Combination]:
    """Return the rows of a method; with `novelty`, of one that has a gate of its own (CMT, then CMT*)."""
    own = {"own gate": GatedMixture(make_gate("novelty"), smoothing="none", hard=True)}
    return {
        "alone": CalibratedStacking(0.0),
        **(own if novelty else {}),
        "CS": CalibratedStacking(),
        "COSMO": GatedMixture(make_gate("confidence")),
    }


def compare(
    contenders: list[Contender],
    cache: Cache,
    *,
    seen: BaseEstimator | None = None,
    seed: int = 0,
    workers: Workers | None = None,
    report: Callable[[str], None] = lambda text: None,
    told: Callable[[Answer], None] = lambda answer: None,
) -> pd.DataFrame:
    """Return the table: a row for each method and way of using it.

    Parameters
    ----------
    contenders : list of Contender
    cache : Cache
        Holds what each expert says; what is there already is not trained again.
    seen : classifier, default multinomial logistic regression
    seed : int
        Draws the validation split, on which every choice is made.
    workers : Workers or None, default=None
        Where experts are trained; see `cosmo.evaluation.training.train_all`.
    report : function of str
        Told whenever an expert is trained.
    told : function of Answer
        Given what each method says, for those who want more than the table.

    Returns
    -------
    DataFrame
        Accuracies and areas in percent, with 95 % intervals, as `acc_h_low` and `acc_h_high`; `t1` is the
        accuracy on unseen samples among unseen classes; `cpu_seconds` covers choosing parameters and
        training in both stages (of the unseen expert); `published_*` is what was published for that data
        set, on other features, `note` what to know about it.
    """
    if not contenders:
        raise ValueError("there is nothing to compare: give at least one contender")
    seen = make_seen_expert("logistic") if seen is None else seen
    pairs = []
    for one in contenders:
        stages = Stages(one.dataset, cache, seed=seed)
        # Contenders may differ in the order of classes; mostly one seen expert serves all.
        pairs.append((Training("seen expert", stages, seen), Training(one.name, stages, one.expert)))
    # The seen experts first: every row waits for them.
    first, second = zip(*pairs, strict=True)
    spoken = train_all([*first, *second], workers=workers, report=report)
    rows: list[dict[str, Any]] = []
    for one, (known, guess) in zip(contenders, pairs, strict=True):
        said = spoken[guess.key]
        validation, test = guess.stages.outputs(spoken[known.key], said, one.expert)
        combined = ways(novelty=test.novelty is not None)
        fitted = {way: rule.fit(validation) for way, rule in combined.items()}
        answer = Answer(one.name, fitted, validation, test)
        rows += _rows(one, said.cpu_seconds, answer)
        told(answer)
    return pd.DataFrame(rows)


def _rows(one: Contender, cpu_seconds: float, answer: Answer) -> Iterator[dict[str, Any]]:
    test = answer.test
    truth = test.classes[test.labels]
    common = {
        "method": one.name,
        "t1": 100 * zsl_accuracy(truth, test.unseen, test.unseen_classes),
        "cpu_seconds": cpu_seconds,
    }
    published = published_rows(one.published, one.dataset.name)
    # A method with its own gate has a star in the papers.
    published.loc["own gate"] = published_rows(f"{one.published}*", one.dataset.name).loc["alone"]
    for way, combination in answer.fitted.items():
        result = evaluate(way, combination, answer.validation, test)
        beside = published.loc[way]
        yield {
            **common,
            "way": way,
            **_percent(result),
            **{f"published_{name}": value for name, value in beside.drop("note").items()},
            "note": beside["note"],
        }


def _percent(result: Evaluation) -> dict[str, float]:
    values = {
        **dict(
            zip(("acc_ts", "acc_tr", "acc_h"), zip(result.scores, result.intervals, strict=True), strict=True)
        ),
        "ausuc": (result.ausuc, result.ausuc_interval),
    }
    return {
        name + suffix: 100 * value
        for name, (middle, (low, high)) in values.items()
        for suffix, value in (("", middle), ("_low", low), ("_high", high))
    }
