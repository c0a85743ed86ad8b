"""Accuracies, confusions and calibration of a model on labelled samples."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from cosmo.classifier.explain import explain
from cosmo.data.tables import match_labels
from cosmo.io.model import Model
from cosmo.metrics.accuracy import GZSLScores, Interval, gzsl_intervals, gzsl_scores, per_class_accuracy
from cosmo.metrics.calibration import Calibration, calibration
from cosmo.mixture.outputs import ExpertOutputs

__all__ = ["ModelEvaluation", "evaluate_model"]


@dataclass(frozen=True, eq=False)
class ModelEvaluation:
    """Accuracies over the classes that have samples.

    Parameters
    ----------
    scores : GZSLScores
        `Acc_ts` is NaN without samples of unseen classes, `Acc_tr` without those of seen ones, and
        `Acc_H` without either.
    intervals : tuple of Interval
        95 % intervals of the three, over other rows of the same classes.
    ausuc : float
        Area under the seen-unseen curve, NaN as `Acc_H`.
    ausuc_interval : Interval
    classes : DataFrame
        A row for each class with samples, worst first: domain, samples, accuracy, and the class that it is
        most often mistaken for (`taken_for`), with the number of times.
    confusions : DataFrame
        truth, prediction and number of samples of each mistake, most frequent first.
    predictions : DataFrame
        label, prediction, probability and p_seen of each sample.
    outputs : ExpertOutputs
        Labelled outputs of both experts.
    """

    scores: GZSLScores
    intervals: tuple[Interval, Interval, Interval]
    ausuc: float
    ausuc_interval: Interval
    classes: pd.DataFrame
    confusions: pd.DataFrame
    predictions: pd.DataFrame
    outputs: ExpertOutputs

    @property
    def answer_calibration(self) -> Calibration:
        """Calibration of the probability of each prediction, `p(y)`."""
        table = self.predictions
        return calibration(table["probability"].clip(upper=1), table["label"] == table["prediction"])

    @property
    def gate_calibration(self) -> Calibration:
        """Calibration of the gate's `p(U)`."""
        return calibration(1 - self.predictions["p_seen"], ~self.outputs.is_seen)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and names, for JSON; NaN becomes None."""

        def plain(value: float) -> float | None:
            return None if np.isnan(value) else float(value)

        names = GZSLScores._fields
        table = self.classes.astype({"samples": int}).reset_index(names="class")
        return {
            "samples": len(self.predictions),
            **{name: plain(value) for name, value in self.scores._asdict().items()},
            **{
                f"{name}_95": [*map(plain, interval)]
                for name, interval in zip(names, self.intervals, strict=True)
            },
            "ausuc": plain(self.ausuc),
            "ausuc_95": [*map(plain, self.ausuc_interval)],
            "calibration": self.answer_calibration.to_dict(),
            "gate_calibration": self.gate_calibration.to_dict(),
            "classes": table.astype(object).where(table.notna(), None).to_dict("records"),
            "confusions": self.confusions.astype(object).to_dict("records"),
        }


def evaluate_model(model: Model, items: Any, labels: Iterable[Hashable]) -> ModelEvaluation:
    """Evaluate a model on labelled samples.

    Parameters
    ----------
    model : Model
    items : samples
        As `Model.predict` takes them.
    labels : one class for each sample
        Unknown classes raise ValueError.

    Returns
    -------
    ModelEvaluation

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> from cosmo.io.model import fit_model
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> train, test = data.split.trainval, data.split.test_unseen
    >>> model = fit_model(data.features[train], data.labels[train], data.descriptions)
    >>> found = evaluate_model(model, data.features[test], data.labels[test])
    >>> found.scores.acc_ts > 1 / 40, found.scores.acc_tr, set(found.classes["domain"])
    (True, nan, {'unseen'})
    """
    cosmo = model.cosmo
    truth = match_labels(labels, cosmo.experts_.descriptions.index)
    outputs = cosmo.outputs(model.encode(items), truth)
    guess = outputs.classes[cosmo.combination_.predict(outputs)]
    present = outputs.classes[np.isin(np.arange(len(outputs.classes)), outputs.labels)]
    seen, unseen = (present[present.isin(part)] for part in (outputs.seen_classes, outputs.unseen_classes))
    nothing = Interval(np.nan, np.nan)
    if len(seen) and len(unseen):
        scores = gzsl_scores(truth, guess, seen, unseen)
        intervals = gzsl_intervals(truth, guess, seen, unseen)
        curve = cosmo.combination_.curve(outputs)
        # Average over the classes with samples only.
        curve = replace(
            curve,
            seen_gain=curve.seen_gain * (outputs.n_seen / len(seen)),
            unseen_gain=curve.unseen_gain * (outputs.n_unseen / len(unseen)),
        )
        ausuc, ausuc_interval = curve.area, curve.area_interval(outputs.labels)
    else:
        accuracy = per_class_accuracy(truth, guess, present)
        interval = gzsl_intervals(truth, guess, present, present)[0]
        ausuc, ausuc_interval = np.nan, nothing
        if len(seen):
            scores, intervals = GZSLScores(np.nan, accuracy, np.nan), (nothing, interval, nothing)
        else:
            scores, intervals = GZSLScores(accuracy, np.nan, np.nan), (interval, nothing, nothing)
    steps = explain(cosmo.combination_, outputs)
    predictions = pd.DataFrame(
        {
            "label": truth,
            "prediction": guess,
            "probability": steps.proba.max(axis=1),
            "p_seen": 1 - steps.p_unseen,
        }
    )
    confusions = _confusions(predictions)
    return ModelEvaluation(
        scores,
        intervals,
        ausuc,
        ausuc_interval,
        _by_class(predictions, confusions, seen),
        confusions,
        predictions,
        outputs,
    )


def _confusions(predictions: pd.DataFrame) -> pd.DataFrame:
    wrong = predictions[predictions["label"] != predictions["prediction"]]
    pairs = (
        wrong.groupby(["label", "prediction"], sort=False).size().sort_values(ascending=False, kind="stable")
    )
    return pairs.rename("samples").reset_index()


def _by_class(predictions: pd.DataFrame, confusions: pd.DataFrame, seen: pd.Index) -> pd.DataFrame:
    right = (predictions["label"] == predictions["prediction"]).groupby(predictions["label"], sort=False)
    table = pd.DataFrame({"samples": right.size(), "accuracy": right.mean()})
    table.insert(0, "domain", np.where(table.index.isin(seen), "seen", "unseen"))
    most = confusions.drop_duplicates("label").set_index("label")
    table["taken_for"] = most["prediction"].reindex(table.index)
    table["times"] = most["samples"].reindex(table.index, fill_value=0)
    return table.sort_values(["accuracy", "samples"], ascending=[True, False], kind="stable")
