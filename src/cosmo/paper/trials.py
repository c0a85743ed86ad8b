"""Trials: one figure of the paper, given by experts, combination and search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self, cast, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from cosmo.classifier.combinations import (
    WAYS,
    CalibratedStacking,
    Combination,
    GatedMixture,
    OperatingPoint,
    make_way,
)
from cosmo.data.splits import gating_split
from cosmo.evaluation.run import evaluate
from cosmo.experts import make_seen_expert
from cosmo.gates import ConfidenceGate
from cosmo.metrics.accuracy import (
    Interval,
    fpr_at_tpr,
    gate_auc,
    gate_intervals,
    gzsl_intervals,
    sampled_ausuc,
    zsl_accuracy,
)
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.paper.grid_search import AUTHORS_GRIDS, STACKING_CONSTANTS, grid_search
from cosmo.paper.inputs import Missing

Source = Literal["predictions", "features", "scores"]
SOURCES = {
    "predictions": "the authors' predictions of the zero-shot expert, and a seen expert trained here",
    "features": "both experts trained here",
    "scores": "the authors' predictions alone: their columns of seen classes replace the seen expert",
}
Search = Literal["exact", "authors", "textbook"]
SEARCHES = {
    "exact": "every threshold",
    "authors": "the authors' grids, coarse then fine; AUSUC from the points of the fine grid",
    "textbook": "every threshold, with the probability of the gate's regression as its score "
    "(the authors' library halved its log-odds)",
}
Case = tuple[str, str, Source, str]
"""Data set, zero-shot expert, source, seen expert."""


class SquareRoot(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Square roots of non-negative features, such as histograms; negative ones count as zero."""

    def fit(self, X: NDArray[Any], y: object = None) -> Self:
        """Do nothing."""
        return self

    def transform(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the square roots."""
        roots: NDArray[Any] = np.sqrt(np.maximum(X, 0))
        return roots


class SubsampledClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classifier trained on a share of the rows of each class, at least one.

    Parameters
    ----------
    classifier : classifier
    share : float
    """

    def __init__(self, classifier: Any, share: float) -> None:
        self.classifier = classifier
        self.share = share

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Train on evenly spaced rows of each class."""
        rank = np.empty(len(y), dtype=np.intp)
        for label in np.unique(y):
            rows = np.flatnonzero(y == label)
            rank[rows] = np.arange(len(rows))
        # A row is used where a count in steps of `share` passes a whole number.
        is_used = np.ceil((rank + 1) * self.share) > np.ceil(rank * self.share)
        self.classifier_ = clone(self.classifier).fit(X[is_used], y[is_used])
        self.classes_ = self.classifier_.classes_
        return self

    def predict_proba(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the probabilities of `classes_`."""
        proba: NDArray[Any] = self.classifier_.predict_proba(X)
        return proba

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the most probable class."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


SEEN: dict[str, Any] = {
    "logistic": make_seen_expert("logistic"),
    "a third of the rows": SubsampledClassifier(make_seen_expert("logistic"), 1 / 3),
    "two thirds of the rows": SubsampledClassifier(make_seen_expert("logistic"), 2 / 3),
    "square roots of features": make_pipeline(SquareRoot(), LogisticRegression(C=0.1, max_iter=2000)),
}
"""Seen experts of graded accuracy: the paper's, two weaker ones and a stronger one."""


@dataclass(frozen=True)
class Trial:
    """An experiment: data, expert, where its predictions are from, rule and search.

    Parameters
    ----------
    dataset, expert : str
        "CUB", ...; the method's name in the paper's tables, "LAGO", ...
    source : {"predictions", "features", "scores"}
        See `SOURCES`.
    rule : str
        A key of `cosmo.classifier.combinations.WAYS`.
    search : {"exact", "authors", "textbook"}
        See `SEARCHES`.
    seen : str
        The seen expert, a name in `SEEN`; no matter where the source is "scores".
    """

    dataset: str
    expert: str
    source: Source
    rule: str
    search: Search = "exact"
    seen: str = "logistic"

    def __post_init__(self) -> None:
        for name, known in (
            ("source", get_args(Source)),
            ("rule", tuple(WAYS)),
            ("search", get_args(Search)),
            ("seen", tuple(SEEN)),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}; got {getattr(self, name)!r}")

    @property
    def case(self) -> Case:
        """The experts and their source; the zero-shot expert alone needs no seen expert."""
        alone = self.source == "predictions" and self.rule in ("alone", "CS")
        return self.dataset, self.expert, "scores" if alone else self.source, self.seen


def fitted(trial: Trial, validation: ExpertOutputs) -> Combination:
    """Return the trial's rule, its gate fitted and its operating point chosen on GZSL-Val."""
    rule = _rule(trial)
    if trial.search != "authors" or trial.rule == "alone":
        return rule.fit(validation)
    if isinstance(rule, CalibratedStacking):
        heights = rule.curve(validation).sample(STACKING_CONSTANTS)[2]
        rule.operating_point_ = OperatingPoint(float(STACKING_CONSTANTS[heights.argmax()]))
        return rule
    if trial.dataset not in AUTHORS_GRIDS:
        raise Missing(f"a published grid for {trial.dataset}")
    mixture = cast(GatedMixture, rule).fit_gate(validation)
    mixture.operating_point_ = grid_search(
        mixture, validation, validation, AUTHORS_GRIDS[trial.dataset]
    ).operating_point
    return mixture


def _rule(trial: Trial) -> Combination:
    rule = make_way(trial.rule)
    if trial.search == "textbook" and isinstance(getattr(rule, "gate", None), ConfidenceGate):
        rule.set_params(gate=clone(rule.gate).set_params(convention="textbook"))
    return rule


def measure(trial: Trial, validation: ExpertOutputs, test: ExpertOutputs) -> dict[str, float]:
    """Return every measure of a trial, in percent.

    Returns
    -------
    dict
        On test `acc_ts`, `acc_tr`, `acc_h`, `ausuc`, `t1` (unseen samples among unseen classes) and
        `seen_accuracy` (the reverse); on GZSL-Val `val_acc_h`; of rules with a gate `auc` and `fpr` on
        Gating-Val. All but `t1` and `seen_accuracy` with `_low` and `_high`, their 95 % intervals.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> from cosmo import Cosmo
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> rows, test = data.split.trainval, np.r_[data.split.test_seen, data.split.test_unseen]
    >>> model = Cosmo(data.descriptions).fit(data.features[rows], data.labels[rows])
    >>> outputs = model.outputs(data.features[test], data.labels[test])
    >>> trial = Trial("glyphs", "ESZSL", "features", "COSMO")
    >>> found = measure(trial, model.validation_outputs_, outputs)
    >>> found["acc_h_low"] <= found["acc_h"] <= found["acc_h_high"]
    True
    """
    rule = fitted(trial, validation)
    result = evaluate(trial.rule, rule, validation, test)
    truth = test.classes[test.labels]
    around: dict[str, tuple[float, Interval]] = {
        name: (value, interval)
        for name, value, interval in zip(
            ("acc_ts", "acc_tr", "acc_h"), result.scores, result.intervals, strict=True
        )
    }
    around["ausuc"] = result.ausuc, result.ausuc_interval
    if trial.search == "authors":
        around["ausuc"] = _sampled_ausuc(trial, rule, validation, test), result.ausuc_interval
    sides = np.arange(validation.n_seen), validation.n_seen + np.arange(validation.n_unseen)
    val_intervals = gzsl_intervals(validation.labels, rule.predict(validation), *sides)
    around["val_acc_h"] = result.validation.acc_h, val_intervals[2]
    if isinstance(rule, GatedMixture):
        gating_val = validation[gating_split(len(validation))[1]]
        is_seen, score = gating_val.is_seen, rule.gate_.score(gating_val)
        auc, fpr = gate_intervals(is_seen, score)
        around |= {"auc": (gate_auc(is_seen, score), auc), "fpr": (fpr_at_tpr(is_seen, score), fpr)}
    values = {
        name + suffix: value
        for name, (middle, (low, high)) in around.items()
        for suffix, value in (("", middle), ("_low", low), ("_high", high))
    }
    values["t1"] = zsl_accuracy(truth, test.unseen, test.unseen_classes)
    values["seen_accuracy"] = zsl_accuracy(truth, test.seen, test.seen_classes)
    return {name: 100 * float(value) for name, value in values.items()}


def _sampled_ausuc(trial: Trial, rule: Combination, validation: ExpertOutputs, test: ExpertOutputs) -> float:
    """Return the area as the authors computed it."""
    if isinstance(rule, GatedMixture):
        return grid_search(rule, validation, test, AUTHORS_GRIDS[trial.dataset]).ausuc
    # Of stacking: 201 constants, up to the largest score.
    most = max(float(np.max(part)) for part in (test.stacking_seen, test.stacking_unseen))  # type: ignore[arg-type]
    acc_ts, acc_tr, _ = rule.curve(test).sample(np.linspace(-most, most, 201))
    return sampled_ausuc(acc_tr, acc_ts)
