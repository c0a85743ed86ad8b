from __future__ import annotations

import numpy as np
import pytest

from cosmo.experts._preconditioners import Diagonal, _sample


@pytest.mark.parametrize("n_rows", [60, 900])
def test_the_inverse_of_the_hessian_where_columns_are_orthogonal(n_rows):
    """Rows along the axes and against them, all classes as probable: each class's Hessian is diagonal."""
    n_columns, n_classes, C = 30, 4, 0.5
    A = np.zeros((n_rows, 1 + n_columns), dtype=np.float32)
    A[np.arange(n_rows), 1 + np.arange(n_rows) % n_columns] = 3 * (-1.0) ** (np.arange(n_rows) // n_columns)
    A[:, 0] = 1
    P = np.full((n_classes, n_rows), 1 / n_classes, dtype=np.float32)
    curvature = C * (1 / n_classes - 1 / n_classes**2) * (A**2).sum(axis=0) + np.r_[0, np.ones(n_columns)]
    g = np.random.default_rng(0).normal(size=(n_classes, 1 + n_columns)).astype(np.float32)
    g -= g.mean(axis=0)
    np.testing.assert_allclose(Diagonal(A, P, C).solve(g), g / curvature, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("spread", [0.0, 1.0, 5.0])
def test_sampled_rows_stand_for_all(spread):
    w = np.exp(spread * np.random.default_rng(0).normal(size=2000)).astype(np.float32)
    rows, weights, least = _sample(w, 300)
    assert len(rows) <= 300
    assert set(np.flatnonzero(w > least)) <= set(rows)
    np.testing.assert_array_equal(weights, np.maximum(w[rows], np.float32(least)))
    assert weights.sum() == pytest.approx(w.sum(), abs=1.01 * least)
