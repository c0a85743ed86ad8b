import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

from cosmo.mixture.smoothing import fit_temperature, soften, top_k


def temper(proba, temperature):
    """Return `softmax(log(p + floor) / T)`."""
    return softmax(np.log(np.asarray(proba, dtype=np.float64) + 1e-12) / temperature, axis=1)


def random_scores(seed, scale=1.0, n=4000, classes=6):
    return scale * np.random.default_rng(seed).normal(size=(n, classes))


def draw(proba, seed=0):
    """Draw a class from every row."""
    chance = np.random.default_rng(seed).random((len(proba), 1))
    return (proba.cumsum(axis=1) < chance).sum(axis=1).clip(max=proba.shape[1] - 1)


class TestSoften:
    def test_by_hand(self):
        proba = soften(np.log(np.array([[1.0, 4.0, 16.0]])), 2.0)  # square roots: 1, 2, 4
        np.testing.assert_allclose(proba, [[1 / 7, 2 / 7, 4 / 7]])

    @pytest.mark.parametrize("classes", [4, 5000])
    def test_is_over_the_last_axis(self, classes):
        scores = random_scores(0, n=6, classes=classes).reshape(2, 3, classes)
        np.testing.assert_allclose(soften(scores, 0.7), softmax(scores / 0.7, axis=-1), rtol=1e-6)

    def test_large_scores_do_not_overflow(self):
        np.testing.assert_allclose(soften(np.array([[1e5, 0.0]]), 0.01), [[1, 0]])

    def test_dtype_is_kept(self):
        assert soften(np.zeros((2, 3), dtype=np.float32), 0.7).dtype == np.float32

    def test_whole_numbers_are_scores_too(self):
        np.testing.assert_allclose(soften(np.array([[1, 2]]), 0.5), soften(np.array([[1.0, 2.0]]), 0.5))

    @pytest.mark.parametrize("temperature", [0.0, -1.0, np.nan])
    def test_temperature_must_be_positive(self, temperature):
        with pytest.raises(ValueError, match="temperature must be (positive|a number)"):
            soften(np.zeros((1, 2)), temperature)


class TestTemperature:
    def test_by_hand(self):
        found = top_k(np.array([[1 / 21, 4 / 21, 16 / 21]]), 3, 2.0)
        np.testing.assert_allclose(found, [[4 / 7, 2 / 7, 1 / 7]])

    def test_soft_max_of_logarithms_with_the_papers_floor(self):
        proba = np.random.default_rng(0).dirichlet([0.05] * 8, 50)
        proba[0] = [1, 0, 0, 0, 0, 0, 0, 0]
        for temperature in (0.5, 2, 3, 4, 10):
            expected = -np.sort(-temper(proba, temperature), axis=1)
            np.testing.assert_allclose(top_k(proba, 8, temperature), expected, rtol=1e-9)

    def test_absent_classes_get_the_cube_root_of_the_floor(self):
        assert top_k(np.array([[1.0, 0.0]]), 2, 3.0)[0, 1] == pytest.approx(1e-4, rel=1e-3)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_a_small_temperature_sharpens(self, dtype):
        proba = np.full((1, 100), 0.99 / 99, dtype=dtype)
        proba[0, 3] = 0.0101
        np.testing.assert_allclose(top_k(proba, 2, 1e-4), [[1, 0]], atol=1e-6)

    def test_rows_of_little_mass_do_not_underflow(self):
        found = top_k(np.array([[0.9, 0.1], [2e-6, 1e-6]]), 2, 0.01)
        np.testing.assert_allclose(found, [[1, 0], [1, 0]], atol=1e-12)

    @pytest.mark.parametrize("temperature", [0.0, -3.0, np.nan])
    def test_must_be_positive(self, temperature):
        with pytest.raises(ValueError, match="temperature must be (positive|a number)"):
            top_k(np.array([[0.5, 0.5]]), 1, temperature)


class TestFitTemperature:
    @pytest.mark.parametrize("planted", [0.05, 0.5, 1.0, 4.0])
    @pytest.mark.parametrize("unit", [1e-3, 1.0, 1e4])
    def test_recovers_a_planted_temperature(self, planted, unit):
        scores = random_scores(1)
        target = draw(softmax(scores / planted, axis=1))
        assert fit_temperature(unit * scores, target) == pytest.approx(unit * planted, rel=0.12)

    def test_no_other_temperature_is_more_likely(self):
        scores = random_scores(2, n=300)
        target = draw(softmax(scores / 0.7, axis=1), seed=5)

        def loss(temperature):
            return -log_softmax(scores / temperature, axis=1)[np.arange(300), target].mean()

        found = fit_temperature(scores, target)
        assert loss(found) <= min(loss(found * factor) for factor in np.geomspace(0.1, 10, 201)) + 1e-7

    def test_keeps_the_argmax(self):
        scores = random_scores(3, scale=20, n=500)
        target = draw(softmax(scores / 30, axis=1))
        proba = soften(scores, fit_temperature(scores, target))
        np.testing.assert_array_equal(proba.argmax(axis=1), scores.argmax(axis=1))

    def test_a_shift_of_a_rows_scores_changes_nothing(self):
        scores = random_scores(4, n=500)
        target = draw(softmax(scores, axis=1))
        shifted = scores + np.linspace(-3, 3, 500)[:, None]
        assert fit_temperature(shifted, target) == pytest.approx(fit_temperature(scores, target), rel=5e-3)

    def test_float32_scores(self):
        scores = random_scores(5)
        target = draw(softmax(scores, axis=1))
        single = scores.astype(np.float32)
        found = fit_temperature(single, target)
        assert found == pytest.approx(fit_temperature(scores, target), rel=5e-3)
        assert found == fit_temperature(single.astype(np.float64), target)

    def test_degenerate_scores_give_a_usable_temperature(self):
        for scores in (np.zeros((4, 3)), 5 * np.eye(3)):
            temperature = fit_temperature(scores, np.arange(len(scores)) % 3)
            assert np.isfinite(temperature)
            assert temperature > 0


class TestTopK:
    @settings(max_examples=60, deadline=None)
    @given(
        seed=st.integers(0, 2**32 - 1),
        classes=st.integers(1, 250),
        k=st.integers(1, 12),
        temperature=st.sampled_from([1.0, 0.3, 3.0, 10.0]),
        dtype=st.sampled_from([np.float32, np.float64]),
        order=st.sampled_from("CF"),
    )
    def test_is_a_sort_of_all_tempered_probabilities(self, seed, classes, k, temperature, dtype, order):
        rng = np.random.default_rng(seed)
        proba = rng.dirichlet(np.full(classes, 0.2), 7).astype(dtype).round(2)  # with ties and zeros
        reference = proba if temperature == 1 else temper(proba, temperature)
        naive = -np.sort(-reference, axis=1)[:, :k]
        found = top_k(np.asarray(proba, order=order), k, temperature)
        assert found.dtype == dtype
        np.testing.assert_allclose(
            found[:, : naive.shape[1]], naive, rtol=1e-4 if dtype == np.float32 else 1e-9
        )
        np.testing.assert_array_equal(found[:, naive.shape[1] :], 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_soft_max_of_scores_of_any_size(dtype):
    """Exponentials of some rows are infinite, or nothing."""
    scores = random_scores(0, 3.0, 60, 50).astype(dtype)
    scores += np.array([0, 100, -100, 1e4, -1e4, 40], dtype=dtype).repeat(10)[:, None]
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_allclose(
            soften(scores, 1.0), softmax(scores.astype(np.float64), axis=1), rtol=1e-5, atol=1e-30
        )


def test_only_rows_with_nan_are_nan():
    scores = random_scores(0, 3.0, 4, 5)
    scores[1, 2], scores[3, 0] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        assert np.isnan(soften(scores, 1.0)).all(axis=1).tolist() == [False, True, False, True]


@pytest.mark.parametrize("n_classes", [50, 4096, 4097, 9000])
def test_rows_do_not_depend_on_their_neighbours(n_classes):
    scores = random_scores(0, 3.0, 12, n_classes).astype(np.float32)
    whole = soften(scores, 0.7)
    for row in range(12):
        alone = soften(scores[row : row + 1], 0.7)
        np.testing.assert_array_equal(alone[0], whole[row])
        np.testing.assert_array_equal(top_k(alone, 5, 3.0)[0], top_k(whole, 5, 3.0)[row])
