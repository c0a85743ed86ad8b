"""Temperatures, gate and operating point of the calibrated method, from scores of held-out rows.

Experts that are fitted on all classes have other scores than those of the rounds: an expert that knows more
classes favours its training classes less. So each round also fits the unseen expert with half of the
held-out classes among its training classes. The gate's bias and slope and the unseen expert's temperature, on
the same samples and among the same classes, change from one fit to the other. The change of bias and
temperature is extrapolated, linearly in the inverse number of training classes, to all of them; that of the
slope, which varies more, counts as measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo.classifier.combinations import GatedMixture
from cosmo.classifier.rejection import Rejection, fit_rejection
from cosmo.data.rounds import ROUNDS, groups_of
from cosmo.gates.calibrated import CalibratedGate
from cosmo.mixture.confidences import FLAT, Temperatures, calibrated, pooled_temperature, support
from cosmo.mixture.curve import SeenUnseenCurve
from cosmo.mixture.outputs import ExpertOutputs, OutputsSummary, stacking

Codes = NDArray[np.intp]
_RANDOM_CLASSES = 0.1  # whose labels are random, among those from which a temperature is fitted
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
        return 1 / np.bincount(self.target)[self.target]


class RoundScores(NamedTuple):
    """Scores of one round: by groups, and by halves with the expert of the round and that of the half.

    `undescribed` has the rows of classes that are not offered, too.
    """

    groups: list[Scores]
    before: list[Scores]
    after: list[Scores]
    n_classes: tuple[int, int]  # of the training of both
    undescribed: list[Scores]


class HeldOut(NamedTuple):
    """Rows that are held out, with the seen expert's logits; classes are codes."""

    known: Codes  # classes of the training
    target: Codes
    logits: NDArray[np.float32]  # a column for each class in `known`
    distance: NDArray[np.float64]  # see `Scores`

    def offered(
        self,
        groups: Sequence[Codes],
        scores: Sequence[NDArray[np.float32]],
        others: Codes | None = None,
    ) -> list[Scores]:
        """Return the scores with each group of held-out classes offered.

        `scores` are those of all rows, columns `[known | group]`; of the rows of held-out classes, those of
        the group are used, or those of `others`.
        """
        # Rows of seen classes are dealt out, so that each counts once.
        seen_rows, found = np.flatnonzero(np.isin(self.target, self.known)), []
        for k, (group, values) in enumerate(zip(groups, scores, strict=True)):
            unseen_rows = np.flatnonzero(np.isin(self.target, group if others is None else others))
            rows = np.concatenate([seen_rows[k :: len(groups)], unseen_rows])
            both = np.concatenate([self.known, group])
            columns = pd.Index(both).get_indexer(self.target[rows])
            columns[columns < 0] = len(both)
            parts = self.logits[rows], values[rows], columns, self.distance[rows]
            found.append(Scores(self.known, group, *parts))
        return found


class Calibration(NamedTuple):
    """Temperatures and gate of the fitted experts, and the mixture with its validation outputs."""

    temperatures: Temperatures
    mixture: GatedMixture
    validation: OutputsSummary


def one_hold_out(
    held: HeldOut, score: Callable[[Codes], NDArray[np.float32]], n_unseen: int, *, seed: int | None = 0
) -> list[RoundScores]:
    """Return the scores of one hold-out, of which each group of held-out classes counts as a round.

    The groups are in the proportion of the task, which has `n_unseen` unseen classes; there are 6 of them at
    most. `score` returns the scores of all rows for some classes.
    """
    classes = np.setdiff1d(held.target, held.known)
    n_seen = len(held.known) + len(classes)
    size = max(1, round(len(held.known) * n_unseen / n_seen), -(-len(classes) // ROUNDS))
    groups = groups_of(np.random.default_rng(seed).permutation(classes), min(size, len(classes)))
    scores = [score(np.concatenate([held.known, group])) for group in groups]
    undescribed = held.offered(groups, scores, classes) if len(groups) > 1 else []
    n_classes = len(held.known), len(held.known)
    return [
        RoundScores([part], [], [], n_classes, undescribed[k : k + 1])
        for k, part in enumerate(held.offered(groups, scores))
    ]


def calibrate(rounds: Sequence[RoundScores], columns: Codes) -> Calibration:
    """Fit temperatures and gate, and choose the point of best Acc_H, on the scores of all rounds.

    `columns` has the position of each class in the order of the validation outputs.
    """
    groups = [group for one in rounds for group in one.groups]
    temperatures = fit_temperatures(groups)
    by_round = [[group.outputs(temperatures) for group in one.groups] for one in rounds]
    outputs = [one for parts in by_round for one in parts]
    gate = CalibratedGate().fit(*outputs)
    if len(rounds) > 1:
        gate.bias_error_ = float(np.std([gate.bias_on(parts) for parts in by_round], ddof=1))
    mixture = GatedMixture(CalibratedGate(), smoothing="none", softnesses=(1.0,))
    mixture.gate_ = gate
    validation = pool([mixture.summary(one) for one in outputs], groups, columns)
    mixture.rejection_ = _rejection(rounds, temperatures)
    mixture.stacking_ = _stacking_constant(groups, validation.gain)
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
        gate.bias_error_ = float(np.hypot(gate.bias_error_, change / 2))
    return Calibration(temperatures, mixture.operate_at(validation), validation)


def _stacking_constant(groups: Sequence[Scores], gain: NDArray[np.float64]) -> float:
    """Return the constant of calibrated stacking of best Acc_H, for comparisons."""
    flips, right_seen, right_unseen = [], [], []
    for one in groups:
        n_seen = len(one.seen)
        found = stacking(one.scores, n_seen)
        flips.append(found["stacking_seen"] - found["stacking_unseen"])
        right_seen.append(found["stacking_choice"] == one.target)
        right_unseen.append(n_seen + one.scores[:, n_seen:].argmax(axis=1) == one.target)
    gains = (gain * np.concatenate(right) for right in (right_seen, right_unseen))
    return SeenUnseenCurve(np.concatenate(flips), *gains).best().threshold


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
    return Temperatures(seen, unseen, unseen, FLAT)


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
        FLAT,
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

    Its columns are the classes of the training in the given order, each in its own role, and then the
    held-out classes as unseen ones, in the same order.
    """
    known, held_out = (
        np.unique(columns[np.concatenate([getattr(one, role) for one in groups])])
        for role in ("seen", "unseen")
    )
    n_seen = len(known)
    merged: dict[str, list[NDArray[Any]]] = {}
    for summary, one in zip(summaries, groups, strict=True):
        seen = np.searchsorted(known, columns[one.seen])
        place = np.searchsorted(held_out, columns[one.unseen])
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
