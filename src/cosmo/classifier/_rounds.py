"""The calibrated method: experts, temperatures, gate and operating point from hold-out rounds.

In each round both experts are fitted without some classes (`cosmo.data.rounds`). Pooled over the rounds,
their outputs on held-out samples give the temperatures of both, the gate and the operating point.

Experts that are fitted on all classes have other scores than those of the rounds: an expert that knows more
classes favours its training classes less. So each round also fits the unseen expert with half of the
held-out classes among its training classes. The gate's bias and the unseen expert's temperature, on the same
samples and among the same classes, change from one fit to the other; the change is extrapolated, linearly in
the inverse number of training classes, to all of them.
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
from cosmo.data.rounds import Round, deployment_rounds, groups_of
from cosmo.data.splits import HoldOut
from cosmo.experts.base import UnseenExpert
from cosmo.experts.pair import ExpertPair, fit_seen_expert, seen_logits
from cosmo.gates.calibrated import CalibratedGate
from cosmo.mixture.confidences import Temperatures, calibrated, pooled_temperature
from cosmo.mixture.outputs import ExpertOutputs, OutputsSummary

logger = logging.getLogger(__name__)

Codes = NDArray[np.intp]
_SLOW_ROUNDS = 3  # for experts that are slow to train
_FEWEST = 5  # classes offered together, below which the trend of the temperature is mostly noise


class Scores(NamedTuple):
    """Scores of both experts of a round on some held-out rows and classes; classes are codes."""

    seen: Codes
    unseen: Codes
    logits: NDArray[np.float32]  # of the seen expert, a column for each class in `seen`
    scores: NDArray[np.float32]  # of the unseen expert, columns [seen | unseen]
    target: Codes  # columns

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

    def weights(self) -> NDArray[np.float64]:
        """Return a weight for each row, so that all classes count the same."""
        rows: NDArray[np.float64] = 1 / np.bincount(self.target)[self.target]
        return rows


class RoundScores(NamedTuple):
    """Scores of one round: by groups, and by halves with the expert of the round and that of the half."""

    groups: list[Scores]
    before: list[Scores]
    after: list[Scores]
    n_classes: tuple[int, int]  # of the training of both


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

    Parameters
    ----------
    seen, unseen
        Unfitted experts.
    X, y
        All training rows and their classes.
    table : DataFrame
        A row for each class, seen and unseen; those of unseen classes may not influence a choice.
    held : HoldOut
        Rows on which the parameters of `unseen` are chosen, once.
    n_rounds : int, optional
        See `deployment_rounds`; by default 3 for experts that are slow to train.
    n_jobs : int, optional
        Rounds that run at the same time, as in joblib.
    seed : int, default=0
        Seed of the rounds.
    cache : Cache, optional
        Stores the choice of parameters.
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
    logger.info("fitting both experts on all %d rows", len(X))
    pair = ExpertPair.fit(seen, chosen, X, y, table)
    pair = replace(pair, temperatures=calibration.temperatures)
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

    Parameters
    ----------
    seen, unseen
        Unfitted experts; all parameters of `unseen` are decided.
    X, y, codes
        Training rows, their classes, and these as rows of `descriptions`.
    descriptions : DataFrame
        A row for each seen class.
    rounds : sequence of Round
    n_jobs : int, optional
        Rounds that run at the same time, as in joblib.
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
    logits = seen_logits(fit_seen_expert(seen, X[train], codes[train]), X[rows])

    def score(train: Codes) -> NDArray[np.float32]:
        """Return scores of all classes by an expert that is fitted on these rows."""
        if (codes[train] == codes[train[0]]).all():  # One class is no basis for scores of others.
            return np.zeros((len(rows), len(descriptions)), dtype=np.float32)
        return clone(unseen).fit(X[train], y[train], descriptions).scores(X[rows], descriptions)

    def part(scores: NDArray[np.float32], offered: Codes, seen_rows: Codes) -> Scores:
        kept = np.concatenate([seen_rows, np.flatnonzero(np.isin(target, offered))])
        both = np.concatenate([known, offered])
        columns = pd.Index(both).get_indexer(target[kept])
        return Scores(known, offered, logits[kept], scores[np.ix_(kept, both)], columns)

    def parts(scores: NDArray[np.float32], groups: list[Codes]) -> list[Scores]:
        # Rows of seen classes are dealt out, so that each counts once.
        seen_rows = np.arange(len(one.held.seen_val))
        return [part(scores, group, seen_rows[k :: len(groups)]) for k, group in enumerate(groups)]

    scores = score(train)
    before: list[Scores] = []
    after: list[Scores] = []
    size = min([len(one.groups[0]), *(len(half.classes) for half in one.halves)])
    for half in one.halves:
        groups = groups_of(half.classes, size)
        before += parts(scores, groups)
        after += parts(score(half.train), groups)
    n_more = len(descriptions) - len(one.halves[0].classes) if one.halves else len(known)
    return RoundScores(parts(scores, one.groups), before, after, (len(known), n_more))


def calibrate(rounds: Sequence[RoundScores], columns: Codes) -> Calibration:
    """Fit temperatures and gate, and choose the point of best Acc_H, on the scores of all rounds.

    Parameters
    ----------
    rounds : sequence of RoundScores
    columns : array of int, shape (n_seen,)
        Position of each class in the order of the validation outputs.
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
    trend = _Trend(rounds, len(columns))
    if trend.known:
        if trend.size >= _FEWEST:
            logs = trend.extrapolated(lambda parts: float(np.log(_unseen_temperature(parts))))
            temperatures = temperatures._replace(unseen=float(temperatures.unseen * np.exp(logs)))
        change = trend.extrapolated(lambda parts: gate.bias_on([p.outputs(temperatures) for p in parts]))
        gate.bias_ += change
        spread = float(np.hypot(spread, change / 2))
    gate.bias_error_ = spread
    return Calibration(temperatures, mixture, validation)


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
    return pooled_temperature(
        [
            (one.scores[u, len(one.seen) :], one.target[u] - len(one.seen), one.weights()[u])
            for one, u in _by_domain(groups, unseen=True)
        ]
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

    def extrapolated(self, quantity: Callable[[Sequence[Scores]], float]) -> float:
        """Return the change of a quantity from the experts of the rounds to those of all classes."""
        return self.factor * (quantity(self.after) - quantity(self.before))


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
