"""SJE, DeViSE and ALE: one bilinear map between features and descriptions, three ranking losses."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from cosmo._core.validation import check_features
from cosmo.experts._linear import GradientExpert, Step
from cosmo.experts.base import COUNT, POSITIVE, Array, Codes


@dataclass(eq=False, repr=False)
class RankingExpert(GradientExpert):
    """Score `F(x, y) = xᵀ W a_y`, with W such that the true class outranks the other seen classes.

    A wrong class y violates the margin by `h_y = [Δ + F(x, y) - F(x, y_true)]_+`; `violator_weights` of a
    subclass is the weight of each violation. Steps are on mini-batches of 64 rows at a constant rate.

    Parameters
    ----------
    learning_rate : float or None, default=None
        Step size, for the mean sub-gradient of a mini-batch. None chooses on held-out classes.
    epochs : int or None, default=None
        Passes over the samples. None stops early on held-out classes.
    margin : float, default=1.0
        Δ. As W starts at zero, only the ratio of learning rate and margin matters.
    seed : int, default=0
        Seed of the order of samples.
    temperature : float or None, default=None
        Temperature of the soft-max over scores. None fits it on held-out rows.
    """

    grid: ClassVar[dict[str, tuple[Any, ...]]] = {
        "learning_rate": (1.0, 3.0, 10.0, 30.0),
        "epochs": (1, 3, 10, 20, 40),
    }
    batch_size: ClassVar[int] = 64
    searched: ClassVar[str] = "learning_rate"
    ranges: ClassVar[dict[str, str]] = {"learning_rate": POSITIVE, "epochs": COUNT, "margin": POSITIVE}

    learning_rate: float | None = None
    epochs: int | None = None
    _: KW_ONLY
    margin: float = 1.0
    seed: int = 0
    temperature: float | None = None

    @staticmethod
    @abstractmethod
    def violator_weights(hinge: Array) -> Array:
        """Return the sub-gradient of the loss of each sample by `h_y`, shape (n_samples, n_classes)."""

    def scores(self, X: ArrayLike, descriptions: pd.DataFrame) -> Array:
        """Return `xᵀ W a_y`, shape (n_samples, n_classes)."""
        A = self.directions_.signatures(self.attributes(descriptions))
        X = check_features(X, name="X", columns=len(self.directions_.mean))
        return self.directions_.features(X) @ (self.weights_ @ A.T)

    def _descent(self, W: Array, A: Array, value: float) -> Step:
        def step(X: Array, codes: Codes) -> float:
            hinge = margin_violations(np.asarray((X @ W) @ A.T, np.float32), codes, self.margin)
            pull = self.violator_weights(hinge)
            loss = float(np.vdot(pull, hinge)) / len(X)
            pull[np.arange(len(X)), codes] = -pull.sum(axis=1)
            np.subtract(W, (value / len(X)) * (X.T @ (pull @ A)), out=W)
            return loss

        return step


class DeViSE(RankingExpert):
    """DeViSE: bilinear map in which every violation counts, `loss = Σ_y h_y`.

    Steps follow the sub-gradient of this loss. The authors step along the first violator in random order
    only: the same direction in expectation, at unit length for each sample.

    Parameters
    ----------
    learning_rate, epochs, margin, seed, temperature
        See `RankingExpert`.

    References
    ----------
    Frome, Corrado, Shlens, Bengio, Dean, Ranzato & Mikolov, "DeViSE: a deep visual-semantic embedding
    model", NIPS 2013.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> DeViSE(1.0, 5, temperature=0.1).fit(X[:50], y[:50], table).predict_proba(X, table).shape
    (100, 20)
    """

    reference: ClassVar[str] = "Frome et al., NIPS 2013"

    @staticmethod
    def violator_weights(hinge: Array) -> Array:
        """Return one for every violation."""
        return (hinge > 0).astype(np.float32)


class SJE(RankingExpert):
    """SJE: bilinear map in which the worst violation counts, `loss = max_y h_y`.

    Parameters
    ----------
    learning_rate, epochs, margin, seed, temperature
        See `RankingExpert`.

    References
    ----------
    Akata, Reed, Walter, Lee & Schiele, "Evaluation of output embeddings for fine-grained image
    classification", CVPR 2015.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> SJE(1.0, 5, temperature=0.1).fit(X[:50], y[:50], table).predict_proba(X, table).shape
    (100, 20)
    """

    reference: ClassVar[str] = "Akata et al., CVPR 2015"

    @staticmethod
    def violator_weights(hinge: Array) -> Array:
        """Return one for the worst violation, divided among equal ones."""
        worst = (hinge > 0) & (hinge == hinge.max(axis=1, keepdims=True))
        return worst / np.maximum(worst.sum(axis=1, keepdims=True), 1).astype(np.float32)


class ALE(RankingExpert):
    """ALE: bilinear map in which violations count by rank, `loss = (ℓ_r / r) Σ_y h_y`.

    Here r is the number of classes that violate the margin, which the authors estimate by sampling, and
    `ℓ_r = Σ_{j≤r} 1/j`: a mistake near the top of the ranking costs more than one further down.

    Parameters
    ----------
    learning_rate, epochs, margin, seed, temperature
        See `RankingExpert`.

    References
    ----------
    Akata, Perronnin, Harchaoui & Schmid, "Label-embedding for image classification", TPAMI 2016.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> ALE(1.0, 5, temperature=0.1).fit(X[:50], y[:50], table).predict_proba(X, table).shape
    (100, 20)
    """

    reference: ClassVar[str] = "Akata et al., TPAMI 2016"

    @staticmethod
    def violator_weights(hinge: Array) -> Array:
        """Return `ℓ_r / r` for every violation."""
        violates = hinge > 0
        rank = violates.sum(axis=1)
        harmonic = np.r_[0, np.cumsum(1 / np.arange(1, hinge.shape[1] + 1))]
        weight = harmonic[rank] / np.maximum(rank, 1)
        return (violates * weight[:, None]).astype(np.float32)


def margin_violations(scores: Array, truth: NDArray[np.intp], margin: float) -> Array:
    """Return `[Δ + F(x, y) - F(x, y_true)]_+`, zero at the true class, shape (n_samples, n_classes)."""
    rows = np.arange(len(scores))
    hinge = np.maximum(scores - scores[rows, truth][:, None] + np.float32(margin), 0)
    hinge[rows, truth] = 0
    return hinge
