"""Promotion of unseen classes, and the exemplar buffer."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cosmo import ESZSL, Cosmo
from cosmo.classifier._promotion import ExemplarBuffer, add_class, can_add_class, promote
from cosmo.gates import make_gate


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(0)
    centres = 3 * rng.normal(size=(6, 10))
    codes = np.repeat(np.arange(6), 40)
    return (centres[codes] + rng.normal(size=(240, 10))).astype(np.float32), codes


@pytest.mark.parametrize(
    "seen", [LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())]
)
def test_one_more_class_is_learned_and_the_others_stay(blobs, seen):
    X, codes = blobs
    old, new = codes < 5, np.flatnonzero(codes == 5)
    seen.fit(X[old], codes[old])
    before = seen.predict_proba(X)
    more = add_class(seen, X[new[:20]], X[old], np.ones(old.sum()))
    after = more.predict_proba(X)
    np.testing.assert_array_equal(seen.predict_proba(X), before)  # the argument is not changed
    np.testing.assert_allclose(after.sum(axis=1), 1, rtol=1e-5)
    assert (after[new[20:]].argmax(axis=1) == 5).mean() > 0.8
    assert (after[old].argmax(axis=1) == codes[old]).mean() > 0.95
    # Among the others nothing has changed.
    np.testing.assert_allclose(
        after[:, :5] / after[:, :5].sum(axis=1, keepdims=True), before, rtol=1e-3, atol=1e-6
    )


def test_two_classes_become_three(blobs):
    """A regression of two classes has one row of weights for both."""
    X, codes = blobs
    two, new = codes < 2, codes == 2
    seen = LogisticRegression().fit(X[two], codes[two])
    more = add_class(seen, X[new], X[two], np.ones(two.sum()))
    assert more.coef_.shape == (3, 10)
    assert (more.predict(X[codes < 3]) == codes[codes < 3]).mean() > 0.95
    logits = X[two] @ more.coef_[:2].T + more.intercept_[:2]
    np.testing.assert_allclose(softmax(logits, axis=1), seen.predict_proba(X[two]), rtol=1e-4, atol=1e-6)


def test_one_sample_is_enough_to_try(blobs):
    X, codes = blobs
    old = codes < 5
    seen = LogisticRegression().fit(X[old], codes[old])
    more = add_class(seen, X[codes == 5][:1], X[old], np.ones(old.sum()))
    assert more.predict(X[codes == 5][:1]) == 5


def test_weights_count_as_repeated_rows(blobs):
    X, codes = blobs
    old, new = np.flatnonzero(codes < 5)[::4], np.flatnonzero(codes == 5)[:1]
    seen = LogisticRegression().fit(X[codes < 5], codes[codes < 5])
    one = add_class(seen, X[new], X[old], np.full(len(old), 3.0))
    three = add_class(seen, X[new], np.repeat(X[old], 3, axis=0), np.ones(3 * len(old)))
    np.testing.assert_allclose(one.coef_, three.coef_, atol=1e-2)


def test_can_add_class(blobs):
    X, codes = blobs
    assert can_add_class(LogisticRegression().fit(X, codes))
    assert can_add_class(LogisticRegression().fit(X[codes < 2], codes[codes < 2]))
    assert not can_add_class(GaussianNB().fit(X, codes))
    assert not can_add_class(make_pipeline(StandardScaler(), GaussianNB()).fit(X, codes))


@pytest.mark.parametrize("gate", ["confidence", "odin", "evidence"])
@pytest.mark.parametrize("seen", [None, LogisticRegression(C=0.1)])
def test_everything_else_stays(blobs, gate, seen):
    X, codes = blobs
    table = {c: np.eye(6)[c] + np.eye(6)[(c + 1) % 6] for c in range(6)}
    train = codes < 4
    model = Cosmo(table, seen=seen, unseen=ESZSL(1.0, 1.0), gate=make_gate(gate), method="paper").fit(
        X[train], codes[train]
    )
    before = model.experts_
    new = X[codes == 4]
    after = promote(
        before, 4, new[:20], X[train], codes[train], np.ones(train.sum()), gate=model.combination_.gate_
    )
    assert after.unseen is before.unseen
    assert after.seen_classes.tolist() == [0, 1, 2, 3, 4]
    assert after.unseen_classes.tolist() == [5]
    assert before.unseen_classes.tolist() == [4, 5]
    outputs = after.outputs(new[20:])
    assert (outputs.seen_choice == 4).mean() > 0.9
    assert (outputs.evidence is None) == (before.observer is None)


def test_exemplars_are_in_half_precision_where_possible():
    X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    codes = np.repeat([0, 1], [45, 5])
    exemplars = ExemplarBuffer.draw(X, codes, 8)
    assert np.bincount(exemplars.codes).tolist() == [8, 5]
    assert exemplars.weights.sum() == pytest.approx(50)
    assert exemplars.rows.dtype == np.float16
    for scale in (1e6, 1e-6):  # too large or too small for half precision
        rows = ExemplarBuffer.draw(scale * X, codes, 8).rows
        assert rows.dtype == np.float32
        assert np.isin(rows, scale * X).all()


def test_exemplars_of_another_class():
    X = np.arange(20.0).reshape(10, 2)
    exemplars = ExemplarBuffer.draw(X, np.repeat([0, 1], 5), 3).with_class(X[:4])
    assert np.bincount(exemplars.codes).tolist() == [3, 3, 3]
    assert exemplars.counts.tolist() == [5, 5, 4]


@pytest.mark.parametrize(
    "change", [{"rows": np.zeros(4)}, {"rows": np.zeros((4, 2), int)}, {"codes": np.zeros(3, int)},
               {"codes": np.array([0, 0, 0, 0])}, {"counts": np.ones((2, 1), int)}],
)  # fmt: skip
def test_inconsistent_exemplars(change):
    parts = {
        "rows": np.zeros((4, 2)),
        "codes": np.array([0, 0, 1, 1]),
        "counts": np.array([9, 9]),
        "per_class": 2,
    }
    ExemplarBuffer(**parts)
    with pytest.raises(ValueError, match="an exemplar buffer needs"):
        ExemplarBuffer(**{**parts, **change})
