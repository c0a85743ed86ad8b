import numpy as np
import pandas as pd
import pytest

from cosmo.classifier.combinations import GatedMixture, OperatingPoint
from cosmo.gates import ConfidenceGate, MaxSoftmaxGate
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.paper.trials import (
    AUTHORS_GRIDS,
    Grid,
    authors_grid,
    grid_search,
    resample_thresholds,
)

N_SEEN, N_UNSEEN = 6, 4


def soft_max(values):
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def sample(n, seed):
    """Two experts that are right more often than not; the unseen one prefers seen classes."""
    rng = np.random.default_rng(seed)
    target = rng.integers(0, N_SEEN + N_UNSEEN, n)
    truth = np.eye(N_SEEN + N_UNSEEN)[target]
    bias = np.r_[np.ones(N_SEEN), np.zeros(N_UNSEEN)]
    return ExpertOutputs.from_joint(
        soft_max(3 * truth[:, :N_SEEN] + rng.normal(size=(n, N_SEEN))),
        soft_max(2 * truth + bias + rng.normal(size=truth.shape)),
        pd.Index([f"s{i}" for i in range(N_SEEN)]),
        pd.Index([f"u{i}" for i in range(N_UNSEEN)]),
        target=target,
    )


VALIDATION, TEST = sample(400, 0), sample(1200, 1)


class TestGrids:
    """Counts and values of the published grids, from whole numbers: rounding must not add a point."""

    def test_exceptions(self):
        grid, n = authors_grid("SUN", "COSMO")
        assert n == 100
        np.testing.assert_allclose(grid.thresholds, np.arange(0, 500, 2) / 10, atol=1e-12)
        for rule, density in (("CB-Gating-3", 100), ("Adaptive-Smoothing", 300)):
            assert authors_grid("CUB", rule) == (AUTHORS_GRIDS["CUB"], density)
            assert authors_grid("SUN", rule) == (AUTHORS_GRIDS["SUN"], 100)


BETA = np.linspace(-2, 2, 41)


class TestResampling:
    def test_a_triangle(self):
        """There β is a linear function of Acc_H on both sides, known without interpolation."""
        fine = resample_thresholds([0.0, 1.0, 3.0], [0.0, 1.0, 0.0], n=100)
        rising = np.concatenate([np.linspace(0, 0.9, 25), np.linspace(0.9, 1, 75)])
        falling = 3 - 2 * np.concatenate([np.linspace(0, 0.9, 25), np.linspace(0.75, 1, 90)])
        expected = np.unique(np.round(np.concatenate([rising, falling]), 9))
        np.testing.assert_allclose(np.unique(np.round(fine, 9)), expected)

    @pytest.mark.parametrize("best", [0, 1, 39, 40])
    def test_the_best_at_an_end(self, best):
        fine = resample_thresholds(BETA, np.exp(-abs(BETA - BETA[best])))
        assert (fine.min(), fine.max()) == (BETA[0], BETA[-1])
        assert (abs(fine - BETA[best]) < 0.5).mean() > 0.5

    def test_a_flat_curve(self):
        fine = resample_thresholds(BETA, np.zeros(len(BETA)))
        assert len(fine) >= 1
        assert np.isin(fine, BETA).all()

    @pytest.mark.parametrize(
        ("thresholds", "acc_h"), [([0, 1], [0, 1]), ([0, 1, 2], [0, 1]), ([[0, 1, 2]], [[0, 1, 0]]), ([], [])]
    )
    def test_wrong_shapes(self, thresholds, acc_h):
        with pytest.raises(ValueError, match="three thresholds"):
            resample_thresholds(thresholds, acc_h)


def accuracies(outputs, predicted):
    """Acc_ts, Acc_tr, Acc_H by counting."""
    right = predicted == outputs.target
    share = [right[outputs.target == c].mean() for c in range(N_SEEN + N_UNSEEN)]
    ts, tr = float(np.mean(share[N_SEEN:])), float(np.mean(share[:N_SEEN]))
    return ts, tr, 2 * ts * tr / (ts + tr) if ts + tr else 0.0


class BruteForce:
    """The paper's formulas, a decision for every sample at every threshold."""

    def __init__(self, outputs, gate, smoothing):
        self.outputs, self.smoothing = outputs, smoothing
        self.score = gate.score(outputs)[:, None]

    def at(self, threshold, softness, prior_weight):
        s, z = self.outputs.seen, self.outputs.unseen
        u = 1 / (1 + np.exp(-(threshold - self.score) / softness))
        if self.smoothing == "adaptive":
            s, z = s + u / N_SEEN, z + (1 - u) / N_UNSEEN
        else:
            s, z = s / s.sum(axis=1, keepdims=True), z / z.sum(axis=1, keepdims=True)
            s = (1 - prior_weight) * s + prior_weight / N_SEEN
            z = (1 - prior_weight) * z + prior_weight / N_UNSEEN
        return accuracies(self.outputs, np.hstack([s * (1 - u), z * u]).argmax(axis=1))


def trapezoids(points):
    """AUSUC of sampled points with the authors' padding."""
    ordered = sorted({(tr, -ts) for ts, tr, _ in points})
    x = [0.0, *(tr for tr, _ in ordered), ordered[-1][0]]
    y = [-ordered[0][1], *(-ts for _, ts in ordered), 0.0]
    return sum((x[i + 1] - x[i]) * (y[i + 1] + y[i]) / 2 for i in range(len(x) - 1))


def fitted(smoothing, gate=None, **options):
    return GatedMixture(gate or MaxSoftmaxGate(), smoothing=smoothing, **options).fit(VALIDATION)


VARIANTS = [
    ("adaptive", MaxSoftmaxGate(), (0.0,)),
    ("adaptive", ConfidenceGate(), (0.0,)),
    ("none", MaxSoftmaxGate(), (0.0,)),
    ("constant", ConfidenceGate(), (0.0, 0.4)),
]


class TestSearch:
    @pytest.mark.parametrize(("smoothing", "gate", "weights"), VARIANTS)
    def test_equals_brute_force(self, smoothing, gate, weights):
        validation, test = sample(90, 2), sample(80, 3)
        grid = Grid((0.1, 1.0), np.linspace(-1.5, 2.5, 21))
        mixture = GatedMixture(gate, smoothing=smoothing, prior_weights=weights).fit(validation)
        result = grid_search(mixture, validation, test, grid, n=20)

        on_validation = BruteForce(validation, mixture.gate_, smoothing)
        on_test = BruteForce(test, mixture.gate_, smoothing)
        pairs = [(softness, weight) for weight in weights for softness in grid.softnesses]
        coarse = {
            pair: np.array([on_validation.at(beta, *pair)[2] for beta in grid.thresholds]) for pair in pairs
        }
        pair = max(pairs, key=lambda p: coarse[p].max())
        fine = resample_thresholds(grid.thresholds, coarse[pair], 20)
        heights = [on_validation.at(beta, *pair) for beta in fine]
        chosen = int(np.argmax([point[2] for point in heights]))
        assert result.operating_point == pytest.approx(OperatingPoint(fine[chosen], *pair))
        assert result.validation == pytest.approx(heights[chosen])
        assert result.test == pytest.approx(on_test.at(fine[chosen], *pair))
        assert result.ausuc == pytest.approx(trapezoids([on_test.at(beta, *pair) for beta in fine]))

    def test_the_first_of_equals_wins(self):
        mixture = fitted("none", softnesses=(0.5,))
        grid = Grid((0.5, 0.5), np.linspace(-2, 3, 30))
        doubled = grid_search(mixture, VALIDATION, TEST, grid)
        assert doubled == grid_search(mixture, VALIDATION, TEST, Grid((0.5,), grid.thresholds))

    def test_a_hard_gate(self):
        mixture = fitted("none", hard=True)
        result = grid_search(mixture, VALIDATION, TEST, AUTHORS_GRIDS["AWA1"])
        unseen = TEST.seen.max(axis=1) < result.operating_point.threshold
        guess = np.where(unseen, N_SEEN + TEST.unseen.argmax(axis=1), TEST.seen.argmax(axis=1))
        assert result.test == pytest.approx(accuracies(TEST, guess))
