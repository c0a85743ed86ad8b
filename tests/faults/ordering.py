"""Entry points that get classes in some order, and what must not depend on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from entry import EXPERTS, Entry, clean
from problem import SEEN, UNSEEN, Problem
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from cosmo import Cosmo
from cosmo import experts as ex
from cosmo import metrics as me
from cosmo.classifier.combinations import GatedMixture
from cosmo.data import read_predictions
from cosmo.experts.logistic import SoftmaxRegression
from cosmo.experts.precomputed import expert_from_predictions
from cosmo.mixture.outputs import ExpertOutputs

__all__ = ["ORDER_ENTRIES", "told_by_name"]

ALL = SEEN.append(UNSEEN)


def _seen(p: Problem) -> pd.Index:
    return p.order[p.order.isin(SEEN)]


def _unseen(p: Problem) -> pd.Index:
    return p.order[p.order.isin(UNSEEN)]


def told_by_name(outputs: ExpertOutputs) -> Any:
    """Return what both experts say, columns in an order of our own."""
    seen = pd.DataFrame(outputs.seen, columns=outputs.seen_classes)[SEEN]
    unseen = pd.DataFrame(outputs.unseen, columns=outputs.unseen_classes)[UNSEEN]
    return seen.to_numpy(), unseen.to_numpy()


def _fitted(p: Problem) -> Any:
    seen = SoftmaxRegression(tol=1e-8)  # so that where it stops does not depend on the order
    model = Cosmo(p.table.loc[p.order], seen=seen, unseen=clone(EXPERTS["ESZSL"])).fit(p.X, p.y)
    return (model.predict(p.X_new), *told_by_name(model.outputs(p.X_new)))


class _Ordered(LogisticRegression):
    """A seen expert that gives its classes in an order of its own."""

    def __init__(self, order: Any = None) -> None:
        super().__init__()
        self.order = order

    def fit(self, X: Any, y: Any) -> _Ordered:
        super().fit(X, y)
        places = _seen(self.order).get_indexer(SEEN)[: len(self.classes_)].argsort()
        for name in ("classes_", "coef_", "intercept_"):
            setattr(self, name, getattr(self, name)[places])
        return self


def _seen_expert(p: Problem) -> Any:
    model = Cosmo(p.table, seen=_Ordered(p), unseen=clone(EXPERTS["ESZSL"])).fit(p.X, p.y)
    return told_by_name(model.outputs(p.X_new))


def _frames(p: Problem) -> Any:
    said = pd.DataFrame(p.seen, columns=SEEN)[_seen(p)]
    joint = ExpertOutputs.from_joint(said, _stored(p), SEEN, UNSEEN)
    apart = ExpertOutputs(SEEN, UNSEEN, said, _stored(p)[_unseen(p)])
    return (*told_by_name(joint), joint.stacking_margin, *told_by_name(apart))


def _stored(p: Problem) -> pd.DataFrame:
    return pd.DataFrame(p.joint, columns=ALL)[p.order]


def _precomputed(p: Problem) -> Any:
    expert = ex.PrecomputedExpert(_stored(p)).fit(None, None, None)
    return expert.predict_proba(np.arange(24), pd.DataFrame(index=ALL))


def _looked_up(p: Problem) -> Any:
    expert = ex.PrecomputedExpert(_stored(clean())).fit(None, None, None)
    found = expert.predict_proba(np.arange(24), pd.DataFrame(index=p.order))
    return pd.DataFrame(found, columns=p.order)[ALL].to_numpy()


def _joint(p: Problem) -> ExpertOutputs:
    seen, unseen = _seen(p), _unseen(p)
    target = seen.append(unseen).get_indexer(ALL[p.target])
    said = pd.DataFrame(p.seen, columns=SEEN)[seen].to_numpy()
    joint = _stored(p)[seen.append(unseen)].to_numpy()
    return ExpertOutputs.from_joint(said, joint, seen, unseen, target=target)


def _mixture(p: Problem) -> Any:
    outputs = _joint(p)
    mixture = GatedMixture().fit(outputs)
    return outputs.classes[mixture.predict(outputs)].to_numpy(), outputs.stacking_margin


def _write_stage(p: Problem, stage: str, rows: np.ndarray) -> None:
    """Write published predictions: a class's id is its place in the order."""
    ids = {label: place + 1 for place, label in enumerate(p.order)}
    table = np.pad(_stored(p).to_numpy(), ((0, 0), (1, 0)))  # the first column is a dummy
    np.savez(p.folder / f"pred_gzsl_{stage}.npz", **{f"pred_{stage}": table})
    np.savez(
        p.folder / f"rows_{stage}.npz",
        rows=rows + 1,
        y=[ids[label] for label in ALL[p.target]],
        seen_classes=[ids[label] for label in SEEN],
        unseen_classes=[ids[label] for label in UNSEEN],
    )


def _read(p: Problem) -> Any:
    _write_stage(p, "test", np.arange(24))
    found = read_predictions(p.folder, "test")
    names = p.order[found.proba.columns.to_numpy() - 1]
    return found.proba.set_axis(names, axis=1)[ALL].to_numpy(), p.order[found.y - 1].to_numpy()


def _published(p: Problem) -> Any:
    _write_stage(p, "val", np.arange(24))
    _write_stage(p, "test", 24 + np.arange(24))
    expert = expert_from_predictions(p.folder, p.order).fit(None, None, None)
    return expert.predict_proba(np.arange(48), pd.DataFrame(index=ALL))


ORDER_ENTRIES: dict[str, Entry] = {
    name: Entry(run, {"class order": "order"})
    for name, run in {
        "Cosmo(descriptions)": _fitted,
        "Cosmo(seen)": _seen_expert,
        "ExpertOutputs(tables)": _frames,
        "PrecomputedExpert(proba)": _precomputed,
        "PrecomputedExpert.predict_proba": _looked_up,
        "ExpertOutputs(seen_classes)": _mixture,
        "read_predictions(classes)": _read,
        "expert_from_predictions(classes)": _published,
        "gzsl_scores(classes)": lambda p: np.array(me.gzsl_scores(p.y_new, p.guess, _seen(p), _unseen(p))),
        "zsl_accuracy(classes)": lambda p: me.zsl_accuracy(ALL[p.target], _stored(p).to_numpy(), p.order),
    }.items()
}
