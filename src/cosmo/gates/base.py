"""The contract of a gate: from what both experts say to one number per sample."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from cosmo.outputs import ExpertOutputs

__all__ = ["Gate"]


class Gate(BaseEstimator, ABC):  # type: ignore[misc]
    """Tells samples of seen classes from samples of unseen ones.

    A gate reads what the experts say, never class identities, and must be usable on other classes, and
    another number of classes, than it was fitted on.
    """

    def tuned(self, train: ExpertOutputs, val: ExpertOutputs) -> Self:
        """Return an unfitted copy whose open parameters (those that are None) are decided.

        `train` and `val` are the labelled outputs on Gating-Train and Gating-Val.
        """
        copy: Self = clone(self)
        return copy

    @abstractmethod
    def fit(self, outputs: ExpertOutputs) -> Self:
        """Learn from labelled outputs on held-out samples."""

    @abstractmethod
    def score(self, outputs: ExpertOutputs) -> NDArray[np.float64]:
        """Return one number in 0..1 per sample; larger = looks more like a seen class."""
