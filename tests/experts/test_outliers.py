import math

import numpy as np
import pytest

from cosmo.experts import _outliers as novelty
from cosmo.experts._outliers import learn_neighbourhoods, loop


def naive(rows, known, k, extent=3.0):
    """The published formulas, one sample at a time."""

    def nearest(x, without=None):
        others = [i for i in range(len(known)) if i != without]
        return sorted(others, key=lambda i: math.dist(x, known[i]))[:k]

    def pdist(x, neighbours):
        return extent * math.sqrt(sum(math.dist(x, known[i]) ** 2 for i in neighbours) / k)

    own = [pdist(x, nearest(x, i)) for i, x in enumerate(known)]

    def plof(distance, neighbours):
        return distance / (sum(own[i] for i in neighbours) / k) - 1

    Z = extent * math.sqrt(np.mean([plof(own[i], nearest(x, i)) ** 2 for i, x in enumerate(known)]))
    result = []
    for x in rows:
        neighbours = nearest(x)
        result.append(max(0.0, math.erf(plof(pdist(x, neighbours), neighbours) / (Z * math.sqrt(2)))))
    return result


@pytest.fixture
def clouds():
    """Return two clouds, a dense and a sparse one, and samples from both and from between."""
    rng = np.random.default_rng(0)
    known = np.concatenate([rng.normal(0, 0.3, (40, 4)), rng.normal(6, 1, (50, 4))]).astype(np.float32)
    rows = np.concatenate([rng.normal(0, 0.3, (10, 4)), rng.normal(6, 1, (10, 4)), rng.normal(3, 1, (10, 4))])
    return known, rows.astype(np.float32)


@pytest.mark.parametrize(("k", "extent"), [(1, 3.0), (5, 3.0), (20, 3.0), (20, 1.0), (89, 3.0)])
def test_against_the_formulas(clouds, k, extent):
    known, rows = clouds
    expected = naive(rows.tolist(), known.tolist(), k, extent)
    np.testing.assert_allclose(loop(rows, learn_neighbourhoods(known, k), extent=extent), expected, atol=1e-5)


def test_samples_between_the_clouds_are_novel(clouds):
    known, rows = clouds
    probability = loop(rows, learn_neighbourhoods(known, 10))
    assert probability[20:].mean() > 0.7
    assert probability[:20].mean() < 0.2


def test_work_in_parts_changes_nothing(clouds, monkeypatch):
    known, rows = clouds
    whole = loop(rows, learn_neighbourhoods(known))
    monkeypatch.setattr(novelty, "_CHUNK", 3 * len(known))
    np.testing.assert_allclose(loop(rows, learn_neighbourhoods(known)), whole, rtol=1e-6)


def test_far_from_the_origin(clouds):
    """Distances do not drown in the length of the vectors."""
    known, rows = clouds
    near, far = (loop(rows + shift, learn_neighbourhoods(known + shift)) for shift in (0, np.float32(500)))
    np.testing.assert_allclose(far, near, atol=0.02)


def test_unit_of_the_space_does_not_matter(clouds):
    known, rows = clouds
    np.testing.assert_allclose(
        loop(8 * rows, learn_neighbourhoods(8 * known)), loop(rows, learn_neighbourhoods(known)), rtol=1e-6
    )


def test_few_known_rows():
    known = np.eye(3, dtype=np.float32)
    learned = learn_neighbourhoods(known, k=20)
    assert learned.k == 2
    np.testing.assert_array_equal(loop(np.array([[1, 0, 0], [9, 9, 9]], np.float32), learned), [0, 1])


def test_copies():
    known = np.repeat(np.eye(3, dtype=np.float32), 30, axis=0)
    probability = loop(np.array([[1, 0, 0], [1, 0.1, 0]], np.float32), learn_neighbourhoods(known))
    np.testing.assert_array_equal(probability, [0, 1])


def test_no_row_asked():
    assert loop(np.empty((0, 3), np.float32), learn_neighbourhoods(np.eye(3, dtype=np.float32))).shape == (0,)


@pytest.mark.parametrize("k", [0, 2.5])
def test_k_is_a_number_of_neighbours(k):
    with pytest.raises(ValueError, match="k must be a whole number of at least 1"):
        learn_neighbourhoods(np.eye(3, dtype=np.float32), k)


def test_one_row_has_no_neighbours():
    with pytest.raises(ValueError, match="at least two rows, got 1"):
        learn_neighbourhoods(np.ones((1, 3), dtype=np.float32))
