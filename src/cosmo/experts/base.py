"""Contract of an unseen (zero-shot) expert, and the choice of its parameters on held-out classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import ParameterGrid

from cosmo._core.cache import Cache, fingerprint
from cosmo._core.validation import check_descriptions, check_features, encode_labels
from cosmo.data.splits import HoldOut, hold_out
from cosmo.metrics.accuracy import class_accuracy
from cosmo.mixture.smoothing import fit_temperature, soften

Array = NDArray[np.float32]
Codes = NDArray[np.intp]
Expert = TypeVar("Expert", bound="UnseenExpert")

POSITIVE, NOT_NEGATIVE = "be positive", "not be negative"
COUNT, SHARE = "be a whole number of at least 1", "be at least 0 and below 1"
RULES: dict[str, Callable[[float], bool]] = {
    POSITIVE: lambda value: value > 0,
    NOT_NEGATIVE: lambda value: value >= 0,
    COUNT: lambda value: int(value) == value >= 1,
    SHARE: lambda value: 0 <= value < 1,
}


class UnseenExpert(BaseEstimator, ABC):  # type: ignore[misc]
    """Base class of experts that recognise classes by their descriptions.

    `fit` learns from seen classes. `scores` and `predict_proba` take *any* table with the same columns, so
    that a class is added by adding a row. Parameters left at None are chosen on held-out classes: by
    `select` if there is a hold-out, else by `fit`.

    `Cosmo` takes any object with `fit(X, y, descriptions)` and `scores(X, descriptions)` as unseen expert,
    of this class or not; see the guide "Own experts" and `cosmo.testing.check_unseen_expert`. Subclasses that
    implement `_fit` instead of `fit` get validated input, and share computation between the values of `grid`
    in `_candidates`. Those whose scores are not log-probabilities have a parameter `temperature`.
    """

    reference: ClassVar[str]  # authors, venue and year of the publication
    needs: ClassVar[str] = "any descriptions"  # requirements on the descriptions
    native: ClassVar[bool] = False  # whether `scores` are log-probabilities; then there is no temperature
    # Whether descriptions must be original values, such as percentages, not scaled to unit length.
    as_recorded: ClassVar[bool] = False
    needs_torch: ClassVar[bool] = False  # whether training requires the extra "torch"
    closed_form: ClassVar[bool] = False  # so that `Model.learn` can fit it again on exemplars
    slow: ClassVar[bool] = False  # whether a fit takes minutes, so that hold-out rounds must be few
    # Whether training reads the descriptions of classes without samples.
    reads_unseen: ClassVar[bool] = False
    # Whether the expert has `novelty`, its own detection of samples of no seen class.
    detects_novelty: ClassVar[bool] = False
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {}  # values to try for parameters that are None
    ranges: ClassVar[dict[str, str]] = {}  # rules, of `RULES`, which parameters that are not None must obey
    # Named settings; published ones are named after the data set (and variant).
    presets: ClassVar[dict[str, dict[str, Any]]] = {}

    def fit(
        self, X: ArrayLike, y: Iterable[Hashable], descriptions: pd.DataFrame, *, seed: int | None = 0
    ) -> Self:
        """Learn from samples of seen classes.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : labels, length n_samples
        descriptions : DataFrame
            A row for every class in `y`. Rows of other classes are ignored unless `reads_unseen`.
        seed : int, default=0
            Seed of the hold-out of classes on which parameters that are None are chosen.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If lengths differ, `y` has fewer than two classes, or the method cannot use the descriptions.
        """
        X, codes, table = _checked(X, y, descriptions)
        used = np.isin(np.arange(len(table)), codes)
        others, table = table[~used], table[used]
        if len(table) < 2:
            raise ValueError(f"y has the classes {[*table.index]}; at least two are needed")
        self.check_parameters()
        self.check_suitable(table)
        codes = np.unique(codes, return_inverse=True)[1]
        decided = self
        if self.open_parameters():
            decided = select(self, X, table.index[codes], table, hold_out(codes, seed=seed))
        self.decided_ = decided.chosen(self.choices())
        self.columns_ = table.columns
        self.others_ = others.to_numpy() if self.reads_unseen else None
        self._fit_table(X, codes, table, **self.decided_)
        return self

    def select(
        self,
        X: Array,
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
        """Return the names of parameters that may be None."""
        return [*self.grid] if self.native else [*self.grid, "temperature"]

    def open_parameters(self) -> list[str]:
        """Return the names of parameters that are None."""
        return [name for name, value in self.chosen(self.choices()).items() if value is None]

    def chosen(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the values of parameters."""
        return {name: getattr(self, name) for name in names}

    def check_parameters(self) -> None:
        """Raise `ValueError` if a parameter is out of range."""
        for name, rule in self.ranges.items():
            if (value := getattr(self, name)) is not None:
                check_rule(rule, **{name: value})

    def check_suitable(self, table: pd.DataFrame) -> None:
        """Raise `ValueError` if the method cannot use these descriptions."""

    def _fit(self, X: Array, codes: Codes, attributes: Array, **decided: Any) -> None:
        """Learn from validated input; `codes` are rows of `attributes` (n_classes, n_attributes)."""
        raise NotImplementedError

    def _fit_table(self, X: Array, codes: Codes, table: pd.DataFrame, **decided: Any) -> None:
        """Learn from validated input; `codes` are rows of `table`."""
        self._fit(X, codes, table.to_numpy(), **decided)

    def _candidates(self, X: Array, codes: Codes, table: pd.DataFrame) -> Iterator[Self]:
        """Yield fitted copies for all values of the open parameters, temperature excepted.

        Override if fits share computation. `select` sets `accuracy_` of a copy, on held-out classes, before
        it requests the next one: early stopping reads it.
        """
        open_grid = {name: self.grid[name] for name in self.open_parameters() if name in self.grid}
        for values in ParameterGrid(open_grid):
            candidate = self._with(table.columns, **values)
            candidate._fit_table(X, codes, table, **candidate.decided_)
            yield candidate

    def _decide_last(self, X: Array, target: Codes, table: pd.DataFrame, n_seen: int) -> None:
        """Choose open parameters that need no training, on GZSL-Val; the table has seen classes first."""
        if "temperature" in self.open_parameters():
            self._decide(temperature=fit_temperature(self.scores(X, table), target))

    def _decide(self, **values: Any) -> None:
        self.set_params(**values)
        self.decided_ |= values

    def _values(self, name: str) -> tuple[Any, ...]:
        """Return the values to try for a parameter of `grid`."""
        value = getattr(self, name)
        return self.grid[name] if value is None else (value,)

    def _with(self, columns: pd.Index, **values: Any) -> Self:
        """Return a copy with these parameters and without learned weights."""
        copy: Self = clone(self).set_params(**values)
        copy.columns_ = columns
        copy.others_ = getattr(self, "others_", None)
        copy.decided_ = copy.chosen(self.choices())
        return copy

    @abstractmethod
    def scores(self, X: ArrayLike, descriptions: pd.DataFrame) -> Array:
        """Return how well each sample fits each described class, shape (n_samples, n_classes)."""

    def class_weights(self, attributes: Array) -> Array | None:
        """Return W, shape (n_features, n_classes), if the scores are `X @ W + class_biases`, else None."""
        return None

    def class_biases(self, attributes: Array) -> Array:
        """Return the part of linear scores that does not depend on the sample, shape (n_classes,)."""
        return np.zeros(len(attributes), dtype=np.float32)

    def predict_proba(self, X: ArrayLike, descriptions: pd.DataFrame) -> Array:
        """Return a distribution over the classes of `descriptions` for each sample."""
        return self.probabilities(self.scores(X, descriptions))

    def probabilities(self, scores: Array) -> Array:
        """Return joint probabilities from scores over all classes."""
        return np.exp(scores) if self.native else soften(scores, self.decided_["temperature"])

    def attributes(self, descriptions: pd.DataFrame) -> Array:
        """Return a description table as an array; its columns must be those of the training."""
        table = check_descriptions(descriptions)
        if not table.columns.equals(self.columns_):
            raise ValueError(
                f"descriptions must have the {len(self.columns_)} attributes of the training, in the same "
                f"order; got {table.shape[1]} columns"
            )
        return table.to_numpy()


def as_unseen_expert(expert: Any) -> UnseenExpert:
    """Return an object with `fit` and `scores` as an unseen expert."""
    if isinstance(expert, UnseenExpert) and (UnseenExpert._fit, UnseenExpert._fit_table) != (
        type(expert)._fit,
        type(expert)._fit_table,
    ):
        return expert
    missing = [n for n in ("fit", "scores") if getattr(type(expert), n, None) in (None, UnseenExpert.fit)]
    if missing:
        raise TypeError(
            "an unseen expert has fit(X, y, descriptions) and scores(X, descriptions); "
            f"{type(expert).__name__} has no {' and no '.join(missing)}"
        )
    from cosmo.experts.composed import AdaptedExpert  # most models do not need it

    return AdaptedExpert(expert)


class Observer(ABC):
    """Reads the samples themselves for a gate; fitted in each stage on the training rows of the experts."""

    @abstractmethod
    def fit(self, seen: Any, X: Array, codes: Codes) -> Self:
        """Learn from the training rows of a stage, their classes and the fitted seen expert."""

    @abstractmethod
    def evidence(self, X: Array) -> NDArray[np.float64]:
        """Return the evidence for each sample, shape (n_samples, n_numbers)."""


def select(
    expert: Expert,
    X: Array,
    y: Iterable[Hashable],
    descriptions: pd.DataFrame,
    held: HoldOut,
    *,
    cache: Cache | None = None,
) -> Expert:
    """Return a copy fitted on Seen-Train with all open parameters decided.

    The values of `expert.grid` are compared by per-class accuracy on Unseen-Val among the held-out classes.
    The temperature maximises the likelihood on GZSL-Val. A clone of the result, fitted on all rows, is the
    expert of the test stage.

    Parameters
    ----------
    expert : UnseenExpert
        Parameters that are None are open.
    X, y, descriptions
        Training rows, and a table with a row for every class in `y`.
    held : HoldOut
        Rows of `X` for learning and for choosing.
    cache : Cache, optional
        Storage of choices, which a repeated selection reads.

    Returns
    -------
    UnseenExpert

    Examples
    --------
    >>> from cosmo.experts import ESZSL
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame(rng.random((6, 3)), index=list("abcdef"))
    >>> y = np.repeat(list("abcdef"), 20)
    >>> X = (table.loc[y].to_numpy() @ rng.normal(size=(3, 8))).astype(np.float32)
    >>> select(ESZSL(), X, y, table, hold_out(y)).open_parameters()
    []
    """
    X, codes, table = _checked(X, y, descriptions)
    held.check(table.index[codes])
    expert.check_parameters()
    expert.check_suitable(table)
    if cache is not None and "checkpoints" in expert.get_params():
        expert = expert._with(table.columns, checkpoints=cache.folder)
    seen, unseen = np.unique(codes[held.seen_train]), np.unique(codes[held.unseen_val])
    X_train, train_codes = X[held.seen_train], np.searchsorted(seen, codes[held.seen_train])

    open_grid = [name for name in expert.open_parameters() if name in expert.grid]
    key = fingerprint(expert, expert.grid, X, codes, table, held) if cache is not None and open_grid else None
    chosen = {} if cache is None or key is None else cache.read("selection", key)
    best = expert._with(table.columns, **chosen)
    best.others_ = table.iloc[unseen].to_numpy() if expert.reads_unseen else None
    if chosen:
        best._fit_table(X_train, train_codes, table.iloc[seen], **best.decided_)
    elif not open_grid:
        best = next(best._candidates(X_train, train_codes, table.iloc[seen]))
    else:
        # Computed and validated once for all candidates.
        X_unseen, table_unseen = X[held.unseen_val], check_descriptions(table.iloc[unseen])
        target, attributes = np.searchsorted(unseen, codes[held.unseen_val]), table_unseen.to_numpy()
        best.accuracy_ = -1.0
        for candidate in best._candidates(X_train, train_codes, table.iloc[seen]):
            weights = candidate.class_weights(attributes)
            if weights is None:
                scores = candidate.scores(X_unseen, table_unseen)
            else:
                scores = X_unseen @ weights + candidate.class_biases(attributes)
            if np.isnan(scores).any():
                raise ValueError(f"the scores of {candidate} have NaN values; scale the features")
            # Rounded, so that equal accuracies stay equal however the classes are ordered.
            candidate.accuracy_ = round(class_accuracy(target, scores.argmax(axis=1), len(unseen)), 12)
            best = max(best, candidate, key=lambda one: one.accuracy_)
        if cache is not None and key is not None:
            choice = {name: plain_value(value) for name, value in best.chosen(open_grid).items()}
            cache.write("selection", key, choice)
    both = np.concatenate([seen, unseen])
    best._decide_last(
        X[held.gzsl_val], pd.Index(both).get_indexer(codes[held.gzsl_val]), table.iloc[both], len(seen)
    )
    return best


def _checked(
    X: ArrayLike, y: Iterable[Hashable], descriptions: pd.DataFrame
) -> tuple[Array, Codes, pd.DataFrame]:
    """Return valid rows, their classes as rows of the table, and the table."""
    rows, table = check_features(X, name="X"), check_descriptions(descriptions)
    codes = encode_labels(y, table.index, name="y")
    if len(codes) != len(rows):
        raise ValueError(f"X has {len(rows)} rows but y has {len(codes)} labels; give one label per row")
    return rows, codes, table


def plain_value(value: Any) -> Any:
    """Return a value that JSON can hold."""
    return value.item() if isinstance(value, np.generic) else value


def check_rule(rule: str, **values: float) -> None:
    """Raise `ValueError` unless all values obey a rule of `RULES`."""
    for name, value in values.items():
        if not RULES[rule](value):
            raise ValueError(f"{name} must {rule}, got {value}")
