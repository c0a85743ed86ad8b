"""Logits of fitted classifiers, and their gradients by the sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

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
        for (weights, _), values in zip(self.layers[-2::-1], hidden[:0:-1], strict=True):
            gradient = (gradient * derivative(values)) @ weights.T
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
    if hasattr(seen, "coefs_") and getattr(seen, "out_activation_", "") in ("softmax", "logistic"):
        layers = list(zip(seen.coefs_, seen.intercepts_, strict=True))
        activation = seen.activation
    else:
        layers = [(np.transpose(getattr(seen, "coef_", [])), getattr(seen, "intercept_", []))]
        activation = "identity"
        n_classes = len(getattr(seen, "classes_", ()))
        # Other linear models, such as one-vs-one, have no soft-max.
        if np.ndim(layers[0][0]) != 2 or layers[0][0].shape[1] != (n_classes if n_classes > 2 else 1):
            raise TypeError(
                f"ODIN needs the gradient of the seen expert, which {type(seen).__name__} does not have; use "
                "a linear classifier, such as LogisticRegression or LinearDiscriminantAnalysis, or an "
                "MLPClassifier"
            )
    layers = [(np.asarray(weights, np.float32), np.asarray(bias, np.float32)) for weights, bias in layers]
    weights, bias = layers[-1]
    if weights.shape[1] == 1:  # one output for two classes, the difference of their logits
        layers[-1] = np.hstack([0 * weights, weights]), np.r_[np.float32(0), bias]
    return Logits(layers, activation)
