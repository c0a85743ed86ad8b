"""Answers about any number of rows: some at a time, and the same class in whatever batch a row comes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmo.combinations import GatedMixture
from cosmo.experts import ExpertPair
from cosmo.outputs import ExpertOutputs

__all__ = ["Inference"]

# Experts are asked about so many rows at a time that what they say stays in the cache, or among very many
# classes does not take new memory each time.
_ROWS, _CELLS = 3072, 2**21
_NONE = np.empty(0, dtype=np.intp)


class Inference(NamedTuple):
    """Fitted experts and the fitted combination of them. Columns are those of `experts.classes`.

    Linear experts raise a FloatingPointError where rows are not finite, see `ExpertPair.answers`.

    Examples
    --------
    >>> from cosmo import Cosmo
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=10)
    >>> X, y = data.features[data.split.trainval], data.labels[data.split.trainval]
    >>> model = Cosmo(data.descriptions).fit(X, y)
    >>> columns = Inference(model.experts_, model.combination_).predict(X[:3])
    >>> bool((model.experts_.classes[columns] == model.predict(X[:3])).all())
    True
    """

    experts: ExpertPair
    combination: GatedMixture

    def predict(self, X: NDArray[np.float32]) -> NDArray[np.intp]:
        """Return the column of each row's class."""
        columns = np.empty(len(X), dtype=np.intp)
        for rows, outputs in self._ask(X):
            columns[rows], undecided = self._decide(outputs)
            for some, alone in self._alone(X[rows], undecided, self.experts.answers):
                columns[rows][some] = self.combination.predict(alone)
        return columns

    def predict_proba(self, X: NDArray[np.float32], columns: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the probabilities of the classes in these columns for each row."""
        proba = np.empty((len(X), len(columns)))
        for rows, outputs in self._ask(X):
            scores = self._scores(X[rows], outputs)
            scores /= scores.sum(axis=1, keepdims=True)
            proba[rows] = scores[:, columns]
        return proba

    def predict_top(
        self, X: NDArray[np.float32], top: int
    ) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
        """Return the columns of the most probable classes, their probabilities, and the belief in "seen"."""
        columns = np.empty((len(X), top), dtype=np.intp)
        proba, p_seen = np.empty((len(X), top)), np.empty(len(X))
        for rows, outputs in self._ask(X):
            scores = self._scores(X[rows], outputs)
            mass, each = scores.sum(axis=1), np.arange(len(scores))
            for k in range(top):  # a few maxima are cheaper than a sort
                best = columns[rows, k] = scores.argmax(axis=1)
                proba[rows, k] = scores[each, best] / mass
                scores[each, best] = -1
            p_seen[rows] = 1 - self.combination.belief(outputs)
        return columns, proba, p_seen

    def outputs(self, X: NDArray[np.float32], y: Iterable[Hashable] | None = None) -> ExpertOutputs:
        """Return all that both experts say, from which the same answers follow; with `y`, labelled."""
        outputs = self.experts.outputs(X, y)
        said = {field.name: getattr(outputs, field.name) for field in fields(outputs)}
        for some, alone in self._alone(X, self._undecided(outputs), self.experts.outputs):
            for name, values in said.items():
                if isinstance(values, np.ndarray) and name != "target":
                    values[some] = getattr(alone, name)
        return ExpertOutputs.trusted(**said)

    def _ask(self, X: NDArray[np.float32]) -> Iterator[tuple[slice, ExpertOutputs]]:
        """Yield what both experts say, about as many rows each time."""
        most = max(1, min(_ROWS, _CELLS // len(self.experts.classes)))
        step = -(-len(X) // -(-len(X) // most))
        for first in range(0, len(X), step):
            rows = slice(first, min(first + step, len(X)))
            batch = X[rows] if rows.stop - first > 1 else np.ascontiguousarray(X[rows])
            yield rows, self.experts.answers(batch)

    def _decide(self, outputs: ExpertOutputs) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the columns, and which rows hang in the balance: never one that is alone already."""
        if len(outputs) == 1:
            return self.combination.predict(outputs), _NONE
        return self.combination.decide(outputs)

    def _undecided(self, outputs: ExpertOutputs) -> NDArray[np.intp]:
        return self._decide(outputs)[1] if len(outputs) > 1 else _NONE

    def _alone(
        self, X: NDArray[np.float32], undecided: NDArray[np.intp], ask: Callable[..., ExpertOutputs]
    ) -> Iterator[tuple[NDArray[np.intp], ExpertOutputs]]:
        """Yield the undecided rows of a batch, and what both experts say when asked about each by itself.

        Sums are rounded differently in another batch. Where that can tip the balance, the sums of a single
        row decide, so that the class is the same in any batch.
        """
        step = len(X) if self.experts.linear else 1
        for first in range(0, len(undecided), step):
            some = undecided[first : first + step]
            yield some, ask(np.ascontiguousarray(X[some]), each=True)

    def _scores(self, X: NDArray[np.float32], outputs: ExpertOutputs) -> NDArray[Any]:
        scores = self.combination.scores(outputs)
        for some, alone in self._alone(X, self._undecided(outputs), self.experts.answers):
            scores[some] = self.combination.scores(alone)
        return scores
