"""Ensemble of unseen experts: the mean of their scores, each divided by its temperature."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone

from cosmo._core.cache import Cache
from cosmo.data.splits import HoldOut
from cosmo.experts.base import Array, Codes, UnseenExpert, select


class EnsembleExpert(UnseenExpert):
    """Score `Σ w_i s_i / T_i`, the logarithm of a weighted geometric mean of the experts' probabilities.

    Parameters
    ----------
    experts : sequence of UnseenExpert
        Not those whose scores are log-probabilities.
    weights : sequence of float, optional
        By default equal ones.
    temperature : float or None, default=None
        Temperature of the soft-max over scores. None fits it on held-out rows.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> from cosmo.experts import ESZSL
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> parts = [ESZSL(gamma, 0.1, temperature=0.1) for gamma in (0.01, 1.0)]
    >>> EnsembleExpert(parts, temperature=1.0).fit(X[:50], y[:50], table).predict_proba(X, table).shape
    (100, 20)
    """

    reference: ClassVar[str] = "log-linear pool of other experts"

    def __init__(
        self,
        experts: Sequence[UnseenExpert] = (),
        weights: Sequence[float] | None = None,
        *,
        temperature: float | None = None,
    ) -> None:
        self.experts = experts
        self.weights = weights
        self.temperature = temperature

    def open_parameters(self) -> list[str]:
        """Return the names of parameters that are None, of the parts as well."""
        parts = [f"{i}: {name}" for i, part in enumerate(self.experts) for name in part.open_parameters()]
        return [*parts, *super().open_parameters()]

    def select(
        self,
        X: Array,
        y: Iterable[Any],
        descriptions: pd.DataFrame,
        held: HoldOut,
        *,
        cache: Cache | None = None,
    ) -> Self:
        """Return a copy with the parameters of the parts, and then the temperature, chosen."""
        parts = [part.select(X, y, descriptions, held, cache=cache) for part in self.experts]
        return select(clone(self).set_params(experts=parts), X, y, descriptions, held, cache=cache)

    def check_suitable(self, table: pd.DataFrame) -> None:
        """Raise `ValueError` if a part cannot use these descriptions."""
        if not self.experts:
            raise ValueError("an ensemble needs at least one expert")
        for part in self.experts:
            part.check_suitable(table)

    def _fit(self, X: Array, codes: Codes, attributes: Array, **decided: Any) -> None:
        table = pd.DataFrame(attributes, columns=self.columns_)
        self.parts_ = [clone(part).fit(X, codes, table) for part in self.experts]
        weights = np.ones(len(self.parts_)) if self.weights is None else np.asarray(self.weights)
        scales = [1 if part.native else part.decided_["temperature"] for part in self.parts_]
        self.factors_ = (weights / weights.sum() / scales).astype(np.float32)

    def scores(self, X: ArrayLike, descriptions: pd.DataFrame) -> Array:
        """Return the weighted mean of the scores, shape (n_samples, n_classes)."""
        return self._mean([part.scores(X, descriptions) for part in self.parts_])

    def class_weights(self, attributes: Array) -> Array | None:
        """Return the mean of the parts' weights if all are linear, else None."""
        weights = [part.class_weights(attributes) for part in self.parts_]
        return None if any(one is None for one in weights) else self._mean(weights)

    def class_biases(self, attributes: Array) -> Array:
        """Return the mean of the parts' biases."""
        return self._mean([part.class_biases(attributes) for part in self.parts_])

    def _mean(self, parts: Sequence[Any]) -> Array:
        mean: Array = sum(factor * part for factor, part in zip(self.factors_, parts, strict=True))
        return mean
