"""Both experts of a stage."""

import pickle

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from cosmo.data.splits import hold_out
from cosmo.experts import ESZSL, SEEN_EXPERTS, ExpertPair, make_seen_expert
from cosmo.experts.pair import fit_seen_expert


@pytest.fixture(scope="module")
def validation(task):
    held = hold_out(task.y, seed=0)
    known = task.table.loc[task.seen]
    unseen, train = ESZSL().select(task.X, task.y, known, held), held.seen_train
    pair = ExpertPair.fit(KNeighborsClassifier(), unseen, task.X[train], task.y[train], known, refit=False)
    return pair, held


def test_stages_have_their_own_classes(task, validation):
    pair, held = validation
    assert set(pair.seen_classes) == set(task.y[held.seen_train])
    assert set(pair.unseen_classes) == set(task.y[held.unseen_val])
    final = ExpertPair.fit(KNeighborsClassifier(), pair.unseen, task.X, task.y, task.table)
    assert set(final.seen_classes) == set(task.seen)
    assert set(final.unseen_classes) == set(task.unseen)


def test_outputs_name_their_columns(task, validation):
    pair, held = validation
    out = pair.outputs(task.X[held.gzsl_val], task.y[held.gzsl_val])
    np.testing.assert_array_equal(out.classes[out.labels], task.y[held.gzsl_val])
    joint = pair.unseen.predict_proba(task.X[held.gzsl_val], pair.descriptions.loc[out.classes])
    np.testing.assert_allclose(out.unseen, joint[:, out.n_seen :], rtol=1e-4, atol=1e-7)


def test_one_class_has_probability_one():
    expert = fit_seen_expert(LogisticRegression(), np.zeros((3, 2), np.float32), np.array([5, 5, 5]))
    np.testing.assert_array_equal(expert.predict_proba(np.zeros((2, 2))), [[1.0], [1.0]])


@pytest.mark.parametrize("name", list(SEEN_EXPERTS))
def test_named_seen_experts(task, name):
    assert (
        fit_seen_expert(make_seen_expert(name), task.X, task.seen.get_indexer(task.y)).score(
            task.X, task.seen.get_indexer(task.y)
        )
        > 0.8
    )


def test_unknown_seen_expert():
    with pytest.raises(ValueError, match="unknown seen expert 'svm'; choose from logistic"):
        make_seen_expert("svm")


@pytest.mark.parametrize("name", ["logistic", "logistic-sklearn", "knn"])
def test_predictions_are_the_outputs_without_validation(task, validation, name):
    pair = ExpertPair.fit(make_seen_expert(name), validation[0].unseen, task.X, task.y, task.table)
    full, short = pair.outputs(task.X_new), pair.predictions(task.X_new)
    np.testing.assert_allclose(short.seen, full.seen, rtol=1e-5)
    np.testing.assert_allclose(short.unseen, full.unseen, rtol=1e-5)
    np.testing.assert_allclose(full.seen, pair.seen.predict_proba(task.X_new), rtol=1e-4, atol=1e-7)
    expected = pair.unseen.predict_proba(task.X_new, task.table.loc[full.classes])[:, full.n_seen :]
    np.testing.assert_allclose(full.unseen, expected, rtol=1e-4, atol=1e-7)


def test_scores_that_overflow(task, validation):
    pair = ExpertPair.fit(make_seen_expert("logistic"), validation[0].unseen, task.X, task.y, task.table)
    with pytest.raises(ValueError, match="features are too large"):
        pair.predictions(np.full_like(task.X_new[:2], 3e38, dtype=np.float32))


def test_pickles_do_not_carry_cached_weights(task, validation):
    pair = ExpertPair.fit(KNeighborsClassifier(), validation[0].unseen, task.X, task.y, task.table)
    before = pickle.dumps(pair)
    pair.outputs(task.X_new)
    assert len(pickle.dumps(pair)) == len(before)


def test_another_table_has_its_own_weights(task, validation):
    pair = ExpertPair.fit(KNeighborsClassifier(), validation[0].unseen, task.X, task.y, task.table)
    pair.outputs(task.X_new[:2])
    more = pair.with_classes(task.table.iloc[:1].set_axis(["another"], axis=0))
    assert more.outputs(task.X_new[:2]).unseen.shape[1] == len(pair.unseen_classes) + 1
