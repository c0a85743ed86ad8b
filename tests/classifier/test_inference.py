"""Batches: however samples are put into them, the answers are the same."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier
from threadpoolctl import threadpool_limits

from cosmo import Cosmo
from cosmo.classifier import _inference as inference
from cosmo.classifier import combinations
from cosmo.data import load_glyphs


@pytest.fixture(scope="module")
def data():
    return load_glyphs(n_classes=40, samples_per_class=15, seed=3)


@pytest.fixture(scope="module")
def X(data):
    rows = np.concatenate([data.split.test_seen, data.split.test_unseen])
    return data.features[rows].astype(np.float32)


@pytest.fixture(scope="module")
def fitted(data):
    rows = data.split.trainval
    return Cosmo(data.descriptions).fit(data.features[rows], data.labels[rows])


@pytest.fixture
def model(fitted):
    """A copy with experts that a test may change."""
    copy = clone(fitted)
    copy.__dict__.update(fitted.__dict__)
    copy.experts_ = replace(fitted.experts_)
    return copy


SIZES = (1, 2, 3, 7, 64, 1000)


def in_batches(ask, X, size):
    return np.concatenate([ask(X[first : first + size]) for first in range(0, len(X), size)])


@pytest.fixture
def rivals(model):
    """A model with pairs of classes so alike that rounding decides between them."""
    weights = model.experts_._both_weights.copy()
    noise = np.random.default_rng(0).normal(size=weights.shape) / 2**22
    weights[:, 1::2] = weights[:, ::2] * (1 + noise[:, ::2])
    vars(model.experts_)["_both_weights"] = weights.astype(np.float32)
    return model


@pytest.mark.parametrize("block", [2048, 32])
@pytest.mark.parametrize("size", SIZES)
def test_to_the_last_bit(model, X, size, block, monkeypatch):
    monkeypatch.setattr(inference, "_ROWS", block)
    for ask in (model.predict, model.predict_proba, lambda rows: model.predict_top(rows)[1]):
        expected = ask(X)
        for rows in (X, np.asfortranarray(X)):
            np.testing.assert_array_equal(in_batches(ask, rows, size), expected)


@pytest.mark.parametrize("side", ["seen", "unseen", "stacking_seen", "stacking_unseen"])
def test_what_the_experts_say_to_the_last_bit(model, X, side):
    whole = getattr(model.outputs(X), side)
    for size in SIZES:
        np.testing.assert_array_equal(
            in_batches(lambda rows: getattr(model.outputs(rows), side), X, size), whole
        )


def test_threads_do_not_matter(model, X):
    with threadpool_limits(limits=1):
        expected = model.predict_proba(X)
    with threadpool_limits(limits=2):
        np.testing.assert_array_equal(model.predict_proba(X), expected)


def test_single_precision_is_not_lost(model, X):
    pair, outputs = model.experts_, model.outputs(X)
    logits = X.astype(np.float64) @ pair.seen.coef_.T.astype(np.float64) + pair.seen.intercept_
    np.testing.assert_allclose(outputs.seen, softmax(logits, axis=1), rtol=2e-5, atol=1e-12)


def test_experts_that_are_not_linear(data, X):
    rows = data.split.trainval
    model = Cosmo(data.descriptions, seen=KNeighborsClassifier(15, weights="distance"))
    model.fit(data.features[rows], data.labels[rows])
    assert not model.experts_.linear
    for size in SIZES:
        np.testing.assert_array_equal(in_batches(model.predict, X, size), model.predict(X))


@pytest.mark.parametrize("size", SIZES)
def test_classes_that_rounding_decides(rivals, X, size):
    model, labels = rivals, rivals.predict(X)
    np.testing.assert_array_equal(in_batches(model.predict, X, size), labels)
    np.testing.assert_array_equal(in_batches(model.predict, np.asfortranarray(X), size), labels)
    order = np.random.default_rng(size).permutation(len(X))
    np.testing.assert_array_equal(in_batches(model.predict, X[order], size), labels[order])
    best = model.classes_[in_batches(model.predict_proba, X, size).argmax(axis=1)]
    np.testing.assert_array_equal(best, labels)
    np.testing.assert_array_equal(model.predict_top(X[:size])[0][:, 0], labels[:size])


def test_what_the_experts_say_leads_to_the_same_class(rivals, X):
    outputs, labels = rivals.outputs(X), rivals.predict(X)
    np.testing.assert_array_equal(outputs.classes[rivals.combination_.predict(outputs)], labels)
    np.testing.assert_array_equal(outputs.classes[rivals.explain(X).proba.argmax(axis=1)], labels)


def test_many_ties_take_no_loop_over_rows(rivals, X, monkeypatch):
    asked, answers = [], type(rivals.experts_).answers

    def counted(experts, rows, **how):
        asked.append(len(rows))
        return answers(experts, rows, **how)

    monkeypatch.setattr(type(rivals.experts_), "answers", counted)
    rivals.predict(X)
    first, again = asked
    assert first == len(X)
    assert 10 < again < len(X)


def test_rounding_would_decide(rivals, X, monkeypatch):
    """Without care, the classes of the test before would depend on the batch."""
    monkeypatch.setattr(combinations, "_ROUNDING", 0.0)
    assert any((in_batches(rivals.predict, X, size) != rivals.predict(X)).any() for size in SIZES)


def test_memory_does_not_grow_with_the_batch(model, X, monkeypatch):
    monkeypatch.setattr(inference, "_ROWS", 256)
    peaks = []
    for times in (20, 80):
        rows = np.repeat(X[:128], times, axis=0)
        tracemalloc.start()
        model.predict(rows)
        peaks.append(tracemalloc.get_traced_memory()[1] - 16 * len(rows))  # the answers themselves
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]
