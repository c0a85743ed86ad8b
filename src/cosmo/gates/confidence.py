"""Confidence-based gate: a logistic regression on the experts' largest probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import product
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import clone

from cosmo._core.validation import as_number
from cosmo.gates.base import Gate, fit_regression, seen_mask
from cosmo.metrics.accuracy import gate_auc
from cosmo.mixture.outputs import ExpertOutputs

K_GRID = (1, 2, 3, 5, 10)
TEMPERATURE_GRID = ((1.0,), (2.0,), (3.0,), (5.0,), (10.0,), (1.0, 3.0, 10.0))


@dataclass(eq=False, repr=False)
class ConfidenceGate(Gate):
    """Logistic regression on the experts' K largest probabilities, sorted: the paper's gate.

    Top-K pooling makes the gate independent of the classes and their number.

    Parameters
    ----------
    k : int or None, default=5
        Number of largest probabilities of each expert. None chooses by AUC on Gating-Val.
    temperatures : sequence of float or None, default=(3.0,)
        Temperatures of the seen expert's distribution; each adds K inputs. None chooses by AUC on Gating-Val.
    use_unseen : bool, default=True
        Whether the unseen expert's probabilities are inputs too (joint, not normalised).
    convention : {"reference", "textbook"}, default="reference"
        The paper's code fits a soft-max of two rows with C = 1, which is an ordinary logistic regression with
        C = 2 and decision value `v`. "reference" returns `σ(v/2)`, as the library it used did; "textbook"
        returns the probability `σ(v)`. AUC and FPR are the same; thresholds differ.

    References
    ----------
    Atzmon & Chechik, "Adaptive confidence smoothing for generalized zero-shot learning", CVPR 2019, section
    "Confidence-based gating model".

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

    k: int | None = 5
    temperatures: Sequence[float] | None = (3.0,)
    _: KW_ONLY
    use_unseen: bool = True
    convention: Literal["reference", "textbook"] = "reference"

    def features(self, outputs: ExpertOutputs) -> NDArray[np.float64]:
        """Return the gate's inputs: unseen top-K, then seen top-K for every temperature."""
        if self.k is None or self.temperatures is None:
            raise ValueError("k or temperatures is None; choose them by `tuned`")
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

        return clone(max(candidates, key=auc))

    def fit(self, *outputs: ExpertOutputs) -> Self:
        """Fit the logistic regression "is this sample of a seen class?" on held-out samples."""
        if self.convention not in ("textbook", "reference"):
            raise ValueError(f"convention must be 'textbook' or 'reference', got {self.convention!r}")
        is_seen = seen_mask(outputs)
        inputs = np.concatenate([self.features(one) for one in outputs])
        self.weights_, self.bias_ = fit_regression(inputs, is_seen, 2.0)
        return self

    def score(self, outputs: ExpertOutputs) -> NDArray[np.float64]:
        """Return the probability of "seen" for each sample."""
        value = (self.features(outputs) * self.weights_).sum(axis=1) + self.bias_
        return expit(value if self.convention == "textbook" else value / 2)
