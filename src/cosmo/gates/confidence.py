"""Confidence-based gate: a logistic regression on the experts' top-K sorted probabilities.

Atzmon & Chechik, "Adaptive confidence smoothing for generalized zero-shot learning", CVPR 2019,
section "Confidence-based gating model". Sorting and cutting to K ("top-K pooling") makes the gate
independent of which classes there are and how many.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from cosmo._core.validation import as_number
from cosmo.gates.base import Gate, domains_of
from cosmo.metrics.accuracy import gate_auc
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.mixture.probabilities import top_k

__all__ = ["ConfidenceGate", "top_k"]

K_GRID = (1, 2, 3, 5, 10)
TEMPERATURE_GRID = ((1.0,), (2.0,), (3.0,), (5.0,), (10.0,), (1.0, 3.0, 10.0))


class ConfidenceGate(Gate):
    """The paper's gate.

    Parameters
    ----------
    k : int or None
        How many of the largest probabilities of each expert are used. None chooses by the AUC on
        Gating-Val.
    temperatures : sequence of float or None
        Each flattens the seen expert's distribution and adds K inputs. None chooses by the AUC on
        Gating-Val.
    use_unseen : bool
        Whether the unseen expert's probabilities are read too (joint, not normalised).
    convention : {"reference", "textbook"}
        The paper's code asks for C = 1 in a two-row soft-max, which is an ordinary logistic regression
        with C = 2 and decision value `v`. "reference" gives `σ(v/2)`, as the library of its day did;
        "textbook" gives the probability `σ(v)`. The order of samples, hence AUC and FPR, is the same;
        thresholds differ.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> sure, unsure = rng.dirichlet([0.1] * 4, 50), rng.dirichlet([1.0] * 4, 50)
    >>> seen, unseen = np.vstack([sure, unsure]), np.vstack([unsure, sure])
    >>> target = np.r_[sure.argmax(1), 4 + sure.argmax(1)]
    >>> out = ExpertOutputs(pd.Index(list("abcd")), pd.Index(list("wxyz")), seen, unseen, target=target)
    >>> score = ConfidenceGate().fit(out).score(out)
    >>> bool(score[:50].mean() > score[50:].mean())
    True
    """

    def __init__(
        self,
        k: int | None = 5,
        temperatures: Sequence[float] | None = (3.0,),
        *,
        use_unseen: bool = True,
        convention: Literal["reference", "textbook"] = "reference",
    ) -> None:
        self.k = k
        self.temperatures = temperatures
        self.use_unseen = use_unseen
        self.convention = convention

    def features(self, outputs: ExpertOutputs) -> NDArray[np.float64]:
        """Return the gate's inputs: unseen top-K, then seen top-K for every temperature."""
        if self.k is None or self.temperatures is None:
            raise ValueError("k and temperatures are still open; decide them with `tuned`")
        k = as_number(self.k, name="k", whole=True)
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        blocks = [outputs.top_unseen(k)] if self.use_unseen else []
        blocks += [outputs.top_seen(k, t) for t in self.temperatures]
        return np.concatenate(blocks, axis=1, dtype=np.float64)

    def tuned(self, train: ExpertOutputs, val: ExpertOutputs) -> Self:
        """Return a copy with open `k` and `temperatures` chosen by the AUC on Gating-Val."""
        candidates: list[Self] = [
            clone(self).set_params(k=k, temperatures=temperatures)
            for k, temperatures in product(
                K_GRID if self.k is None else (self.k,),
                TEMPERATURE_GRID if self.temperatures is None else (self.temperatures,),
            )
        ]
        if len(candidates) == 1:
            return candidates[0]

        def auc(gate: Self) -> float:
            return gate_auc(val.is_seen, gate.fit(train).score(val))

        best: Self = clone(max(candidates, key=auc))
        return best

    def fit(self, *outputs: ExpertOutputs) -> Self:
        """Fit the logistic regression "is this sample of a seen class?" on held-out samples."""
        if self.convention not in ("textbook", "reference"):
            raise ValueError(f"convention must be 'textbook' or 'reference', got {self.convention!r}")
        is_seen = domains_of(outputs)
        regression = LogisticRegression(C=2.0, max_iter=1000)
        regression.fit(np.concatenate([self.features(one) for one in outputs]), is_seen)
        self.weights_ = regression.coef_[0]
        self.bias_ = float(regression.intercept_[0])
        return self

    def score(self, outputs: ExpertOutputs) -> NDArray[np.float64]:
        """Return the probability of "seen" for each sample."""
        # Not a matrix product, which rounds a row differently in another batch.
        value = (self.features(outputs) * self.weights_).sum(axis=1) + self.bias_
        score: NDArray[np.float64] = expit(value if self.convention == "textbook" else value / 2)
        return score
