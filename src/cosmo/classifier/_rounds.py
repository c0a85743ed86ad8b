"""The calibrated method: experts, temperatures, gate and operating point from hold-out rounds.

In each round both experts are fitted without some classes (`cosmo.data.rounds`). Pooled over the rounds,
their outputs on held-out samples give the temperatures of both, the gate and the operating point.

Experts that are fitted on all classes have other scores than those of the rounds: an expert that knows more
classes favours its training classes less. So each round also fits the unseen expert with half of the
held-out classes among its training classes. The gate's bias and slope and the unseen expert's temperature, on
the same samples and among the same classes, change from one fit to the other. The change of bias and
temperature is extrapolated, linearly in the inverse number of training classes, to all of them; that of the
slope, which varies more, counts as measured.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from cosmo._core.cache import Cache
from cosmo._core.validation import encode_labels
from cosmo.classifier.combinations import GatedMixture, Outputs
from cosmo.classifier.rejection import Rejection, fit_rejection
from cosmo.data.rounds import Round, deployment_rounds, groups_of
from cosmo.data.splits import HoldOut
from cosmo.experts.base import UnseenExpert
from cosmo.experts.pair import ExpertPair, fit_seen_expert, seen_logits, squared_distance
from cosmo.gates.calibrated import CalibratedGate
from cosmo.mixture.confidences import Temperatures, calibrated, pooled_temperature, support
from cosmo.mixture.outputs import ExpertOutputs, OutputsSummary

logger = logging.getLogger(__name__)

Codes = NDArray[np.intp]
_SLOW_ROUNDS = 3  # for experts that are slow to train
_RANDOM_CLASSES = 0.05  # whose labels are random, among those from which a temperature is fitted
_FEWEST = 5  # classes offered together, below which the trend of the temperature is mostly noise


class Scores(NamedTuple):
    """Scores of both experts of a round on some held-out rows and classes; classes are codes."""

    seen: Codes
    unseen: Codes
    logits: NDArray[np.float32]  # of the seen expert, a column for each class in `seen`
    scores: NDArray[np.float32]  # of the unseen expert, columns [seen | unseen]
    target: Codes  # columns; one more for classes without a description
    distance: NDArray[np.float64]  # of the rows to the centre of the training rows, squared

    def outputs(self, temperatures: Temperatures) -> ExpertOutputs:
        """Return the calibrated outputs."""
        seen, unseen, confidences = calibrated(self.logits, self.scores, temperatures)
        return ExpertOutputs._from_validated(
            seen_classes=pd.Index(self.seen),
            unseen_classes=pd.Index(self.unseen),
            seen=seen,
            unseen=unseen,
            evidence=confidences,
            target=self.target,
        )

    def support(self, temperatures: Temperatures) -> NDArray[np.float64]:
        """Return the inputs of the score by which samples are rejected."""
        return support(self.logits, self.scores[:, len(self.seen) :], self.distance, temperatures)

    def own(self, temperatures: Temperatures) -> NDArray[np.float64]:
        """Return the probability of the true class within its domain."""
        seen, unseen, _ = calibrated(self.logits, self.scores, temperatures)
        return np.hstack([seen, unseen])[np.arange(len(seen)), self.target].astype(np.float64)

    def weights(self) -> NDArray[np.float64]:
        """Return a weight for each row, so that all classes count the same."""
        rows: NDArray[np.float64] = 1 / np.bincount(self.target)[self.target]
        return rows


class RoundScores(NamedTuple):
    """Scores of one round: by groups, and by halves with the expert of the round and that of the half.

    `undescribed` has the rows of classes that are not offered, too.
    """

    groups: list[Scores]
    before: list[Scores]
    after: list[Scores]
    n_classes: tuple[int, int]  # of the training of both
    undescribed: list[Scores]


class Calibration(NamedTuple):
    """Temperatures and gate of the fitted experts, and the mixture with its validation outputs."""

    temperatures: Temperatures
    mixture: GatedMixture
    validation: OutputsSummary


def fit_calibrated(
    seen: BaseEstimator,
    unseen: UnseenExpert,
    X: NDArray[np.float32],
    y: pd.Index,
    table: pd.DataFrame,
    held: HoldOut,
    *,
    n_rounds: int | None = None,
    n_jobs: int | None = None,
    seed: int | None = 0,
    cache: Cache | None = None,
) -> tuple[ExpertPair, GatedMixture, Outputs]:
    """Return the fitted experts, the mixture, and the outputs of all rounds.

    Unseen classes of `table` may not influence a choice. The parameters of `unseen` are chosen once, on
    `held`.
    """
    # By first appearance, so that neither names nor the order of the table matter.
    codes, classes = pd.factorize(y)
    known = table.iloc[encode_labels(classes, table.index)]
    if unseen.open_parameters():
        logger.info("choosing the parameters of the unseen expert on held-out classes")
    chosen = unseen.select(X, y, known, held, cache=cache) if unseen.open_parameters() else unseen
    if n_rounds is None and unseen.slow:
        n_rounds = min(_SLOW_ROUNDS, len(known))
    rounds = deployment_rounds(
        codes, len(table) - len(known), n_rounds=n_rounds, halves=not unseen.slow, seed=seed
    )
    scores = run_rounds(seen, chosen, X, y, codes, known, rounds, n_jobs=n_jobs)
    calibration = calibrate(scores, np.argsort(np.argsort(table.index.get_indexer(classes))))
    if not calibration.mixture.validation_point_.acc_h > 0:
        message = "%d seen classes are too few to fit the gate: the model may predict seen classes only"
        logger.warning(message, len(known))
    logger.info("fitting both experts on all %d rows", len(X))
    pair = ExpertPair.fit(seen, chosen, X, y, table)
    pair = replace(pair, temperatures=calibration.temperatures, centre=X.mean(axis=0))
    return pair, calibration.mixture, calibration.validation


def run_rounds(
    seen: BaseEstimator,
    unseen: UnseenExpert,
    X: NDArray[np.float32],
    y: pd.Index,
    codes: Codes,
    descriptions: pd.DataFrame,
    rounds: Sequence[Round],
    *,
    n_jobs: int | None = None,
) -> list[RoundScores]:
    """Fit both experts in each round and return their scores on its held-out rows.

    All parameters of `unseen` are decided; `codes` are the classes as rows of `descriptions`, the seen
    classes.
    """
    tasks = (delayed(_run_round)(seen, unseen, X, y, codes, descriptions, one) for one in rounds)
    start, results = time.monotonic(), []
    for result in Parallel(n_jobs=n_jobs, return_as="generator")(tasks):
        results.append(result)
        left = (time.monotonic() - start) / len(results) * (len(rounds) - len(results))
        logger.info(
            "hold-out round %d of %d%s",
            len(results),
            len(rounds),
            f", about {left:.0f} s left" if left >= 1 else "",
        )
    return results


def _run_round(
    seen: BaseEstimator,
    unseen: UnseenExpert,
    X: NDArray[np.float32],
    y: pd.Index,
    codes: Codes,
    descriptions: pd.DataFrame,
    one: Round,
) -> RoundScores:
    train, rows = one.held.seen_train, one.held.gzsl_val
    known, target = np.unique(codes[train]), codes[rows]
    distance = squared_distance(X[rows], X[train].mean(axis=0))
    logits = seen_logits(fit_seen_expert(seen, X[train], codes[train]), X[rows])

    def score(train: Codes) -> NDArray[np.float32]:
        """Return scores of all classes by an expert that is fitted on these rows."""
        if (codes[train] == codes[train[0]]).all():  # One class is no basis for scores of others.
            return np.zeros((len(rows), len(descriptions)), dtype=np.float32)
        return clone(unseen).fit(X[train], y[train], descriptions).scores(X[rows], descriptions)

    def part(scores: NDArray[np.float32], offered: Codes, seen_rows: Codes, unseen: Codes) -> Scores:
        kept = np.concatenate([seen_rows, np.flatnonzero(np.isin(target, unseen))])
        both = np.concatenate([known, offered])
        columns = pd.Index(both).get_indexer(target[kept])
        columns[columns < 0] = len(both)
        return Scores(known, offered, logits[kept], scores[np.ix_(kept, both)], columns, distance[kept])

    def parts(scores: NDArray[np.float32], groups: list[Codes], others: Codes | None = None) -> list[Scores]:
        # Rows of seen classes are dealt out, so that each counts once.
        rows = np.arange(len(one.held.seen_val))
        return [
            part(scores, group, rows[k :: len(groups)], group if others is None else others)
            for k, group in enumerate(groups)
        ]

    scores = score(train)
    before: list[Scores] = []
    after: list[Scores] = []
    size = min([len(one.groups[0]), *(len(half.classes) for half in one.halves)])
    for half in one.halves:
        groups = groups_of(half.classes, size)
        before += parts(scores, groups)
        after += parts(score(half.train), groups)
    held = np.concatenate(one.groups)
    some = one.groups if len(one.groups) > 1 else [part for part in np.array_split(held, 2) if len(part)]
    undescribed = parts(scores, some, held) if len(some) > 1 else []
    n_more = len(descriptions) - len(one.halves[0].classes) if one.halves else len(known)
    return RoundScores(parts(scores, one.groups), before, after, (len(known), n_more), undescribed)


def calibrate(rounds: Sequence[RoundScores], columns: Codes) -> Calibration:
    """Fit temperatures and gate, and choose the point of best Acc_H, on the scores of all rounds.

    `columns` has the position of each class in the order of the validation outputs.
    """
    groups = [group for one in rounds for group in one.groups]
    temperatures = fit_temperatures(groups)
    by_round = [[group.outputs(temperatures) for group in one.groups] for one in rounds]
    outputs = [one for parts in by_round for one in parts]
    gate = CalibratedGate().fit(*outputs)
    spread = float(np.std([gate.bias_on(parts) for parts in by_round], ddof=1)) if len(rounds) > 1 else 0.0
    mixture = GatedMixture(CalibratedGate(), smoothing="none", softnesses=(1.0,))
    mixture.gate_ = gate
    validation = pool([mixture.summary(one) for one in outputs], groups, columns)
    mixture.operate_at(validation)
    mixture.rejection_ = _rejection(rounds, temperatures)
    trend = _Trend(rounds, len(columns))
    if trend.known:
        if trend.size >= _FEWEST:
            logs = trend.factor * trend.change(lambda parts: np.log(_unseen_temperature(parts)))
            temperatures = temperatures._replace(unseen=float(temperatures.unseen * np.exp(logs)))
        slope, change = trend.change(
            lambda parts: gate.correction_on([p.outputs(temperatures) for p in parts])
        )
        change *= trend.factor
        factor = np.exp(slope * min(trend.factor, 1))
        gate.weights_, gate.bias_ = factor * gate.weights_, float(factor * (gate.bias_ + change))
        spread = float(np.hypot(spread, change / 2))
    gate.bias_error_ = spread
    return Calibration(temperatures, mixture, validation)


def _rejection(rounds: Sequence[RoundScores], temperatures: Temperatures) -> Rejection | None:
    """Return the score by which samples are rejected; None if no class can be without a description."""
    some, groups = (
        [part for one in rounds for part in getattr(one, name)] for name in ("undescribed", "groups")
    )
    if not some:
        return None
    ends = [np.array([len(one.seen), len(one.seen) + len(one.unseen)]) for one in some]
    return fit_rejection(
        np.concatenate([one.support(temperatures) for one in some]),
        np.concatenate(
            [np.searchsorted(end, one.target, side="right") for end, one in zip(ends, some, strict=True)]
        ),
        np.concatenate([one.weights() for one in some]),
        np.concatenate([one.support(temperatures) for one in groups]),
        np.concatenate([one.own(temperatures) for one in groups]),
        len(groups[0].seen) + len(groups[0].unseen),
    )


def fit_temperatures(groups: Sequence[Scores]) -> Temperatures:
    """Return the temperatures of largest likelihood on held-out rows."""
    seen = pooled_temperature(
        [(one.logits[s], one.target[s], one.weights()[s]) for one, s in _by_domain(groups)]
    )
    if len(groups[0].unseen) > 1:
        unseen = _unseen_temperature(groups)
    else:  # One class has probability one at any temperature; its scores are compared with the seen ones.
        unseen = pooled_temperature([(one.scores, one.target, one.weights()) for one in groups])
    return Temperatures(seen, unseen, unseen)


def _by_domain(groups: Sequence[Scores], *, unseen: bool = False) -> Iterator[tuple[Scores, Any]]:
    for one in groups:
        yield one, (one.target >= len(one.seen)) == unseen


def _unseen_temperature(groups: Sequence[Scores]) -> float:
    """Return the temperature among unseen classes; few classes may lack those that are hard to tell apart."""
    return pooled_temperature(
        [
            (one.scores[u, len(one.seen) :], one.target[u] - len(one.seen), one.weights()[u])
            for one, u in _by_domain(groups, unseen=True)
        ],
        _RANDOM_CLASSES / len(np.unique(np.concatenate([one.unseen for one in groups]))),
    )


class _Trend:
    """Change of a quantity with the number of training classes of the unseen expert."""

    def __init__(self, rounds: Sequence[RoundScores], n_classes: int) -> None:
        self.before = [part for one in rounds for part in one.before]
        self.after = [part for one in rounds for part in one.after]
        self.known = bool(self.before)
        self.size = len(self.before[0].unseen) if self.before else 0
        first, second = (1 / n for n in rounds[0].n_classes)
        # From the first number of classes to all, relative to that from the first to the second.
        self.factor = (first - 1 / n_classes) / (first - second) if first != second else 0.0

    def change(self, quantity: Callable[[Sequence[Scores]], Any]) -> Any:
        """Return the change of a quantity from the first number of classes to the second."""
        return quantity(self.after) - quantity(self.before)


def pool(summaries: Sequence[OutputsSummary], groups: Sequence[Scores], columns: Codes) -> OutputsSummary:
    """Return one summary of all rounds.

    Its columns are the seen classes in the given order, each in its own role, and then the held-out classes
    as unseen ones, in the same order.
    """
    n_seen = len(columns)
    held_out = np.unique(columns[np.concatenate([one.unseen for one in groups])])
    merged: dict[str, list[NDArray[Any]]] = {}
    for summary, one in zip(summaries, groups, strict=True):
        seen, place = columns[one.seen], np.searchsorted(held_out, columns[one.unseen])
        parts = {
            "target": np.concatenate([seen, n_seen + place])[summary.target],
            "seen_choice": seen[summary.seen_choice],
            "unseen_choice": place[summary.unseen_choice],
            "best_seen": summary.best_seen,
            "best_unseen": summary.best_unseen,
            "gate_score": summary.gate_score,
        }
        for name, values in parts.items():
            merged.setdefault(name, []).append(values)
    pooled = {name: np.concatenate(values) for name, values in merged.items()}
    for name in ("target", "seen_choice", "unseen_choice"):
        pooled[name] = pooled[name].astype(np.int32)
    return OutputsSummary(n_seen, len(held_out), **pooled)
