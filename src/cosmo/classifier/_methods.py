"""Both methods: experts, gate and operating point from training rows.

`fit_paper` is the paper's recipe: validation stage, gate, operating point, then experts fitted on all rows.

`fit_calibrated` is the calibrated method. In each round both experts are fitted without some classes
(`cosmo.data.rounds`). Pooled over the rounds, their outputs on held-out samples give the temperatures of
both, the gate and the operating point (`cosmo.classifier._calibrate`).

An expert that is slow to train has one hold-out: that on which its parameters are chosen, with the expert
that was fitted there. Held-out classes are offered in groups in the proportion of the task; an expert that
trains a classifier for the classes offered, such as a generative one, trains it again for each group. The
seen expert, which is quick, is cross-fitted on Seen-Val, which may have as many rows as Seen-Train.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from cosmo._core.cache import Cache
from cosmo._core.validation import encode_labels
from cosmo.classifier._calibrate import HeldOut, RoundScores, Scores, calibrate, one_hold_out
from cosmo.classifier.combinations import GatedMixture, Outputs
from cosmo.classifier.ways import CalibratedStacking
from cosmo.data.rounds import Round, deployment_rounds, expected_unseen, groups_of
from cosmo.data.splits import HoldOut
from cosmo.experts.base import UnseenExpert
from cosmo.experts.pair import ExpertPair, fit_seen_expert, seen_logits, squared_distance

logger = logging.getLogger(__name__)

Codes = NDArray[np.intp]


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
    n_seen = y.nunique()
    n_unseen = expected_unseen(n_seen, len(table) - n_seen)
    if unseen.slow and n_rounds is None:
        known = table[table.index.isin(y)]
        codes = encode_labels(y, known.index)
        chosen = unseen.select(X, y, known, held, cache=cache)
        logger.info("scoring groups of held-out classes")
        rows = X[held.gzsl_val]
        scores = one_hold_out(
            _held_out(seen, X, codes, held, folds=3),
            lambda classes: chosen.scores(rows, known.iloc[classes]),
            n_unseen,
            seed=seed,
        )
        calibration = calibrate(scores, np.arange(len(known)))
    else:
        # By first appearance, so that neither names nor the order of the table matter.
        codes, classes = pd.factorize(y)
        known = table.iloc[encode_labels(classes, table.index)]
        if unseen.open_parameters():
            logger.info("choosing the parameters of the unseen expert on held-out classes")
        chosen = unseen.select(X, y, known, held, cache=cache) if unseen.open_parameters() else unseen
        rounds = deployment_rounds(codes, n_unseen, n_rounds=n_rounds, halves=not unseen.slow, seed=seed)
        scores = run_rounds(seen, chosen, X, y, codes, known, rounds, n_jobs=n_jobs)
        calibration = calibrate(scores, np.argsort(np.argsort(table.index.get_indexer(classes))))
    if not calibration.mixture.validation_point_.acc_h > 0:
        message = "%d seen classes are too few to fit the gate: the model may predict seen classes only"
        logger.warning(message, len(known))
    logger.info("fitting both experts on all %d rows", len(X))
    pair = ExpertPair.fit(seen, chosen, X, y, table)
    if chosen.native:  # Its outputs are compared as probabilities.
        calibration.mixture.stacking_ = None
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
    held = _held_out(seen, X, codes, one.held)

    def score(train: Codes) -> NDArray[np.float32]:
        """Return scores of all classes by an expert that is fitted on these rows."""
        if (codes[train] == codes[train[0]]).all():  # One class is no basis for scores of others.
            return np.zeros((len(rows), len(descriptions)), dtype=np.float32)
        return clone(unseen).fit(X[train], y[train], descriptions).scores(X[rows], descriptions)

    def parts(scores: NDArray[np.float32], groups: list[Codes], others: Codes | None = None) -> list[Scores]:
        offered = [scores[:, np.concatenate([held.known, group])] for group in groups]
        return held.offered(groups, offered, others)

    scores = score(train)
    before: list[Scores] = []
    after: list[Scores] = []
    size = min([len(one.groups[0]), *(len(half.classes) for half in one.halves)])
    for half in one.halves:
        groups = groups_of(half.classes, size)
        before += parts(scores, groups)
        after += parts(score(half.train), groups)
    classes = np.concatenate(one.groups)
    some = one.groups if len(one.groups) > 1 else [part for part in np.array_split(classes, 2) if len(part)]
    undescribed = parts(scores, some, classes) if len(some) > 1 else []
    n_more = len(descriptions) - len(one.halves[0].classes) if one.halves else len(held.known)
    return RoundScores(parts(scores, one.groups), before, after, (len(held.known), n_more), undescribed)


def _held_out(
    seen: BaseEstimator, X: NDArray[np.float32], codes: Codes, hold_out: HoldOut, *, folds: int = 1
) -> HeldOut:
    """Fit the seen expert and return its outputs on the held-out rows.

    With `folds`, the outputs on each part of the rows are of an expert that is also fitted on the rows of
    Seen-Val in the other parts: one with far fewer rows than in the end is less sure than it will be, and
    the operating point favours seen classes.
    """
    train, rows = hold_out.seen_train, hold_out.gzsl_val
    part = np.arange(len(rows)) % min(folds, len(hold_out.seen_val))
    found = []
    for k in np.unique(part):
        more = hold_out.seen_val[part[: len(hold_out.seen_val)] != k]
        both = np.concatenate([train, more])
        found.append(seen_logits(fit_seen_expert(seen, X[both], codes[both]), X[rows[part == k]]))
    logits = np.concatenate(found)[np.argsort(np.argsort(part, kind="stable"))]
    distance = squared_distance(X[rows], X[train].mean(axis=0))
    return HeldOut(np.unique(codes[train]), codes[rows], logits, distance)


def fit_paper(
    mixture: GatedMixture,
    seen: BaseEstimator,
    unseen: UnseenExpert,
    X: NDArray[np.float32],
    y: pd.Index,
    table: pd.DataFrame,
    holds: Sequence[HoldOut],
    *,
    cache: Cache | None = None,
) -> tuple[ExpertPair, GatedMixture, Outputs]:
    """Return the experts fitted on all rows, the fitted mixture, and the outputs on GZSL-Val.

    The gate is fitted on all hold-outs; the operating point is chosen on the first, the validation stage.
    """
    gate = mixture.gate
    assert gate is not None
    known = table[table.index.isin(y)]  # Descriptions of unseen classes may not influence any choice.
    held = holds[0]
    logger.info("validation stage: fitting both experts on %d rows", len(held.seen_train))
    unseen, train = unseen.select(X, y, known, held, cache=cache), held.seen_train
    pair = ExpertPair.fit(seen, unseen, X[train], y[train], known, observer=gate.observer(), refit=False)
    outputs = [pair.outputs(X[held.gzsl_val], y[held.gzsl_val])]
    for k, fold in enumerate(holds[1:], start=2):
        logger.info("hold-out %d of %d, for the gate", k, len(holds))
        train, val = fold.seen_train, fold.gzsl_val
        again = ExpertPair.fit(seen, unseen, X[train], y[train], known, observer=gate.observer())
        outputs.append(again.outputs(X[val], y[val]))
    logger.info("fitting the gate and choosing the operating point on %d rows", len(outputs[0]))
    mixture.fit(*outputs)
    mixture.stacking_ = CalibratedStacking().fit(outputs[0]).operating_point_.threshold
    chosen = ", ".join(f"{name} {value:.3g}" for name, value in unseen.decided_.items())
    logger.info("test stage: fitting both experts on all %d rows (%s)", len(X), chosen)
    pair = ExpertPair.fit(seen, unseen, X, y, table, observer=gate.observer())
    return pair, mixture, outputs[0]
