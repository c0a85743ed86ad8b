"""Gates without training: a number that one expert computes is the score."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from cosmo.gates.base import Gate
from cosmo.mixture.outputs import ExpertOutputs


class MaxSoftmaxGate(Gate):
    """Score a sample by the seen expert's largest probability.

    Parameters
    ----------
    temperature : float, default=1.0
        Temperature of the seen expert's distribution; 1 leaves it unchanged.

    References
    ----------
    Hendrycks & Gimpel, "A baseline for detecting misclassified and out-of-distribution examples in neural
    networks", ICLR 2017; with the temperature of Liang, Li & Srikant (ODIN), ICLR 2018.

    Examples
    --------
    >>> import pandas as pd
    >>> seen, unseen = np.array([[0.7, 0.3], [0.5, 0.5]]), np.array([[0.1], [0.1]])
    >>> MaxSoftmaxGate().score(ExpertOutputs(pd.Index(["a", "b"]), pd.Index(["z"]), seen, unseen))
    array([0.7, 0.5])
    """

    def __init__(self, temperature: float = 1.0) -> None:
        self.temperature = temperature

    def fit(self, *outputs: ExpertOutputs) -> Self:
        """Return the gate unchanged."""
        return self

    def score(self, outputs: ExpertOutputs) -> NDArray[np.float64]:
        """Return the seen expert's largest (tempered) probability for each sample."""
        return outputs.top_seen(1, self.temperature)[:, 0].astype(np.float64)


class NoveltyGate(Gate):
    """Score a sample by one minus the novelty that the unseen expert detects.

    With the expert `CMT`, `GatedMixture(NoveltyGate(), smoothing="none", hard=True)` is CMT*: samples whose
    novelty exceeds a threshold, chosen on held-out samples, are classified by the unseen expert. The
    authors' soft form, with the novelty as the probability of "unseen", is
    `cosmo.mixture.smoothing.combine(outputs.seen, outputs.unseen, outputs.novelty, smoothing="none")`.

    References
    ----------
    Socher, Ganjoo, Manning & Ng, "Zero-shot learning through cross-modal transfer", NIPS 2013.

    Examples
    --------
    >>> import pandas as pd
    >>> out = ExpertOutputs(pd.Index(["a", "b"]), pd.Index(["z"]), np.array([[0.7, 0.3]]), np.array([[0.1]]),
    ...                     novelty=np.array([0.25]))
    >>> NoveltyGate().score(out)
    array([0.75])
    """

    def fit(self, *outputs: ExpertOutputs) -> Self:
        """Return the gate unchanged."""
        return self

    def score(self, outputs: ExpertOutputs) -> NDArray[np.float64]:
        """Return one minus the novelty of each sample."""
        if outputs.novelty is None:
            raise ValueError(
                "the gate needs an unseen expert that detects novelty, and this one does not; use CMT, or "
                "another gate"
            )
        return 1 - outputs.novelty
