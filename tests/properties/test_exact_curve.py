"""The exact curve against brute force: score every class, take the argmax, measure."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from cosmo.classifier.combinations import GatedMixture, OperatingPoint
from cosmo.classifier.ways import CalibratedStacking
from cosmo.gates import MaxSoftmaxGate
from cosmo.metrics.accuracy import gzsl_scores
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.mixture.smoothing import combine, gate_belief

SHAPES = [(4, 3), (1, 5), (5, 1), (1, 1), (3, 60), (40, 10)]
SOFTNESSES = [0.003, 0.1, 1.0, 10.0]
RULES = {
    "none": {"smoothing": "none"},
    "constant 0": {"smoothing": "constant", "prior_weight": 0.0},
    "constant 0.35": {"smoothing": "constant", "prior_weight": 0.35},
    "constant 0.999": {"smoothing": "constant", "prior_weight": 0.999},
    "adaptive": {"smoothing": "adaptive"},
    "hard": {"smoothing": "none", "hard": True},
}


def calibrated_stacking(seen, unseen, constant):
    """Return scores with a constant subtracted from those of seen classes."""
    return np.concatenate([seen - constant, unseen], axis=1)


@dataclass
class Task:
    """Random experts: `joint` is the unseen expert over all classes, columns `[seen | unseen]`."""

    seen: np.ndarray
    joint: np.ndarray
    target: np.ndarray
    n_seen: int

    @property
    def unseen(self):
        return self.joint[:, self.n_seen :]

    @property
    def outputs(self):
        n_unseen = self.joint.shape[1] - self.n_seen
        names = pd.Index([f"s{i}" for i in range(self.n_seen)]), pd.Index([f"u{i}" for i in range(n_unseen)])
        return ExpertOutputs.from_joint(self.seen, self.joint, *names, target=self.target)

    def brute_force(self, scores):
        columns = np.arange(self.joint.shape[1])
        return gzsl_scores(self.target, scores.argmax(axis=1), columns[: self.n_seen], columns[self.n_seen :])


def draw_task(shape, seed, n=24, concentration=0.5, copies=1, noise=0.0):
    rng = np.random.default_rng(seed)
    n_seen, n_unseen = shape

    def expert(n_classes):
        proba = rng.dirichlet([concentration] * n_classes, n) + noise * rng.random((n, n_classes))
        return proba / proba.sum(axis=1, keepdims=True)  # exactly one for a single class: rows tie exactly

    seen = expert(n_seen)
    # The mass on unseen classes stays away from 0 and 1, where 1 - p(U) loses its digits in brute force.
    mass = rng.uniform(0.02, 0.98, (n, 1))
    joint = np.hstack([(1 - mass) * expert(n_seen), mass * expert(n_unseen)])
    # Half of the rows get the class that an expert prefers, so that the curve has steps.
    target = rng.integers(0, n_seen + n_unseen, n)
    expected = np.where(rng.random(n) < 0.5, seen.argmax(axis=1), n_seen + joint[:, n_seen:].argmax(axis=1))
    target = np.where(rng.random(n) < 0.6, expected, target)
    repeat = np.tile(np.arange(n), copies)
    return Task(seen[repeat], joint[repeat], target[repeat], n_seen)


def gated(rule, softness):
    model = GatedMixture(smoothing=rule["smoothing"], hard=rule.get("hard", False))
    model.gate_ = MaxSoftmaxGate()
    model.operating_point_ = OperatingPoint(0.0, softness, rule.get("prior_weight", 0.0))
    return model


def score_matrix(task, rule, softness, threshold):
    """Scores of all classes, from the paper's formulas and the task alone."""
    u = gate_belief(task.seen.max(axis=1), threshold, softness)
    u = (u > 0.5).astype(float) if rule.get("hard") else u
    return combine(
        task.seen, task.unseen, u, smoothing=rule["smoothing"], prior_weight=rule.get("prior_weight", 0.0)
    )


def stacked(task, constant):
    return calibrated_stacking(task.joint[:, : task.n_seen], task.unseen, constant)


def bisected_flips(task, scores_at, low, high):
    """The threshold at which each row changes side, found by trying."""
    lower, upper = np.full(len(task.target), low), np.full(len(task.target), high)
    for _ in range(80):
        middle = (lower + upper) / 2
        is_unseen = scores_at(middle).argmax(axis=1) >= task.n_seen
        lower, upper = np.where(is_unseen, lower, middle), np.where(is_unseen, middle, upper)
    return (lower + upper) / 2


def compare(task, model, scores_at, low, high):
    """Check flips, every point, the best and the area of `model`'s curve against `scores_at`."""
    outputs = task.outputs
    curve = model.curve(outputs)
    flips = bisected_flips(task, scores_at, low, high)
    np.testing.assert_allclose(model.flips(outputs), flips, rtol=1e-9, atol=1e-9)

    ordered = np.unique(flips.round(9))
    between = (ordered[1:] + ordered[:-1]) / 2
    thresholds = np.concatenate([[low, ordered[0] - 1e-3], between, [ordered[-1] + 1e-3, high]])
    brute = np.array([task.brute_force(scores_at(threshold)) for threshold in thresholds])
    np.testing.assert_allclose(np.transpose(curve.sample(thresholds)), brute, atol=1e-12)

    own = np.array([task.brute_force(scores_at(threshold)) for threshold in curve.thresholds])
    np.testing.assert_allclose(np.column_stack([curve.acc_ts, curve.acc_tr, curve.acc_h]), own, atol=1e-12)

    best = curve.best()
    assert best.acc_h == pytest.approx(brute[:, 2].max(), abs=1e-12)
    np.testing.assert_allclose(task.brute_force(scores_at(best.threshold)), best[1:], atol=1e-12)
    # Acc_tr falls with the threshold, so the area is the trapezoids' with the sign turned.
    ts, tr = brute[:, 0], brute[:, 1]
    assert curve.area == pytest.approx(-np.trapezoid(ts, tr) + tr[-1] * ts[-1], abs=1e-12)
    return curve


def compare_gated(task, rule, softness):
    """Compare within thresholds that saturate all gates."""
    reach = 60 * softness + 2
    return compare(
        task, gated(rule, softness), lambda beta: score_matrix(task, rule, softness, beta), -reach, reach
    )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", RULES)
def test_gated_curve_is_brute_force(name, shape):
    rule = RULES[name]
    for i, softness in enumerate(SOFTNESSES):
        task = draw_task(shape, seed=i, concentration=(0.1, 0.5, 1.0, 5.0)[i])
        compare_gated(task, rule, softness)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_stacking_curve_is_brute_force(shape):
    for seed, concentration in enumerate((0.1, 1.0, 5.0)):
        task = draw_task(shape, seed, concentration=concentration)
        compare(task, CalibratedStacking(), lambda c, t=task: stacked_rows(t, c), -2, 2)


def stacked_rows(task, constant):
    """`stacked`, also for one constant per row."""
    return stacked(task, np.asarray(constant)[:, None] if np.ndim(constant) else constant)


@pytest.mark.parametrize("name", ["none", "constant 0.35", "adaptive", "hard"])
def test_equal_rows_flip_together(name):
    task = draw_task((4, 3), seed=2, n=10, copies=3)
    curve = compare_gated(task, RULES[name], 0.3)
    assert len(curve.corners) == 10
    assert len(curve.acc_h) == 11


def test_ties_of_stacking_go_to_the_seen_class():
    # Quarters are exact in binary: several rows share a margin, and the constant can hit it.
    joint = np.array([[2, 1, 1, 0], [1, 0, 2, 1], [2, 0, 2, 0], [1, 1, 0, 2], [3, 0, 1, 0]]) / 4
    task = Task(np.full((5, 2), 0.5), joint, np.array([0, 2, 2, 3, 0]), n_seen=2)
    curve = CalibratedStacking().curve(task.outputs)
    np.testing.assert_array_equal(curve.corners, [-0.25, 0, 0.25, 0.5])
    for constant in np.arange(-1, 1.01, 0.125):
        np.testing.assert_allclose(curve.at(constant), task.brute_force(stacked(task, constant)), atol=1e-12)


class TestWithoutMass:
    """Experts that give a side exactly nothing: flips at infinity."""

    def test_adaptive_unseen_expert_without_mass(self):
        # n_S = 3, n_U = 2: the prior of unseen classes exceeds that of seen ones by d = 1/6. Rows whose
        # best seen probability is larger than d can never be won by the prior alone.
        seen = np.array([[0.6, 0.2, 0.2], [0.4, 0.3, 0.3], [0.1, 0.8, 0.1]])
        unseen = np.array([[0.0, 0.0], [0.2, 0.1], [0.0, 0.0]])
        task = Task(seen, np.hstack([seen * 0.5, unseen]), np.array([0, 3, 4]), n_seen=3)
        model = gated(RULES["adaptive"], 0.3)
        np.testing.assert_array_equal(np.isposinf(model.flips(task.outputs)), [True, False, True])
        curve = model.curve(task.outputs)
        assert len(curve.corners) == 1
        # Gates stay off saturation: where p(U) rounds to one, all scores of such a row are zero.
        for beta in np.linspace(-5, 5, 41):
            brute = task.brute_force(score_matrix(task, RULES["adaptive"], 0.3, beta))
            np.testing.assert_allclose(curve.at(beta), brute, atol=1e-12)
        np.testing.assert_allclose(curve.acc_tr, [1 / 3, 1 / 3])
        np.testing.assert_allclose(curve.acc_ts, [0, 0.5])
        assert curve.area == pytest.approx(1 / 6)
