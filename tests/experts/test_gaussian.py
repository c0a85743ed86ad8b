from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from cosmo.experts import ESZSL, Discriminant, EnsembleExpert, GaussianExpert


def draw(n_classes: int = 8) -> tuple[np.ndarray, np.ndarray, pd.DataFrame]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(n_classes, 5)))
    codes = np.arange(30 * n_classes) % n_classes
    X = table.to_numpy()[codes] @ rng.normal(size=(5, 6)) + 0.7 * rng.normal(size=(len(codes), 6))
    return X.astype(np.float32), codes, table


@pytest.mark.parametrize("width", [0.0, 0.5])
def test_scores_are_log_densities_of_predicted_means(width):
    X, codes, table = draw()
    train = codes < 6
    expert = GaussianExpert(0.3, 0.1, width, temperature=1.0).fit(X[train], codes[train], table)
    means = np.stack([X[codes == c].mean(axis=0) for c in range(6)]).astype(float)
    residuals = X[train] - means[codes[train]]
    S = residuals.T @ residuals / train.sum()
    C = 0.7 * S + 0.3 * np.trace(S) / len(S) * np.eye(len(S))
    A = table.to_numpy() - table.to_numpy()[:6].mean(axis=0)
    A /= np.linalg.norm(A, axis=1, keepdims=True)
    cosines = A @ A[:6].T
    K = np.exp(width * (cosines - 1)) if width else cosines
    ridge = 0.1 * np.trace(K[:6]) / 6 * np.eye(6)
    predicted = means.mean(axis=0) + K @ np.linalg.solve(K[:6] + ridge, means - means.mean(axis=0))
    expected = np.column_stack([multivariate_normal(m, C).logpdf(X) for m in predicted])
    difference = expert.scores(X, table) - expected
    np.testing.assert_allclose(difference, np.repeat(difference[:, :1], 8, axis=1), atol=2e-3)


def test_candidates_equal_fits_of_their_own():
    X, codes, table = draw()
    for one in GaussianExpert(ridge=0.1)._candidates(X, codes, table):
        alone = GaussianExpert(one.shrinkage, 0.1, one.width, temperature=1.0).fit(X, codes, table)
        np.testing.assert_allclose(one.scores(X, table), alone.scores(X, table), rtol=1e-3, atol=1e-3)


def test_the_discriminant_is_that_of_scikit_learn():
    X, codes, _ = draw()
    seen = Discriminant(0.25).fit(X, codes)
    within = X - np.stack([X[codes == c].mean(axis=0) for c in range(8)])[codes]
    S = within.T @ within / len(X)
    # Scikit-learn scales features before it shrinks, unless the covariance is given.
    shrunk = 0.75 * S + 0.25 * np.trace(S) / len(S) * np.eye(len(S))

    class Given:
        covariance_ = shrunk

        def fit(self, X):
            return self

    other = LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=Given()).fit(X, codes)
    np.testing.assert_allclose(seen.predict_proba(X), other.predict_proba(X), atol=2e-3)


def test_two_classes_and_one_row_per_class():
    X, codes, _ = draw(2)
    assert Discriminant().fit(X, codes).score(X, codes) > 0.9
    assert Discriminant().fit(X[:2], codes[:2]).score(X[:2], codes[:2]) == 1


def test_an_ensemble_is_the_mean_of_scaled_scores():
    X, codes, table = draw()
    parts = [GaussianExpert(0.3, 0.1, 0.0, temperature=2.0), ESZSL(1.0, 1.0, temperature=0.5)]
    expert = EnsembleExpert(parts, [3, 1], temperature=1.0).fit(X, codes, table)
    first, second = (part.fit(X, codes, table).scores(X, table) for part in parts)
    expected = 0.75 * first / 2 + 0.25 * second / 0.5
    np.testing.assert_allclose(expert.scores(X, table), expected, rtol=1e-4, atol=1e-4)
    A = table.to_numpy(dtype=np.float32)
    linear = X @ expert.class_weights(A) + expert.class_biases(A)
    np.testing.assert_allclose(linear, expected, rtol=1e-3, atol=1e-3)


def test_an_ensemble_chooses_the_parameters_of_its_parts():
    X, codes, table = draw(12)
    expert = EnsembleExpert([GaussianExpert(ridge=0.1), ESZSL()])
    assert "0: shrinkage" in expert.open_parameters()
    from cosmo.data.splits import hold_out

    chosen = expert.select(X, codes, table, hold_out(codes))
    assert chosen.open_parameters() == []
