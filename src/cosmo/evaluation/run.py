"""Run all combinations of one pair of experts on one data set.

The rows are those of the paper's ablation: the unseen expert alone and with calibrated stacking, a
max-softmax gate (hard, soft, with adaptive smoothing), and the chosen gate without and with smoothing. Their
choices are made on GZSL-Val. The last row is the calibrated method, with the same parameters of the experts;
its choices are made on hold-out rounds. The test set is opened once, at the end.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.base import clone

from cosmo.classifier._cosmo import Cosmo
from cosmo.classifier.choice import AUTO, default_experts, named_experts
from cosmo.classifier.combinations import Combination, OperatingPoint, Outputs
from cosmo.classifier.ways import make_way
from cosmo.data import GZSLDataset
from cosmo.data.splits import Protocol, gating_split
from cosmo.gates import MaxSoftmaxGate, make_gate
from cosmo.metrics.accuracy import (
    GZSLScores,
    Interval,
    fpr_at_tpr,
    gate_auc,
    gzsl_intervals,
    gzsl_scores,
    zsl_accuracy,
)
from cosmo.mixture.curve import SeenUnseenCurve
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.mixture.smoothing import Smoothing

logger = logging.getLogger(__name__)

CALIBRATED = "COSMO, calibrated"
"""Name of the row of the calibrated method."""


@dataclass(frozen=True)
class Settings:
    """Settings of a run: names of the experts and the gate, smoothing of the row "COSMO", and the seed.

    Experts may be "auto", the default if neither is named; `budget` is then that of `Cosmo`. `seed` draws the
    validation split.
    """

    unseen: str | None = None
    seen: str | None = None
    gate: str = "confidence"
    smoothing: Smoothing = "adaptive"
    seed: int = 0
    budget: float = 60.0

    @property
    def experts(self) -> tuple[str, str]:
        """Names of the seen and the unseen expert."""
        return default_experts(self.seen, self.unseen)


@dataclass(frozen=True, eq=False)
class Measures:
    """Accuracies on test and AUSUC, with 95 % intervals."""

    scores: GZSLScores
    intervals: tuple[Interval, Interval, Interval]
    ausuc: float
    ausuc_interval: Interval

    @property
    def measures(self) -> dict[str, tuple[float, Interval]]:
        """Acc_ts, Acc_tr, Acc_H and AUSUC, each with its interval."""
        accuracies = zip(self.scores._fields, self.scores, self.intervals, strict=True)
        found = {name: (value, interval) for name, value, interval in accuracies}
        return {**found, "ausuc": (self.ausuc, self.ausuc_interval)}

    def numbers(self) -> dict[str, Any]:
        """Return plain numbers, for JSON; NaN becomes None."""

        def plain(value: float) -> float | None:
            return None if np.isnan(value) else float(value)

        return {name: plain(value) for name, (value, _) in self.measures.items()} | {
            f"{name}_95": [plain(interval.low), plain(interval.high)]
            for name, (_, interval) in self.measures.items()
        }


@dataclass(frozen=True, eq=False)
class Evaluation(Measures):
    """Test results of one combination at the operating point chosen on validation, with 95 % intervals.

    `validation` has the accuracies on GZSL-Val at the same point, `curve` is on test.
    """

    name: str
    point: OperatingPoint
    validation: GZSLScores
    curve: SeenUnseenCurve

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for JSON."""
        return {
            "name": self.name,
            **self.numbers(),
            "operating_point": self.point._asdict(),
            "validation": self.validation._asdict(),
        }


def with_bounds(measures: Mapping[str, tuple[float, Interval]]) -> dict[str, float]:
    """Return measures in percent, with the bounds of their intervals as `_low` and `_high`."""
    return {
        name + suffix: 100 * float(value)
        for name, (middle, (low, high)) in measures.items()
        for suffix, value in (("", middle), ("_low", low), ("_high", high))
    }


@dataclass(frozen=True, eq=False)
class Experiment:
    """Results of a run, the fitted models of its last two rows, and the outputs behind them.

    `model` is that of the row COSMO (the paper's method), `calibrated` that of the last row. `fitted` has the
    combinations by the names of the evaluations, without the calibrated method. `test` and `calibrated_test`
    are labelled outputs on the test rows: those of seen classes first, each part sorted.
    """

    dataset: GZSLDataset
    settings: Settings
    evaluations: list[Evaluation]
    model: Cosmo
    facts: dict[str, float]
    fitted: dict[str, Combination]
    test: ExpertOutputs
    calibrated: Cosmo | None = None
    calibrated_test: ExpertOutputs | None = None

    def table(self) -> pd.DataFrame:
        """Return one row per combination: Acc_ts, Acc_tr, Acc_H, its interval, AUSUC, in percent."""
        columns = {"acc_ts": "Acc_ts", "acc_tr": "Acc_tr", "acc_h": "Acc_H"}
        columns |= {"acc_h_low": "low", "acc_h_high": "high", "ausuc": "AUSUC"}
        rows = {e.name: with_bounds(e.measures) for e in self.evaluations}
        return pd.DataFrame.from_dict(rows, orient="index")[[*columns]].rename(columns=columns)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and names, for JSON."""
        data = self.dataset
        return {
            "dataset": {
                "name": data.name,
                "samples": len(data),
                "features": data.features.shape[1],
                "attributes": data.descriptions.shape[1],
                "seen_classes": len(data.seen_classes),
                "unseen_classes": len(data.unseen_classes),
            },
            "settings": asdict(self.settings)
            | dict(zip(("seen", "unseen"), self.settings.experts, strict=True)),
            "unseen_expert": self.model.experts_.unseen.decided_,
            "choice": None if self.model.choice_ is None else self.model.choice_.rows(),
            "facts": {name: None if np.isnan(value) else value for name, value in self.facts.items()},
            "results": [e.to_dict() for e in self.evaluations],
        }


def combinations(settings: Settings, expert: str) -> dict[str, Combination]:
    """Return the rows of the table, in order, before those of COSMO; `expert` is the unseen one's name."""
    return {
        f"{expert} alone": make_way("alone"),
        f"CS + {expert}": make_way("CS"),
        "Independent-Hard": make_way("Independent-Hard"),
        "Independent-Soft": make_way("Max-Softmax-1"),
        "CB-Gating": make_way("CB-Gating-3", gate=make_gate(settings.gate)),
        "Adaptive-Smoothing": make_way("Adaptive-Smoothing"),
    }


def evaluate(name: str, combination: Combination, validation: Outputs, test: ExpertOutputs) -> Evaluation:
    """Return the results of a fitted combination on labelled test outputs."""
    truth, guess = test.labels, combination.predict(test)
    seen, unseen = np.arange(test.n_seen), test.n_seen + np.arange(test.n_unseen)
    curve = combination.curve(test)
    point = combination.operating_point_
    return Evaluation(
        name=name,
        scores=gzsl_scores(truth, guess, seen, unseen),
        intervals=gzsl_intervals(truth, guess, seen, unseen),
        ausuc=curve.area,
        ausuc_interval=curve.area_interval(truth),
        point=point,
        validation=combination.curve(validation).at(point.threshold),
        curve=curve,
    )


def run_experiment(
    dataset: GZSLDataset,
    settings: Settings | None = None,
    *,
    cache: str | Path | None = None,
    protocol: Protocol | None = None,
    calibrated: bool = True,
) -> Experiment:
    """Train on the training rows, choose on GZSL-Val, evaluate every combination on test.

    The logger "cosmo" reports each step. `cache` is a folder, see `Cosmo`; `protocol` is sealed, by default a
    new one with the seed of the settings; `calibrated` adds the row of the calibrated method.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> experiment = run_experiment(load_glyphs(n_classes=40, samples_per_class=12))
    >>> list(experiment.table().index)[-2:]
    ['COSMO', 'COSMO, calibrated']
    """
    settings = settings or Settings()
    protocol = protocol or Protocol(dataset, seed=settings.seed)
    training = protocol.training()
    protocol.check_labels(training.y)
    model = Cosmo(
        dataset.descriptions,
        method="paper",
        **named_experts(*settings.experts),
        budget=settings.budget,
        gate=make_gate(settings.gate),
        smoothing=settings.smoothing,
        hold_out=protocol.training_hold_out(),
        cache=cache,
    ).fit(training.X, training.y)
    validation = model.validation_outputs_
    assert isinstance(validation, ExpertOutputs), "a fitted model has all outputs"
    other = None
    if calibrated:
        logger.info("calibrated method")
        # The experts and their parameters are those that were chosen above.
        parameters = {"method": "calibrated", "unseen": clone(model.experts_.unseen), "gate": None}
        if model.choice_ is not None:
            parameters |= {"seen": clone(model.experts_.seen), "feature_transform": model.experts_.transform}
        other = clone(model).set_params(**parameters, smoothing="adaptive").fit(training.X, training.y)
        other.choice_ = model.choice_
    logger.info("choosing the operating points of the other combinations")
    expert = "unseen expert" if settings.experts[1] == AUTO else type(model.experts_.unseen).__name__
    fitted = {name: rule.fit(validation) for name, rule in combinations(settings, expert).items()}
    fitted["COSMO"] = model.combination_
    logger.info("opening the test set")
    samples = protocol.open_test()
    test = model.outputs(samples.X, samples.y)
    evaluations = [evaluate(name, rule, validation, test) for name, rule in fitted.items()]
    experiment = Experiment(
        dataset, settings, evaluations, model, _facts(model, validation, test), fitted, test
    )
    if other is None:
        return experiment
    again = other.outputs(samples.X, samples.y)
    last = evaluate(CALIBRATED, other.combination_, other.validation_outputs_, again)
    return replace(experiment, evaluations=[*evaluations, last], calibrated=other, calibrated_test=again)


def _facts(model: Cosmo, validation: ExpertOutputs, test: ExpertOutputs) -> dict[str, float]:
    """Return the accuracy of each expert in its own domain, and of the gates on Gating-Val.

    A gate's measures are NaN where Gating-Val is so small that it has one domain only.
    """
    gating_val = validation[gating_split(len(validation))[1]]
    truth = test.classes[test.labels]
    facts = {
        "seen_expert_accuracy": zsl_accuracy(truth, test.seen, test.seen_classes),
        "zsl_t1": zsl_accuracy(truth, test.unseen, test.unseen_classes),
    }
    for name, gate in (("gate", model.combination_.gate_), ("max_softmax", MaxSoftmaxGate())):
        score = gate.score(gating_val)
        defined = len({*gating_val.is_seen}) == 2
        facts[f"{name}_auc"] = gate_auc(gating_val.is_seen, score) if defined else np.nan
        facts[f"{name}_fpr95"] = fpr_at_tpr(gating_val.is_seen, score) if defined else np.nan
    return facts


def summarise(experiments: Sequence[Experiment]) -> pd.DataFrame:
    """Return means over repetitions with 95 % Student intervals, in percent.

    The table also has intervals of the difference in Acc_H and AUSUC between the last row and each other
    row; repetitions are paired.
    """
    if len(experiments) < 2:
        raise ValueError("intervals over repetitions need at least two of them")
    tables = [experiment.table()[["Acc_ts", "Acc_tr", "Acc_H", "AUSUC"]] for experiment in experiments]
    factor = stats.t.ppf(0.975, len(tables) - 1) / np.sqrt(len(tables))
    leads = [(table.iloc[-1] - table)[["Acc_H", "AUSUC"]] for table in tables]
    parts: dict[str, pd.DataFrame] = {}
    for name, half, frames in (("mean", "±", tables), ("lead", "lead ±", leads)):
        rows = pd.concat(frames).groupby(level=0, sort=False)
        parts |= {name: rows.mean(), half: factor * rows.std()}
    return pd.concat(parts, axis=1)
