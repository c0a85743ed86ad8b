"""Max-softmax gate: the seen expert's largest probability.

Hendrycks & Gimpel, "A baseline for detecting misclassified and out-of-distribution examples in neural
networks", ICLR 2017; with the temperature of Liang et al. (ODIN), ICLR 2018.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from cosmo.gates.base import Gate
from cosmo.mixture.outputs import ExpertOutputs

__all__ = ["MaxSoftmaxGate"]


class MaxSoftmaxGate(Gate):
    """Score a sample by the seen expert's largest probability; nothing is learned.

    Parameters
    ----------
    temperature : float
        Flattens the seen expert's distribution first; 1 leaves it as it is.

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
        """Do nothing; there is nothing to learn."""
        return self

    def score(self, outputs: ExpertOutputs) -> NDArray[np.float64]:
        """Return the seen expert's largest (tempered) probability for each sample."""
        return outputs.top_seen(1, self.temperature)[:, 0].astype(np.float64)
