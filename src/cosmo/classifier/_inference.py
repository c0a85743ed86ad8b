"""Answers about any number of rows: some at a time, and the same in whatever batch a row comes.

Of linear experts, classes and probabilities are the same to the last bit. Of others, classes are, and the
last digits of probabilities may differ.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cosmo.classifier.combinations import GatedMixture
from cosmo.experts import ExpertPair
from cosmo.mixture.outputs import ExpertOutputs

__all__ = ["Inference"]

# Experts are asked about so many rows at a time that what they say stays in the cache, or among very many
# classes does not take new memory each time.
_ROWS, _CELLS = 4096, 2**21
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
        for rows, outputs in self._ask(X, exact=False):
            columns[rows], undecided = self._decide(outputs)
            for some, sure in self._once_more(X[rows], undecided):
                columns[rows][some] = self.combination.predict(sure)
        return columns

    def predict_proba(self, X: NDArray[np.float32], columns: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the probabilities of the classes in these columns for each row."""
        proba = np.empty((len(X), len(columns)))
        for rows, outputs in self._ask(X, exact=True):
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
        for rows, outputs in self._ask(X, exact=True):
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
        if self.experts.linear:
            return outputs
        said = {field.name: getattr(outputs, field.name) for field in fields(outputs)}
        for some, sure in self._once_more(X, self._decide(outputs)[1]):
            for name, values in said.items():
                if isinstance(values, np.ndarray) and name != "target":
                    values[some] = getattr(sure, name)
        return ExpertOutputs.trusted(**said)

    def _ask(self, X: NDArray[np.float32], *, exact: bool) -> Iterator[tuple[slice, ExpertOutputs]]:
        """Yield what both experts say, about as many rows each time."""
        most = max(1, min(_ROWS, _CELLS // len(self.experts.classes)))
        step = -(-len(X) // -(-len(X) // most))
        for first in range(0, len(X), step):
            rows = slice(first, min(first + step, len(X)))
            yield rows, self.experts.answers(X[rows], exact=exact)

    def _decide(self, outputs: ExpertOutputs) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the columns, and which rows hang in the balance."""
        if len(outputs) == 1 and not self.experts.linear:  # asked by itself already
            return self.combination.predict(outputs), _NONE
        return self.combination.decide(outputs)

    def _once_more(
        self, X: NDArray[np.float32], undecided: NDArray[np.intp]
    ) -> Iterator[tuple[NDArray[np.intp], ExpertOutputs]]:
        """Yield the undecided rows of a batch, and what both experts say about them in whatever batch.

        Sums are rounded differently in another batch. Where that can tip the balance, linear experts are
        asked for sums without rounding, and others about each row by itself.
        """
        if self.experts.linear:
            if len(undecided):
                yield undecided, self.experts.answers(X[undecided], exact=True)
            return
        for row in undecided:
            some = np.array([row])
            yield some, self.experts.outputs(np.ascontiguousarray(X[some]))

    def _scores(self, X: NDArray[np.float32], outputs: ExpertOutputs) -> NDArray[Any]:
        scores = self.combination.scores(outputs)
        if not self.experts.linear:
            for some, sure in self._once_more(X, self._decide(outputs)[1]):
                scores[some] = self.combination.scores(sure)
        return scores
