"""ODIN: confidence of the seen expert after a small perturbation of the sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax
from sklearn.base import clone

from cosmo._core.validation import as_number
from cosmo.experts.base import Array, Observer
from cosmo.gates.base import ScaledGate, require_evidence
from cosmo.metrics.accuracy import gate_auc
from cosmo.mixture.outputs import ExpertOutputs

_Array = NDArray[np.float32]

# Activations of hidden layers, and their derivatives as functions of the activation.
_ACTIVATIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "identity": (lambda z: z, np.ones_like),
    "logistic": (expit, lambda a: a * (1 - a)),
    "tanh": (np.tanh, lambda a: 1 - a**2),
    "relu": (lambda z: np.maximum(z, 0), lambda a: (a > 0).astype(a.dtype)),
}


@dataclass(frozen=True, eq=False)
class Logits:
    """Logits of a soft-max classifier with one linear layer, or a network with several.

    `layers` are pairs of weights (n_inputs, n_outputs) and bias (n_outputs,); the last has one output per
    class. `activation` is applied between layers.
    """

    layers: Sequence[tuple[_Array, _Array]]
    activation: str = "identity"

    def __call__(self, X: _Array) -> _Array:
        """Return the logits, shape (n_samples, n_classes)."""
        weights, bias = self.layers[-1]
        return self._hidden(X)[-1] @ weights + bias

    def pull_back(self, X: _Array, slope: _Array) -> _Array:
        """Return the gradient by the samples of a function whose gradient by their logits is `slope`."""
        hidden = self._hidden(X)
        _, derivative = _ACTIVATIONS[self.activation]
        gradient = slope @ self.layers[-1][0].T
        for weights, _ in self.layers[-2::-1]:
            gradient = (gradient * derivative(hidden.pop())) @ weights.T
        return gradient

    def _hidden(self, X: _Array) -> list[_Array]:
        """Return the input of every layer."""
        function, _ = _ACTIVATIONS[self.activation]
        values = [X]
        for weights, bias in self.layers[:-1]:
            values.append(function(values[-1] @ weights + bias))
        return values


def logits_of(seen: Any) -> Logits:
    """Return the logits of a fitted scikit-learn classifier that is linear or an MLPClassifier."""
    if hasattr(seen, "coefs_") and seen.out_activation_ in ("softmax", "logistic"):
        matrices, biases, activation = seen.coefs_, seen.intercepts_, seen.activation
    else:
        coefficients, n_classes = np.asarray(getattr(seen, "coef_", 0)), len(getattr(seen, "classes_", ()))
        # Other linear models, such as one-vs-one, have no soft-max.
        if coefficients.ndim != 2 or len(coefficients) != (n_classes if n_classes > 2 else 1):
            raise TypeError(
                f"ODIN needs the gradient of the seen expert, which {type(seen).__name__} does not have; use "
                "a linear classifier, such as LogisticRegression or LinearDiscriminantAnalysis, or an "
                "MLPClassifier"
            )
        matrices, biases, activation = [coefficients.T], [seen.intercept_], "identity"
    pairs = zip(matrices, biases, strict=True)
    layers = [(np.asarray(weights, np.float32), np.asarray(bias, np.float32)) for weights, bias in pairs]
    weights, bias = layers[-1]
    if weights.shape[1] == 1:  # one output for two classes, the difference of their logits
        layers[-1] = np.hstack([np.zeros_like(weights), weights]), np.r_[np.float32(0), bias]
    return Logits(layers, activation)


TEMPERATURES = (1.0, 3.0, 10.0, 100.0, 1000.0)
EPSILONS = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)


@dataclass(eq=False, repr=False)
class OdinGate(ScaledGate):
    """Score a sample by the seen expert's largest probability at a temperature, after a perturbation.

    The perturbation is `ε · std · sign(∇_x log p_ŷ(x))` with ŷ the best class, `std` the standard deviation
    of each feature; it raises the confidence of samples of seen classes more than of others. The seen expert
    must be linear (logistic regression, linear discriminant analysis) or scikit-learn's MLPClassifier. The
    mean confidence of the training rows is subtracted, so that thresholds are the same in all stages, and
    confidences are scaled to probabilities on held-out samples.

    Parameters
    ----------
    temperature : float or None, default=None
        None chooses by AUC on Gating-Val.
    epsilon : float or None, default=None
        Size of the perturbation. None chooses by AUC on Gating-Val.

    References
    ----------
    Liang, Li & Srikant, "Enhancing the reliability of out-of-distribution image detection in neural
    networks", ICLR 2018.

    Examples
    --------
    >>> from cosmo import Cosmo
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> train = data.split.trainval
    >>> model = Cosmo(data.descriptions, gate=OdinGate(temperature=3.0, epsilon=1e-3), method="paper")
    >>> model.fit(data.features[train], data.labels[train]).predict(data.features[:2]).shape
    (2,)
    """

    temperature: float | None = None
    epsilon: float | None = None

    def observer(self) -> Observer:
        """Return a new observer that computes the confidence under all open settings."""
        return _Perturbations(self.settings())

    def settings(self) -> list[tuple[float, float]]:
        """Return temperature and ε of each column of evidence."""
        temperatures = TEMPERATURES if self.temperature is None else (self.temperature,)
        epsilons = EPSILONS if self.epsilon is None else (self.epsilon,)
        for temperature, epsilon in product(temperatures, epsilons):
            if not as_number(temperature, name="temperature") > 0:
                raise ValueError(f"temperature must be positive, got {temperature}")
            if not 0 <= as_number(epsilon, name="epsilon") < np.inf:
                raise ValueError(f"epsilon must not be negative, got {epsilon}")
        return list(product(temperatures, epsilons))

    def tuned(self, train: ExpertOutputs, val: ExpertOutputs) -> Self:
        """Return a copy that reads the setting of largest AUC on Gating-Val."""
        evidence = require_evidence(val, self)
        best = max(range(evidence.shape[1]), key=lambda column: gate_auc(val.is_seen, evidence[:, column]))
        copy: Self = clone(self)
        copy.column_ = best
        copy.chosen_ = self.settings()[best]
        return copy

    def _confidence(self, outputs: ExpertOutputs) -> NDArray[np.float64]:
        return require_evidence(outputs, self)[:, getattr(self, "column_", 0)]


class _Perturbations(Observer):
    """The confidence under several temperatures and perturbations."""

    def __init__(self, settings: list[tuple[float, float]]) -> None:
        self.settings = settings

    def fit(self, seen: Any, X: Array, codes: NDArray[np.intp]) -> Self:
        self.logits = logits_of(seen)
        self.spread = X.std(axis=0)
        self.centre = self._confidence(X).mean(axis=0)
        return self

    def evidence(self, X: Array) -> NDArray[np.float64]:
        return self._confidence(X) - self.centre

    def _confidence(self, X: Array) -> NDArray[np.float64]:
        return perturbed_confidence(X, self.logits, self.spread, self.settings)


def perturbed_confidence(
    X: Array, logits: Logits, spread: Array, settings: list[tuple[float, float]]
) -> NDArray[np.float64]:
    """Return the confidence after a perturbation, for each (temperature, ε), (n_samples, n_settings).

    It is the logarithm of the largest probability times the number of classes, at the scale of logits, which
    orders samples like the probability but is comparable between numbers of classes.
    """
    result = np.empty((len(X), len(settings)))
    for temperature in dict.fromkeys(temperature for temperature, _ in settings):
        columns = [column for column, (own, _) in enumerate(settings) if own == temperature]
        epsilons = [settings[column][1] for column in columns]
        moved = perturbed_logits(X, logits, spread, temperature, epsilons)
        for column in columns:
            values = next(moved)
            log_p = log_softmax(values.astype(np.float64) / temperature, axis=1).max(axis=1)
            result[:, column] = temperature * (log_p + np.log(values.shape[1]))
    return result


def perturbed_logits(
    X: Array, logits: Logits, spread: Array, temperature: float, epsilons: Sequence[float]
) -> Iterator[Array]:
    """Yield the logits of a classifier after perturbations of the samples towards their best classes."""
    start = logits(X)
    slope = -softmax(start / np.float32(temperature), axis=1)
    slope[np.arange(len(X)), start.argmax(axis=1)] += 1
    direction = np.sign(logits.pull_back(X, slope)) * spread
    if len(logits.layers) == 1:
        change = direction @ logits.layers[0][0]
        yield from (start + np.float32(epsilon) * change for epsilon in epsilons)
    else:
        yield from (logits(X + np.float32(epsilon) * direction) for epsilon in epsilons)
