"""The contract of an observer: what a gate may want to know beyond what the experts say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Observer"]


class Observer(ABC):
    """Looks at the samples themselves.

    Like the experts it is fitted once for each stage, on the rows that they are trained on.
    """

    @abstractmethod
    def fit(self, seen: Any, X: NDArray[np.float32], codes: NDArray[np.intp]) -> Self:
        """Learn from the training rows of a stage.

        Parameters
        ----------
        seen : classifier
            The fitted seen expert.
        X : array of shape (n_samples, n_features)
        codes : array of int, shape (n_samples,)
            Class of each sample.
        """

    @abstractmethod
    def evidence(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return what is seen in each sample, shape (n_samples, n_numbers)."""
