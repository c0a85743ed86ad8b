"""Seen experts: scikit-learn classifiers by name, soft-max regression and discriminant analysis."""

from __future__ import annotations

import pydoc
import warnings
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from cosmo.experts._linear import Classes
from cosmo.experts._newton import SubspacePath

SEEN_EXPERTS = {
    "logistic": "multinomial logistic regression, C = 1 (the paper's)",
    "logistic-unit": "the same with C = 30, for features of unit length, such as embeddings of text",
    "logistic-sklearn": "the same as logistic, by scikit-learn's L-BFGS",
    "lda": "linear discriminant analysis with shrinkage",
    "discriminant": "the same on a shrunk covariance, faster",
    "discriminant-logistic": "mean of discriminant and logistic, C = 30",
    "knn": "nearest neighbours, weighted by distance",
}

_PATIENCE = 3  # steps without progress after which single precision is taken to be exhausted
_FAR = 1e-3  # relative gap from which this is worth a warning


def make_seen_expert(name: str) -> Any:
    """Return a new scikit-learn classifier by its name in `SEEN_EXPERTS`.

    Parameters
    ----------
    name : str
        Or a classifier of scikit-learn by its import path, with parameters after a colon:
        "sklearn.ensemble.RandomForestClassifier:n_estimators=50,max_depth=9".

    Returns
    -------
    classifier

    Raises
    ------
    ValueError
        If the name is unknown.

    Examples
    --------
    >>> make_seen_expert("logistic")
    SoftmaxRegression(tol=0.0001)
    """
    if name in ("logistic", "logistic-unit"):
        return SoftmaxRegression(C=1.0 if name == "logistic" else 30.0, tol=1e-4)
    if name == "logistic-sklearn":
        return LogisticRegression(C=1.0, max_iter=2000)
    if name in ("discriminant", "discriminant-logistic"):
        return Discriminant(logistic=30.0 if name.endswith("logistic") else 0.0)
    # Modules of scikit-learn that are slow to import are imported on use.
    name = {
        "lda": "sklearn.discriminant_analysis.LinearDiscriminantAnalysis:solver=lsqr,shrinkage=auto",
        "knn": "sklearn.neighbors.KNeighborsClassifier:n_neighbors=15,weights=distance",
    }.get(name, name)
    if not name.startswith("sklearn."):
        known = ", ".join(SEEN_EXPERTS)
        raise ValueError(f"unknown seen expert {name!r}; choose from {known}, or give sklearn.MODULE.CLASS")
    from cosmo.experts import parameters_in

    path, _, details = name.partition(":")
    kind = pydoc.locate(path)
    if isinstance(kind, type) and issubclass(kind, ClassifierMixin) and hasattr(kind, "predict_proba"):
        return kind(**parameters_in(details))
    raise ValueError(f"{path} is no classifier of scikit-learn with predict_proba")


class NoSeenExpert(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Seen expert of a model that has no seen class yet."""

    classes_ = np.zeros(0, dtype=np.intp)

    def predict_proba(self, X: Any) -> Any:
        """Return no columns."""
        return np.zeros((len(X), 0), dtype=np.float32)


class SoftmaxRegression(LogisticRegression):  # type: ignore[misc]
    """Multinomial logistic regression with an L2 penalty, the optimum of `LogisticRegression(C=C)`.

    Minimises `C · Σ -log p(y | x) + |W|² / 2` without a penalty on intercepts. It is faster than
    scikit-learn if there are many classes and features, and closer to the minimum: scikit-learn stops by the
    size of the mean gradient. Two classes are fitted by scikit-learn. Computations are in single precision
    and deterministic.

    Parameters
    ----------
    C : float, default=1.0
        Inverse strength of the penalty.
    tol : float, default=1e-6
        Bound of the distance to the minimum, relative to the objective.
    max_iter : int, default=1000
        Largest number of subspaces.

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (n_classes, n_features) and (n_classes,)
    n_iter_ : array of shape (1,)
        Number of subspaces.
    gap_ : float
        Bound of the relative distance to the minimum that was reached; NaN for two classes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> codes = np.arange(300) % 10
    >>> X = rng.normal(size=(10, 20))[codes] + 0.5 * rng.normal(size=(300, 20))
    >>> seen = SoftmaxRegression().fit(X, codes)
    >>> seen.coef_.shape, seen.gap_ <= 1e-6, seen.score(X, codes)
    ((10, 20), True, 1.0)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        name: LogisticRegression._parameter_constraints[name] for name in ("C", "tol", "max_iter")
    }

    # Read by methods of LogisticRegression.
    solver = "lbfgs"
    fit_intercept = True
    multi_class = "deprecated"  # read by `predict_proba` of older versions of scikit-learn

    def __init__(self, C: float = 1.0, *, tol: float = 1e-6, max_iter: int = 1000) -> None:
        self.C = C
        self.tol = tol
        self.max_iter = max_iter

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    def fit(self, X: Any, y: Any) -> SoftmaxRegression:
        """Fit the weights.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : array of shape (n_samples,)

        Returns
        -------
        self
        """
        self._validate_params()
        if np.isinf(self.C):
            raise ValueError("C must be finite, got inf; a large C is nearly no penalty")
        rows, y = validate_data(self, X, y, dtype=[np.float32, np.float64])
        missing = np.flatnonzero(pd.isna(y))
        if len(missing):
            raise ValueError(f"y has no label in row {missing[0]}; fill it in or drop the row")
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) <= 2:
            # Two classes share one row of weights; for a single class scikit-learn raises an error.
            plain = LogisticRegression(C=self.C, max_iter=2000).fit(rows, codes)
            self.coef_, self.intercept_, self.n_iter_ = plain.coef_, plain.intercept_, plain.n_iter_
            self.gap_ = np.nan
            return self
        path = SubspacePath(rows, codes, self.C)
        while path.gap > self.tol and path.n_steps < self.max_iter and path.n_idle < _PATIENCE:
            path.step(self.tol)
        if path.gap > (self.tol if path.n_idle < _PATIENCE else max(self.tol, _FAR)):
            advice = "raise max_iter" if path.n_idle < _PATIENCE else "lower C, or scale the features down"
            reached = f"after {path.n_steps} subspaces the objective may be {path.gap:.1e} of its value above"
            warnings.warn(f"{reached} the minimum; {advice}", ConvergenceWarning, stacklevel=2)
        self.coef_, self.intercept_ = (part.astype(rows.dtype) for part in path.parameters())
        self.n_iter_ = np.array([path.n_steps], dtype=np.int32)
        self.gap_ = path.gap
        return self


class Discriminant(SoftmaxRegression):
    """Gaussian classes with one covariance, which is shrunk towards a multiple of the identity.

    With `logistic`, logits are the mean of these and of a logistic regression, scaled to the same spread.

    Parameters
    ----------
    shrinkage : float, default=0.2
        Weight of the identity, from 0 to below 1.
    logistic : float, default=0.0
        C of the logistic regression, which is left out if it is 0.

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (n_classes, n_features) and (n_classes,)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> codes = np.arange(300) % 10
    >>> X = rng.normal(size=(10, 20))[codes] + 0.5 * rng.normal(size=(300, 20))
    >>> Discriminant().fit(X, codes).score(X, codes)
    1.0
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {}

    def __init__(self, shrinkage: float = 0.2, *, logistic: float = 0.0) -> None:
        self.shrinkage = shrinkage
        self.logistic = logistic

    def fit(self, X: Any, y: Any) -> Discriminant:
        """Compute the weights; see `SoftmaxRegression.fit`."""
        rows, y = validate_data(self, X, y, dtype=np.float32)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        classes = Classes.learn(rows, codes)
        coef = classes.solve(self.shrinkage, classes.centred.T).T
        intercept = -np.einsum("ij,ij->i", coef, classes.mean + classes.centred / 2)
        if self.logistic and len(coef) > 2:
            other = SoftmaxRegression(C=self.logistic, tol=1e-3).fit(rows, codes)
            scale = np.std(rows @ other.coef_.T) / np.std(rows @ coef.T.astype(np.float32))
            coef = (scale * coef + other.coef_) / 2
            intercept = (scale * intercept + other.intercept_) / 2
        if len(coef) == 2:  # Two classes share one row of weights.
            coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        self.coef_, self.intercept_ = coef.astype(np.float32), intercept.astype(np.float32)
        return self
