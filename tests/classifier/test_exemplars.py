"""The rows that a model keeps."""

import numpy as np
import pytest

from cosmo.classifier._exemplars import Rehearsal


def test_rehearsal_is_small_and_precise_enough():
    X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    codes = np.repeat([0, 1], [45, 5])
    few = Rehearsal.draw(X, codes, 8)
    assert np.bincount(few.codes).tolist() == [8, 5]
    assert few.weights.sum() == pytest.approx(50)
    assert few.rows.dtype == np.float16
    for scale in (1e6, 1e-6):  # too large or too small for half precision
        kept = Rehearsal.draw(scale * X, codes, 8).rows
        assert kept.dtype == np.float32
        assert np.isin(kept, scale * X).all()


def test_another_class():
    X = np.arange(20.0).reshape(10, 2)
    few = Rehearsal.draw(X, np.repeat([0, 1], 5), 3).extended(X[:4])
    assert np.bincount(few.codes).tolist() == [3, 3, 3]
    assert few.counts.tolist() == [5, 5, 4]


@pytest.mark.parametrize(
    "change", [{"rows": np.zeros(4)}, {"rows": np.zeros((4, 2), int)}, {"codes": np.zeros(3, int)},
               {"codes": np.array([0, 0, 0, 0])}, {"counts": np.ones((2, 1), int)}, {"counts": np.ones(2)}],
)  # fmt: skip
def test_what_does_not_fit_together(change):
    parts = {"rows": np.zeros((4, 2)), "codes": np.array([0, 0, 1, 1]), "counts": np.array([9, 9]), "most": 2}
    Rehearsal(**parts)
    with pytest.raises(ValueError, match="a rehearsal set needs"):
        Rehearsal(**{**parts, **change})
