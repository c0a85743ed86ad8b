"""The choice of an expert's parameters on classes that are held out of its training."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cosmo._core.cache import Cache, fingerprint
from cosmo._core.validation import check_descriptions, check_features, encode_labels
from cosmo.data.splits import HoldOut
from cosmo.metrics.accuracy import zsl_accuracy
from cosmo.mixture.probabilities import fit_temperature

if TYPE_CHECKING:
    from cosmo.experts.base import UnseenExpert

__all__ = ["select"]

Expert = TypeVar("Expert", bound="UnseenExpert")


def select(
    expert: Expert,
    X: NDArray[np.float32],
    y: Iterable[Hashable],
    descriptions: pd.DataFrame,
    held: HoldOut,
    *,
    cache: Cache | None = None,
) -> Expert:
    """Return a copy fitted on Seen-Train with all open parameters decided.

    The values of `expert.grid` are compared by per-class accuracy on Unseen-Val among the held-out classes:
    telling unseen classes apart is the expert's job, weighing them against seen ones is COSMO's. The
    temperature has the largest likelihood on GZSL-Val. Cloning the result and fitting it on all rows
    gives the expert of the test stage.

    Parameters
    ----------
    expert : UnseenExpert
        Parameters that are None are open.
    X, y, descriptions
        Training rows, and a table with a row for every class in `y`.
    held : HoldOut
        Rows of `X` for learning and for choosing.
    cache : Cache, optional
        Where choices are kept: asked again with the same input they are there at once, and a choice that
        was stopped half-way goes on where it was.
    """
    X, table = check_features(X, name="X"), check_descriptions(descriptions)
    codes = encode_labels(y, table.index, name="y")
    if len(codes) != len(X):
        raise ValueError(f"X has {len(X)} rows but y has {len(codes)} labels; give one label per row")
    held.check(table.index[codes])
    expert.check_suitable(table)
    if cache is not None and "checkpoints" in expert.get_params():
        expert = expert._with(table.columns, checkpoints=cache.folder)
    seen, unseen = np.unique(codes[held.seen_train]), np.unique(codes[held.unseen_val])
    X_train, train_codes = X[held.seen_train], np.searchsorted(seen, codes[held.seen_train])

    def start(**values: Any) -> Expert:
        copy = expert._with(table.columns, **values)
        copy.others_ = table.iloc[unseen].to_numpy() if expert.reads_unseen else None
        return copy

    def candidates(**values: Any) -> Iterator[Expert]:
        return start(**values)._candidates(X_train, train_codes, table.iloc[seen])

    open_grid = [name for name in expert.open_parameters() if name in expert.grid]
    best: Expert | None = None
    if not open_grid:
        best = next(candidates())
    else:
        X_unseen, table_unseen = X[held.unseen_val], table.iloc[unseen]  # cut out once, for all candidates

        def accuracy(candidate: Expert) -> float:
            weights = candidate.class_weights(table_unseen)
            scores = candidate.scores(X_unseen, table_unseen) if weights is None else X_unseen @ weights
            # Rounded, so that equal accuracies stay equal however the classes are ordered.
            return round(zsl_accuracy(codes[held.unseen_val], scores, unseen), 12)

        key = "" if cache is None else fingerprint(expert, expert.grid, X, codes, table, held)
        known = {} if cache is None else cache.read("selection", key)
        apart = expert.trained_apart if expert.trained_apart in open_grid else None
        rounds = [{apart: value} for value in expert.grid[apart]] if apart else [{}]
        for values in rounds:
            if repr(values) in known:
                continue
            winner: Expert | None = None
            for candidate in candidates(**values):
                candidate.accuracy_ = accuracy(candidate)
                if winner is None or candidate.accuracy_ > winner.accuracy_:
                    winner = candidate
            assert winner is not None, "every round has a candidate"
            chosen = {name: _plain(getattr(winner, name)) for name in open_grid}
            known[repr(values)] = {"chosen": chosen, "accuracy": winner.accuracy_}
            if cache is not None:
                cache.write("selection", key, known)
            if best is None or winner.accuracy_ > best.accuracy_:
                best = winner
        decided = max((known[repr(values)] for values in rounds), key=lambda entry: entry["accuracy"])
        if best is None or decided["chosen"] != {name: _plain(getattr(best, name)) for name in open_grid}:
            best = start(**decided["chosen"])
            best._fit(X_train, train_codes, table.iloc[seen].to_numpy(), **best.decided_)
    if "temperature" in best.open_parameters():
        both = np.concatenate([seen, unseen])
        target = pd.Index(both).get_indexer(codes[held.gzsl_val])
        temperature = fit_temperature(best.scores(X[held.gzsl_val], table.iloc[both]), target)
        best.set_params(temperature=temperature)
        best.decided_["temperature"] = temperature
    return best


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold."""
    return value.item() if isinstance(value, np.generic) else value
