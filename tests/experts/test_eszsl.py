import numpy as np
import pandas as pd
import pytest

from cosmo.experts import ESZSL

CASES = pytest.mark.parametrize(("n_classes", "n_attributes"), [(6, 11), (11, 6), (8, 8)])


def draw(n_classes, n_attributes):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.random((n_classes, n_attributes)).astype(np.float32))
    codes = np.arange(20 * n_classes) % n_classes
    X = table.to_numpy()[codes] @ rng.normal(size=(n_attributes, 15)) + rng.normal(size=(len(codes), 15))
    return X.astype(np.float32), codes, table


def formula(X, codes, A, gamma, lam):
    """The paper's V, as it stands there."""
    X, A = X.astype(np.float64), A.astype(np.float64)
    Y = np.eye(len(A))[codes]
    left, right = X.T @ X + gamma * np.eye(X.shape[1]), A.T @ A + lam * np.eye(A.shape[1])
    return np.linalg.inv(left) @ X.T @ Y @ A @ np.linalg.inv(right)


@CASES
@pytest.mark.parametrize("gamma", [0.1, 100.0])
@pytest.mark.parametrize("lam", [0.01, 10.0])
def test_the_closed_form(n_classes, n_attributes, gamma, lam):
    X, codes, table = draw(n_classes, n_attributes)
    expert = ESZSL(gamma, lam, centre=False, temperature=1.0).fit(X, codes, table)
    expected = formula(X, codes, table.to_numpy(), gamma, lam)
    np.testing.assert_allclose(expert.weights_, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@CASES
def test_candidates_are_what_a_fit_of_their_own_would_be(n_classes, n_attributes):
    X, codes, table = draw(n_classes, n_attributes)
    pairs = set()
    for candidate in ESZSL(centre=False)._candidates(X, codes, table):
        gamma, lam = candidate.gamma, candidate.lam
        alone = ESZSL(gamma, lam, centre=False, temperature=1.0).fit(X, codes, table)
        largest = np.abs(alone.weights_).max()
        np.testing.assert_allclose(candidate.weights_, alone.weights_, rtol=1e-3, atol=1e-4 * largest)
        pairs.add((gamma, lam))
    assert len(pairs) == len(ESZSL.grid["gamma"]) * len(ESZSL.grid["lam"])
