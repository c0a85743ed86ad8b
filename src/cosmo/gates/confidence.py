"""Gates that are logistic regressions on confidences: the paper's, and one with more inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import product
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp
from sklearn.base import clone

from cosmo._core.validation import as_number
from cosmo.experts.base import Observer
from cosmo.gates.base import Gate, fit_regression, require_evidence, seen_mask
from cosmo.gates.leave_out import entropy
from cosmo.metrics.accuracy import gate_auc
from cosmo.mixture.outputs import ExpertOutputs
from cosmo.mixture.smoothing import conditional, top_k

K_GRID = (1, 2, 3, 5, 10)
TEMPERATURE_GRID = ((1.0,), (2.0,), (3.0,), (5.0,), (10.0,), (1.0, 3.0, 10.0))
_FLOOR = 1e-6


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
        k = _check_k(self.k)
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


@dataclass(eq=False, repr=False)
class EvidenceGate(Gate):
    """Logistic regression on more inputs than those of the paper's gate.

    Its inputs, standardised: both experts' K largest probabilities (the seen expert's also at temperature 3)
    and their logarithms; the entropy of each; the seen expert's margin between its two best classes; the
    unseen expert's total probability of unseen classes; the energy of the seen expert (log-sum-exp of its
    logits) if it is linear; the distances to the two nearest class means in feature space, in units of the
    spread within classes, their ratio, and the cosine to the nearest.

    Parameters
    ----------
    k : int, default=5
        Number of largest probabilities of each expert.
    C : float, default=0.01
        Inverse regularisation of the regression; strong, since rows of one class are correlated.

    References
    ----------
    Liu, Wang, Owens & Li, "Energy-based out-of-distribution detection", NeurIPS 2020 (energy); Lee, Lee, Lee
    & Shin, "A simple unified framework for detecting out-of-distribution samples and adversarial attacks",
    NeurIPS 2018 (distances).

    Examples
    --------
    >>> from cosmo import Cosmo
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=40, samples_per_class=12)
    >>> train = data.split.trainval
    >>> model = Cosmo(data.descriptions, gate=EvidenceGate(), method="paper")
    >>> model.fit(data.features[train], data.labels[train]).predict(data.features[:2]).shape
    (2,)
    """

    k: int = 5
    C: float = 0.01

    def observer(self) -> Observer:
        """Return a new observer that computes distances and energies."""
        return _Neighbourhood()

    def features(self, outputs: ExpertOutputs) -> NDArray[np.float64]:
        """Return the gate's inputs, shape (n_samples, n_inputs), before they are standardised."""
        k = _check_k(self.k)
        seen, unseen = outputs.seen.astype(np.float64), outputs.unseen.astype(np.float64)
        tops = [top_k(seen, k), top_k(seen, k, 3.0), top_k(unseen, k)]
        best = top_k(seen, 2)
        mass = unseen.sum(axis=1)
        columns = [
            entropy(seen),
            entropy(conditional(unseen)),
            np.log(best[:, 0] + _FLOOR) - np.log(best[:, 1] + _FLOOR),
            mass,
            np.log(mass + _FLOOR) - np.log(np.maximum(1 - mass, 0) + _FLOOR),
        ]
        logs = [np.log(top + _FLOOR) for top in tops]
        return np.hstack([*tops, *logs, np.stack(columns, axis=1), require_evidence(outputs, self)])

    def fit(self, *outputs: ExpertOutputs) -> Self:
        """Fit the logistic regression "is this sample of a seen class?" on held-out samples."""
        is_seen = seen_mask(outputs)
        values = np.concatenate([self.features(one) for one in outputs])
        self.mean_, spread = values.mean(axis=0), values.std(axis=0)
        self.spread_ = np.where(spread > 0, spread, 1)
        inputs = (values - self.mean_) / self.spread_
        self.weights_, self.bias_ = fit_regression(inputs, is_seen, self.C)
        return self

    def score(self, outputs: ExpertOutputs) -> NDArray[np.float64]:
        """Return the probability of "seen" for each sample."""
        values = (self.features(outputs) - self.mean_) / self.spread_
        return expit((values * self.weights_).sum(axis=1) + self.bias_)


class _Neighbourhood(Observer):
    """Distances to the means of the seen classes, and the energy of a linear seen expert."""

    def fit(self, seen: Any, X: NDArray[np.float32], codes: NDArray[np.intp]) -> Self:
        classes, ranks, counts = np.unique(codes, return_inverse=True, return_counts=True)
        means = np.zeros((len(classes), X.shape[1]))
        np.add.at(means, ranks, X)
        means /= counts[:, None]
        within = np.sqrt(((X - means[ranks]) ** 2).mean(axis=0))
        # Bounds the weight of features that do not vary within classes.
        self.spread = np.maximum(within, 1e-3 * within.max() or 1).astype(np.float32)
        self.centre = means.mean(axis=0).astype(np.float32)
        self.means = ((means - self.centre) / self.spread).astype(np.float32)
        self.seen = seen
        return self

    def evidence(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        scaled = (X - self.centre) / self.spread
        products = (scaled @ self.means.T).astype(np.float64)
        length = (scaled**2).sum(axis=1, dtype=np.float64)
        own = (self.means**2).sum(axis=1, dtype=np.float64)
        distance = np.sqrt(np.maximum(length[:, None] - 2 * products + own, 0) / X.shape[1])
        runner_up = min(1, distance.shape[1] - 1)
        nearest = np.partition(distance, runner_up)
        first, second = nearest[:, 0], nearest[:, runner_up]
        cosine = (products / np.maximum(np.sqrt(length)[:, None] * np.sqrt(own), 1e-12)).max(axis=1)
        columns = [first, second, first / np.maximum(second, 1e-12), cosine]
        if hasattr(self.seen, "decision_function"):
            logits = np.asarray(self.seen.decision_function(X), dtype=np.float64)
            columns.append(logits if logits.ndim == 1 else logsumexp(logits, axis=1))
        return np.stack(columns, axis=1)


def _check_k(k: int) -> int:
    k = as_number(k, name="k", whole=True)
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    return k
