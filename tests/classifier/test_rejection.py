"""The score of known classes, conformal p-values, and the accuracy of answers, in simulation."""

import numpy as np
import pytest

from cosmo.classifier.rejection import Rejection, fit_rejection, least_probability, p_values
from cosmo.mixture.outputs import OutputsSummary

ROWS = 30


def draw(rng, classes=20):
    """Support of samples of seen, unseen and unknown classes, their domain and class; classes differ."""
    domain = np.repeat([0, 1, 2], classes * ROWS)
    target = np.repeat(np.arange(3 * classes), ROWS)
    level = rng.normal(size=3 * classes)[target]
    support = rng.normal(size=(len(domain), 3)) + level[:, None]
    support[:, 0] += 5 * (domain == 0)
    support[:, 1] += 5 * (domain == 1)
    support[:, 2] += 2 * (domain == 2)
    return support, domain, target


def summary(domain, target, classes=20):
    known = target[domain < 2].astype(np.int32)
    zeros, ones = np.zeros(len(known), dtype=np.int32), np.ones(len(known))
    return OutputsSummary(classes, classes, known, zeros, zeros, ones, ones, ones)


@pytest.fixture(scope="module")
def fitted():
    support, domain, target = draw(np.random.default_rng(0))
    known = support[domain < 2]
    rejection = fit_rejection(support, domain, np.ones(len(domain)), known, np.ones(len(known)), 40)
    return rejection, summary(domain, target)


def test_score_grows_with_evidence_and_falls_with_distance(fitted):
    rejection, _ = fitted
    centre = rejection.mean + np.array([0, 0, 1])
    for column, sign in ((0, 1), (1, 1), (2, -1)):
        step = np.zeros(3)
        step[column] = 1
        assert sign * (rejection.score(centre[None] + step) - rejection.score(centre[None]))[0] > 0
    near = np.stack([rejection.mean, rejection.mean - np.array([0, 0, 5])])
    assert np.ptp(rejection.score(near)) == 0  # A small distance is no evidence.


def test_separates_unknown_samples(fitted):
    support, domain, _ = draw(np.random.default_rng(1))
    score = fitted[0].score(support)
    assert np.mean(score[domain < 2]) > np.mean(score[domain == 2]) + 2 * np.std(score[domain == 2])


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_at_most_a_share_of_known_samples_is_rejected(fitted, alpha):
    shares = []
    for seed in range(2, 14):
        support, domain, _ = draw(np.random.default_rng(seed))
        rejected = fitted[0].conformity(support, fitted[1]) <= alpha
        shares.append([rejected[domain == k].mean() for k in range(3)])
    seen, unseen, unknown = np.mean(shares, axis=0)
    # One draw of 20 calibration classes has an error of its own.
    assert max(seen, unseen) <= alpha + 0.03
    assert unknown > 3 * alpha


def test_p_values_are_valid():
    rng, n = np.random.default_rng(0), 49
    found = np.array([p_values(v[:n], np.full(n, 1 / n), v[n:])[0] for v in rng.normal(size=(2000, n + 1))])
    for alpha in (0.02, 0.1, 0.5):
        assert np.mean(found <= alpha) == pytest.approx(alpha, abs=3 * np.sqrt(alpha / 2000))


def test_weights_of_p_values():
    weights = np.array([0.5, 0.25, 0.25])
    assert p_values(np.array([3.0, 1.0, 2.0]), weights, np.array([2.5]))[0] == pytest.approx(
        (0.5 * 3 + 1) / 4
    )


def answers(rng, classes=40):
    target = np.repeat(np.arange(classes), ROWS)
    probability = np.clip(rng.beta(2, 1, len(target)) + 0.05 * rng.normal(size=classes)[target], 0, 1)
    return probability, rng.random(len(target)) < probability, target, np.ones(len(target))


@pytest.mark.parametrize("accuracy", [0.8, 0.9])
def test_accuracy_of_answers_on_other_draws(accuracy):
    kept = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        least = least_probability(*answers(rng), accuracy)
        probability, right, *_ = answers(rng)
        kept.append(right[probability >= least].mean())
    assert np.mean(np.array(kept) >= accuracy) >= 0.75
    assert np.mean(kept) < accuracy + 0.06  # not by answering almost nothing


def test_unreachable_accuracy():
    probability, _, target, weights = answers(np.random.default_rng(0))
    with pytest.raises(ValueError, match="no share of the answers"):
        least_probability(probability, np.zeros(len(target), dtype=bool), target, weights, 0.5)


def test_no_spread():
    support = np.ones((30, 3))
    fitted = fit_rejection(support, np.arange(30) % 3, np.ones(30), support, np.ones(30), 9)
    assert isinstance(fitted, Rejection)
    assert np.isfinite(fitted.score(support)).all()
