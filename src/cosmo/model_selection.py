"""Cross-validation of the generalized task for scikit-learn: a splitter and scorers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator
from sklearn.pipeline import Pipeline

from cosmo._core.validation import as_class_index
from cosmo.classifier._cosmo import Cosmo

__all__ = ["GZSLSplit", "acc_h_scorer", "ausuc_scorer", "gzsl_scorer"]


class GZSLSplit(BaseCrossValidator):  # type: ignore[misc]
    """Folds of classes and of rows, so that each test fold has seen and unseen classes.

    Classes are divided into `n_splits` groups, and the rows of each class into `n_splits` parts. Fold k is
    tested on all rows of the classes in group k, which are not in its training, and on part k of the rows of
    the other classes. So each class is unseen once; each row is tested as of a seen class at most once.

    The folds share the estimator's table of descriptions, which makes withheld classes unseen ones. A class
    that has no samples at all competes with them; leave it out of the table if that is not wanted.

    Parameters
    ----------
    n_splits : int, default=5
        At least 2, and at most as many as leave two classes for training.
    random_state : int, default=0

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from cosmo import ESZSL
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=30, samples_per_class=12)
    >>> model = Cosmo(data.descriptions, unseen=ESZSL(1.0, 1.0))
    >>> scores = cross_val_score(model, data.features, data.labels, cv=GZSLSplit(3), scoring=acc_h_scorer)
    >>> len(scores), bool(scores.min() > 1 / 30)
    (3, True)
    """

    def __init__(self, n_splits: int = 5, *, random_state: int | None = 0) -> None:
        self.n_splits = n_splits
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds."""
        return self.n_splits

    def _iter_test_masks(
        self, X: Any, y: Iterable[Hashable], groups: Any = None
    ) -> Iterator[NDArray[np.bool_]]:
        if y is None:
            raise ValueError("GZSLSplit needs y, the class of each row")
        codes, classes = pd.factorize(as_class_index(y))
        if not 2 <= self.n_splits <= len(classes) or len(classes) - -(-len(classes) // self.n_splits) < 2:
            raise ValueError(
                f"n_splits={self.n_splits} with {len(classes)} classes; at least 2 folds, at most as many as "
                "classes, and two classes for the training"
            )
        rng = np.random.default_rng(self.random_state)
        group = rng.permutation(np.arange(len(classes)) % self.n_splits)[codes]
        # Rows of a class are numbered in random order, from the group of the class on: with a single row it
        # is never tested as of a seen class, which it would not be.
        order = rng.permutation(len(codes))
        rank = np.empty(len(codes), dtype=np.intp)
        rank[order] = pd.Series(codes[order]).groupby(codes[order]).cumcount()
        part = (group + rank) % self.n_splits
        for k in range(self.n_splits):
            yield (group == k) | (part == k)


def gzsl_scorer(estimator: Any, X: Any, y: Iterable[Hashable]) -> dict[str, float]:
    """Return `acc_ts`, `acc_tr`, `acc_h` and `ausuc` over the classes in `y`, for `scoring`.

    With `GridSearchCV`, `refit` names one of them.

    Parameters
    ----------
    estimator : Cosmo or Pipeline
        Fitted; the last step of a pipeline is a `Cosmo`.
    X, y
        Samples of seen and of unseen classes.
    """
    if isinstance(estimator, Pipeline):
        X, estimator = estimator[:-1].transform(X), estimator[-1]
    if not isinstance(estimator, Cosmo):
        raise TypeError(f"scorers of the generalized task need a Cosmo, got {type(estimator).__name__}")
    outputs, mixture = estimator.outputs(X, y), estimator.combination_
    if outputs.is_seen.all() or not outputs.is_seen.any():
        raise ValueError("y needs samples of seen and of unseen classes; cv=GZSLSplit() makes such folds")
    curve = mixture.present_curve(outputs)
    return {**curve.at(mixture.operating_point_.threshold)._asdict(), "ausuc": curve.area}


def acc_h_scorer(estimator: Any, X: Any, y: Iterable[Hashable]) -> float:
    """Return Acc_H, the harmonic mean of the accuracies on seen and unseen classes, see `gzsl_scorer`."""
    return gzsl_scorer(estimator, X, y)["acc_h"]


def ausuc_scorer(estimator: Any, X: Any, y: Iterable[Hashable]) -> float:
    """Return the area under the seen-unseen curve, see `gzsl_scorer`."""
    return gzsl_scorer(estimator, X, y)["ausuc"]
