"""Logits of classifiers and their gradients."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor

from cosmo.gates.odin import logits_of


def sample(n_classes):
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(n_classes), 30)
    X = rng.normal(size=(n_classes, 6))[codes] + rng.normal(size=(30 * n_classes, 6))
    return X.astype(np.float32), codes


def network(activation, hidden=(8, 5)):
    return MLPClassifier(
        hidden, activation=activation, solver="lbfgs", max_iter=5000, alpha=1.0, random_state=0
    )


CLASSIFIERS = {
    "logistic": LogisticRegression(),
    "lda": LinearDiscriminantAnalysis(),
    "no hidden layer": network("relu", ()),
    **{name: network(name) for name in ("identity", "logistic", "tanh", "relu")},
}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_soft_max_of_the_logits_is_the_classifier(name, n_classes):
    X, codes = sample(n_classes)
    classifier = CLASSIFIERS[name].fit(X, codes)
    np.testing.assert_allclose(
        softmax(logits_of(classifier)(X), axis=1), classifier.predict_proba(X), atol=1e-4
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_gradient_agrees_with_finite_differences(name, n_classes):
    X, codes = sample(n_classes)
    logits = logits_of(CLASSIFIERS[name].fit(X, codes))
    X = X[::7].astype(np.float64)
    best = logits(X).argmax(axis=1)
    rows = np.arange(len(X))

    def log_p(moved):
        return log_softmax(logits(moved) / 3, axis=1)[rows, best]

    slope = -softmax(logits(X) / 3, axis=1)
    slope[rows, best] += 1
    step = 1e-5 * np.eye(X.shape[1])
    expected = np.stack([(log_p(X + s) - log_p(X - s)) / 2e-5 for s in step], axis=1)
    np.testing.assert_allclose(logits.pull_back(X, slope) / 3, expected, atol=1e-6)


@pytest.mark.parametrize(
    "classifier",
    [
        KNeighborsClassifier(),
        Ridge(),
        MLPRegressor(hidden_layer_sizes=(3,), solver="lbfgs", max_iter=5000, random_state=0),
    ],
)
def test_without_gradient(classifier):
    X, codes = sample(3)
    message = (
        f"^ODIN needs the gradient of the seen expert, which {type(classifier).__name__} does not have; use "
        "a linear classifier, such as LogisticRegression or LinearDiscriminantAnalysis, or an MLPClassifier$"
    )
    with pytest.raises(TypeError, match=message):
        logits_of(classifier.fit(X, codes))
