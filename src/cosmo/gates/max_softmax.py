"""Max-softmax gate: the seen expert's largest probability.

Hendrycks & Gimpel, "A baseline for detecting misclassified and out-of-distribution examples in neural
networks", ICLR 2017; with the temperature of Liang et al. (ODIN), ICLR 2018.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from cosmo.gates.base import Gate
from cosmo.probabilities import temper

__all__ = ["MaxSoftmaxGate"]


class MaxSoftmaxGate(Gate):
    """Score a sample by the seen expert's largest probability; nothing is learned.

    Parameters
    ----------
    temperature : float
        Flattens the seen expert's distribution first; 1 leaves it as it is.

    Examples
    --------
    >>> gate = MaxSoftmaxGate()
    >>> gate.score(np.array([[0.7, 0.3], [0.5, 0.5]]), np.array([[0.1], [0.1]]))
    array([0.7, 0.5])
    """

    def __init__(self, temperature: float = 1.0) -> None:
        self.temperature = temperature

    def fit(self, seen_proba: NDArray[Any], unseen_proba: NDArray[Any], is_seen: NDArray[np.bool_]) -> Self:
        """Do nothing; there is nothing to learn."""
        return self

    def score(self, seen_proba: NDArray[Any], unseen_proba: NDArray[Any]) -> NDArray[np.float64]:
        """Return the largest (tempered) probability of each row of `seen_proba`."""
        return temper(seen_proba, self.temperature).max(axis=1).astype(np.float64)
