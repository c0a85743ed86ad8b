"""SJE, DeViSE and ALE: what they promise as unseen experts, and their losses."""

import numpy as np
import pytest

from cosmo.experts.ranking import ALE, SJE, DeViSE, margin_violations

KINDS = [SJE, DeViSE, ALE]


def decided(kind, **parameters):
    return kind(**{"learning_rate": 3.0, "epochs": 3, "temperature": 0.5, **parameters})


@pytest.mark.parametrize("kind", KINDS)
class TestTraining:
    def test_only_the_ratio_of_rate_and_margin_matters(self, kind, task):
        plain = decided(kind, learning_rate=2.0).fit(task.X, task.y, task.table)
        scaled = decided(kind, learning_rate=8.0, margin=4.0).fit(task.X, task.y, task.table)
        np.testing.assert_allclose(scaled.weights_, 4 * plain.weights_, rtol=1e-4, atol=1e-4)

    def test_first_step(self, kind, task):
        """One batch from W = 0, in all attributes, against a literal sum over samples and classes."""
        rng = np.random.default_rng(0)
        rows = rng.permutation(len(task.y))[:40]
        X, y = task.X[rows], task.y[rows]
        expert = decided(kind, learning_rate=2.0, epochs=1).fit(X, y, task.table)
        seen = task.table.loc[sorted(set(y))]
        A = seen.to_numpy() - seen.to_numpy().mean(axis=0)
        A /= np.linalg.norm(A, axis=1, keepdims=True)
        Z = (X - X.mean(axis=0)) / X.std(axis=0)
        Z /= np.linalg.norm(Z, axis=1, keepdims=True)
        others = len(seen) - 1
        weight = {
            SJE: 1 / others,  # at W = 0 all violate alike
            DeViSE: 1.0,
            ALE: sum(1 / j for j in range(1, others + 1)) / others,
        }[kind]
        W = np.zeros((30, 10))
        for z, true in zip(Z, seen.index.get_indexer(y), strict=True):
            for wrong in range(len(seen)):
                W += 2.0 / len(y) * weight * np.outer(z, A[true] - A[wrong])
        np.testing.assert_allclose(expert.weights_, W, atol=1e-5)


class TestLosses:
    def test_margin_violations(self):
        scores = np.array([[2.0, 0.5, 1.5], [0.0, 0.0, 3.0]], dtype=np.float32)
        hinge = margin_violations(scores, np.array([0, 2]), 1.0)
        np.testing.assert_allclose(hinge, [[0, 0, 0.5], [0, 0, 0]])

    @pytest.mark.parametrize(
        ("kind", "weights"),
        [
            (DeViSE, [[0, 1, 1], [0, 0, 0], [1, 0, 1]]),
            (SJE, [[0, 0, 1], [0, 0, 0], [0.5, 0, 0.5]]),
            (ALE, [[0, 0.75, 0.75], [0, 0, 0], [0.75, 0, 0.75]]),
        ],
    )
    def test_violator_weights(self, kind, weights):
        hinge = np.array([[0, 0.2, 0.7], [0, 0, 0], [0.3, 0, 0.3]], dtype=np.float32)
        np.testing.assert_allclose(kind.violator_weights(hinge), weights)
        assert kind.violator_weights(hinge).dtype == np.float32
