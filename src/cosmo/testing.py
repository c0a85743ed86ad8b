"""Checks for experts and gates of your own, as `check_estimator` of scikit-learn."""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from cosmo.classifier._cosmo import Cosmo
from cosmo.experts import ESZSL, SoftmaxRegression, UnseenExpert
from cosmo.experts.base import as_unseen_expert
from cosmo.experts.composed import AdaptedExpert
from cosmo.gates import Gate
from cosmo.metrics import gate_auc
from cosmo.mixture.outputs import ExpertOutputs

__all__ = ["check_gate", "check_unseen_expert"]


class _Task(NamedTuple):
    """Samples of classes, a third of which are unseen."""

    X: NDArray[np.float32]
    y: NDArray[Any]
    table: pd.DataFrame
    seen: NDArray[np.bool_]  # rows


def check_unseen_expert(
    expert: Any,
    X: ArrayLike | None = None,
    y: Iterable[Hashable] | None = None,
    descriptions: pd.DataFrame | None = None,
) -> None:
    """Check that an object can be the unseen expert of `Cosmo`.

    Parameters
    ----------
    expert : object
        With `fit(X, y, descriptions)` and `scores(X, descriptions)`.
    X, y, descriptions : optional
        Samples of at least six classes and the table of these classes, for an expert that needs a certain
        kind; by default classes are combinations of attributes, and features a linear function of them.
        The last third of the classes in the table plays the unseen ones.

    Raises
    ------
    AssertionError
        If a check fails; the message names what is expected.

    Examples
    --------
    >>> from cosmo.experts import ESZSL
    >>> check_unseen_expert(ESZSL(gamma=1.0, lam=1.0))
    """
    given = X is not None and y is not None and descriptions is not None
    task = _task(np.asarray(X, dtype=np.float32), np.asarray(y), descriptions) if given else _made()
    as_unseen_expert(expert)
    _check_fit_and_scores(expert, task)
    _check_inside_cosmo(expert, task)


def check_gate(gate: Gate) -> None:
    """Check that an object can be the gate of `Cosmo(method="paper")`.

    Parameters
    ----------
    gate : Gate

    Raises
    ------
    AssertionError
        If a check fails; the message names what is expected.

    Examples
    --------
    >>> from cosmo.gates import MaxSoftmaxGate
    >>> check_gate(MaxSoftmaxGate())
    """
    assert isinstance(gate, Gate), f"a gate is a subclass of cosmo.gates.Gate, not {type(gate).__name__}"
    task = _made()
    model = Cosmo(
        task.table,
        method="paper",
        seen=SoftmaxRegression(),
        unseen=ESZSL(1.0, 1.0, temperature=0.1),
        gate=gate,
    )
    train = task.seen & (np.arange(len(task.X)) % 3 > 0)
    fitted = model.fit(task.X[train], task.y[train]).combination_.gate_
    outputs = model.outputs(task.X[~train], task.y[~train])
    score = _gate_scores(fitted, outputs)
    assert gate_auc(outputs.is_seen, score) > 0.5, "samples of seen classes have larger scores than others"
    some = _gate_scores(fitted, outputs[np.arange(5)])
    assert _close(some, score[:5]), "the score of a sample does not depend on the other samples"
    n_seen, n_unseen = outputs.n_seen, outputs.n_unseen
    reverse = np.arange(n_seen)[::-1], np.arange(n_unseen)[::-1]
    other = ExpertOutputs(
        outputs.seen_classes[reverse[0]],
        outputs.unseen_classes[reverse[1]],
        outputs.seen[:, reverse[0]],
        outputs.unseen[:, reverse[1]],
        novelty=outputs.novelty,
        evidence=outputs.evidence,
    )
    assert _close(_gate_scores(fitted, other), score), "the score does not depend on the order of classes"
    model.add_classes(pd.DataFrame(task.table.to_numpy()[:2] / 2, ["new", "newer"], task.table.columns))
    _gate_scores(fitted, model.outputs(task.X))
    again = gate.tuned(outputs, outputs).fit(outputs)
    first = _gate_scores(again, outputs)
    assert _close(_gate_scores(gate.tuned(outputs, outputs).fit(outputs), outputs), first), (
        "equal input gives equal scores"
    )
    pickled = pickle.loads(pickle.dumps(again))
    assert _close(_gate_scores(pickled, outputs), first), "a gate can be pickled"


def _check_fit_and_scores(expert: Any, task: _Task) -> None:
    X, y = task.X[task.seen], task.y[task.seen]
    before = X.copy(), y.copy(), task.table.copy()
    fitted = _fitted(expert, X, y, task.table)
    scores = _scores(fitted, task.X, task.table)
    unchanged = np.array_equal(X, before[0]) and np.array_equal(y, before[1]) and task.table.equals(before[2])
    assert unchanged, "fit and scores leave X, y and the descriptions unchanged"
    some = _scores(fitted, task.X[:5], task.table)
    assert _close(some, scores[:5]), "the score of a sample does not depend on the other samples"
    reverse = _scores(fitted, task.X, task.table.iloc[::-1])
    assert _close(reverse[:, ::-1], scores), "scores have a column for each row of the table, in its order"
    _scores(fitted, task.X, task.table.iloc[-1:])
    again = _scores(_fitted(expert, X, y, task.table), task.X, task.table)
    assert _close(again, scores), "fit does not change what a copy learns; equal input gives equal scores"
    fitted.fit(X[::2], y[::2], task.table)
    fitted.fit(X, y, task.table)
    assert _close(_scores(fitted, task.X, task.table), scores), "a second fit forgets the first"
    pickled = pickle.loads(pickle.dumps(fitted))
    assert _close(_scores(pickled, task.X, task.table), scores), "a fitted expert can be pickled"


def _check_inside_cosmo(expert: Any, task: _Task) -> None:
    model = Cosmo(task.table, seen=SoftmaxRegression(), unseen=expert, feature_transform="none")
    model.fit(task.X[task.seen], task.y[task.seen])
    proba = model.predict_proba(task.X)
    assert np.allclose(proba.sum(axis=1), 1), "probabilities of Cosmo sum to one"
    fitted = model.experts_.unseen
    assert (fitted.expert if isinstance(fitted, AdaptedExpert) else fitted) is not expert, (
        "Cosmo fits a copy of the expert"
    )


def _fitted(expert: Any, X: Any, y: Any, table: pd.DataFrame) -> Any:
    copy = clone(expert, safe=False)
    if not isinstance(expert, UnseenExpert):
        grid = getattr(expert, "grid", {})
        values = {name: grid[name][0] for name in grid if getattr(expert, name) is None}
        copy = copy.set_params(**values) if values else copy
    copy.fit(X, y, table)
    return copy


def _scores(expert: Any, X: Any, table: pd.DataFrame) -> NDArray[Any]:
    scores = np.asarray(expert.scores(X, table))
    expected = (len(X), len(table))
    assert scores.shape == expected, (
        f"scores have a row for each sample and a column for each class of any table, {expected}; "
        f"got {scores.shape}"
    )
    assert np.isfinite(scores).all(), "scores are finite"
    return scores


def _gate_scores(gate: Gate, outputs: ExpertOutputs) -> NDArray[Any]:
    score = np.asarray(gate.score(outputs))
    assert score.shape == (len(outputs),), f"a gate has one score for each sample; got {score.shape}"
    assert np.isfinite(score).all(), "scores of a gate are finite"
    return score


def _close(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return np.allclose(one, other, rtol=1e-3, atol=1e-4 * max(1e-6, float(np.abs(other).max())))


def _made() -> _Task:
    """Return samples whose classes are pairs of attributes, with linear features."""
    rng = np.random.default_rng(0)
    pairs = [(i, j) for i in range(4) for j in range(4)]
    codes = np.array([np.r_[np.eye(4)[i], np.eye(4)[j]] for i, j in pairs], dtype=np.float32)
    order = np.argsort([(i + 2 * j) % 4 == 0 for i, j in pairs], kind="stable")
    table = pd.DataFrame(codes, index=[f"class {i}{j}" for i, j in pairs]).iloc[order]
    table.columns = [f"attribute {k}" for k in range(8)]
    y = np.repeat(table.index.to_numpy(dtype=object), 12)
    X = table.loc[y].to_numpy() @ rng.normal(size=(8, 20)) + 0.5 * rng.normal(size=(len(y), 20))
    return _task(X.astype(np.float32), y, table)


def _task(X: NDArray[np.float32], y: NDArray[Any], table: pd.DataFrame | None) -> _Task:
    assert table is not None, "given with X and y"
    return _Task(X, y, table, np.isin(y, table.index[: -(-2 * len(table) // 3)]))
