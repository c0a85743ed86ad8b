"""The contract of a gate: from what both experts say to one number per sample."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from cosmo.experts._observer import Observer
from cosmo.mixture.outputs import ExpertOutputs

__all__ = ["Gate", "domains_of", "evidence_of"]


class Gate(BaseEstimator, ABC):  # type: ignore[misc]
    """Tells samples of seen classes from samples of unseen ones.

    A gate reads what the experts say, never class identities, and must be usable on other classes, and
    another number of classes, than it was fitted on.
    """

    def observer(self) -> Observer | None:
        """Return a new observer if the gate needs one; what it sees is in `ExpertOutputs.evidence`."""
        return None

    def tuned(self, train: ExpertOutputs, val: ExpertOutputs) -> Self:
        """Return an unfitted copy whose open parameters (those that are None) are decided.

        `train` and `val` are the labelled outputs on Gating-Train and Gating-Val.
        """
        copy: Self = clone(self)
        return copy

    @abstractmethod
    def fit(self, *outputs: ExpertOutputs) -> Self:
        """Learn from labelled outputs on held-out samples, of one or several hold-outs of classes."""

    @abstractmethod
    def score(self, outputs: ExpertOutputs) -> NDArray[np.float64]:
        """Return one number in 0..1 per sample; larger = looks more like a seen class."""


def evidence_of(outputs: ExpertOutputs, gate: Gate) -> NDArray[np.float64]:
    """Return what the gate's observer saw, or an error where nobody looked."""
    if outputs.evidence is None:
        raise ValueError(
            f"{type(gate).__name__} needs to look at the samples themselves; these outputs have no evidence: "
            "make them with an ExpertPair, or a Cosmo, that has this gate"
        )
    return outputs.evidence


def domains_of(outputs: Sequence[ExpertOutputs]) -> NDArray[np.bool_]:
    """Return which of all the samples are of seen classes; there must be both kinds."""
    is_seen = np.concatenate([one.is_seen for one in outputs])
    if is_seen.all() or not is_seen.any():
        raise ValueError("the gate needs held-out samples of both seen and unseen classes")
    return is_seen
