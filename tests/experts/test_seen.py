import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from cosmo.experts._newton import SubspacePath
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
    assert (model.predict(X) == truth.predict(X.astype(np.float64))).mean() > 0.999
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


@pytest.mark.parametrize("factors", [0, 8])
def test_correlated_features(factors):
    rng = np.random.default_rng(0)
    codes = np.arange(1200) % 12
    X = 0.4 * rng.normal(size=(12, 100))[codes] + rng.normal(size=(1200, 100))
    X += 8 * rng.normal(size=(1200, factors)) @ rng.normal(size=(factors, 100))
    model, truth = SoftmaxRegression().fit(X, codes), reference(X, codes, 1.0)
    assert model.gap_ <= 1e-6
    assert model.n_iter_[0] < 15
    np.testing.assert_allclose(model.decision_function(X), truth.decision_function(X), atol=0.02)


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


def test_too_few_steps_warn():
    X, codes = draw()
    with pytest.warns(ConvergenceWarning, match="after 1 subspaces"):
        SoftmaxRegression(max_iter=1).fit(X, codes)
