"""The share of unseen samples: estimates from unlabelled samples, and as the operating point."""

import re
from copy import copy
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import logit
from sklearn.exceptions import NotFittedError

from cosmo import Cosmo
from cosmo.classifier import estimates as module
from cosmo.classifier.estimates import ShareEstimate, estimate_share, likeliest_share
from cosmo.experts import ESZSL
from cosmo.mixture.outputs import OutputsSummary

EXPERT = ESZSL(1.0, 1.0, temperature=0.1)
DISTANCE = 3.0  # of the domains' log-odds, in standard deviations
shares = st.floats(0.001, 0.999)


def gate_scores(is_seen, rng, distance=DISTANCE):
    """Calibrated log-odds of "seen": Gaussian with mean `± d²/2` and standard deviation `d`."""
    sign = np.where(is_seen, 1.0, -1.0)
    return distance**2 / 2 * sign + distance * rng.normal(size=len(is_seen))


def rounds(n_seen=20, n_unseen=20, rows=40, seed=0):
    target = np.repeat(np.arange(n_seen + n_unseen, dtype=np.int32), rows)
    score = gate_scores(target < n_seen, np.random.default_rng(seed))
    best = np.full(len(target), 0.9)
    choices = np.minimum(target, n_seen - 1), np.maximum(target - n_seen, 0)
    return OutputsSummary(n_seen, n_unseen, target, *choices, best, best, score)


def batch(share, n, rng, distance=DISTANCE):
    return gate_scores(rng.random(n) >= share, rng, distance)


@pytest.fixture(scope="module")
def validation():
    return rounds()


@pytest.fixture
def quick(monkeypatch):
    """Fewer bins and simulated batches."""
    monkeypatch.setattr(module, "_BINS", 50)
    monkeypatch.setattr(module, "_DRAWS", 40)


class TestLikeliestShare:
    @settings(max_examples=30)
    @given(st.integers(0, 1000), st.integers(2, 30))
    def test_maximises_the_likelihood(self, seed, n):
        rng = np.random.default_rng(seed)
        value, counts = 2 * rng.normal(size=n), rng.integers(0, 4, n).astype(float)
        counts[0] += 1

        def loss(share):
            return -counts @ np.log(share * np.exp(value) + 1 - share)

        best = minimize_scalar(loss, bounds=(0, 1), method="bounded").x
        (found,) = likeliest_share(value, counts[None])
        assert loss(found) <= loss(best) + 1e-6

    def test_batches_are_independent(self):
        rng = np.random.default_rng(0)
        value, counts = rng.normal(size=(5, 9)), rng.integers(1, 4, (5, 9)).astype(float)
        together = likeliest_share(value, counts)
        apart = [likeliest_share(v, c[None])[0] for v, c in zip(value, counts, strict=True)]
        np.testing.assert_array_equal(together, apart)


class TestEstimateShare:
    @pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.8])
    def test_is_near_the_share(self, validation, share):
        found = estimate_share(batch(share, 2000, np.random.default_rng(1)), validation, 5)
        assert found.share == pytest.approx(share, abs=0.04)
        assert found.low < found.share < found.high
        assert found.high - found.low < 0.15
        assert found.known

    def test_the_interval_contains_the_share(self, validation, quick):
        rng = np.random.default_rng(0)
        hits = 0
        for _ in range(50):
            share = rng.random()
            found = estimate_share(batch(share, 200, rng), validation, 5)
            hits += found.low <= share <= found.high
        assert 38 <= hits <= 49

    @pytest.mark.parametrize("share", [0, 1])
    def test_one_domain_only(self, validation, share):
        found = estimate_share(batch(share, 300, np.random.default_rng(0)), validation, 5)
        assert found.share == pytest.approx(share, abs=0.02)
        assert found.high - found.low < 0.05
        assert found.known

    def test_no_unseen_sample_among_many_excludes_no_small_share(self, quick):
        """With sure log-odds: at a share of 1/1000, 300 samples have none in 3 of 4 batches."""
        score = np.full(300, 30.0)
        certain = rounds()
        certain = OutputsSummary(**{**vars(certain), "gate_score": np.where(certain.is_seen, 30.0, -30.0)})
        found = estimate_share(score, certain, 5)
        assert found.share < 1e-6
        assert 0.001 < found.high < 0.05

    @pytest.mark.parametrize("distance", [DISTANCE, 20.0])
    def test_one_sample_does_not_tell(self, validation, quick, distance):
        for share in (0, 1):
            found = estimate_share(batch(share, 1, np.random.default_rng(0), distance), validation, 5)
            assert not found.known
            assert found.high - found.low > 0.8

    def test_fewer_samples_fewer_classes_and_an_error_widen_the_interval(self, quick):
        """Unseen classes that differ, so that it matters which ones are met."""
        rng = np.random.default_rng(0)
        plain = rounds()
        shift = np.where(plain.is_seen, 0, 3 * rng.normal(size=40)[plain.target])
        differing = OutputsSummary(**{**vars(plain), "gate_score": plain.gate_score + shift})

        def width(n, n_unseen, error=0.0):
            found = estimate_share(batch(0.4, n, np.random.default_rng(1)), differing, n_unseen, error=error)
            return found.high - found.low

        assert width(30, 20) > 1.5 * width(1000, 20)
        assert width(1000, 1) > 1.5 * width(1000, 20)
        assert width(1000, 20, error=1.0) > 1.2 * width(1000, 20)


@pytest.fixture(scope="module")
def fitted(data, train):
    return Cosmo(data.descriptions, unseen=EXPERT).fit(*train)


@pytest.fixture(scope="module")
def paper(data, train):
    return Cosmo(data.descriptions, unseen=EXPERT, method="paper").fit(*train)


@pytest.fixture(scope="module")
def test_rows(test):
    return test[0]


@pytest.fixture
def model(fitted):
    """A copy whose operating point a test may change."""
    model = copy(fitted)
    model.combination_ = copy(fitted.combination_)
    model.combination_.gate_ = copy(fitted.combination_.gate_)
    return model


class TestOperatingPoint:
    @given(shares)
    @settings(max_examples=20)
    def test_threshold_is_the_log_odds_of_the_share(self, fitted, test_rows, share):
        one, two = copy(fitted), copy(fitted)
        for model in (one, two):
            model.combination_ = copy(fitted.combination_)
        one.operate_at(unseen_share=share)
        two.operate_at(threshold=float(logit(share)))
        assert one.operating_point_ == two.operating_point_
        assert one.combination_.unseen_share == pytest.approx(share)

    def test_p_unseen_is_the_posterior_of_the_share(self, model, test_rows):
        score = model.explain(test_rows).gate_score
        model.operate_at(unseen_share=0.2)
        odds = np.exp(-score) * 0.2 / 0.8
        np.testing.assert_allclose(model.explain(test_rows).p_unseen, odds / (1 + odds))

    def test_a_larger_share_gives_more_samples_to_unseen_classes(self, model, test_rows):
        taken = []
        for share in (0.001, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999):
            labels = model.operate_at(unseen_share=share).predict(test_rows)
            taken.append({*np.flatnonzero(np.isin(labels, model.unseen_classes_))})
        assert all(one <= two for one, two in pairwise(taken))
        assert len(taken[0]) < len(taken[-1]) / 2

    @pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, float("nan"), float("inf")])
    def test_no_share(self, model, share):
        before = model.operating_point_
        with pytest.raises(ValueError, match="unseen_share (is a share|must be a number)"):
            model.operate_at(unseen_share=share)
        assert model.operating_point_ == before

    @pytest.mark.parametrize(
        "other",
        [{"threshold": 0.0}, {"softness": 1.0}, {"min_seen": 0.5}, {"min_unseen": 0.5}, {"confidence": 0.9}],
    )
    def test_one_choice_at_a_time(self, model, test_rows, other):
        for first in ({"unseen_share": 0.5}, {"samples": test_rows}):
            with pytest.raises(ValueError, match="^give one of unseen_share, samples, "):
                model.operate_at(**first, **other)
        with pytest.raises(ValueError, match="^give one of unseen_share, samples, "):
            model.operate_at(unseen_share=0.5, samples=test_rows)

    def test_the_paper_has_no_share(self, paper, test_rows):
        before = paper.operating_point_
        assert paper.combination_.unseen_share is None
        for choice in ({"unseen_share": 0.5}, {"samples": test_rows}):
            with pytest.raises(ValueError, match="needs the calibrated method; this model has the paper's"):
                paper.operate_at(**choice)
        with pytest.raises(ValueError, match="calibrated method"):
            paper.estimate_share(test_rows)
        assert paper.operating_point_ == before


class TestSamples:
    def test_the_point_is_the_estimate(self, model, test_rows, quick):
        model.combination_.gate_.bias_error_ = 0.0
        estimate = model.estimate_share(test_rows)
        assert estimate.known
        model.operate_at(samples=test_rows)
        assert model.combination_.unseen_share == pytest.approx(np.clip(estimate.share, 0.001, 0.999))

    def test_other_samples_other_shares(self, fitted, data, quick):
        rows = data.split.test_seen, data.split.test_unseen
        seen, unseen = (fitted.estimate_share(data.features[part]) for part in rows)
        assert seen.share < 0.3
        assert unseen.share > 0.7

    def test_no_domain_is_lost_for_ever(self, model, data, monkeypatch):
        for share, kept in ((0.0, 0.001), (1.0, 0.999)):
            monkeypatch.setattr(Cosmo, "estimate_share", lambda *_, s=share: ShareEstimate(s, s, s))
            model.operate_at(samples=data.features[:9])
            assert model.combination_.unseen_share == pytest.approx(kept)

    def test_one_sample_is_too_few(self, model, test_rows, quick):
        before, estimate = model.operating_point_, model.estimate_share(test_rows[:1])
        ends = f"between {estimate.low:.2f} and {estimate.high:.2f};"
        with pytest.raises(ValueError, match=f"^1 samples leave the share .*{re.escape(ends)}"):
            model.operate_at(samples=test_rows[:1])
        assert model.operating_point_ == before

    def test_the_bias_error_of_the_gate_counts(self, model, test_rows, quick):
        widths = []
        for error in (0.0, 3.0):
            model.combination_.gate_.bias_error_ = error
            assert model.combination_.bias_error == error
            estimate = model.estimate_share(test_rows)
            widths.append(estimate.high - estimate.low)
        assert widths[1] > widths[0]

    def test_an_unfitted_model(self, data, test_rows):
        for ask in (Cosmo.estimate_share, lambda model, _: model.expected_scores()):
            with pytest.raises(NotFittedError):
                ask(Cosmo(data.descriptions), test_rows)
