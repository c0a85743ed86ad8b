"""Multinomial logistic regression for many classes and features: scikit-learn's objective, reached faster.

The weights are searched in a subspace of the features that grows. The gradient has a row for each class; what
these rows span is added to the subspace, for all classes to use, and the regression is solved there, where
a product with the data costs a fraction of one with all features. Each class profits from directions that
others found, so that a few such steps reach the optimum.

Where classes are told apart well, few rows matter to the curvature of a class: its own, and those that may be
taken for it. They precondition the conjugate gradients that find the Newton steps.

How far the objective f is from its minimum is known: as f - |W|²/2 is convex in the weights W, it is at most
half the squared gradient, for intercepts at their best.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.linalg.lapack import spotrf, spotri
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import validate_data

__all__ = ["SoftmaxRegression"]

Array = NDArray[np.float32]

_ROWS = 1024  # rows that are worked on at a time: a block of logits stays in the cache
_TOP = 3  # rows that precondition a class, as a multiple of those that it has on average
_FIRST = 40  # steps of L-BFGS in the first subspace
_LEFT_OUT = 0.001  # share of the squared gradient that a new subspace may miss
_SHRINK = 0.03  # a subspace is done with when the squared gradient in it has shrunk to this share
_PATIENCE = 4  # steps without progress after which single precision is taken to be exhausted
_FAR = 1e-3  # relative gap from which this is worth a warning
_FORCING = 0.02  # squared residual, relative to the gradient's, at which a Newton step is good enough


class SoftmaxRegression(LogisticRegression):  # type: ignore[misc]
    """Multinomial logistic regression with an L2 penalty, the optimum of `LogisticRegression(C=C)`.

    Minimises `C · Σ -log p(y | x) + |W|² / 2`, intercepts free. Faster than scikit-learn where there are
    many classes and features, and closer to the minimum: scikit-learn stops by the size of the mean gradient.
    Two classes are left to scikit-learn. Works in single precision; the result is deterministic.

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
        self.classes_, codes = np.unique(y, return_inverse=True)
        n_classes = len(self.classes_)
        if n_classes <= 2:
            # Two classes share one row of weights there; a single one is refused.
            plain = LogisticRegression(C=self.C, max_iter=2000).fit(rows, codes)
            self.coef_, self.intercept_, self.n_iter_ = plain.coef_, plain.intercept_, plain.n_iter_
            self.gap_ = np.nan
            return self
        if start is None:
            W, b = None, np.log(np.bincount(codes) / len(codes))
        else:
            W, b = (np.asarray(part, dtype=np.float32) for part in start)
            if W.shape != (n_classes, rows.shape[1]) or b.shape != (n_classes,):
                raise ValueError(
                    f"start must be arrays of shape {(n_classes, rows.shape[1])} and {(n_classes,)}, "
                    f"got {W.shape} and {b.shape}"
                )
        path = _Path(rows, codes, self.C, W, b)
        while path.gap > self.tol and path.n_steps < self.max_iter and path.idle < _PATIENCE:
            path.step(self.tol)
        if path.gap > (self.tol if path.idle < _PATIENCE else max(self.tol, _FAR)):
            advice = "raise max_iter" if path.idle < _PATIENCE else "lower C, or scale the features down"
            reached = f"the objective may be {path.gap:.1e} of its value above the minimum"
            message = f"after {path.n_steps} subspaces {reached}; {advice}"
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        self.coef_, self.intercept_ = (part.astype(rows.dtype) for part in path.parameters())
        self.n_iter_ = np.array([path.n_steps], dtype=np.int32)
        self.gap_ = path.gap
        return self


class _Path:
    """From subspace to subspace: `V` are the weights in the orthonormal `basis`, after the intercepts."""

    def __init__(
        self, X: NDArray[Any], codes: NDArray[np.intp], C: float, W: Array | None, b: NDArray[Any]
    ) -> None:
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
        V = np.asarray(b, dtype=np.float32)[:, None]
        if W is not None:
            self._extend(_span(W.T, 0.0))
            V = np.hstack([V + (W @ self.mean).astype(np.float32)[:, None], W @ self.basis])
        self.V = V - V.mean(axis=0)
        self.value, self.P = self.problem.evaluate(self.V, self.problem.A @ self.V.T)
        self._look()
        self.best = self.gap

    def parameters(self) -> tuple[Array, NDArray[np.float64]]:
        """Return weights and intercepts for rows as they were given."""
        W = self.V[:, 1:] @ self.basis.T
        return W, self.V[:, 0] - W @ self.mean

    def _look(self) -> None:
        """Compute the gradient by all features."""
        P, own = self.P, (self.problem.rows, self.problem.codes)
        P[own] -= 1
        g: Array = P.T @ self.X
        excess = P.sum(axis=0)
        g -= np.outer(excess, self.offset)
        P[own] += 1
        g *= np.float32(self.problem.C)
        g += self.V[:, 1:] @ self.basis.T
        self.g = g
        # Intercepts are not penalised: what they may still win is told by their curvature.
        curvature = np.maximum((P - P * P).sum(axis=0), 1e-9)
        self.gap = (_squared(g) + self.problem.C * float((excess**2 / curvature).sum())) / 2 / self.value

    def _extend(self, directions: Array) -> None:
        A, n_new = self.problem.A, directions.shape[1]
        wider = np.empty((len(A), A.shape[1] + n_new), dtype=np.float32)
        wider[:, : A.shape[1]] = A
        np.matmul(self.X, directions, out=wider[:, A.shape[1] :])
        wider[:, A.shape[1] :] -= self.offset @ directions
        self.problem = _Problem(wider, self.problem.codes, self.problem.C)
        self.basis = np.hstack([self.basis, directions])

    def step(self, tol: float) -> None:
        """Add what the gradient spans, and solve the regression there."""
        outside = self.g.T - self.basis @ (self.basis.T @ self.g.T)
        directions = _span(outside, max(_LEFT_OUT * _squared(self.g), tol * self.value / 2))
        directions = directions[:, : self.X.shape[1] - self.basis.shape[1]]
        if directions.shape[1]:
            # Once more, as rounding leaves a trace of the old ones in the new.
            directions -= self.basis @ (self.basis.T @ directions)
            self._extend(np.linalg.qr(directions)[0])
            self.V = np.pad(self.V, ((0, 0), (0, directions.shape[1])))
        if self.n_steps == 0:
            self.V, self.value, self.P = self.problem.approach(self.V)
        else:
            self.V, self.value, self.P = self.problem.solve(self.V, self.value, self.P, tol)
        self.n_steps += 1
        self._look()
        self.idle = 0 if self.gap < 0.9 * self.best else self.idle + 1
        self.best = min(self.best, self.gap)


class _Problem:
    """The regression on rows `A`, the first column of which is 1 and bears the intercepts.

    Weights V have shape (n_classes, n_columns), probabilities P (n_rows, n_classes).
    """

    def __init__(self, A: Array, codes: NDArray[np.intp], C: float) -> None:
        self.A, self.codes, self.C = A, codes, C
        self.rows = np.arange(len(A))

    def evaluate(self, V: Array, Z: Array) -> tuple[float, Array]:
        """Return the objective, and the probabilities in place of the logits Z."""
        loss = 0.0
        for rows in _blocks(len(Z)):
            z = Z[rows]
            z -= z.max(axis=1, keepdims=True)
            own = z[np.arange(len(z)), self.codes[rows]]
            np.exp(z, out=z)
            total = z.sum(axis=1, keepdims=True)
            loss += float(np.sum(np.log(total[:, 0]) - own, dtype=np.float64))
            z /= total
        return self.C * loss + _squared(V[:, 1:]) / 2, Z

    def gradient(self, V: Array, P: Array) -> Array:
        """Return the gradient by V."""
        P[self.rows, self.codes] -= 1
        g: Array = P.T @ self.A
        P[self.rows, self.codes] += 1
        g *= np.float32(self.C)
        g[:, 1:] += V[:, 1:]
        return g

    def curve(self, P: Array, V: Array) -> Array:
        """Return the product of the Hessian with V."""
        product = np.zeros_like(V)
        for rows in _blocks(len(P)):
            A, p = self.A[rows], P[rows]
            z = A @ V.T
            z -= np.einsum("nk,nk->n", p, z)[:, None]
            z *= p
            product += z.T @ A
        product *= np.float32(self.C)
        product[:, 1:] += V[:, 1:]
        return product

    def approach(self, V: Array) -> tuple[Array, float, Array]:
        """Descend from far away, where the curvature tells little."""

        def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            V_new = flat.reshape(V.shape).astype(np.float32)
            value, P = self.evaluate(V_new, self.A @ V_new.T)
            return value, self.gradient(V_new, P).ravel().astype(np.float64)

        options = {"maxiter": _FIRST, "maxcor": 20}
        found = minimize(objective, V.ravel(), jac=True, method="L-BFGS-B", options=options)
        V = found.x.reshape(V.shape).astype(np.float32)
        return V, *self.evaluate(V, self.A @ V.T)

    def solve(self, V: Array, value: float, P: Array, tol: float) -> tuple[Array, float, Array]:
        """Take Newton steps until little of the gradient is left."""
        g = self.gradient(V, P)
        enough = max(_SHRINK * _squared(g), tol * value / 2)
        for _ in range(3):
            x = self._newton(_Metric(self.A, P, self.C), P, g, max(_FORCING * _squared(g), enough / 2))
            V, value, P = self._search(V, value, P, x, g)
            g = self.gradient(V, P)
            if _squared(g) <= enough:
                break
        return V, value, P

    def _newton(self, metric: _Metric, P: Array, g: Array, enough: float) -> Array:
        """Return a Newton step, by conjugate gradients."""
        x, r = np.zeros_like(g), -g
        z = metric.solve(r)
        p, rz = z, float(np.vdot(r, z))
        for _ in range(20):
            curved = self.curve(P, p)
            length = np.float32(rz / float(np.vdot(p, curved)))
            x += length * p
            r -= length * curved
            if _squared(r) <= enough:
                break
            z = metric.solve(r)
            rz, before = float(np.vdot(r, z)), rz
            p = z + np.float32(rz / before) * p
        return x

    def _search(self, V: Array, value: float, P: Array, x: Array, g: Array) -> tuple[Array, float, Array]:
        """Go along x until the slope has lost most of its size; return weights, objective, probabilities."""
        Z, Zx = self.A @ V.T, self.A @ x.T
        own = Zx[self.rows, self.codes]
        slope = float(np.vdot(g, x))
        step, low, high = 1.0, 0.0, np.inf
        for _ in range(20):
            V_new = V + np.float32(step) * x
            np.multiply(Zx, np.float32(step), out=P)
            P += Z
            new, P = self.evaluate(V_new, P)
            mean = np.einsum("nk,nk->n", P, Zx)
            here = self.C * float(np.sum(mean - own, dtype=np.float64))
            here += float(np.vdot(V_new[:, 1:], x[:, 1:]))
            if abs(here) <= 0.4 * abs(slope) and new <= value * (1 + 1e-6):
                break
            with np.errstate(over="ignore", invalid="ignore"):
                spread = np.einsum("nk,nk,nk->n", P, Zx, Zx) - mean**2
            low, high = (step, high) if here < 0 else (low, step)
            step -= here / (self.C * float(np.sum(spread, dtype=np.float64)) + _squared(x[:, 1:]))
            if not low < step < high:
                step = (low + high) / 2 if np.isfinite(high) else 2 * low
        else:
            return V, *self.evaluate(V, Z)
        return V_new, new, P


class _Metric:
    """An approximate inverse of the Hessian, class by class, of the rows with most curvature.

    With these rows as U and their curvature as w, the Hessian of a class is about `S + U' diag(w) U`. If the
    rows are fewer than the columns, S is 1 for weights and the curvature of the remaining rows for the
    intercept, and a matrix of the rows is inverted (Woodbury's identity); else S has the mean curvature of
    the remaining rows, and the matrix itself is inverted.
    """

    def __init__(self, A: Array, P: Array, C: float) -> None:
        n_rows, n_columns = A.shape
        n_top = min(_TOP * n_rows // P.shape[1] + 1, n_rows)
        curvature = np.ascontiguousarray(P.T)
        curvature *= np.float32(C) * (1 - curvature)
        top = np.argpartition(curvature, n_rows - n_top, axis=1)[:, n_rows - n_top :]
        w = np.take_along_axis(curvature, top, axis=1)
        total = curvature.sum(axis=1)
        rest = np.maximum(total - w.sum(axis=1), 1e-3 * total + 1e-6)
        self.U: Array | None = None
        if n_top < n_columns:
            self.scale = 1 / np.sqrt(rest)
            self.U = A[top]
            self.U[:, :, 0] *= self.scale[:, None]
            matrices = self.U @ self.U.transpose(0, 2, 1)
            diagonal = np.einsum("kmm->km", matrices)
            # Single precision bears no larger differences of curvature than this.
            diagonal += 1 / np.clip(w, 1e-9, 1e3 / (diagonal + 1e-6))
        else:
            rest /= n_rows
            gram = A.T @ A
            matrices = np.empty((len(top), n_columns, n_columns), dtype=np.float32)
            for k, rows in enumerate(top):
                U = A[rows] * np.sqrt(np.maximum(w[k] - rest[k], 0))[:, None]
                np.matmul(U.T, U, out=matrices[k])
                matrices[k] += rest[k] * gram
            np.einsum("kdd->kd", matrices)[:, 1:] += 1
        self.inverse = _inverses(matrices)

    def solve(self, g: Array) -> Array:
        if self.U is None:
            g = (self.inverse @ g[:, :, None])[:, :, 0]
        else:
            g = g.copy()
            g[:, 0] *= self.scale
            g -= (self.U.transpose(0, 2, 1) @ (self.inverse @ (self.U @ g[:, :, None])))[:, :, 0]
            g[:, 0] *= self.scale
        # The same added to all classes changes nothing but the penalty.
        g -= g.mean(axis=0)
        return g


def _inverses(matrices: Array) -> Array:
    """Invert positive definite matrices in their place."""
    for matrix in matrices:
        # Row by row is column by column of the transpose, which is the same matrix.
        factor, _ = spotrf(matrix.T, overwrite_a=True)
        inverse, _ = spotri(factor, overwrite_c=True)
        np.add(inverse, inverse.T, out=matrix)  # the lower triangle was zero
    np.einsum("kdd->kd", matrices)[...] /= 2
    return matrices


def _blocks(n_rows: int) -> Iterator[slice]:
    for first in range(0, n_rows, _ROWS):
        yield slice(first, first + _ROWS)


def _squared(values: Array) -> float:
    return float(np.vdot(values, values))


def _span(columns: Array, left_out: float) -> Array:
    """Return orthonormal directions that hold all of the columns' squares but `left_out`."""
    U, size, _ = np.linalg.svd(columns, full_matrices=False)
    missed = np.append(np.cumsum(size[::-1].astype(np.float64) ** 2)[::-1], 0.0)
    return U[:, : int(np.argmax(missed <= max(left_out, 1e-12 * missed[0])))]
