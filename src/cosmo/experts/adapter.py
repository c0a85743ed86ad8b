"""Objects with `fit` and `scores` as unseen experts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone

from cosmo._core.validation import check_features
from cosmo.experts.base import Array, Codes, UnseenExpert


class AdaptedExpert(UnseenExpert):
    """Unseen expert of an object with `fit(X, y, descriptions)` and `scores(X, descriptions)`.

    If the object has a `grid`, its parameters that are None are chosen on held-out classes.

    Parameters
    ----------
    expert : object
    temperature : float or None, default=None
        Temperature of the soft-max over scores. None fits it on held-out rows.

    Attributes
    ----------
    expert_ : object
        The fitted copy.
    """

    reference: ClassVar[str] = "an expert of your own"

    def __init__(self, expert: Any, *, temperature: float | None = None) -> None:
        self.expert = expert
        self.temperature = temperature

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
