"""Gates, smoothing and combinations do not depend on the order or names of classes and rows."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosmo.classifier.combinations import GatedMixture, OperatingPoint
from cosmo.classifier.ways import CalibratedStacking
from cosmo.gates import ConfidenceGate, MaxSoftmaxGate
from cosmo.metrics.accuracy import gzsl_scores
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.mixture.smoothing import SMOOTHINGS, combine, smooth

seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=12, deadline=None)


def draw(seed, n_seen=5, n_unseen=4, n=60, *, names=None, dtype=np.float64):
    rng = np.random.default_rng(seed)
    seen = rng.dirichlet([0.6] * n_seen, n)
    joint = rng.dirichlet([0.6] * (n_seen + n_unseen), n)
    # Keep every expert away from nothing: no row is decided in the last digits.
    joint = 0.95 * joint + 0.05 / joint.shape[1]
    guess = np.where(rng.random(n) < 0.5, seen.argmax(axis=1), n_seen + joint[:, n_seen:].argmax(axis=1))
    target = np.where(rng.random(n) < 0.6, guess, rng.integers(0, n_seen + n_unseen, n))
    target[:2] = 0, n_seen  # both sides are there
    target[3:5] = 0, n_seen
    index = pd.RangeIndex(n_seen + n_unseen) if names is None else pd.Index(names)
    return ExpertOutputs.from_joint(
        seen.astype(dtype), joint.astype(dtype), index[:n_seen], index[n_seen:], target=target
    )


GATES = {
    "max-softmax": MaxSoftmaxGate(),
    "max-softmax-3": MaxSoftmaxGate(3.0),
    "confidence": ConfidenceGate(),
    "confidence-textbook": ConfidenceGate(k=3, temperatures=(1.0, 3.0), convention="textbook"),
    "confidence-k-20": ConfidenceGate(k=20),
}
MODELS = {
    "adaptive": GatedMixture(ConfidenceGate(), softnesses=(0.1, 1.0)),
    "constant": GatedMixture(smoothing="constant", softnesses=(0.1,), prior_weights=(0.1, 0.5)),
    "none": GatedMixture(smoothing="none", softnesses=(0.1, 1.0)),
    "hard": GatedMixture(smoothing="none", hard=True),
    "stacking": CalibratedStacking(),
}


@pytest.mark.parametrize("name", GATES)
class TestGates:
    @few
    @given(seed=seeds)
    def test_the_order_of_classes_does_not_matter(self, name, seed):
        out, rng = draw(seed), np.random.default_rng(seed)
        gate = GATES[name].fit(out)
        score = gate.score(out)
        seen, unseen = rng.permuted(out.seen, axis=1), rng.permuted(out.unseen, axis=1)  # in every row anew
        other = replace(out, seen=seen, unseen=unseen)
        np.testing.assert_allclose(gate.score(other), score, rtol=1e-10)
        np.testing.assert_allclose(gate.fit(other).score(other), score, atol=1e-4)

    @few
    @given(seed=seeds)
    def test_the_order_of_rows_does_not_matter(self, name, seed):
        out, order = draw(seed), np.random.default_rng(seed).permutation(60)
        gate = GATES[name].fit(out)
        score = gate.score(out)
        np.testing.assert_allclose(gate.score(out[order]), score[order], rtol=1e-10)
        gate.fit(out[order])
        np.testing.assert_allclose(gate.score(out), score, atol=1e-4)

    def test_scores_lie_between_0_and_1(self, name):
        for n_seen, n_unseen in [(1, 1), (2, 7), (30, 2)]:  # K above the number of classes, too
            out = draw(0, n_seen, n_unseen)
            score = GATES[name].fit(out).score(out)
            assert score.shape == (60,)
            assert ((score >= 0) & (score <= 1)).all()


class TestSmoothing:
    @few
    @given(seed=seeds, prior_weight=st.floats(0, 0.999), smoothing=st.sampled_from(SMOOTHINGS))
    def test_ranking_is_unchanged(self, seed, prior_weight, smoothing):
        out, belief = draw(seed), np.random.default_rng(seed).random(60)
        for proba in (out.seen, out.unseen):
            smoothed = smooth(proba, belief, smoothing, prior_weight)
            np.testing.assert_array_equal(smoothed.argmax(axis=1), proba.argmax(axis=1))
            assert (np.sign(np.diff(smoothed)) == np.sign(np.diff(proba))).all()

    @few
    @given(seed=seeds, prior_weight=st.floats(0, 1), smoothing=st.sampled_from(SMOOTHINGS))
    def test_scores_are_finite_and_not_negative(self, seed, prior_weight, smoothing):
        out, rng = draw(seed), np.random.default_rng(seed)
        belief = rng.choice([0.0, 1e-300, 0.3, 1 - 1e-16, 1.0], 60)
        unseen = out.unseen * rng.choice([0.0, 1e-300, 1.0], (60, 1))
        scores = combine(out.seen, unseen, belief, smoothing=smoothing, prior_weight=prior_weight)
        assert scores.shape == (60, 9)
        assert np.isfinite(scores).all()
        assert (scores >= 0).all()


@pytest.mark.parametrize("name", MODELS)
class TestRelabelling:
    @few
    @given(seed=seeds)
    def test_renaming_classes(self, name, seed):
        names = [f"class {c}" for c in np.random.default_rng(seed).permutation(9)]
        plain, renamed = draw(seed), draw(seed, names=names)
        model = MODELS[name]
        one, other = model.fit(plain).predict(plain), model.fit(renamed).predict(renamed)
        assert [names[c] for c in plain.classes[one]] == list(renamed.classes[other])
        assert gzsl_scores(plain.labels, one, range(5), range(5, 9)) == gzsl_scores(
            renamed.classes[renamed.labels], renamed.classes[other], names[:5], names[5:]
        )

    @few
    @given(seed=seeds)
    def test_reordering_columns(self, name, seed):
        out, rng = draw(seed), np.random.default_rng(seed)
        seen_order, unseen_order = rng.permutation(5), rng.permutation(4)
        order = np.r_[seen_order, 5 + unseen_order]
        joint = joint_of(seed)[:, order]
        moved = ExpertOutputs.from_joint(
            out.seen[:, seen_order],
            joint,
            out.seen_classes[seen_order],
            out.unseen_classes[unseen_order],
            target=np.argsort(order)[out.labels],
        )
        model = MODELS[name].fit(out)
        np.testing.assert_allclose(model.flips(moved), model.flips(out), rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(moved.classes[model.predict(moved)], out.classes[model.predict(out)])
        np.testing.assert_allclose(model.curve(moved).area, model.curve(out).area, atol=1e-12)
        if isinstance(model, GatedMixture):
            np.testing.assert_allclose(model.scores(moved), model.scores(out)[:, order], rtol=1e-9)

    @few
    @given(seed=seeds)
    def test_reordering_rows(self, name, seed):
        out, order = draw(seed), np.random.default_rng(seed).permutation(60)
        model = MODELS[name].fit(out)
        np.testing.assert_array_equal(model.predict(out[order]), model.predict(out)[order])
        curve, moved = model.curve(out), model.curve(out[order])
        np.testing.assert_allclose(moved.area, curve.area, atol=1e-12)
        np.testing.assert_allclose(moved.best()[1:], curve.best()[1:], atol=1e-12)
        predicted = model.predict(out)
        before = gzsl_scores(out.labels, predicted, range(5), range(5, 9))
        assert gzsl_scores(out.labels[order], predicted[order], range(5), range(5, 9)) == before


def joint_of(seed):
    """The joint prediction that `draw` made."""
    rng = np.random.default_rng(seed)
    rng.dirichlet([0.6] * 5, 60)
    joint = rng.dirichlet([0.6] * 9, 60)
    return 0.95 * joint + 0.05 / 9


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("shape", [(5, 4), (3, 30), (1, 4), (6, 1)], ids=str)
@pytest.mark.parametrize("threshold", [1e9, -1e9])
def test_extreme_thresholds(name, shape, threshold):
    out = draw(3, *shape)
    model = MODELS[name].fit(out)
    model.operating_point_ = OperatingPoint(threshold, 0.1, 0.3)
    seen = out.stacking_choice if name == "stacking" else out.seen.argmax(axis=1)
    expected = shape[0] + out.unseen.argmax(axis=1) if threshold > 0 else seen
    np.testing.assert_array_equal(model.predict(out), expected)
    if isinstance(model, GatedMixture):
        np.testing.assert_array_equal(model.scores(out).argmax(axis=1), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(set(MODELS) - {"stacking"}))
class TestScores:
    @few
    @given(seed=seeds)
    def test_argmax_is_the_prediction(self, name, dtype, seed):
        out = draw(seed, dtype=dtype)
        model = MODELS[name].fit(out)
        scores = model.scores(out)
        assert np.isfinite(scores).all()
        assert (scores >= 0).all()
        np.testing.assert_array_equal(scores.argmax(axis=1), model.predict(out))

    @pytest.mark.parametrize("mass", [1e-3, 1e-7, 1e-9])
    def test_argmax_with_little_unseen_mass(self, name, dtype, mass):
        """Experts with a strong bias to seen classes leave next to nothing for the unseen ones."""
        rng = np.random.default_rng(0)
        seen = rng.dirichlet([5.0] * 40, 200).astype(dtype)
        unseen = (mass * rng.dirichlet([1.0] * 10, 200)).astype(dtype)
        out = ExpertOutputs(pd.RangeIndex(40), pd.RangeIndex(40, 50), seen, unseen)
        parameters = MODELS[name].get_params(deep=False) | {"gate": None}
        model = GatedMixture(**parameters)
        model.gate_ = MaxSoftmaxGate()
        for threshold in (0.1, 0.5, 1.0, 5.0):
            model.operating_point_ = OperatingPoint(threshold, 1.0, 0.1)
            np.testing.assert_array_equal(model.scores(out).argmax(axis=1), model.predict(out))
