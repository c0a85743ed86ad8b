"""The leave-out gate."""

import numpy as np
import pytest
from scipy.special import softmax

from cosmo import Cosmo
from cosmo.data import load_glyphs
from cosmo.experts._linear import Adam
from cosmo.gates import LeaveOutGate
from cosmo.gates.leave_out import entropy, margin_entropy_loss
from cosmo.metrics.accuracy import gate_auc


@pytest.mark.parametrize(("margin", "weight"), [(0.4, 0.2), (5.0, 2.0), (-9.0, 1.0)])
def test_gradient(margin, weight):
    """Against finite differences, with the margin violated and kept."""
    rng = np.random.default_rng(0)
    logits, codes = rng.normal(size=(7, 4)), rng.integers(4, size=3)
    value, gradient = margin_entropy_loss(logits, codes, 3, margin, weight)
    assert np.isfinite(value)
    for i, j in np.ndindex(*logits.shape):
        step = np.zeros_like(logits)
        step[i, j] = 1e-5
        up, down = (margin_entropy_loss(logits + s, codes, 3, margin, weight)[0] for s in (step, -step))
        assert gradient[i, j] == pytest.approx((up - down) / 2e-5, abs=1e-6)


def test_large_logits():
    """Probabilities do not change when all logits of a sample do, nor do they overflow."""
    rng = np.random.default_rng(0)
    logits, codes = rng.normal(size=(7, 4)), rng.integers(4, size=3)
    moved = logits + np.array([[0.0], [2000], [-2000], [900], [-900], [0], [1e4]])
    for one, other in zip(
        margin_entropy_loss(logits, codes, 3, 5.0, 2.0),
        margin_entropy_loss(moved, codes, 3, 5.0, 2.0),
        strict=True,
    ):
        np.testing.assert_allclose(other, one, atol=1e-9)


def test_nobody_left_out():
    value, gradient = margin_entropy_loss(np.zeros((2, 4)), np.array([0, 1]), 2, 0.4, 0.2)
    assert value == pytest.approx(np.log(4))
    assert gradient.shape == (2, 4)


def test_entropy():
    np.testing.assert_allclose(entropy(np.array([[0.25] * 4, [1, 0, 0, 0]])), [np.log(4), 0])


def toy(rng, classes, rows=30):
    centres = 3 * rng.normal(size=(12, 10))
    return np.concatenate([centres[c] + rng.normal(size=(rows, 10)) for c in classes]).astype(np.float32)


def test_is_less_sure_about_strangers():
    rng = np.random.default_rng(1)
    X, codes = toy(np.random.default_rng(1), range(9)), np.repeat(np.arange(9), 30)
    strangers = toy(np.random.default_rng(1), range(12))[270:]
    ensemble = LeaveOutGate(3, epochs=30).observer().fit(None, X, codes)
    fresh = toy(np.random.default_rng(1), range(9))
    fresh += 0.1 * rng.normal(size=fresh.shape).astype(np.float32)
    score = np.r_[ensemble.evidence(fresh)[:, 0], ensemble.evidence(strangers)[:, 0]]
    assert gate_auc(np.arange(len(score)) < len(fresh), score) > 0.7


def test_same_seed_same_evidence():
    X, codes = toy(np.random.default_rng(1), range(6)), np.repeat(np.arange(6), 30)
    one, other = (LeaveOutGate(3, epochs=2).observer().fit(None, X, codes).evidence(X) for _ in range(2))
    np.testing.assert_array_equal(one, other)
    another = LeaveOutGate(3, epochs=2, seed=1).observer().fit(None, X, codes).evidence(X)
    assert (one != another).any()


def test_too_few_classes():
    with pytest.raises(ValueError, match="^the leave-out gate needs at least three seen classes$"):
        LeaveOutGate().observer().fit(None, np.eye(4, dtype=np.float32), np.array([0, 0, 1, 1]))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"folds": 1}, "folds must be at least 2, got 1"),
        ({"folds": 2.5}, "folds must be a whole number, got 2.5"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"epochs": 1.5}, "epochs must be a whole number, got 1.5"),
        ({"epochs": "ten"}, "epochs must be a number, got 'ten'"),
        ({"temperature": 0.0}, "temperature must be positive, got 0.0"),
        ({"temperature": None}, "temperature must be a number, got None"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        LeaveOutGate(**parameters).observer()


def test_smallest_parameters():
    X, codes = toy(np.random.default_rng(1), range(4)), np.repeat(np.arange(4), 30)
    ensemble = LeaveOutGate(2, epochs=1, temperature=0.5).observer().fit(None, X, codes)
    assert len(ensemble.members) == 2


def test_values_of_the_paper():
    expected = {"folds": 5, "margin": 0.4, "weight": 0.2, "temperature": 1000.0, "epsilon": 0.002}
    assert LeaveOutGate().get_params() == {**expected, "epochs": 20, "seed": 0}


@pytest.fixture
def rows():
    X, codes = toy(np.random.default_rng(3), range(7)), np.repeat(np.arange(7), 30)
    X[:, 4] = 2.5  # never varies
    X[:, 5] *= 9
    X[:, 6] *= 0.05
    return X, codes + 2


@pytest.fixture  # of each test anew: mutation testing asks which tests train
def ensemble(rows):
    return LeaveOutGate(3, epochs=2, temperature=2.0, epsilon=0.01).observer().fit(None, *rows)


class TestEnsemble:
    """Against what the class says it does, step by step."""

    def test_folds_cover_all_classes_once(self, ensemble):
        assert ensemble.classes.tolist() == [2, 3, 4, 5, 6, 7, 8]
        assert sorted(fold.sum() for fold in ensemble.left_out) == [2, 2, 3]
        np.testing.assert_array_equal(np.sum(ensemble.left_out, axis=0), 1)

    def test_a_fold_that_leaves_one_class_is_not_used(self):
        X, codes = toy(np.random.default_rng(1), range(3)), np.repeat(np.arange(3), 30)
        ensemble = LeaveOutGate(2, epochs=1).observer().fit(None, X, codes)
        assert [fold.sum() for fold in ensemble.left_out] == [1]

    def test_features_are_standardised(self, ensemble, rows):
        X, _ = rows
        np.testing.assert_allclose(ensemble.mean, X.mean(axis=0), rtol=1e-6)
        assert ensemble.spread.dtype == np.float32
        varies = np.arange(10) != 4
        np.testing.assert_allclose(ensemble.spread[varies], X.std(axis=0)[varies], rtol=1e-6)
        assert ensemble.spread[4] == 1

    def test_confidence(self, ensemble, rows):
        X = rows[0][::11]
        scaled = (X - ensemble.mean) / ensemble.spread
        found = ensemble.confidence(X)
        for column, logits in enumerate(ensemble.members):
            weights, _ = logits.layers[0]
            proba = softmax(logits(scaled) / 2.0, axis=1)
            # Uphill for log max p: the best class's weights minus their mean under p.
            slope = weights[:, proba.argmax(axis=1)].T - proba @ weights.T
            moved = softmax(logits(scaled + np.float32(0.01) * np.sign(slope)).astype(float) / 2.0, axis=1)
            n = moved.shape[1]
            H = -(moved * np.log(moved)).sum(axis=1)
            np.testing.assert_allclose(found[:, column], n * moved.max(axis=1) - 1 + np.log(n) - H, rtol=1e-5)

    def test_evidence_is_measured_from_the_training_rows(self, ensemble, rows):
        X, _ = rows
        total = ensemble.confidence(X).sum(axis=1)
        assert ensemble.evidence(X).shape == (len(X), 1)
        np.testing.assert_allclose(ensemble.evidence(X)[:, 0], total - total.mean())

    def test_members_are_trained_step_by_step(self, ensemble, rows):
        X, codes = rows
        scaled = (X - ensemble.mean) / ensemble.spread
        rng = np.random.default_rng(0)
        rng.permutation(7)  # of the classes into folds
        for left_out, member in zip(ensemble.left_out, ensemble.members, strict=True):
            kept = np.flatnonzero(~left_out)
            inside = np.isin(codes - 2, kept)
            weights = np.zeros((10, len(kept)), dtype=np.float32)
            bias = np.zeros(len(kept), dtype=np.float32)
            steps = Adam(weights, 0.01), Adam(bias, 0.01)
            for _ in range(2):
                own, others = (
                    rng.permutation(np.flatnonzero(inside)),
                    rng.permutation(np.flatnonzero(~inside)),
                )
                for start in range(0, len(own), 100):
                    taken = own[start : start + 100]
                    doubted = [others[k % len(others)] for k in range(start, start + len(taken))]
                    batch = scaled[[*taken, *doubted]]
                    target = np.searchsorted(kept, codes[taken] - 2)
                    _, gradient = margin_entropy_loss(batch @ weights + bias, target, len(taken), 0.4, 0.2)
                    steps[0].update(batch.T @ gradient)
                    steps[1].update(gradient.sum(axis=0))
            ((found, offsets),) = member.layers
            assert found.dtype == offsets.dtype == np.float32
            np.testing.assert_allclose(found, weights, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(offsets, bias, rtol=1e-4, atol=1e-6)


def test_stays_on_scale_when_the_number_of_classes_changes():
    """The test stage has more classes than the validation stage; scores must not all be one."""
    data = load_glyphs(n_classes=40, samples_per_class=12)
    train = data.split.trainval
    model = Cosmo(data.descriptions, gate=LeaveOutGate(epochs=3), method="paper").fit(
        data.features[train], data.labels[train]
    )
    score = model.combination_.gate_.score(model.outputs(data.features[data.split.test_unseen]))
    assert len(np.unique(score)) > len(score) / 2


def test_members_are_taught_to_doubt():
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(9), 40)
    X = (rng.normal(size=(9, 20))[codes] + rng.normal(size=(360, 20))).astype(np.float32)

    def separation(weight):
        """Return the mean AUC by which members separate their classes from those left out."""
        ensemble = LeaveOutGate(3, weight=weight).observer().fit(None, X, codes)
        areas = zip(ensemble.left_out, ensemble.confidence(X).T, strict=True)
        return np.mean([gate_auc(~left_out[codes], confidence) for left_out, confidence in areas])

    assert separation(3.0) > separation(0.0) + 0.01
