"""The public entry points, each as a function of the small problem that returns what can be compared."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from encoded_entries import ENCODED_ENTRIES
from entry import (
    ASKED,
    EXPERTS,
    FITTED,
    GENERATORS,
    LABELLED,
    Entry,
    clean,
    dataset,
    fitted_model,
    queries,
    told,
)
from file_entries import FILE_ENTRIES
from ordering import ORDER_ENTRIES
from problem import SEEN, UNSEEN, Problem
from sklearn.base import clone
from studio_entries import STUDIO_ENTRIES

from cosmo import Cosmo, Model, SeenUnseenCurve, fit_model
from cosmo import experts as ex
from cosmo import gates as ga
from cosmo import metrics as me
from cosmo.classifier.combinations import CalibratedStacking, GatedMixture
from cosmo.data import (
    match_labels,
)
from cosmo.data.splits import class_folds, hold_out
from cosmo.evaluation.evaluate import evaluate_model
from cosmo.experts.logistic import SoftmaxRegression
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.mixture.probabilities import soften, temper

GATES: dict[str, ga.Gate] = {
    "ConfidenceGate": ga.ConfidenceGate(),
    "EvidenceGate": ga.EvidenceGate(),
    "LeaveOutGate": ga.LeaveOutGate(),
    "MaxSoftmaxGate": ga.MaxSoftmaxGate(3.0),
    "NoveltyGate": ga.NoveltyGate(),
    "OdinGate": ga.OdinGate(3.0, 1e-3),
}


@cache
def fitted_expert(name: str) -> ex.UnseenExpert:
    p = clean()
    return clone(EXPERTS[name]).fit(p.X, p.y, p.table)


def _cosmo(p: Problem, **parameters: Any) -> Cosmo:
    return Cosmo(p.table, unseen=clone(EXPERTS["ESZSL"]), **parameters)


def _model() -> Model:
    """Return a fitted model that may be changed."""
    return copy.deepcopy(fitted_model())


def _fit_expert(name: str) -> Callable[[Problem], Any]:
    def run(p: Problem) -> Any:
        expert = clone(EXPERTS[name]).fit(p.X, p.y, p.table)
        if name in GENERATORS:  # a classifier of what is made would take seconds
            return expert.synthesize(p.table, 2)
        return expert.predict_proba(queries(p), p.table)

    return run


def _promoted(p: Problem) -> Any:
    return _model().promote("gnu", p.X_new).cosmo.predict_proba(clean().X_new)


def _precomputed(p: Problem) -> Any:
    """Stored predictions by names of rows and classes; where they cannot be a table, as they are."""
    classes = [*p.seen_classes, *p.unseen_classes]
    table = p.joint
    if isinstance(table, np.ndarray) and table.ndim == 2:
        names = classes[::-1] if np.array_equal(table, clean().joint[:, ::-1]) else classes
        table = pd.DataFrame(table, index=range(len(table)), columns=names[: table.shape[1]])
    expert = ex.PrecomputedExpert(table).fit(None, None, None)
    return expert.predict_proba(np.arange(len(table)), pd.DataFrame(index=classes))


def _outputs(p: Problem, **more: Any) -> ExpertOutputs:
    return ExpertOutputs(p.seen_classes, p.unseen_classes, p.seen, p.unseen, target=p.target, **more)


def _gate(name: str) -> Callable[[Problem], Any]:
    def run(p: Problem) -> Any:
        gate = clone(GATES[name])
        out = _outputs(p, evidence=p.evidence, novelty=p.novelty)
        return gate.fit(out).score(out)

    return run


def _gate_number(make: Callable[[Any], ga.Gate]) -> Callable[[Problem], Any]:
    def run(p: Problem) -> Any:
        gate = make(p.number)
        gate.observer()
        out = _outputs(p, evidence=p.evidence, novelty=p.novelty)
        return gate.fit(out).score(out)

    return run


def _mixture(p: Problem) -> Any:
    model = GatedMixture().fit(_outputs(p))
    return model.scores(_outputs(p))


def _curve(p: Problem) -> Any:
    curve = SeenUnseenCurve(p.flips, p.seen_gain, p.unseen_gain)
    return np.array([curve.area, *curve.best()])


def _clean_curve() -> SeenUnseenCurve:
    p = clean()
    return SeenUnseenCurve(p.flips, p.seen_gain, p.unseen_gain)


def _asked(method: str) -> Callable[[Problem], Any]:
    return lambda p: getattr(fitted_model().cosmo, method)(p.X_new)


def _operated(name: str) -> Callable[[Problem], Any]:
    return lambda p: _model().cosmo.operate_at(**{name: p.number}).predict_proba(clean().X_new)


def _softmax(name: str) -> Callable[[Problem], Any]:
    """Return how a parameter of the seen expert is tried."""
    return lambda p: SoftmaxRegression(**{name: p.number}).fit(p.X, p.y).predict_proba(p.X_new)


@cache
def _fitted_softmax() -> SoftmaxRegression:
    return SoftmaxRegression().fit(clean().X, clean().y)


ENTRIES: dict[str, Entry] = {
    "Cosmo.fit": Entry(lambda p: _cosmo(p).fit(p.X, p.y).predict_proba(queries(p)), FITTED),
    "Cosmo.predict": Entry(_asked("predict"), ASKED),
    "Cosmo.predict_proba": Entry(_asked("predict_proba"), ASKED),
    "Cosmo.explain": Entry(lambda p: fitted_model().cosmo.explain(p.X_new).proba, ASKED),
    "Cosmo.score": Entry(lambda p: fitted_model().cosmo.score(p.X_new, p.y_new), LABELLED),
    "Cosmo.add_classes": Entry(
        lambda p: _model().cosmo.add_classes(p.new).predict_proba(clean().X_new), {"descriptions": "new"}
    ),
    "Cosmo(softnesses)": Entry(
        lambda p: _cosmo(p, softnesses=(p.number,)).fit(p.X, p.y).predict_proba(p.X_new),
        {"numbers": "number"},
    ),
    "Cosmo(folds)": Entry(
        lambda p: _cosmo(p, folds=p.number).fit(p.X, p.y).predict_proba(p.X_new), {"numbers": "number"}, 2
    ),
    "Cosmo.operate_at(threshold)": Entry(_operated("threshold"), {"numbers": "number"}),
    "Cosmo.operate_at(softness)": Entry(_operated("softness"), {"numbers": "number"}),
    "Cosmo.operate_at(min_seen)": Entry(_operated("min_seen"), {"numbers": "number"}, 0.1),
    "fit_model": Entry(
        lambda p: fit_model(p.X, p.y, p.table, unseen=clone(EXPERTS["ESZSL"])).cosmo.predict_proba(
            queries(p)
        ),
        FITTED,
    ),
    "Model.predict_frame": Entry(lambda p: fitted_model().predict_frame(p.X_new), ASKED),
    "Model.predict_frame(top)": Entry(
        lambda p: fitted_model().predict_frame(p.X_new, top=p.number), {"numbers": "number"}, 2
    ),
    "Model.promote": Entry(_promoted, ASKED),
    "evaluate_model": Entry(lambda p: evaluate_model(fitted_model(), p.X_new, p.y_new).predictions, LABELLED),
    **{f"{name}.fit": Entry(_fit_expert(name), FITTED) for name in EXPERTS},
    **{
        f"{name}.scores": Entry(
            lambda p, name=name: fitted_expert(name).scores(p.X_new, p.table),
            {"features": "X_new"} if name in GENERATORS else {"features": "X_new", "descriptions": "table"},
        )
        for name in EXPERTS
    },
    **{
        f"{name}(temperature)": Entry(
            lambda p, name=name: (
                clone(EXPERTS[name])
                .set_params(temperature=p.number)
                .fit(p.X, p.y, p.table)
                .predict_proba(p.X_new, p.table)
            ),
            {"numbers": "number"},
        )
        for name in ("ESZSL", "DAP", "ALE", "SynC", "SimilarityExpert", "TRIPLE", "Kernel", "DEM")
    },
    "SoftmaxRegression.fit": Entry(
        lambda p: SoftmaxRegression().fit(p.X, p.y).predict_proba(queries(p)),
        {"features": "X", "labels": "y"},
    ),
    "SoftmaxRegression.predict_proba": Entry(lambda p: _fitted_softmax().predict_proba(p.X_new), ASKED),
    "SoftmaxRegression(C)": Entry(_softmax("C"), {"numbers": "number"}),
    "SoftmaxRegression(tol)": Entry(_softmax("tol"), {"numbers": "number"}, 1e-4),
    "SoftmaxRegression(max_iter)": Entry(_softmax("max_iter"), {"numbers": "number"}, 100),
    "PrecomputedExpert": Entry(_precomputed, {"probabilities": "joint"}),
    "CMT.novelty": Entry(lambda p: fitted_expert("CMT").novelty(p.X_new), ASKED),
    "select": Entry(
        lambda p: ex.select(ex.ESZSL(1.0), p.X, p.y, p.table, hold_out(clean().y)).predict_proba(
            queries(p), p.table
        ),
        FITTED,
    ),
    "ExpertOutputs(seen)": Entry(lambda p: _outputs(p).seen, {"probabilities": "seen", "labels": "target"}),
    "ExpertOutputs(unseen)": Entry(lambda p: _outputs(p).unseen, {"probabilities": "unseen"}),
    "ExpertOutputs(novelty)": Entry(lambda p: _outputs(p, novelty=p.novelty).novelty, {"scores": "novelty"}),
    "ExpertOutputs(evidence)": Entry(
        lambda p: _outputs(p, evidence=p.evidence).evidence, {"features": "evidence"}
    ),
    "ExpertOutputs.from_joint": Entry(
        lambda p: (
            ExpertOutputs.from_joint(
                p.seen, p.joint, p.seen_classes, p.unseen_classes, target=p.target
            ).stacking_margin
        ),
        {"probabilities": "joint"},
    ),
    "ExpertOutputs.from_joint(scores)": Entry(
        lambda p: (
            ExpertOutputs.from_joint(
                clean().seen, clean().joint, SEEN, UNSEEN, scores=p.joint
            ).stacking_margin
        ),
        {"features": "joint"},
    ),
    **{f"{name}.fit": Entry(_gate(name), {"probabilities": "seen"}) for name in GATES},
    "ConfidenceGate(k)": Entry(_gate_number(lambda k: ga.ConfidenceGate(k)), {"numbers": "number"}, 3),
    "ConfidenceGate(temperatures)": Entry(
        _gate_number(lambda t: ga.ConfidenceGate(temperatures=(t,))), {"numbers": "number"}
    ),
    "EvidenceGate(k)": Entry(_gate_number(lambda k: ga.EvidenceGate(k)), {"numbers": "number"}, 3),
    "LeaveOutGate(folds)": Entry(_gate_number(lambda k: ga.LeaveOutGate(k)), {"numbers": "number"}, 3),
    "LeaveOutGate(temperature)": Entry(
        _gate_number(lambda t: ga.LeaveOutGate(temperature=t)), {"numbers": "number"}
    ),
    "MaxSoftmaxGate(temperature)": Entry(_gate_number(lambda t: ga.MaxSoftmaxGate(t)), {"numbers": "number"}),
    "OdinGate(temperature)": Entry(_gate_number(lambda t: ga.OdinGate(t, 1e-3)), {"numbers": "number"}),
    "OdinGate(epsilon)": Entry(_gate_number(lambda e: ga.OdinGate(1.0, e)), {"numbers": "number"}, 0.1),
    "GatedMixture.fit": Entry(_mixture, {"probabilities": "seen"}),
    "GatedMixture(softnesses)": Entry(
        lambda p: GatedMixture(softnesses=(p.number,)).fit(_outputs(p)).scores(_outputs(p)),
        {"numbers": "number"},
    ),
    "CalibratedStacking(constant)": Entry(
        lambda p: CalibratedStacking(p.number).fit(_joint_outputs(p)).predict(_joint_outputs(p)),
        {"numbers": "number"},
    ),
    "soften(temperature)": Entry(lambda p: soften(p.joint, p.number), {"numbers": "number"}),
    "temper(temperature)": Entry(lambda p: temper(p.joint, p.number), {"numbers": "number"}),
    "SeenUnseenCurve(flips)": Entry(_curve, {"scores": "flips"}),
    "SeenUnseenCurve(seen_gain)": Entry(_curve, {"scores": "seen_gain"}),
    "SeenUnseenCurve.at": Entry(lambda p: np.array(_clean_curve().at(p.number)), {"numbers": "number"}),
    "SeenUnseenCurve.best(min_seen)": Entry(
        lambda p: np.array(_clean_curve().best(min_seen=p.number)), {"numbers": "number"}, 0.1
    ),
    "SeenUnseenCurve.area_interval(groups)": Entry(
        lambda p: np.array(SeenUnseenCurve(p.flips, p.seen_gain, p.unseen_gain).area_interval(p.codes)),
        {"labels": "codes"},
    ),
    "SeenUnseenCurve.area_interval(level)": Entry(
        lambda p: np.array(_clean_curve().area_interval(clean().codes, level=p.number)),
        {"numbers": "number"},
        0.9,
    ),
    "gate_auc": Entry(lambda p: me.gate_auc(p.is_seen, p.flips), {"scores": "flips"}),
    "fpr_at_tpr": Entry(lambda p: me.fpr_at_tpr(p.is_seen, p.flips), {"scores": "flips"}),
    "fpr_at_tpr(tpr)": Entry(
        lambda p: me.fpr_at_tpr(p.is_seen, p.flips, p.number), {"numbers": "number"}, 0.9
    ),
    "gate_intervals": Entry(lambda p: np.array(me.gate_intervals(p.is_seen, p.flips)), {"scores": "flips"}),
    "gzsl_scores": Entry(
        lambda p: np.array(me.gzsl_scores(p.y_new, p.guess, p.seen_classes, p.unseen_classes)),
        {"labels": "y_new"},
    ),
    "gzsl_intervals": Entry(
        lambda p: np.array(me.gzsl_intervals(p.y_new, p.guess, p.seen_classes, p.unseen_classes)),
        {"labels": "y_new"},
    ),
    "gzsl_intervals(level)": Entry(
        lambda p: np.array(
            me.gzsl_intervals(p.y_new, p.guess, p.seen_classes, p.unseen_classes, level=p.number)
        ),
        {"numbers": "number"},
        0.9,
    ),
    "zsl_accuracy": Entry(
        lambda p: me.zsl_accuracy(np.array([*SEEN, *UNSEEN])[p.target], p.joint, [*SEEN, *UNSEEN]),
        {"features": "joint"},
    ),
    "sampled_ausuc": Entry(lambda p: me.sampled_ausuc(p.flips, p.seen_gain), {"scores": "flips"}),
    "hold_out": Entry(lambda p: hold_out(p.y).gzsl_val, {"labels": "y"}),
    "hold_out(classes)": Entry(
        lambda p: hold_out(p.y, classes=p.number).gzsl_val, {"numbers": "number"}, 0.5
    ),
    "class_folds(n_splits)": Entry(
        lambda p: class_folds(p.y, p.number)[0].gzsl_val, {"numbers": "number"}, 2
    ),
    "GZSLDataset": Entry(lambda p: told(dataset(p)), FITTED),
    "match_labels": Entry(lambda p: match_labels(p.y, clean().table.index).to_numpy(), {"labels": "y"}),
    **FILE_ENTRIES,
    **ORDER_ENTRIES,
    **STUDIO_ENTRIES,
    **ENCODED_ENTRIES,
}


def _joint_outputs(p: Problem) -> ExpertOutputs:
    return ExpertOutputs.from_joint(p.seen, p.joint, p.seen_classes, p.unseen_classes, target=p.target)
