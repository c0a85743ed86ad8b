"""Rejection of samples of no known class: ROC, risk and coverage, and the table of three domains."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import roc_auc_score

from cosmo._core.validation import as_class_index
from cosmo.classifier._cosmo import Cosmo
from cosmo.data.tables import match_labels

DOMAINS = ("seen", "unseen", "unknown")
COVERAGES = (0.2, 0.4, 0.6, 0.8, 1.0)
_KEPT = 0.95  # of the known samples, at the false-positive rate

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class UnknownEvaluation:
    """Figures of a detector of unknown samples.

    `auroc` is the area under the ROC curve, known against unknown samples; `fpr` the share of unknown samples
    that are accepted if 95 % of the known ones are. `table` has the share of the samples of each domain
    (rows) with answers of each domain (columns), if at most the share `reject` of known samples is rejected;
    `risk` the share of wrong answers if the samples with the largest scores are answered, by their share;
    `curve` the same for 50 shares.
    """

    auroc: float
    fpr: float
    table: pd.DataFrame
    risk: pd.Series
    curve: pd.Series
    reject: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for JSON."""
        table = self.table.astype(object).where(self.table.notna(), None)
        risk = {f"{coverage:g}": float(value) for coverage, value in self.risk.items()}
        return {"auroc": self.auroc, "fpr_95": self.fpr, "answers": table.to_dict("index"), "risk": risk}


def evaluate_unknown(
    cosmo: Cosmo, X: ArrayLike, labels: Iterable[Hashable], unknown: Hashable, *, reject: float = 0.05
) -> UnknownEvaluation:
    """Evaluate the rejection of samples on rows, of which those of no class have the label `unknown`.

    `reject` is the largest share of known samples to reject, for the table.
    """
    given = as_class_index(labels)
    is_known = np.asarray(given != unknown)
    if is_known.all() or not is_known.any():
        raise ValueError(f"samples of known classes and samples labelled {unknown!r} are needed")
    truth = given.to_numpy(dtype=object, copy=True)
    truth[is_known] = match_labels(given[is_known], cosmo.experts_.descriptions.index).to_numpy()
    domain = np.where(is_known, np.where(np.isin(truth, list(cosmo.seen_classes_)), 0, 1), 2)
    weights = class_weights(truth)
    score, answers = cosmo.conformity(X), cosmo.predict(X)
    given_domain = np.where(np.isin(answers, list(cosmo.seen_classes_)), 0, 1)
    given_domain[score <= reject] = 2
    mass = np.zeros((3, 3))
    np.add.at(mass, (domain, given_domain), weights)
    with np.errstate(invalid="ignore"):
        table = pd.DataFrame(mass / mass.sum(axis=1, keepdims=True), index=DOMAINS, columns=DOMAINS)
    wrong = (answers != truth) | ~is_known
    auroc = float(roc_auc_score(is_known, score, sample_weight=weights))
    risks, curve = (
        pd.Series({coverage: risk(score, wrong, weights, coverage) for coverage in coverages})
        for coverages in (COVERAGES, np.arange(1, 51) / 50)
    )
    return UnknownEvaluation(auroc, false_positives(score, is_known, weights), table, risks, curve, reject)


def class_weights(truth: NDArray[Any]) -> Floats:
    """Return a weight for each sample, so that all classes count the same."""
    codes = pd.factorize(truth, use_na_sentinel=False)[0]
    return 1 / np.bincount(codes)[codes]


def false_positives(score: Floats, is_known: NDArray[np.bool_], weights: Floats) -> float:
    """Return the share of unknown samples whose score is that of the best 95 % of the known ones."""
    order = np.argsort(score[is_known])
    share = np.cumsum(weights[is_known][order]) / weights[is_known].sum()
    least = score[is_known][order][np.searchsorted(share, 1 - _KEPT)]
    return float(np.average(score[~is_known] >= least, weights=weights[~is_known]))


def risk(score: Floats, wrong: NDArray[np.bool_], weights: Floats, coverage: float) -> float:
    """Return the share of wrong answers among a share of the samples, those with the largest scores.

    Examples
    --------
    >>> risk(np.array([0.9, 0.8, 0.1]), np.array([False, True, True]), np.ones(3), 2 / 3)
    0.5
    """
    order = np.argsort(-score, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    answered = order[: int(np.searchsorted(share, coverage - 1e-9)) + 1]
    return float(np.average(wrong[answered], weights=weights[answered]))
