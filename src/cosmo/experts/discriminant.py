"""Linear discriminant analysis with shrinkage, alone or averaged with logistic regression."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from cosmo.experts._classes import Classes
from cosmo.experts.seen import SoftmaxRegression


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
    C = 30.0  # of a class that is promoted, see `promote`

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
