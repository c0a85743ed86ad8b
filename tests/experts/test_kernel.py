"""Kernel: its loss and gradient, its training, and when it stops."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime

from cosmo.experts.kernel import KERNELS, Kernel, kernel_loss
from cosmo.metrics.accuracy import per_class_accuracy


def decided(**parameters):
    return Kernel(**{"sigma": 0.8, "epochs": 3, "temperature": 0.1, **parameters})


def compared(u, v, kernel, sigma):
    """A kernel of two vectors, by its formula."""
    if kernel == "linear":
        return u @ v
    squared = ((u - v) ** 2).sum()
    return np.exp(-squared / (2 * sigma**2)) if kernel == "gaussian" else 1 / (1 + squared / sigma**2)


@pytest.mark.parametrize("kernel", KERNELS)
class TestLoss:
    @pytest.fixture
    def problem(self):
        rng = np.random.default_rng(0)
        return (
            rng.normal(size=(5, 3)),
            rng.normal(size=(7, 5)),
            rng.integers(4, size=7),
            rng.normal(size=(4, 3)),
        )

    def test_value(self, kernel, problem):
        """Against a literal sum over samples and classes."""
        W, X, codes, A = problem
        sigma, beta, total = 1.5, 2.0, 0.0
        for x, true in zip(X, codes, strict=True):
            for c, a in enumerate(A):
                both = (compared(W.T @ x, a, kernel, sigma), compared(W @ a, x, kernel, sigma))
                total += sum((k - 1) ** 2 if c == true else beta / 3 * k**2 for k in both)
        loss, _ = kernel_loss(W, X, codes, A, kernel=kernel, sigma=sigma, beta=beta)
        assert loss == pytest.approx(total / len(X), rel=1e-12)

    def test_gradient(self, kernel, problem):
        """Against finite differences."""
        W, X, codes, A = problem

        def loss(flat):
            return kernel_loss(flat.reshape(W.shape), X, codes, A, kernel=kernel, sigma=1.5, beta=2.0)[0]

        _, gradient = kernel_loss(W, X, codes, A, kernel=kernel, sigma=1.5, beta=2.0)
        numeric = approx_fprime(W.ravel(), loss, 1e-7).reshape(W.shape)
        np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-6)

    def test_scores(self, kernel, task):
        """Against the formula, also for classes outside the span of the seen ones."""
        expert = decided(kernel=kernel).fit(task.X, task.y, task.table)
        mean = task.table.loc[task.seen].to_numpy().mean(axis=0)
        A = task.table.to_numpy() + 0.3 * np.random.default_rng(0).normal(size=task.table.shape)
        table = pd.DataFrame(A, index=task.table.index, columns=task.table.columns)
        A = (A - mean) / np.linalg.norm(A - mean, axis=1, keepdims=True)
        Z = (task.X_new[:4] - task.X.mean(axis=0)) / task.X.std(axis=0)
        Z /= np.linalg.norm(Z, axis=1, keepdims=True)
        W = expert.weights_
        expected = [
            [-sum((compared(u, v, kernel, 0.8) - 1) ** 2 for u, v in ((W.T @ z, a), (W @ a, z))) for a in A]
            for z in Z
        ]
        np.testing.assert_allclose(expert.scores(task.X_new[:4], table), expected, atol=1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
class TestTraining:
    def test_learns_combinations_far_above_chance(self, kernel, task):
        expert = Kernel(kernel=kernel).fit(task.X, task.y, task.table)
        guess = task.unseen[expert.scores(task.X_new, task.table.loc[task.unseen]).argmax(axis=1)]
        assert per_class_accuracy(task.y_new, guess, task.unseen) > 0.6  # chance is 1/8

    def test_coordinates_of_descriptions_do_not_matter(self, kernel, task):
        rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(10, 10)))[0]
        rotated = pd.DataFrame(task.table.to_numpy() @ rotation, index=task.table.index)
        plain = decided(kernel=kernel).fit(task.X, task.y, task.table)
        turned = decided(kernel=kernel).fit(task.X, task.y, rotated)
        np.testing.assert_allclose(
            turned.scores(task.X_new, rotated), plain.scores(task.X_new, task.table), rtol=1e-2, atol=2e-3
        )


class TestStopping:
    def walk(self, task, accuracy):
        """Return the (sigma, epochs) tried when candidates have these accuracies."""
        codes = pd.Index(task.seen).get_indexer(task.y)
        tried = []
        for candidate in Kernel()._candidates(task.X, codes, task.table.loc[task.seen]):
            tried.append((candidate.sigma, candidate.epochs))
            if accuracy is not None:
                candidate.accuracy_ = accuracy(candidate)
        return tried

    def test_without_accuracies_everything_is_tried(self, task):
        grid = Kernel.grid
        assert self.walk(task, None) == [(s, e) for s in grid["sigma"] for e in grid["epochs"]]

    def test_a_path_ends_when_twice_in_a_row_it_does_not_improve(self, task):
        heights = dict(zip(Kernel.grid["epochs"], (1, 3, 2, 3, 9, 9), strict=True))
        tried = self.walk(task, lambda candidate: heights[candidate.epochs])
        assert tried == [(s, e) for s in Kernel.grid["sigma"] for e in Kernel.grid["epochs"][:4]]


class TestInput:
    def test_unknown_kernel(self, task):
        with pytest.raises(ValueError, match="unknown kernel 'quartic'; choose from gaussian,"):
            decided(kernel="quartic").fit(task.X, task.y, task.table)
