from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from cosmo.classifier._promotion import add_class, can_add_class
from cosmo.experts._newton import ByRows, Diagonal, SubspacePath, _sample
from cosmo.experts.seen import SoftmaxRegression


def draw(n_rows=600, n_features=60, n_classes=12, spread=1.0, seed=0):
    """Non-negative features with class means, as of a network's last layer."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n_rows) % n_classes
    centres = rng.normal(size=(n_classes, n_features))
    X = np.maximum(centres[codes] + spread * rng.normal(size=(n_rows, n_features)), 0)
    return X.astype(np.float32), codes


def objective(model, X, codes):
    W = model.coef_.astype(np.float64)
    Z = X.astype(np.float64) @ W.T + model.intercept_
    return model.C * (logsumexp(Z, axis=1) - Z[np.arange(len(Z)), codes]).sum() + (W**2).sum() / 2


def reference(X, codes, C):
    """Scikit-learn in double precision, to the end."""
    model = LogisticRegression(C=C, solver="newton-cg", tol=1e-9, max_iter=500)
    return model.fit(X.astype(np.float64), codes)


@pytest.mark.parametrize(
    ("shape", "C"),
    [
        ({}, 1.0),
        ({}, 1e-4),
        ({"spread": 2.5}, 30.0),
        ({"spread": 0.2}, 1.0),  # told apart with ease
        ({"n_features": 400, "n_rows": 150}, 1.0),  # more features than rows
        ({"n_features": 5}, 1.0),  # fewer features than classes
        ({"n_classes": 3, "spread": 2.0}, 1.0),
        ({"n_rows": 12}, 1.0),  # one row per class
        ({"n_rows": 1300, "spread": 3.0}, 0.1),
    ],
)
def test_reaches_the_optimum(shape, C):
    X, codes = draw(**shape)
    model, truth = SoftmaxRegression(C=C).fit(X, codes), reference(X, codes, C)
    assert model.gap_ <= 1e-6
    assert objective(model, X, codes) <= objective(truth, X, codes) * (1 + 1e-6)
    np.testing.assert_array_equal(model.predict(X), truth.predict(X.astype(np.float64)))
    np.testing.assert_allclose(model.predict_proba(X), truth.predict_proba(X.astype(np.float64)), atol=2e-3)


@pytest.mark.parametrize("shift", [0, 100])
def test_first_gradient(shift):
    X, codes = draw(n_rows=601, spread=2.0)
    X += np.float32(shift)
    path = SubspacePath(X, codes, 0.5)
    residuals = np.tile(np.bincount(codes) / 601, (601, 1))
    residuals[np.arange(601), codes] -= 1
    truth = 0.5 * residuals.T @ (X - X.mean(axis=0, dtype=np.float64))
    np.testing.assert_allclose(path.g, truth, atol=1e-4 * np.abs(truth).max())


@pytest.mark.parametrize(("factors", "needed"), [(0, Diagonal), (8, ByRows)])
def test_rows_precondition_where_features_are_correlated(factors, needed):
    rng = np.random.default_rng(0)
    codes = np.arange(1200) % 12
    X = 0.4 * rng.normal(size=(12, 100))[codes] + rng.normal(size=(1200, 100))
    if factors:
        X += 8 * rng.normal(size=(1200, factors)) @ rng.normal(size=(factors, 100))
    path = SubspacePath(X.astype(np.float32), codes, 1.0)
    while path.gap > 1e-6:
        path.step(1e-6)
    assert path.problem.preconditioner is needed
    W, b = path.parameters()
    truth = reference(X, codes, 1.0)
    np.testing.assert_allclose(X @ W.T + b, X @ truth.coef_.T + truth.intercept_, atol=0.02)


def scatter(n_rows=3000, n_features=200, n_classes=8, distance=0.1, length=1.0):
    """Rows of mixed classes whose features are not correlated."""
    rng = np.random.default_rng(0)
    codes = np.arange(n_rows) % n_classes
    centres = distance * rng.normal(size=(n_classes, n_features))
    X = length * (centres[codes] + rng.normal(size=(n_rows, n_features)))
    return X.astype(np.float32), codes


def test_rows_do_not_precondition_late():
    X, codes = scatter(n_rows=1500, n_classes=20)  # in the last subspaces, three steps do little
    path = SubspacePath(X, codes, 1.0)
    while path.gap > 1e-6:
        path.step(1e-6)
    assert path.problem.preconditioner is Diagonal


@pytest.fixture
def lbfgs_calls(monkeypatch):
    """Calls of scikit-learn's solver."""
    calls = []
    start = SubspacePath.start_from_lbfgs
    monkeypatch.setattr(SubspacePath, "start_from_lbfgs", lambda path: (calls.append(1), start(path)))
    return calls


@pytest.mark.parametrize("mean", [0.0, 1.0, 30.0])
def test_scikit_learn_begins_where_features_are_not_correlated(lbfgs_calls, mean):
    X, codes = scatter()
    truth = reference(X, codes, 1.0)
    model = SoftmaxRegression().fit(X + np.float32(mean), codes)
    assert len(lbfgs_calls) == 1
    assert model.gap_ <= 1e-6
    assert objective(model, X + np.float32(mean), codes) <= objective(truth, X, codes) * (1 + 2e-6)
    np.testing.assert_array_equal(model.predict(X + np.float32(mean)), truth.predict(X.astype(np.float64)))


@pytest.mark.parametrize(
    "other",
    [{"length": 0.05}, {"distance": 1.0}, {"n_features": 70}],
    ids=["short rows", "told apart", "few features"],
)
def test_else_it_does_not(lbfgs_calls, other):
    X, codes = scatter(**other)
    model = SoftmaxRegression().fit(X, codes)
    assert not lbfgs_calls
    assert model.gap_ <= 1e-6


def test_nor_for_correlated_features(lbfgs_calls):
    X, codes = scatter()
    X *= np.linspace(0.1, 2, X.shape[1], dtype=np.float32)  # along some axes, all varies more
    assert SoftmaxRegression().fit(X, codes).gap_ <= 1e-6
    assert not lbfgs_calls


def test_weak_penalty():
    # Single precision stops short of the bound here, and does not complain.
    X, codes = draw(spread=0.5)
    model, truth = SoftmaxRegression(C=1e4).fit(X, codes), reference(X, codes, 1e4)
    assert objective(model, X, codes) <= objective(truth, X, codes) * (1 + 1e-4)


def test_penalty_too_weak_for_single_precision():
    X, codes = draw(spread=3.0)
    model, plain = SoftmaxRegression(C=1e6), LogisticRegression(C=1e6, max_iter=2000)
    with pytest.warns(ConvergenceWarning, match="lower C, or scale the features down"):
        model.fit(100 * X, codes)
    assert objective(model, 100 * X, codes) < objective(plain.fit(100 * X, codes), 100 * X, codes)


def test_uneven_classes():
    X, codes = draw(n_rows=1200)
    kept = (codes > 5) | (np.arange(len(codes)) % 7 == 0)
    X, codes = X[kept], codes[kept]
    model, truth = SoftmaxRegression().fit(X, codes), reference(X, codes, 1.0)
    assert objective(model, X, codes) <= objective(truth, X, codes) * (1 + 1e-6)
    np.testing.assert_allclose(model.intercept_, truth.intercept_, atol=5e-3)


def test_constant_and_far_away_features():
    X, codes = draw()
    odd = np.hstack([X.astype(np.float64), np.full((len(X), 1), 7.0)]) + 1e5
    odd = np.hstack([odd[:, :-1], odd[:, -1:] - 1e5])
    near, far = SoftmaxRegression().fit(X, codes), SoftmaxRegression().fit(odd, codes)
    assert far.coef_.dtype == np.float64
    np.testing.assert_allclose(far.coef_[:, :-1], near.coef_, atol=1e-3)
    np.testing.assert_allclose(far.coef_[:, -1], 0, atol=1e-6)
    np.testing.assert_array_equal(far.predict(odd), near.predict(X))


def test_data_type_is_kept_and_result_repeats():
    X, codes = draw()
    single, double = SoftmaxRegression().fit(X, codes), SoftmaxRegression().fit(X.astype(np.float64), codes)
    assert (single.coef_.dtype, double.coef_.dtype) == (np.float32, np.float64)
    assert single.predict_proba(X).dtype == np.float32
    np.testing.assert_allclose(single.coef_, double.coef_, atol=1e-3)
    again = clone(single).fit(X, codes)
    np.testing.assert_array_equal(again.coef_, single.coef_)
    np.testing.assert_array_equal(again.intercept_, single.intercept_)


def test_two_classes_are_left_to_scikit_learn():
    X, codes = draw(n_classes=2)
    model, plain = (
        SoftmaxRegression(C=2.0).fit(X, codes),
        LogisticRegression(C=2.0, max_iter=2000).fit(X, codes),
    )
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    np.testing.assert_array_equal(model.predict_proba(X), plain.predict_proba(X))
    assert np.isnan(model.gap_)


def test_labels_may_be_words():
    X, codes = draw()
    words = np.array([f"class {code:02}" for code in codes])
    model = SoftmaxRegression().fit(X, words)
    assert model.score(X, words) == SoftmaxRegression().fit(X, codes).score(X, codes)


def test_parameters_are_checked():
    X, codes = draw()
    with pytest.raises(ValueError, match="'C' parameter"):
        SoftmaxRegression(C=-1.0).fit(X, codes)
    with pytest.raises(ValueError, match="NaN"):
        SoftmaxRegression().fit(np.where(X > 2, np.nan, X), codes)


def test_too_few_steps_warn():
    X, codes = draw()
    with pytest.warns(ConvergenceWarning, match="after 1 subspaces"):
        SoftmaxRegression(max_iter=1).fit(X, codes)


def test_a_class_can_be_added():
    X, codes = draw()
    old = codes < 11
    seen = SoftmaxRegression().fit(X[old], codes[old])
    assert can_add_class(seen)
    more = add_class(seen, X[~old], X[old], np.ones(old.sum()))
    assert more.score(X, codes) > 0.95


def test_grid_search():
    X, codes = draw(spread=3.0)
    search = GridSearchCV(SoftmaxRegression(tol=1e-4), {"C": [1e-3, 1.0]}, cv=2).fit(X, codes)
    assert search.best_params_ == {"C": 1e-3}


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
