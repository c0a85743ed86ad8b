"""The contract of an unseen (zero-shot) expert."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import ParameterGrid

from cosmo._core.cache import Cache
from cosmo._core.validation import check_descriptions, check_features, encode_labels
from cosmo.data.splits import HoldOut, hold_out
from cosmo.experts.selection import select
from cosmo.mixture.probabilities import soften

__all__ = ["UnseenExpert"]


class UnseenExpert(BaseEstimator, ABC):  # type: ignore[misc]
    """Recognises classes by their descriptions.

    `fit` learns from seen classes; `scores` and `predict_proba` answer for the classes of *any* table
    with the same columns, so that a class is added by adding a row. Parameters left at None are chosen
    on held-out classes: by `select` where a hold-out is at hand, else by `fit` itself.

    Subclasses implement `_fit` and `scores`, and list in `grid` the values to try for their own open
    parameters. Those whose scores are not probabilities by themselves have a parameter `temperature`.
    """

    reference: ClassVar[str]
    """Where the method comes from."""
    needs: ClassVar[str] = "any descriptions"
    """What the descriptions must be."""
    native: ClassVar[bool] = False
    """Whether `scores` are log-probabilities already; then there is no temperature."""
    as_recorded: ClassVar[bool] = False
    """Whether descriptions must be values as recorded, such as percentages, not scaled to unit length."""
    needs_torch: ClassVar[bool] = False
    """Whether training takes the extra "torch"."""
    reads_unseen: ClassVar[bool] = False
    """Whether training reads the descriptions of classes without samples."""
    detects_novelty: ClassVar[bool] = False
    """Whether `novelty` is available."""
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {}
    """Values to try for parameters that are None."""
    trained_apart: ClassVar[str | None] = None
    """The parameter of `grid` whose values share no work, so that `select` can stop between them."""
    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    """Settings by name: published ones by data set (and variant), others by what they are for."""

    def fit(
        self, X: ArrayLike, y: Iterable[Hashable], descriptions: pd.DataFrame, *, seed: int | None = 0
    ) -> Self:
        """Learn from samples of seen classes.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : labels, length n_samples
        descriptions : DataFrame
            Has a row for every class in `y`; rows of other classes are not looked at, except by methods
            that say so (`reads_unseen`).
        seed : int
            Draws the classes held out to choose parameters that are None.
        """
        X = check_features(X, name="X")
        table = check_descriptions(descriptions)
        codes = encode_labels(y, table.index, name="y")
        if len(codes) != len(X):
            raise ValueError(f"X has {len(X)} rows but y has {len(codes)} labels; give one label per row")
        if len(X) == 0:
            raise ValueError(f"X has no rows (shape {X.shape}); give samples of at least two classes")
        used = np.isin(np.arange(len(table)), codes)
        others, table = table[~used], table[used]
        self.check_suitable(table)
        codes = np.unique(codes, return_inverse=True)[1].reshape(-1)
        if len(table) < 2:
            raise ValueError(f"y has one class only ({table.index[0]!r}); at least two are needed")
        decided = self
        if self.open_parameters():
            decided = select(self, X, table.index[codes], table, hold_out(codes, seed=seed))
        self.decided_ = {name: getattr(decided, name) for name in self.choices()}
        self.columns_ = table.columns
        self.others_ = others.to_numpy() if self.reads_unseen else None
        self._fit(X, codes, table.to_numpy(), **self.decided_)
        return self

    def select(
        self,
        X: NDArray[np.float32],
        y: Iterable[Hashable],
        descriptions: pd.DataFrame,
        held: HoldOut,
        *,
        cache: Cache | None = None,
    ) -> Self:
        """Return a copy fitted on Seen-Train with all open parameters chosen; see `select`."""
        return select(self, X, y, descriptions, held, cache=cache)

    def novelty(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability that each sample is of no seen class, shape (n_samples,)."""
        raise TypeError(f"{type(self).__name__} does not detect novelty")

    def choices(self) -> list[str]:
        """Return the names of parameters that can be left open."""
        return [*self.grid] if self.native else [*self.grid, "temperature"]

    def open_parameters(self) -> list[str]:
        """Return the names of parameters that are to be chosen (None)."""
        return [name for name in self.choices() if getattr(self, name) is None]

    def check_suitable(self, table: pd.DataFrame) -> None:
        """Raise `ValueError`, saying why, if the method cannot take these descriptions."""

    @abstractmethod
    def _fit(
        self, X: NDArray[np.float32], codes: NDArray[np.intp], attributes: NDArray[np.float32], **decided: Any
    ) -> None:
        """Learn from checked input; `codes` are rows of `attributes` (n_classes, n_attributes)."""

    def _candidates(
        self, X: NDArray[np.float32], codes: NDArray[np.intp], table: pd.DataFrame
    ) -> Iterator[Self]:
        """Yield fitted copies for all values of the open parameters (temperature aside).

        Override where fits share work. A copy finds its accuracy on held-out classes in `accuracy_` when
        the next one is asked for, so that a training which no longer improves can end.
        """
        open_grid = {name: self.grid[name] for name in self.open_parameters() if name in self.grid}
        for values in ParameterGrid(open_grid):
            candidate = self._with(table.columns, **values)
            candidate._fit(X, codes, table.to_numpy(), **candidate.decided_)
            yield candidate

    def _with(self, columns: pd.Index, **values: Any) -> Self:
        """Return a copy with these parameters, ready for its learned weights."""
        copy: Self = clone(self).set_params(**values)
        copy.columns_ = columns
        copy.others_ = getattr(self, "others_", None)
        copy.decided_ = {name: getattr(copy, name) for name in self.choices()}
        return copy

    @abstractmethod
    def scores(self, X: ArrayLike, descriptions: pd.DataFrame) -> NDArray[np.float32]:
        """Return how well each sample fits each described class, shape (n_samples, n_classes)."""

    def class_weights(self, descriptions: pd.DataFrame) -> NDArray[np.float32] | None:
        """Return W, shape (n_features, n_classes), if the scores are `X @ W`; None if they are not.

        Who asks about the same classes many times needs to compute it only once.
        """
        return None

    def predict_proba(self, X: ArrayLike, descriptions: pd.DataFrame) -> NDArray[np.float32]:
        """Return a distribution over the classes of `descriptions` for each sample."""
        return self.probabilities(self.scores(X, descriptions))

    def probabilities(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """Turn scores over all classes into joint probabilities."""
        return np.exp(scores) if self.native else soften(scores, self.decided_["temperature"])

    def attributes(self, descriptions: pd.DataFrame) -> NDArray[np.float32]:
        """Return a description table as an array, after checking it has the columns of the training."""
        table = check_descriptions(descriptions)
        if not table.columns.equals(self.columns_):
            raise ValueError(
                f"descriptions must have the {len(self.columns_)} attributes of the training, in the same "
                f"order; got {table.shape[1]} columns"
            )
        return table.to_numpy()
