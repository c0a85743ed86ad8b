"""Seen experts of graded quality, to see how much of COSMO's accuracy hangs on the seen expert's."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from cosmo.experts import make_seen_expert

__all__ = ["SEEN", "SquareRoot", "Thinned"]


class SquareRoot(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Square roots of non-negative features, as of histograms.

    Examples
    --------
    >>> SquareRoot().fit_transform(np.array([[4.0, 9.0]]))
    array([[2., 3.]])
    """

    def fit(self, X: NDArray[Any], y: object = None) -> Self:
        """Learn nothing."""
        return self

    def transform(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the roots; what is negative counts as zero."""
        roots: NDArray[Any] = np.sqrt(np.maximum(X, 0))
        return roots


class Thinned(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier trained on a share of the rows of each class.

    Parameters
    ----------
    classifier : classifier
    share : float
        A class keeps at least one row.

    Examples
    --------
    >>> X, y = np.arange(8.0)[:, None], np.repeat([0, 1], 4)
    >>> Thinned(LogisticRegression(), 0.5).fit(X, y).n_rows_
    4
    """

    def __init__(self, classifier: Any, share: float) -> None:
        self.classifier = classifier
        self.share = share

    def fit(self, X: NDArray[Any], y: NDArray[Any]) -> Self:
        """Train on evenly spaced rows of each class."""
        rank = np.empty(len(y), dtype=np.intp)
        for label in np.unique(y):
            rows = np.flatnonzero(y == label)
            rank[rows] = np.arange(len(rows))
        # Row k is kept where a count in steps of `share` passes a whole number.
        kept = np.ceil((rank + 1) * self.share) > np.ceil(rank * self.share)
        self.n_rows_ = int(kept.sum())
        self.classifier_ = clone(self.classifier).fit(X[kept], y[kept])
        self.classes_ = self.classifier_.classes_
        return self

    def predict_proba(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the probabilities of `classes_`."""
        proba: NDArray[Any] = self.classifier_.predict_proba(X)
        return proba

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the most probable class."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


SEEN: dict[str, Any] = {
    "logistic": make_seen_expert("logistic"),
    "a third of the rows": Thinned(make_seen_expert("logistic"), 1 / 3),
    "two thirds of the rows": Thinned(make_seen_expert("logistic"), 2 / 3),
    "square roots of features": make_pipeline(SquareRoot(), LogisticRegression(C=0.1, max_iter=2000)),
}
"""The paper's seen expert, weaker ones and a stronger one."""
