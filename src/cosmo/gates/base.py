"""The contract of a gate: from both experts' confidences to one number per sample."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

__all__ = ["Gate"]


class Gate(BaseEstimator, ABC):  # type: ignore[misc]
    """Tells samples of seen classes from samples of unseen ones.

    A gate sees the experts' probabilities, never class identities, and must be usable on other
    classes, and another number of classes, than it was fitted on.
    """

    def tuned(
        self,
        seen_proba: NDArray[Any],
        unseen_proba: NDArray[Any],
        is_seen: NDArray[np.bool_],
        train: NDArray[np.intp],
        val: NDArray[np.intp],
    ) -> Self:
        """Return an unfitted copy whose open parameters (those that are None) are decided.

        `train` and `val` are the rows of Gating-Train and Gating-Val.
        """
        copy: Self = clone(self)
        return copy

    @abstractmethod
    def fit(self, seen_proba: NDArray[Any], unseen_proba: NDArray[Any], is_seen: NDArray[np.bool_]) -> Self:
        """Learn from held-out samples.

        Parameters
        ----------
        seen_proba : array of shape (n_samples, n_seen)
        unseen_proba : array of shape (n_samples, n_unseen)
            Joint output of the unseen expert, not normalised.
        is_seen : array of bool, shape (n_samples,)
        """

    @abstractmethod
    def score(self, seen_proba: NDArray[Any], unseen_proba: NDArray[Any]) -> NDArray[np.float64]:
        """Return one number in 0..1 per sample; larger = looks more like a seen class."""
