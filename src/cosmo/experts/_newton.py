"""Solver of multinomial logistic regression: Newton steps in growing subspaces of the features.

The gradient has a row for each class. The span of these rows is added to the subspace, which all classes
share, and the regression is solved in it, where a product with the data costs a fraction of one with all
features. A few such extensions reach the optimum. Newton steps are computed by conjugate gradients,
preconditioned by the rows that dominate the curvature of a class.

The distance of the objective f from its minimum has a bound: as f - |W|²/2 is convex in the weights W, it is
at most half the squared gradient, for optimal intercepts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import strsv
from scipy.linalg.lapack import spotrf, strtri
from scipy.optimize import minimize

from cosmo.experts.base import Array, Codes

_FIRST = 16  # steps of L-BFGS in the first subspace
_LITTLE = 0.01  # relative decrease of the objective by a step below which L-BFGS stops
_RIDGE = 30  # added to the initial curvature that scales these steps
_LEFT_OUT = 0.001  # share of the squared gradient that a new subspace may miss
_SHRINK = 0.02  # share of the squared gradient at which a subspace is solved
_FORCING = 0.015  # squared residual of a Newton step, relative to the squared gradient
_CLOSE = 1  # relative gap below which Newton steps begin
_NEAR = 20  # multiple of the target squared gradient below which a preconditioner is reused
_TOP, _MOST = 6, 400  # rows that precondition a class: multiple of its mean number of rows, largest number
_TAIL = 0.3  # how much of the spread of all other rows preconditions a class


class SubspacePath:
    """Growing subspaces of the features, spanned by the orthonormal columns of `basis`, and the solution."""

    def __init__(self, X: NDArray[Any], codes: Codes, C: float) -> None:
        self.mean = X.mean(axis=0, dtype=np.float64)
        size = float(np.einsum("nd,nd->", X, X)) / len(X)
        if X.dtype == np.float32 and self.mean @ self.mean < 0.99 * size:
            self.X, self.offset = X, self.mean.astype(np.float32)
        else:
            # In single precision a large mean would cancel the differences.
            self.X, self.offset = (X - self.mean).astype(np.float32), np.zeros(X.shape[1], dtype=np.float32)
        self.n_steps = 0
        self.n_idle = 0  # steps since the gap last shrank
        self.basis = np.empty((X.shape[1], 0), dtype=np.float32)
        self.problem = _Problem(np.ones((len(X), 1), dtype=np.float32), codes, C)
        V = np.log(np.bincount(codes) / len(codes)).astype(np.float32)[:, None]
        V -= V.mean(axis=0)
        self.state = self.problem.at(V, V @ self.problem.A.T)
        self._compute_gradient()
        self.best = self.gap

    def parameters(self) -> tuple[Array, NDArray[np.float64]]:
        """Return weights and intercepts for rows that are not centred."""
        W = self.state.V[:, 1:] @ self.basis.T
        return W, self.state.V[:, 0] - W @ self.mean

    def _compute_gradient(self) -> None:
        """Compute the gradient by all features, and the bound of the distance to the minimum."""
        P, C, own = self.state.P, self.problem.C, (self.problem.codes, self.problem.rows)
        # Intercepts are not penalised: the bound of their part is by their curvature.
        curvature = np.maximum((P - P * P).sum(axis=1), 1e-9)
        P[own] -= 1
        self.excess = P.sum(axis=1)
        self.g: Array = np.float32(C) * (P @ self.X - np.outer(self.excess, self.offset))
        P[own] += 1
        self.g += self.state.V[:, 1:] @ self.basis.T
        size = _squared(self.g) + C * float((self.excess**2 / curvature).sum())
        self.gap = size / 2 / self.state.value

    def _extend(self, directions: Array) -> None:
        columns = self.X @ directions - self.offset @ directions
        self.problem.A = np.hstack([self.problem.A, columns])
        self.basis = np.hstack([self.basis, directions])

    def step(self, tol: float) -> None:
        """Extend the subspace by the span of the gradient, and solve the regression in it."""
        inside: Array = self.g @ self.basis
        outside: Array = (self.g - inside @ self.basis.T).T
        directions = _span(outside, max(_LEFT_OUT * _squared(self.g), tol * self.state.value / 2))
        directions = directions[:, : self.X.shape[1] - self.basis.shape[1]]
        if directions.shape[1]:
            # Orthogonalised twice, because of rounding.
            directions = _span(directions - self.basis @ (self.basis.T @ directions), 0.0)
            self._extend(directions)
            self.state = self.state._replace(V=np.pad(self.state.V, ((0, 0), (0, directions.shape[1]))))
        g = np.hstack([np.float32(self.problem.C) * self.excess[:, None], inside, self.g @ directions])
        far = self.n_steps == 0 and self.gap > _CLOSE
        self.state = self.problem.approach(self.state) if far else self.problem.solve(self.state, g, tol)
        self.n_steps += 1
        self._compute_gradient()
        self.n_idle = 0 if self.gap < 0.9 * self.best else self.n_idle + 1
        self.best = min(self.best, self.gap)


class _State(NamedTuple):
    """Weights (n_classes, n_columns), logits and probabilities (n_classes, n_rows), and the objective."""

    V: Array
    Z: Array
    P: Array
    value: float


class _Problem:
    """The regression on rows `A`, whose first column of ones carries the intercepts."""

    def __init__(self, A: Array, codes: Codes, C: float) -> None:
        self.A, self.codes, self.C = A, codes, C
        self.rows = np.arange(len(A))

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
        """Take L-BFGS steps far from the minimum, where Newton steps are of little use."""
        # Scaled by the curvature of least squares, which is exact for equal probabilities.
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
        """Take Newton steps until the gradient g is small."""
        enough = max(_SHRINK * _squared(g), tol * state.value / 2)
        metric = None
        for _ in range(3):
            if metric is None or _squared(g) > _NEAR * enough:
                metric = ByRows(self.A, state.P, self.C)
            x, Zx = self._newton(metric, state.P, g, max(_FORCING * _squared(g), enough / 2))
            state = self._search(state, x, Zx, float(np.vdot(g, x)))
            g = self.gradient(state)
            if _squared(g) <= enough:
                break
        return state

    def _newton(self, metric: ByRows, P: Array, g: Array, enough: float) -> tuple[Array, Array]:
        """Return a Newton step by conjugate gradients, and its logits."""
        x, Zx, r = np.zeros_like(g), np.zeros_like(P), -g
        p = z = metric.solve(r)
        rz = float(np.vdot(r, z))
        for _ in range(20):
            curved, Zp = self.curve(P, p)
            length = np.float32(rz / float(np.vdot(p, curved)))
            x += length * p
            Zx += np.multiply(Zp, length, out=Zp)
            r -= length * curved
            if _squared(r) <= enough:
                break
            z = metric.solve(r)
            rz, before = float(np.vdot(r, z)), rz
            p = z + np.float32(rz / before) * p
        return x, Zx

    def _search(self, state: _State, x: Array, Zx: Array, slope: float) -> _State:
        """Search along x, whose logits are Zx, until the slope is small."""
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
    """Return an orthonormal basis of the columns; it may miss `left_out` of their squared norm."""
    # By the Gram matrix, in double precision because it squares the condition number.
    exact = columns.astype(np.float64)
    squares, mix = np.linalg.eigh(exact.T @ exact)
    missed = np.cumsum(np.maximum(squares, 0))
    kept = missed > max(left_out, 1e-12 * missed[-1])
    return np.asarray(exact @ (mix[:, kept] / np.sqrt(squares[kept])), dtype=np.float32)


class ByRows:
    """Approximate inverse of the Hessian, class by class, from the rows of largest curvature.

    With these rows U and their curvature w, the Hessian of a class is about `S + U' diag(w) U`; the diagonal
    S is the penalty plus a term for the other rows. The Gram matrix of U is factored (Woodbury's identity).
    """

    def __init__(self, A: Array, P: Array, C: float) -> None:
        penalty = np.ones(A.shape[1], dtype=np.float32)
        spread = np.float32(_TAIL / len(A)) * np.einsum("nd,nd->d", A, A)
        penalty[0], spread[0] = 0, 1
        sizes = np.einsum("nd,nd->n", A, A)
        n_most = min(_TOP * len(A) // len(P) + 2, _MOST, len(A))
        self.scale = np.empty((len(P), A.shape[1]), dtype=np.float32)  # S^(-1/2)
        self.rows, self.factors = [], []
        for k, w in enumerate(np.float32(C) * (P - P * P)):
            rows = _top(w * sizes, n_most)
            total, top = float(w.sum()), w[rows]
            rest = max(total - float(top.sum()), 1e-3 * total + 1e-6)
            self.scale[k] = 1 / np.sqrt(penalty + np.float32(rest) * spread)
            U = A[rows] * self.scale[k]
            matrix = U @ U.T
            diagonal = np.einsum("mm->m", matrix)
            # The clip limits the condition number in single precision.
            diagonal += 1 / np.clip(top, 1e-9, 1e3 / (diagonal + 1e-6))
            self.rows.append(U)
            self.factors.append(factor(matrix))

    def solve(self, g: Array) -> Array:
        """Return the product with g."""
        g = g * self.scale
        # One class at a time, so that its rows stay in the processor's cache.
        for k, (U, factor) in enumerate(zip(self.rows, self.factors, strict=True)):
            g[k] -= strsv(factor, strsv(factor, U @ g[k], trans=1), overwrite_x=True) @ U
        g *= self.scale
        g -= g.mean(axis=0)  # which affects only the penalty
        return g


def _top(curvature: Array, n_most: int) -> NDArray[np.intp]:
    """Return 1 to `n_most` rows whose curvature exceeds the penalty's."""
    rows = np.flatnonzero(curvature > 1)
    if not 0 < len(rows) <= n_most:
        first = len(curvature) - min(max(len(rows), 1), n_most)
        rows = np.argpartition(curvature, first)[first:]
    return rows


def factor(matrix: Array) -> Array:
    """Return upper triangular R with `R' R = matrix`, which is overwritten."""
    # The transpose of a symmetric matrix in C order is the same matrix in the order of LAPACK.
    return spotrf(matrix.T, overwrite_a=True)[0]
