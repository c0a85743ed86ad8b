"""scikit-learn's own checks of the seen expert; those of `Cosmo` are in tests/classifier."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from cosmo.experts.seen import SoftmaxRegression


@parametrize_with_checks([SoftmaxRegression()])
def test_scikit_learn(estimator, check):
    check(estimator)
