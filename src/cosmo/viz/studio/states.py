"""A model with the classes that were added to it so far, and what the last one changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo.evaluation.evaluate import ModelEvaluation
from cosmo.io.model import Model
from cosmo.metrics.accuracy import harmonic_mean, per_class_accuracy
from cosmo.mixture.outputs import ExpertOutputs

__all__ = ["Samples", "State", "asked_again", "change"]

_NEIGHBOURS = 5
_TAKEN_FROM = 10
_EXAMPLES = 20


@dataclass(frozen=True, eq=False)
class Samples:
    """Labelled samples that every view shows.

    Parameters
    ----------
    rows : array of shape (n_samples, n_features)
    labels : labels of length n_samples
    items : list of texts or paths, optional
        What the rows were made of.

    Examples
    --------
    >>> few = Samples(np.zeros((30, 2), dtype=np.float32), pd.Index(["a"] * 30))
    >>> len(few.thinned(10).rows)
    10
    """

    rows: NDArray[np.float32]
    labels: pd.Index
    items: Sequence[Any] | None = None

    def thinned(self, most: int) -> Samples:
        """Return at most that many, evenly from all over."""
        if len(self.rows) <= most:
            return self
        places = np.linspace(0, len(self.rows) - 1, most).round().astype(np.intp)
        items = None if self.items is None else [self.items[place] for place in places]
        return Samples(self.rows[places], self.labels[places], items)


@dataclass(frozen=True, eq=False)
class State:
    """A model with some kept classes; never changed, only replaced.

    Parameters
    ----------
    model : Model
    kept : tuple of str
        Classes that were added, in this order; they are the last rows of its descriptions.
    samples : Samples, optional
    outputs : ExpertOutputs, optional
        What the experts say about the samples, labelled.
    known_scores : array of shape (n_samples, n_classes), optional
        See `scores`, where they are known already.
    found : ModelEvaluation, optional
        Of the samples, where it is known already.
    """

    model: Model
    kept: tuple[str, ...] = ()
    samples: Samples | None = None
    outputs: ExpertOutputs | None = None
    known_scores: NDArray[np.float32] | None = None
    found: ModelEvaluation | None = None

    @property
    def classes(self) -> pd.Index:
        """All classes, seen ones first."""
        return self.model.cosmo.seen_classes_.append(self.model.cosmo.unseen_classes_)

    @property
    def names(self) -> list[str]:
        """Names of all classes, seen ones first."""
        return [str(label) for label in self.classes]

    @cached_property
    def scores(self) -> NDArray[np.float32]:
        """What the unseen expert says about all samples and classes, `[seen | unseen]`."""
        if self.known_scores is not None:
            return self.known_scores
        assert self.samples is not None  # whoever asks has samples
        experts = self.model.cosmo.experts_
        return experts.unseen.scores(self.samples.rows, experts.descriptions.loc[self.classes])

    @cached_property
    def answers(self) -> NDArray[np.intp]:
        """The class that each sample gets."""
        assert self.outputs is not None
        return self.model.cosmo.combination_.predict(self.outputs)


def asked_again(state: State, model: Model) -> tuple[ExpertOutputs, NDArray[np.float32] | None]:
    """Return what the experts of `model`, with one class more than `state`, say about the samples.

    Where the unseen expert scores every class by itself, only the new class is scored.
    """
    assert state.samples is not None
    assert state.outputs is not None
    experts, before = model.cosmo.experts_, state.outputs
    rows = state.samples.rows
    if not experts.unseen.native:
        # An old class beside the new one tells whether scores depend on the other classes.
        old_and_new = experts.descriptions.loc[[state.classes[0], experts.descriptions.index[-1]]]
        some = experts.unseen.scores(rows, old_and_new)
        if np.allclose(some[:, 0], state.scores[:, 0], rtol=1e-4, atol=1e-5):
            scores = np.hstack([state.scores, some[:, 1:]])
            outputs = ExpertOutputs.from_joint(
                before.seen,
                experts.unseen.probabilities(scores),
                before.seen_classes,
                experts.unseen_classes,
                scores=scores,
                novelty=before.novelty,
                evidence=before.evidence,
                target=before.target,
            )
            return outputs, scores
    return model.cosmo.outputs(rows, state.samples.labels), None


def change(before: State, after: State) -> dict[str, Any]:
    """Return what the last class of `after` changes."""
    told: dict[str, Any] = {
        "name": after.kept[-1],
        "before": None,
        "after": None,
        "taken": 0,
        "of": 0,
        "taken_from": [],
        "neighbours": _neighbours(after.model.cosmo.experts_.descriptions),
        "examples": [],
    }
    if before.outputs is None:
        return told
    taken = np.flatnonzero(after.answers == len(before.classes))
    old, counts = np.unique(before.answers[taken], return_counts=True)
    most = np.argsort(-counts, kind="stable")[:_TAKEN_FROM]
    return {
        **told,
        "before": _accuracies(before),
        "after": _accuracies(after),
        "taken": len(taken),
        "of": len(before.answers),
        "taken_from": [[before.names[old[place]], int(counts[place])] for place in most],
        "examples": taken[:_EXAMPLES].tolist(),
    }


def _accuracies(state: State) -> dict[str, float | None]:
    """Return the accuracies over the classes that have samples, as `cosmo evaluate` does."""
    outputs = state.outputs
    assert outputs is not None
    truth, present = outputs.labels, np.unique(outputs.labels)
    ts, tr = (
        per_class_accuracy(truth, state.answers, part) if len(part) else None
        for part in (present[present >= outputs.n_seen], present[present < outputs.n_seen])
    )
    both = None if ts is None or tr is None else float(harmonic_mean(ts, tr))
    return {"acc_ts": ts, "acc_tr": tr, "acc_h": both}


def _neighbours(descriptions: pd.DataFrame) -> list[list[Any]]:
    """Return the classes whose descriptions are most like the last one's, with their cosines."""
    table = descriptions.to_numpy(dtype=np.float64)
    lengths = np.linalg.norm(table, axis=1)
    table = table / np.where(lengths > 0, lengths, 1)[:, None]
    alike = table[:-1] @ table[-1]
    nearest = np.argsort(-alike, kind="stable")[:_NEIGHBOURS]
    return [[str(descriptions.index[place]), float(alike[place])] for place in nearest]
