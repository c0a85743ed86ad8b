"""Novelty gate: the unseen expert itself says whether a sample is of no seen class.

Socher, Ganjoo, Manning & Ng, "Zero-shot learning through cross-modal transfer", NIPS 2013.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from cosmo.gates.base import Gate
from cosmo.mixture.outputs import ExpertOutputs

__all__ = ["NoveltyGate"]


class NoveltyGate(Gate):
    """Score a sample by one minus its novelty; nothing is learned.

    With the expert `CMT`, `GatedMixture(NoveltyGate(), smoothing="none", hard=True)` is CMT*: samples whose
    novelty exceeds a threshold are given to the unseen expert, and the threshold is the best on held-out
    samples. The authors' soft form, with the novelty itself as the belief in "unseen", is
    `cosmo.mixture.smoothing.combine(outputs.seen, outputs.unseen, outputs.novelty, smoothing="none")`.

    Examples
    --------
    >>> import pandas as pd
    >>> out = ExpertOutputs(pd.Index(["a", "b"]), pd.Index(["z"]), np.array([[0.7, 0.3]]), np.array([[0.1]]),
    ...                     novelty=np.array([0.25]))
    >>> NoveltyGate().score(out)
    array([0.75])
    """

    def fit(self, *outputs: ExpertOutputs) -> Self:
        """Do nothing; the expert has learned what is novel."""
        return self

    def score(self, outputs: ExpertOutputs) -> NDArray[np.float64]:
        """Return one minus the novelty of each sample."""
        if outputs.novelty is None:
            raise ValueError(
                "the gate needs an unseen expert that detects novelty, and this one does not; use CMT, or "
                "another gate"
            )
        return 1 - outputs.novelty
