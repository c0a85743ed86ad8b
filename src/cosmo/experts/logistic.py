"""Multinomial logistic regression for many classes and features: scikit-learn's objective, reached faster.

The weights are searched in a subspace of the features that grows. The gradient has a row for each class; what
these rows span is added to the subspace, for all classes to use, and the regression is solved there, where
a product with the data costs a fraction of one with all features. Each class profits from directions that
others found, so that a few such steps reach the optimum.

If there are many features, none correlated, and classes are mixed, a gradient tells little of where others
will point, and L-BFGS on all features is better: scikit-learn's is asked first, and subspaces do the rest.

Newton steps are found by conjugate gradients. If features are hardly correlated, these need no more help than
a diagonal. Else, where classes are told apart well, few rows matter to the curvature of a class: its own, and
those that may be taken for it. They precondition.

How far the objective f is from its minimum is known: as f - |W|²/2 is convex in the weights W, it is at most
half the squared gradient, for intercepts at their best.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import strtri
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils import Tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from cosmo.experts._preconditioners import ByRows, Diagonal, factor
from cosmo.experts._sums import class_sums

__all__ = ["SoftmaxRegression"]

Array = NDArray[np.float32]

_FIRST = 16  # steps of L-BFGS in the first subspace
_LITTLE = 0.01  # relative decrease of the objective by a step below which these end
_RIDGE = 30  # added to the curvature at the start, along which these are taken
_LEFT_OUT = 0.001  # share of the squared gradient that a new subspace may miss
_SHRINK = 0.02  # a subspace is done with when the squared gradient in it has shrunk to this share
_PATIENCE = 3  # steps without progress after which single precision is taken to be exhausted
_FAR = 1e-3  # relative gap from which this is worth a warning
_FORCING = 0.015  # squared residual, relative to the gradient's, at which a Newton step is good enough
# Steps of conjugate gradients, and the share of the squared residual that is left by then, from which on a
# diagonal is not enough to precondition; later than in so many subspaces, building another is too dear.
_TRIAL, _SLOW, _ON_TRIAL = 3, 0.4, 2
# scikit-learn is asked first if there are this many features for each class, not correlated: rows vary along
# what tells classes apart at most this many times as much as along any direction; classes are mixed: the
# distance of their means from that of all is at most this many deviations, squared; and rows are long: the
# curvature at the start is this many times the penalty's. So many rows tell.
_MANY, _ALIKE, _MIXED, _LONG, _SOME = 10, 1.25, 20, 20, 1000
_HANDED_OVER = 3e-6  # mean gradient at which it stops
_CLOSE = 1  # relative gap below which Newton steps may begin
_NEAR = 20  # a preconditioner serves again where the squared gradient is within this multiple of its aim


class SoftmaxRegression(LogisticRegression):  # type: ignore[misc]
    """Multinomial logistic regression with an L2 penalty, the optimum of `LogisticRegression(C=C)`.

    Minimises `C · Σ -log p(y | x) + |W|² / 2`, intercepts free. Faster than scikit-learn where there are
    many classes and features, and closer to the minimum: scikit-learn stops by the size of the mean gradient.
    Two classes are left to scikit-learn; where features are not correlated, it does the first part of the
    work. Works in single precision; the result is deterministic.

    Parameters
    ----------
    C : float
        Inverse strength of the penalty.
    tol : float
        Bound of the distance to the minimum, relative to the objective.
    max_iter : int
        Largest number of subspaces.

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (n_classes, n_features) and (n_classes,)
    n_iter_ : array of shape (1,)
        Number of subspaces.
    gap_ : float
        Bound of the relative distance to the minimum that was reached; NaN if scikit-learn did the work.

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

    # What scikit-learn's methods ask for beside the parameters.
    solver = "lbfgs"
    fit_intercept = True
    multi_class = "deprecated"  # `predict_proba` of older versions of scikit-learn looks at it

    def __init__(self, C: float = 1.0, *, tol: float = 1e-6, max_iter: int = 1000) -> None:
        self.C = C
        self.tol = tol
        self.max_iter = max_iter

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    def fit(self, X: Any, y: Any, *, start: tuple[ArrayLike, ArrayLike] | None = None) -> SoftmaxRegression:
        """Fit the weights.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        start : pair of arrays of shape (n_classes, n_features) and (n_classes,), optional
            Weights and intercepts to start from, classes sorted; zeros for classes that are new.
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
        n_classes = len(self.classes_)
        if n_classes <= 2:
            # Two classes share one row of weights there; a single one is refused.
            plain = LogisticRegression(C=self.C, max_iter=2000).fit(rows, codes)
            self.coef_, self.intercept_, self.n_iter_ = plain.coef_, plain.intercept_, plain.n_iter_
            self.gap_ = np.nan
            return self
        if start is None:
            W, b = None, np.log(np.bincount(codes) / len(codes)).astype(np.float32)
        else:
            W, b = (np.asarray(part, dtype=np.float32) for part in start)
            if W.shape != (n_classes, rows.shape[1]) or b.shape != (n_classes,):
                raise ValueError(
                    f"start must be arrays of shape {(n_classes, rows.shape[1])} and {(n_classes,)}, "
                    f"got {W.shape} and {b.shape}"
                )
        path = _Path(rows, codes, self.C, W, b)
        if start is None and path.better_on_all_features():
            path.ask_scikit_learn()
        while path.gap > self.tol and path.n_steps < self.max_iter and path.idle < _PATIENCE:
            path.step(self.tol)
        if path.gap > (self.tol if path.idle < _PATIENCE else max(self.tol, _FAR)):
            advice = "raise max_iter" if path.idle < _PATIENCE else "lower C, or scale the features down"
            reached = f"after {path.n_steps} subspaces the objective may be {path.gap:.1e} of its value above"
            warnings.warn(f"{reached} the minimum; {advice}", ConvergenceWarning, stacklevel=2)
        self.coef_, self.intercept_ = (part.astype(rows.dtype) for part in path.parameters())
        self.n_iter_ = np.array([path.n_steps], dtype=np.int32)
        self.gap_ = path.gap
        return self


class _Path:
    """From subspace to subspace of the features, each spanned by the orthonormal columns of `basis`."""

    def __init__(self, X: NDArray[Any], codes: NDArray[np.intp], C: float, W: Array | None, b: Array) -> None:
        self.mean = X.mean(axis=0, dtype=np.float64)
        size = float(np.einsum("nd,nd->", X, X)) / len(X)
        if X.dtype == np.float32 and self.mean @ self.mean < 0.99 * size:
            self.X, self.offset = X, self.mean.astype(np.float32)
        else:
            # In single precision a large mean would drown the differences.
            self.X, self.offset = (X - self.mean).astype(np.float32), np.zeros(X.shape[1], dtype=np.float32)
        self.n_steps = 0
        self.idle = 0  # steps since the gap shrank
        self.basis = np.empty((X.shape[1], 0), dtype=np.float32)
        self.problem = _Problem(np.ones((len(X), 1), dtype=np.float32), codes, C)
        if W is None:
            self._begin(b[:, None])
        else:
            self._begin_at(W, b + W @ self.mean)

    def _begin_at(self, W: Array, b: NDArray[Any]) -> None:
        """Start from these weights, and intercepts of rows less their mean."""
        self._extend(_span(W.T, 0.0))
        self._begin(np.hstack([b.astype(np.float32)[:, None], W @ self.basis]))

    def _begin(self, V: Array) -> None:
        V = V - V.mean(axis=0)
        self.state = self.problem.at(V, V @ self.problem.A.T)
        self._look()
        self.best = self.gap

    def better_on_all_features(self) -> bool:
        """Return whether all features at once are better than subspaces, at the start."""
        codes, C, (n_rows, n_features) = self.problem.codes, self.problem.C, self.X.shape
        counts = np.bincount(codes).astype(np.float32)
        if n_features < _MANY * len(counts):
            return False
        # The gradient tells how far the mean of a class is from that of all.
        away = self.g / -(np.float32(C) * counts[:, None])
        some = np.linspace(0, n_rows - 1, min(_SOME, n_rows)).astype(np.intp)
        rows = self.X[some] - self.offset - away[codes[some]]
        spread = _squared(rows) / rows.size
        long = spread * C * n_rows > _LONG * len(counts)
        mixed = _squared(away) < _MIXED * len(counts) * spread
        return long and mixed and _squared(rows @ self.g.T) < _ALIKE * spread * len(rows) * _squared(self.g)

    def ask_scikit_learn(self) -> None:
        """Start from what scikit-learn finds, near the minimum."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the rest of the way is ours
            found = LogisticRegression(C=self.problem.C, tol=_HANDED_OVER).fit(self.X, self.problem.codes)
        self.problem.n_solved = _ON_TRIAL  # without correlation, a diagonal is enough
        W = found.coef_.astype(np.float32, copy=False)
        self._begin_at(W, found.intercept_ + W @ self.offset)

    def parameters(self) -> tuple[Array, NDArray[np.float64]]:
        """Return weights and intercepts for rows as they were given."""
        W = self.state.V[:, 1:] @ self.basis.T
        return W, self.state.V[:, 0] - W @ self.mean

    def _look(self) -> None:
        """Compute the gradient by all features."""
        P, C, own = self.state.P, self.problem.C, (self.problem.codes, self.problem.rows)
        # Intercepts are not penalised: what they may still win is told by their curvature.
        curvature = np.maximum((P - P * P).sum(axis=1), 1e-9)
        P[own] -= 1
        self.excess = P.sum(axis=1)
        self.g: Array = np.float32(C) * self._pull(P)
        P[own] += 1
        self.g += self.state.V[:, 1:] @ self.basis.T
        size = _squared(self.g) + C * float((self.excess**2 / curvature).sum())
        self.gap = size / 2 / self.state.value

    def _pull(self, R: Array) -> Array:
        """Return the product of R, probabilities less 1 for the own class, with rows less their mean."""
        if self.basis.shape[1]:
            pull: Array = R @ self.X - np.outer(self.excess, self.offset)
            return pull
        # All rows are answered alike: probabilities cancel, and sums of the rows of each class are left.
        codes, n_classes = self.problem.codes, len(R)
        counts = np.bincount(codes, minlength=n_classes).astype(np.float32)
        return np.outer(counts, self.offset) - class_sums(self.X, codes, n_classes)

    def _extend(self, directions: Array) -> None:
        A, n_old = self.problem.A, self.problem.A.shape[1]
        self.problem.A = np.empty((len(A), n_old + directions.shape[1]), dtype=np.float32)
        self.problem.A[:, :n_old] = A
        np.matmul(self.X, directions, out=self.problem.A[:, n_old:])
        self.problem.A[:, n_old:] -= self.offset @ directions
        self.basis = np.hstack([self.basis, directions])

    def step(self, tol: float) -> None:
        """Add what the gradient spans, and solve the regression there."""
        inside: Array = self.g @ self.basis
        outside: Array = (self.g - inside @ self.basis.T).T
        directions = _span(outside, max(_LEFT_OUT * _squared(self.g), tol * self.state.value / 2))
        directions = directions[:, : self.X.shape[1] - self.basis.shape[1]]
        if directions.shape[1]:
            # Once more, as rounding leaves a trace of the old ones in the new.
            directions = _span(directions - self.basis @ (self.basis.T @ directions), 0.0)
            self._extend(directions)
            self.state = self.state._replace(V=np.pad(self.state.V, ((0, 0), (0, directions.shape[1]))))
        g = np.hstack([np.float32(self.problem.C) * self.excess[:, None], inside, self.g @ directions])
        far = self.n_steps == 0 and self.gap > _CLOSE
        self.state = self.problem.approach(self.state) if far else self.problem.solve(self.state, g, tol)
        self.n_steps += 1
        self._look()
        self.idle = 0 if self.gap < 0.9 * self.best else self.idle + 1
        self.best = min(self.best, self.gap)


class _State(NamedTuple):
    """Weights (n_classes, n_columns), logits and probabilities (n_classes, n_rows), and the objective."""

    V: Array
    Z: Array
    P: Array
    value: float


class _Problem:
    """The regression on rows `A`, the first column of which is 1 and bears the intercepts."""

    def __init__(self, A: Array, codes: NDArray[np.intp], C: float) -> None:
        self.A, self.codes, self.C = A, codes, C
        self.rows = np.arange(len(A))
        self.preconditioner: type[Diagonal | ByRows] = Diagonal
        self.n_solved = 0

    def at(self, V: Array, Z: Array) -> _State:
        """Return the state of weights V with logits Z."""
        P = Z - Z.max(axis=0)
        own = P[self.codes, self.rows]
        np.exp(P, out=P)
        total = P.sum(axis=0)
        P /= total
        loss = float(np.sum(np.log(total) - own, dtype=np.float64))
        return _State(V, Z, P, self.C * loss + _squared(V[:, 1:]) / 2)

    def gradient(self, state: _State) -> Array:
        """Return the gradient by the weights."""
        P, own = state.P, (self.codes, self.rows)
        P[own] -= 1
        g: Array = np.float32(self.C) * (P @ self.A)
        P[own] += 1
        g[:, 1:] += state.V[:, 1:]
        return g

    def curve(self, P: Array, V: Array) -> tuple[Array, Array]:
        """Return the product of the Hessian with V, and the logits of V."""
        Z: Array = V @ self.A.T
        change = Z - np.einsum("kn,kn->n", P, Z)
        change *= P
        product: Array = np.float32(self.C) * (change @ self.A)
        product[:, 1:] += V[:, 1:]
        return product, Z

    def approach(self, state: _State) -> _State:
        """Descend from far away, where the curvature tells little."""
        # Where all classes are as probable, the curvature is that of least squares: unit steps are along it.
        curvature: Array = np.float32(self.C / len(state.V)) * (self.A.T @ self.A)
        np.einsum("dd->d", curvature)[...] += _RIDGE
        unit: Array = strtri(factor(curvature))[0].T

        def weights(flat: NDArray[np.float64]) -> Array:
            return state.V + flat.reshape(state.V.shape).astype(np.float32) @ unit

        def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            V = weights(flat)
            new = self.at(V, V @ self.A.T)
            return new.value, (self.gradient(new) @ unit.T).ravel().astype(np.float64)

        options = {"maxiter": _FIRST, "maxcor": 20, "ftol": _LITTLE}
        found = minimize(objective, np.zeros(state.V.size), jac=True, method="L-BFGS-B", options=options)
        V = weights(found.x)
        return self.at(V, V @ self.A.T)

    def solve(self, state: _State, g: Array, tol: float) -> _State:
        """Take Newton steps until little of the gradient g is left."""
        enough = max(_SHRINK * _squared(g), tol * state.value / 2)
        metric = None
        for _ in range(3):
            if metric is None or _squared(g) > _NEAR * enough:
                metric = self.preconditioner(self.A, state.P, self.C)
            x, Zx, metric = self._newton(metric, state.P, g, max(_FORCING * _squared(g), enough / 2))
            state = self._search(state, x, Zx, float(np.vdot(g, x)))
            g = self.gradient(state)
            if _squared(g) <= enough:
                break
        self.n_solved += 1
        return state

    def _newton(
        self, metric: Diagonal | ByRows, P: Array, g: Array, enough: float
    ) -> tuple[Array, Array, Diagonal | ByRows]:
        """Return a Newton step and its logits, by conjugate gradients, and what preconditions them by now."""
        x, Zx, r = np.zeros_like(g), np.zeros_like(P), -g
        z = metric.solve(r)
        p, rz = z, float(np.vdot(r, z))
        for n_steps in range(1, 21):
            curved, Zp = self.curve(P, p)
            length = np.float32(rz / float(np.vdot(p, curved)))
            x += length * p
            Zx += np.multiply(Zp, length, out=Zp)
            r -= length * curved
            if _squared(r) <= enough:
                break
            on_trial = n_steps == _TRIAL and self.n_solved < _ON_TRIAL and isinstance(metric, Diagonal)
            if on_trial and _squared(r) > _SLOW * _squared(g):
                self.preconditioner = ByRows
                metric, p = ByRows(self.A, P, self.C), np.zeros_like(p)
            z = metric.solve(r)
            rz, before = float(np.vdot(r, z)), rz
            p = z + np.float32(rz / before) * p
        return x, Zx, metric

    def _search(self, state: _State, x: Array, Zx: Array, slope: float) -> _State:
        """Go along x, whose logits are Zx, until the slope has lost most of its size."""
        own = float(np.sum(Zx[self.codes, self.rows], dtype=np.float64))
        step, low, high = 1.0, 0.0, np.inf
        for _ in range(20):
            new = self.at(state.V + np.float32(step) * x, state.Z + np.float32(step) * Zx)
            mean = np.einsum("kn,kn->n", new.P, Zx)
            here = self.C * (float(np.sum(mean, dtype=np.float64)) - own)
            here += float(np.vdot(new.V[:, 1:], x[:, 1:]))
            if abs(here) <= 0.4 * abs(slope) and new.value <= state.value * (1 + 1e-6):
                return new
            with np.errstate(over="ignore", invalid="ignore"):
                spread = float(np.sum(np.einsum("kn,kn,kn->n", new.P, Zx, Zx) - mean**2, dtype=np.float64))
            low, high = (step, high) if here < 0 else (low, step)
            step -= here / (self.C * spread + _squared(x[:, 1:]))
            if not low < step < high:
                step = (low + high) / 2 if np.isfinite(high) else 2 * low
        return state


def _squared(values: Array) -> float:
    return float(np.vdot(values, values))


def _span(columns: Array, left_out: float) -> Array:
    """Return orthonormal directions that hold all of the columns' squares but `left_out`."""
    # From the small matrix of products, in double precision, as squares take twice the digits.
    exact = columns.astype(np.float64)
    squares, mix = np.linalg.eigh(exact.T @ exact)
    missed = np.cumsum(np.maximum(squares, 0))
    kept = missed > max(left_out, 1e-12 * missed[-1])
    return np.asarray(exact @ (mix[:, kept] / np.sqrt(squares[kept])), dtype=np.float32)
