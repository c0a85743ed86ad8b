"""Exact products: whatever stands beside a row, in whatever order sums are taken."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cosmo.experts import _products as products
from cosmo.experts._products import ExactProduct

NUMBERS = st.floats(-1e6, 1e6, width=32)


def draw(n_rows: int, n_features: int, n_columns: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)) * 10.0 ** rng.uniform(-6, 6, size=(n_rows, 1))
    return X.astype(np.float32), rng.normal(size=(n_features, n_columns)).astype(np.float32)


@settings(deadline=None)
@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 40), st.integers(1, 9)),
    data=st.data(),
)
def test_a_row_is_the_same_in_any_batch(shape: tuple[int, int, int], data: st.DataObject):
    n_rows, n_features, n_columns = shape
    X = data.draw(arrays(np.float32, (n_rows, n_features), elements=NUMBERS))
    product = ExactProduct(data.draw(arrays(np.float32, (n_features, n_columns), elements=NUMBERS)))
    whole = product(X)
    for i in range(n_rows):
        np.testing.assert_array_equal(product(X[i : i + 1]), whole[i : i + 1])
        np.testing.assert_array_equal(product(X[i:]), whole[i:])
    np.testing.assert_array_equal(product(np.asfortranarray(X)), whole)


@pytest.mark.parametrize("n_features", [1, 3, 64, 2048, 20_000])
def test_order_of_features(n_features: int):
    """Sums have no order: columns may be shuffled, which a product of BLAS notices."""
    X, weights = draw(50, n_features, 30)
    order = np.random.default_rng(1).permutation(n_features)
    scaled, shuffled = ExactProduct(weights), ExactProduct(weights[order])
    np.testing.assert_array_equal(shuffled(X[:, order]), scaled(X))
    if n_features > 64:
        assert (X[:, order] @ weights[order] != X @ weights).any()


@pytest.mark.parametrize("n_features", [1, 3, 64, 2048, 20_000])
def test_as_close_as_single_precision(n_features: int):
    X, weights = draw(200, n_features, 30)
    true = X.astype(np.float64) @ weights.astype(np.float64)
    size = np.linalg.norm(X.astype(np.float64), axis=1)[:, None] * np.linalg.norm(weights, axis=0)
    assert (np.abs(ExactProduct(weights)(X) - true) / size).max() < 2e-7


def test_no_sum_outgrows_double_precision():
    """The largest sums there are: a row along a column, as long as a power of two allows."""
    for n_features in (1, 7, 4096, 100_000):
        x = np.full((1, n_features), np.float32(0.99 * 2**10 / np.sqrt(n_features)))
        product = ExactProduct(x.T)
        power = products._ROW_BITS - 10
        whole = np.rint(x * np.float32(2.0**power)).astype(np.float64)
        total = sum(int(a) * int(b) for a, b in zip(whole[0], product._weights[:, 0], strict=True))
        assert total < 2**53
        expected = float(Fraction(total) / 2**power) * product._unit[0]
        assert product(x)[0, 0] == np.float32(expected)


def test_blocks(monkeypatch: pytest.MonkeyPatch):
    X, weights = draw(100, 20, 7)
    whole = ExactProduct(weights)(X)
    monkeypatch.setattr(products, "_LEAST", 1)
    monkeypatch.setattr(products, "_CELLS", 64)
    np.testing.assert_array_equal(ExactProduct(weights)(X), whole)


def test_columns_and_rows_of_zeros():
    product = ExactProduct(np.array([[0.0, 1.0], [0.0, 2.0]], dtype=np.float32))
    np.testing.assert_array_equal(product(np.array([[1, 1], [0, 0]], dtype=np.float32)), [[0, 3], [0, 0]])


@pytest.mark.parametrize("size", [1e-38, 1e-20, 1e20, 3e37])
def test_extreme_sizes(size: float):
    X = np.array([[1.0, 2.0], [3.0, -1.0]], dtype=np.float32) * np.float32(size)
    weights = np.array([[0.5], [0.25]], dtype=np.float32)
    # Squares that leave the range of single precision cost digits, never the size.
    np.testing.assert_allclose(ExactProduct(weights)(X), X @ weights, rtol=1e-6, atol=1e-27)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_in_its_row(bad: float):
    X, weights = draw(3, 10, 4)
    clean = ExactProduct(weights)(X)
    X[1, 5] = bad
    with np.errstate(invalid="ignore"):
        found = ExactProduct(weights)(X)
    assert not np.isfinite(found[1]).any()
    np.testing.assert_array_equal(found[[0, 2]], clean[[0, 2]])
