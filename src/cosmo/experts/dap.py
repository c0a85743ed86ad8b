"""DAP: one probabilistic classifier per attribute, combined over the attributes of a class."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import expit

from cosmo._core.validation import check_features
from cosmo.experts.base import POSITIVE, Array, Codes, UnseenExpert


@dataclass(eq=False, repr=False)
class DAP(UnseenExpert):
    """Predict each attribute from the features, then the class whose attributes fit best.

    A class has an attribute if its value exceeds the attribute's mean over the seen classes. The
    attribute classifiers are logistic regressions on standardised features, fitted all at once. The
    score of a class is the sum over attributes of `log p(a_m|x) - log p(a_m)`, with `p(a_m)` the share
    of seen classes that have the attribute; attributes that all or no seen classes have are left out.

    Parameters
    ----------
    C : float or None, default=None
        Inverse regularisation of the attribute classifiers, as in scikit-learn, per sample. None
        chooses on held-out classes.
    temperature : float or None, default=None
        Temperature of the soft-max over scores. None fits it on held-out rows: scores that treat hundreds
        of attributes as independent are overconfident.

    References
    ----------
    Lampert, Nickisch & Harmeling, "Attribute-based classification for zero-shot visual object
    categorization", TPAMI 2014 (direct attribute prediction).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame([[0, 0], [0, 1], [1, 0], [1, 1]], index=list("abcd"))
    >>> y = np.repeat(list("abc"), 20)
    >>> X = table.loc[y].to_numpy() + 0.1 * rng.normal(size=(60, 2))
    >>> expert = DAP(C=1.0, temperature=1.0).fit(X, y, table)
    >>> table.index[expert.scores([[1.0, 1.0]], table).argmax()]
    'd'
    """

    reference: ClassVar[str] = "Lampert, Nickisch & Harmeling, TPAMI 2014"
    needs: ClassVar[str] = "attributes, of which some classes have more than others"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"C": (1e-4, 1e-3, 1e-2, 1e-1)}
    trained_apart: ClassVar[str | None] = "C"
    ranges: ClassVar[dict[str, str]] = {"C": POSITIVE}

    C: float | None = None
    _: KW_ONLY
    temperature: float | None = None

    def _fit(self, X: Array, codes: Codes, attributes: Array, **decided: Any) -> None:
        self.cut_ = attributes.mean(axis=0)
        has = attributes > self.cut_
        self.used_ = has.any(axis=0) & ~has.all(axis=0)
        if not self.used_.any():
            raise ValueError("no attribute differs between the seen classes, so none can be learned")
        has = has[:, self.used_]
        self.prior_ = np.clip(has.mean(axis=0), 0.01, 0.99)
        self.mean_ = X.mean(axis=0)
        spread = X.std(axis=0)
        self.scale_ = np.where(spread > 0, spread, 1).astype(np.float32)
        self.weights_, self.bias_ = _logistic_regressions(
            (X - self.mean_) / self.scale_, has[codes].astype(np.float32), decided["C"]
        )

    def scores(self, X: ArrayLike, descriptions: pd.DataFrame) -> Array:
        """Return the log-odds of each class's attributes against their prior, (n_samples, n_classes)."""
        scaled = (check_features(X, name="X", columns=len(self.mean_)) - self.mean_) / self.scale_
        proba = np.clip(expit(scaled @ self.weights_ + self.bias_), 1e-6, 1 - 1e-6)
        present, absent = np.log(proba / self.prior_), np.log((1 - proba) / (1 - self.prior_))
        has = (self.attributes(descriptions) > self.cut_)[:, self.used_].astype(np.float32)
        total: Array = present @ has.T + absent @ (1 - has).T
        return total.astype(np.float32)


def _logistic_regressions(X: Array, has: Array, C: float) -> tuple[Array, Array]:
    """Minimise `mean log-loss + |w|² / (2·C·n)` for each column of `has`, all at once."""
    n, d = X.shape
    m = has.shape[1]

    def loss(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        theta = flat.astype(np.float32).reshape(d + 1, m)
        value = X @ theta[:d] + theta[d]
        error = (expit(value) - has) / n
        data = (np.logaddexp(0, value) - has * value).sum(dtype=np.float64) / n
        gradient = np.empty((d + 1, m), dtype=np.float64)
        gradient[:d] = X.T @ error + theta[:d] / (C * n)
        gradient[d] = error.sum(axis=0)
        return data + float((theta[:d] ** 2).sum(dtype=np.float64)) / (2 * C * n), gradient.reshape(-1)

    found = minimize(
        loss, np.zeros((d + 1) * m), jac=True, method="L-BFGS-B", options={"maxiter": 200, "ftol": 1e-7}
    )
    theta = found.x.astype(np.float32).reshape(d + 1, m)
    return theta[:d], theta[d]
