"""Unseen experts made of other objects: a mean of experts, an expert of your own, stored predictions."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone

from cosmo._core.cache import Cache
from cosmo._core.validation import check_features, check_probabilities
from cosmo.data.splits import HoldOut
from cosmo.experts.base import Array, Codes, UnseenExpert, select


@dataclass(eq=False, repr=False)
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

    experts: Sequence[UnseenExpert] = ()
    weights: Sequence[float] | None = None
    _: KW_ONLY
    temperature: float | None = None

    @classmethod
    def sum(cls, fitted: Sequence[UnseenExpert], factors: Sequence[float]) -> Self:
        """Return the weighted sum of the scores of fitted experts."""
        total = cls()
        total.parts_, total.factors_ = list(fitted), np.array(factors, dtype=np.float32)
        total.columns_, total.decided_ = fitted[0].columns_, {"temperature": 1.0}
        return total

    @property
    def closed_form(self) -> bool:  # type: ignore[override]
        """Whether all parts have a closed form."""
        return all(part.closed_form for part in self.experts)

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
        return sum(factor * part for factor, part in zip(self.factors_, parts, strict=True))


@dataclass(eq=False, repr=False)
class AdaptedExpert(UnseenExpert):
    """Unseen expert of an object with `fit(X, y, descriptions)` and `scores(X, descriptions)`.

    If the object has a `grid`, its parameters that are None are chosen on held-out classes. `expert_` is the
    fitted copy; a `temperature` of None is fitted on held-out rows.
    """

    reference: ClassVar[str] = "an expert of your own"

    expert: Any
    _: KW_ONLY
    temperature: float | None = None

    @property
    def grid(self) -> dict[str, tuple[Any, ...]]:  # type: ignore[override]
        """Values to try for parameters of the object that are None."""
        return {f"expert__{name}": values for name, values in getattr(self.expert, "grid", {}).items()}

    def chosen(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the values of parameters, of the object as well."""
        parameters = self.get_params()
        return {name: parameters[name] for name in names}

    def _fit_table(self, X: Array, codes: Codes, table: pd.DataFrame, **decided: Any) -> None:
        values = {name: value for name, value in decided.items() if name != "temperature"}
        self.expert_ = clone(self).set_params(**values).expert
        self.expert_.fit(X, table.index.to_numpy()[codes], table)

    def scores(self, X: ArrayLike, descriptions: pd.DataFrame) -> Array:
        """Return the object's scores, shape (n_samples, n_classes)."""
        X = check_features(X, name="X")
        self.attributes(descriptions)
        scores = np.asarray(self.expert_.scores(X, descriptions), dtype=np.float32)
        if scores.shape != (len(X), len(descriptions)):
            raise ValueError(
                f"scores of {type(self.expert).__name__} must have a row for each sample and a column for "
                f"each class, {(len(X), len(descriptions))}; got {scores.shape}"
            )
        return scores


class PrecomputedExpert(UnseenExpert):
    """Return stored probabilities; instead of features it takes row names.

    Parameters
    ----------
    proba : DataFrame
        Index = row name, columns = class label; rows sum to at most one.

    Examples
    --------
    >>> expert = PrecomputedExpert(pd.DataFrame([[0.7, 0.3], [0.2, 0.8]], index=[10, 11], columns=["a", "b"]))
    >>> expert.predict_proba([11], pd.DataFrame(index=["b", "a"]))
    array([[0.8, 0.2]], dtype=float32)
    """

    reference: ClassVar[str] = "predictions made elsewhere"
    native: ClassVar[bool] = True

    def __init__(self, proba: pd.DataFrame) -> None:
        self.proba = proba

    def fit(
        self, X: ArrayLike, y: Iterable[Hashable], descriptions: pd.DataFrame, *, seed: int | None = 0
    ) -> Self:
        """Validate the table."""
        if not isinstance(self.proba, pd.DataFrame):
            raise TypeError(
                "proba must be a pandas DataFrame with a row for each sample and a column for each class, "
                f"got {type(self.proba).__name__}"
            )
        for what, names in (("row", self.proba.index), ("class", self.proba.columns)):
            if not names.is_unique:
                raise ValueError(
                    f"proba has the {what} {names[names.duplicated()][0]!r} more than once; keep one"
                )
        check_probabilities(self.proba.to_numpy(), name="proba", joint=True)
        return self

    def _fit(self, *args: Any, **decided: Any) -> None:
        """Do nothing."""

    def scores(self, X: ArrayLike, descriptions: pd.DataFrame) -> Array:
        """Return the logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, descriptions))

    def predict_proba(self, X: ArrayLike, descriptions: pd.DataFrame) -> Array:
        """Return the stored probabilities of rows `X` for the classes in `descriptions`' index."""
        rows = self.proba.index.get_indexer(pd.Index(np.asarray(X).reshape(-1)))
        if (rows < 0).any():
            raise ValueError(f"no stored prediction for row {np.asarray(X).reshape(-1)[rows < 0][0]!r}")
        columns = self.proba.columns.get_indexer(descriptions.index)
        if (columns < 0).any():
            raise ValueError(f"no stored prediction for class {descriptions.index[columns < 0][0]!r}")
        return self.proba.to_numpy(dtype=np.float32)[np.ix_(rows, columns)]
