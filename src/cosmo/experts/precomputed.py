"""Predictions of other programs as an unseen expert."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from cosmo._core.validation import check_probabilities
from cosmo.experts.base import Array, UnseenExpert


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
