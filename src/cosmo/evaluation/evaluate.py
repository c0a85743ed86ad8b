"""Accuracies, confusions and calibration of a model on labelled samples, and rejection of unknown ones."""

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
from cosmo.classifier._prediction import explain
from cosmo.classifier.ways import CalibratedStacking
from cosmo.data.tables import match_labels
from cosmo.evaluation.run import Measures
from cosmo.io.model import Model
from cosmo.metrics.accuracy import (
    GZSLScores,
    Interval,
    gzsl_intervals,
    gzsl_scores,
    harmonic_mean,
    per_class_accuracy,
)
from cosmo.metrics.calibration import Calibration, calibration
from cosmo.mixture.outputs import ExpertOutputs

_WEAK = 5  # classes that are named in a warning
DOMAINS = ("seen", "unseen", "unknown")
COVERAGES = (0.2, 0.4, 0.6, 0.8, 1.0)
_KEPT = 0.95  # of the known samples, at the false-positive rate

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ModelEvaluation(Measures):
    """Accuracies over the classes that have samples, with 95 % intervals over other rows.

    `Acc_ts` is NaN without samples of unseen classes, `Acc_tr` without those of seen ones, `Acc_H` and
    `ausuc` without either. `classes` has a row for each class with samples, worst first: domain, samples,
    accuracy, and the class that it is most often mistaken for (`taken_for`), with the number of times.
    `confusions` has truth, prediction and number of samples of each mistake, most frequent first;
    `predictions` label, prediction, probability and p_seen of each sample; `outputs` are the labelled outputs
    of both experts. `baselines` has Acc_ts, Acc_tr, Acc_H and AUSUC of simpler rules, see `baselines`.
    """

    classes: pd.DataFrame
    confusions: pd.DataFrame
    predictions: pd.DataFrame
    outputs: ExpertOutputs
    baselines: pd.DataFrame

    @property
    def answer_calibration(self) -> Calibration:
        """Calibration of the probability of each prediction, `p(y)`."""
        table = self.predictions
        return calibration(table["probability"].clip(upper=1), table["label"] == table["prediction"])

    @property
    def gate_calibration(self) -> Calibration:
        """Calibration of the gate's `p(U)`."""
        return calibration(1 - self.predictions["p_seen"], ~self.outputs.is_seen)

    @property
    def words(self) -> list[str]:
        """The result in sentences, see `plain_words`."""
        return plain_words(self.scores, self.classes, self.confusions)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and names, for JSON; NaN becomes None."""
        table = self.classes.astype({"samples": int}).reset_index(names="class")
        baselines = self.baselines.astype(object).where(self.baselines.notna(), None)
        return {
            "samples": len(self.predictions),
            "words": self.words,
            **self.numbers(),
            "calibration": self.answer_calibration.to_dict(),
            "gate_calibration": self.gate_calibration.to_dict(),
            "classes": table.astype(object).where(table.notna(), None).to_dict("records"),
            "confusions": self.confusions.astype(object).to_dict("records"),
            "baselines": baselines.to_dict("index"),
        }


def evaluate_model(model: Model, items: Any, labels: Iterable[Hashable]) -> ModelEvaluation:
    """Evaluate a model on labelled samples, as `Model.predict` takes them.

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
    rows = model.encode(items)
    outputs = cosmo.outputs(rows, truth)
    guess = outputs.classes[cosmo.combination_.predict(outputs)]
    present = outputs.classes[np.isin(np.arange(len(outputs.classes)), outputs.labels)]
    seen, unseen = (present[present.isin(part)] for part in (outputs.seen_classes, outputs.unseen_classes))
    nothing = Interval(np.nan, np.nan)
    if len(seen) and len(unseen):
        scores = gzsl_scores(truth, guess, seen, unseen)
        intervals = gzsl_intervals(truth, guess, seen, unseen)
        curve = cosmo.combination_.present_curve(outputs)
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
    confusions = confusion_table(predictions)
    return ModelEvaluation(
        scores,
        intervals,
        ausuc,
        ausuc_interval,
        class_table(predictions, confusions, seen),
        confusions,
        predictions,
        outputs,
        baselines(model, rows, outputs),
    )


def baselines(model: Model, rows: Any, outputs: ExpertOutputs) -> pd.DataFrame:
    """Return Acc_ts, Acc_tr, Acc_H and AUSUC of simpler rules on the same samples.

    The seen expert alone never predicts a new class. The unseen expert alone chooses among all classes, and
    calibrated stacking subtracts a constant from its scores of seen classes, which was chosen on held-out
    classes. The nearest description is that of largest cosine, if an encoder made samples and descriptions.
    """
    found: dict[str, NDArray[np.intp]] = {}
    if outputs.stacking_choice is not None:
        constant = getattr(model.cosmo.combination_, "stacking_", None)
        found = {
            "seen expert alone": outputs.seen_choice,
            "unseen expert alone": CalibratedStacking(0.0).fit(outputs).predict(outputs),
        }
        if constant is not None:
            found["calibrated stacking"] = CalibratedStacking(constant).fit(outputs).predict(outputs)
    table = model.cosmo.experts_.descriptions.loc[outputs.classes].to_numpy()
    X = np.asarray(rows)
    if model.texts is not None and X.shape[1] == table.shape[1]:
        found["nearest description"] = (X @ (table / np.linalg.norm(table, axis=1, keepdims=True)).T).argmax(
            1
        )
    truth, present = outputs.labels, np.unique(outputs.labels)
    parts = present[present >= outputs.n_seen], present[present < outputs.n_seen]
    lines = {}
    for name, guess in found.items():
        acc_ts, acc_tr = (per_class_accuracy(truth, guess, part) if len(part) else np.nan for part in parts)
        both = len(parts[0]) and len(parts[1])
        area = CalibratedStacking().present_curve(outputs).area if both and "stacking" in name else np.nan
        lines[name] = [acc_ts, acc_tr, harmonic_mean(acc_ts, acc_tr) if both else np.nan, area]
    return pd.DataFrame.from_dict(lines, orient="index", columns=["acc_ts", "acc_tr", "acc_h", "ausuc"])


def plain_words(scores: GZSLScores, classes: pd.DataFrame, confusions: pd.DataFrame) -> list[str]:
    r"""Return accuracies, the most frequent mistake and a warning of weak classes as sentences.

    Weak classes have less than half of the mean accuracy; the warning begins with "Warning:".

    Examples
    --------
    >>> answers = pd.DataFrame({"label": list("aaabbz"), "prediction": list("aaazzz")})
    >>> mistakes = confusion_table(answers)
    >>> table = class_table(answers, mistakes, pd.Index(["a", "b"]))
    >>> print(*plain_words(GZSLScores(1.0, 0.5, 2 / 3), table, mistakes), sep="\n")
    Known classes (with training samples): 50.0 % correct, as a mean over 2 classes.
    New classes (by description only): 100.0 % correct, as a mean over 1 class.
    Balanced score (harmonic mean of both): 66.7 %.
    Most frequent mistake: b taken for z, 2 of 2 samples.
    Warning: 1 of 3 classes is below half of the mean accuracy: b 0 % (2 samples).
    """
    lines = []
    for domain, name, value in (
        ("seen", "Known classes (with training samples)", scores.acc_tr),
        ("unseen", "New classes (by description only)", scores.acc_ts),
    ):
        number = int((classes["domain"] == domain).sum())
        mean = f"as a mean over {number} class{'' if number == 1 else 'es'}"
        lines.append(f"{name}: {100 * value:.1f} % correct, {mean}." if number else f"{name}: no samples.")
    if not np.isnan(scores.acc_h):
        lines.append(f"Balanced score (harmonic mean of both): {100 * scores.acc_h:.1f} %.")
    if len(confusions):
        label, prediction, times = confusions.iloc[0]
        of = classes.loc[[label], "samples"].iloc[0]
        lines.append(f"Most frequent mistake: {label} taken for {prediction}, {times} of {of} samples.")
    weak = classes[classes["accuracy"] < classes["accuracy"].mean() / 2]
    if len(weak):
        shown = ", ".join(
            f"{label} {100 * one['accuracy']:.0f} % ({one['samples']} samples)"
            for label, one in weak.head(_WEAK).iterrows()
        )
        more = f", and {len(weak) - _WEAK} more" if len(weak) > _WEAK else ""
        are = f"{len(classes)} classes {'is' if len(weak) == 1 else 'are'}"
        lines.append(f"Warning: {len(weak)} of {are} below half of the mean accuracy: {shown}{more}.")
    return lines


def confusion_table(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return label, prediction and number of samples of each mistake, most frequent first."""
    wrong = predictions[predictions["label"] != predictions["prediction"]]
    pairs = (
        wrong.groupby(["label", "prediction"], sort=False).size().sort_values(ascending=False, kind="stable")
    )
    return pairs.rename("samples").reset_index()


def class_table(predictions: pd.DataFrame, confusions: pd.DataFrame, seen: pd.Index) -> pd.DataFrame:
    """Return domain, samples, accuracy and most frequent mistake of each class, worst first."""
    right = (predictions["label"] == predictions["prediction"]).groupby(predictions["label"], sort=False)
    table = pd.DataFrame({"samples": right.size(), "accuracy": right.mean()})
    table.insert(0, "domain", np.where(table.index.isin(seen), "seen", "unseen"))
    most = confusions.drop_duplicates("label").set_index("label")
    table["taken_for"] = most["prediction"].reindex(table.index)
    table["times"] = most["samples"].reindex(table.index, fill_value=0)
    return table.sort_values(["accuracy", "samples"], ascending=[True, False], kind="stable")


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
