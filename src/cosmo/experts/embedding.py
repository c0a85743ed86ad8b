"""Networks that embed one space in the other: CMT and DCN map samples, DEM maps descriptions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import erf

from cosmo._core.validation import check_features
from cosmo.experts._linear import unit_rows
from cosmo.experts._network import NetworkExpert, Weights, layer, normalise_rows, torch
from cosmo.experts.base import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, Array, Codes, check_rule

if TYPE_CHECKING:
    from torch import Generator, Tensor

_ROWS = 4096  # samples mapped at once
_CHUNK = 1 << 23  # distances in memory at once


@dataclass(eq=False, repr=False)
class CMT(NetworkExpert):
    """CMT: map a sample to the description of its class; the nearest class wins.

    `φ(x) = W₂ tanh(W₁ x + b₁) + b₂` is fitted to the descriptions of the samples' classes by least squares.
    `novelty` is the outlier probability of a mapped sample; with `NoveltyGate` it is the authors' own
    detector of unseen classes (CMT*).

    Parameters
    ----------
    neighbours : int, default=20
        Mapped training samples with which a new one is compared to compute its novelty.
    epochs, hidden, learning_rate, weight_decay, batch_size, seed, checkpoints, temperature
        See `NetworkExpert`.

    References
    ----------
    Socher, Ganjoo, Manning & Ng, "Zero-shot learning through cross-modal transfer", NIPS 2013.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> expert = CMT(epochs=5, hidden=32, temperature=0.1).fit(X[:50], y[:50], table)
    >>> expert.predict_proba(X, table).shape
    (100, 20)
    >>> expert.novelty(X).shape
    (100,)
    """

    detects_novelty: ClassVar[bool] = True
    reference: ClassVar[str] = "Socher, Ganjoo, Manning & Ng, NIPS 2013"

    neighbours: int = 20
    hidden: int = 512
    learning_rate: float = 3e-4

    def _store_mapped(self, X: Array) -> None:
        self.mapped_ = self._map(X)
        self.neighbourhoods_: Neighbourhoods | None = None

    def novelty(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the probability that each sample is of no seen class, shape (n_samples,).

        It is the local outlier probability (LoOP) of the mapped sample among the mapped training samples.
        """
        if self.neighbourhoods_ is None:  # computed on first use: few gates need them
            self.neighbourhoods_ = learn_neighbourhoods(self.mapped_, self.neighbours)
        return loop(self._map(check_features(X, name="X", columns=self._width())), self.neighbourhoods_)

    def _fit(self, X: Array, codes: Codes, attributes: Array, **decided: Any) -> None:
        super()._fit(X, codes, attributes, **decided)
        self._store_mapped(X)

    def _candidates(self, X: Array, codes: Codes, table: pd.DataFrame) -> Iterator[Self]:
        for candidate in super()._candidates(X, codes, table):
            candidate._store_mapped(X)
            yield candidate

    def _width(self) -> int:
        return len(self.weights_["W1"])

    def _map(self, X: Array) -> Array:
        """Return φ(x), shape (n_samples, n_attributes)."""
        weights = {name: torch.from_numpy(value) for name, value in self.weights_.items()}
        return self._in_chunks(X, _ROWS, lambda rows: self._embed(weights, rows))

    def _start(self, n_features: int, n_attributes: int, generator: Generator) -> Weights:
        W1, b1 = layer(n_features, self.hidden, generator)
        W2, b2 = layer(self.hidden, n_attributes, generator)
        # Small initial weights avoid saturation of tanh.
        return {"W1": 0.1 * W1, "b1": b1, "W2": 0.5 * W2, "b2": b2}

    def _embed(self, w: Weights, X: Tensor) -> Tensor:
        """Return φ(x), shape (n_samples, n_attributes)."""
        return (X @ w["W1"] + w["b1"]).tanh() @ w["W2"] + w["b2"]

    def _loss(self, weights: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: Generator) -> Tensor:
        return (self._embed(weights, X) - A[codes]).square().mean()

    def _score(self, weights: Weights, X: Tensor, A: Tensor) -> Tensor:
        mapped = self._embed(weights, X)
        distance = mapped.square().sum(dim=1, keepdim=True) - 2 * mapped @ A.T + A.square().sum(dim=1)
        return -distance / A.shape[1]


@dataclass(eq=False, repr=False)
class DEM(NetworkExpert):
    """DEM: map a description to the features of its class; the nearest class wins.

    `ψ(a) = ReLU(W₂ ReLU(W₁ a + b₁) + b₂)` is fitted to the samples by least squares. Nearest neighbours among
    features rather than descriptions avoid hubs, classes that are nearest to everything.

    The squared error of a class's samples is that of their mean, times their number, plus a constant. So the
    network is fitted to the weighted class means, all classes in each step: the same loss at a fraction of
    the cost. `epochs` counts steps.

    Parameters
    ----------
    distance : {"cosine", "euclidean"}, default="cosine"
        Distance of samples and mapped descriptions. The authors use the cosine for CUB, else the Euclidean
        distance.
    epochs, hidden, learning_rate, weight_decay, seed, checkpoints, temperature
        See `NetworkExpert`.

    References
    ----------
    Zhang, Xiang & Gong, "Learning a deep embedding model for zero-shot learning", CVPR 2017.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> DEM(epochs=5, hidden=32, temperature=0.1).fit(X[:50], y[:50], table).predict_proba(X, table).shape
    (100, 20)
    """

    reference: ClassVar[str] = "Zhang, Xiang & Gong, CVPR 2017"
    # The authors' step sizes and numbers of steps are for mini-batches of 64 to 100 rows.
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "AWA1": {"hidden": 1600, "weight_decay": 1e-3, "distance": "euclidean"},
        "AWA2": {"hidden": 1600, "weight_decay": 1e-3, "distance": "euclidean"},
        "SUN": {"hidden": 1600, "weight_decay": 1e-5, "distance": "euclidean"},
        "CUB": {"hidden": 1200, "weight_decay": 1e-2, "distance": "cosine"},
    }
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"epochs": (25, 50, 100, 150, 200, 300, 400, 600, 800)}

    distance: Literal["cosine", "euclidean"] = "cosine"
    hidden: int = 1200
    weight_decay: float = 1e-3
    batch_size: ClassVar[int] = 1 << 30  # type: ignore[misc]  # not a parameter: all classes in a step

    def _examples(self, X: Array, codes: Codes) -> tuple[Array, Codes]:
        if self.distance not in ("cosine", "euclidean"):
            raise ValueError(f"distance must be 'cosine' or 'euclidean', got {self.distance!r}")
        order = np.argsort(codes, kind="stable")
        classes, first, rows = np.unique(codes[order], return_index=True, return_counts=True)
        means: Array = np.add.reduceat(X[order], first, axis=0)
        means /= rows[:, None].astype(np.float32)
        self.share_ = (rows / len(codes)).astype(np.float32)
        return means, classes

    def _start(self, n_features: int, n_attributes: int, generator: Generator) -> Weights:
        W1, b1 = layer(n_attributes, self.hidden, generator)
        W2, b2 = layer(self.hidden, n_features, generator)
        return {"W1": W1, "b1": b1, "W2": W2, "b2": b2}

    def _width(self) -> int:
        return len(self.weights_["b2"])

    def _embed(self, w: Weights, A: Tensor) -> Tensor:
        """Return ψ(a), shape (n_classes, n_features)."""
        return ((A @ w["W1"] + w["b1"]).relu() @ w["W2"] + w["b2"]).relu()

    def _loss(self, weights: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: Generator) -> Tensor:
        share = torch.from_numpy(self.share_)[codes]
        return share @ (self._embed(weights, A[codes]) - X).square().mean(dim=1)

    def _score(self, weights: Weights, X: Tensor, A: Tensor) -> Tensor:
        prototypes = self._embed(weights, A)
        if self.distance == "cosine":
            return normalise_rows(X) @ normalise_rows(prototypes).T
        distance = X.square().sum(dim=1, keepdim=True) - 2 * X @ prototypes.T + prototypes.square().sum(dim=1)
        return -distance / X.shape[1]


@dataclass(eq=False, repr=False)
class DCN(NetworkExpert):
    """DCN: cross-entropy over seen classes plus the entropy over unseen ones, against overconfidence.

    A sample is mapped to `φ(x) = tanh(W₂ ReLU(W₁ x + b₁) + b₂)`, with dropout of the hidden units, a class
    to `c = 10 tanh(a)` with its description `a` scaled to unit length, and their similarity is `φ(x)·c`.
    The loss is the cross-entropy over the seen classes, plus the entropy of the soft-max over the unseen
    ones. Scores are `sharpness · φ(x)·c`: at temperature 1 they give the probabilities of the training.

    Features are standardised, then divided by the largest of them.

    Parameters
    ----------
    sharpness : float, default=5.0
        Inverse temperature of the soft-max over seen classes.
    entropy_sharpness : float, default=0.03
        Inverse temperature of the soft-max over unseen classes.
    entropy_weight : float, default=1.0
        Weight of the entropy. With 0 the unseen classes take no part in the training.
    dropout : float, default=0.5
        Share of hidden units that are dropped in a training step.
    epochs, hidden, learning_rate, weight_decay, batch_size, seed, checkpoints, temperature
        See `NetworkExpert`.

    References
    ----------
    Liu, Long, Wang & Jordan, "Generalized zero-shot learning with deep calibration network", NeurIPS 2018.

    Examples
    --------
    >>> from cosmo.data import load_glyphs
    >>> data = load_glyphs(n_classes=20, samples_per_class=5)
    >>> X, y, table = data.features, data.labels, data.descriptions  # X[:50] is of 10 classes
    >>> DCN(epochs=5, hidden=32, temperature=1.0).fit(X[:50], y[:50], table).predict_proba(X, table).shape
    (100, 20)
    """

    reference: ClassVar[str] = "Liu, Long, Wang & Jordan, NeurIPS 2018"
    reads_unseen: ClassVar[bool] = True
    standardised: ClassVar[bool] = True
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"epochs": (4, 8, 12, 16, 24, 32, 48)}
    ranges: ClassVar[dict[str, str]] = NetworkExpert.ranges | {
        "sharpness": POSITIVE,
        "entropy_sharpness": POSITIVE,
        "entropy_weight": NOT_NEGATIVE,
        "dropout": SHARE,
    }
    # The authors train for 100,000 mini-batches, hundreds of epochs, with a shrinking step: epochs stay open.
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        name: dict(zip(("sharpness", "entropy_sharpness", "entropy_weight"), values, strict=True))
        for name, values in {
            "AWA1": (2.0, 0.03, 1.0),
            "SUN": (5.0, 0.1, 1.0),
            "CUB": (5.0, 0.03, 1.0),
            "FLO": (5.0, 0.03, 1.0),
            # For unseen classes alone, without the entropy.
            "AWA1 zsl": (2.0, 0.03, 0.0),
            "SUN zsl": (10.0, 0.1, 0.0),
            "CUB zsl": (8.0, 0.03, 0.0),
            "FLO zsl": (8.0, 0.03, 0.0),
        }.items()
    }

    sharpness: float = 5.0
    entropy_sharpness: float = 0.03
    entropy_weight: float = 1.0
    dropout: float = 0.5
    learning_rate: float = 1e-4
    batch_size: int = 64

    def _learn_scales(self, X: Array, attributes: Array) -> None:
        super()._learn_scales(X, attributes)
        self.scale_ *= ((X.max(axis=0) - self.mean_) / self.scale_).max() or 1

    def _signatures(self, attributes: Array) -> Array:
        return 10 * np.tanh(unit_rows(attributes))

    def _start(self, n_features: int, n_attributes: int, generator: Generator) -> Weights:
        return {
            "W1": 0.01 * torch.randn(n_features, self.hidden, generator=generator),
            "b1": torch.zeros(self.hidden),
            "W2": 0.03 * torch.randn(self.hidden, n_attributes, generator=generator),
            "b2": torch.zeros(n_attributes),
        }

    def _loss(self, weights: Weights, X: Tensor, codes: Tensor, A: Tensor, generator: Generator) -> Tensor:
        hidden = self._hidden(weights, X)
        mask = torch.rand(hidden.shape, generator=generator) >= self.dropout
        mapped = self._map(weights, hidden * mask / (1 - self.dropout))
        loss = torch.nn.functional.cross_entropy(self.sharpness * mapped @ A.T, codes)
        if self.entropy_weight and self.others_ is not None and len(self.others_):
            others = torch.from_numpy(self._signatures(self.others_))
            log_proba = (self.entropy_sharpness * mapped @ others.T).log_softmax(dim=1)
            loss = loss - self.entropy_weight * (log_proba.exp() * log_proba).sum(dim=1).mean()
        return loss

    def _score(self, weights: Weights, X: Tensor, A: Tensor) -> Tensor:
        return self.sharpness * self._map(weights, self._hidden(weights, X)) @ A.T

    def _hidden(self, w: Weights, X: Tensor) -> Tensor:
        return (X @ w["W1"] + w["b1"]).relu()

    def _map(self, w: Weights, hidden: Tensor) -> Tensor:
        """Return φ(x), shape (n_samples, n_attributes)."""
        return (hidden @ w["W2"] + w["b2"]).tanh()


class Neighbourhoods(NamedTuple):
    """Rows of a reference set, and the statistics of their neighbourhoods that `loop` needs."""

    rows: Array
    spread: NDArray[np.float64]  # root mean squared distance of each row to its k nearest others
    unit: float  # root mean square, over all rows, of the excess of `spread` over the neighbours'
    k: int


def learn_neighbourhoods(rows: Array, k: int = 20) -> Neighbourhoods:
    """Return the neighbourhoods of k rows, or of all others if there are fewer."""
    check_rule(COUNT, k=k)
    k = min(int(k), len(rows) - 1)
    spread, nearest = _nearest(rows, rows, k, themselves=True)
    excess = _excess(spread, spread[nearest].mean(axis=1))
    finite = excess[np.isfinite(excess)]  # infinite for a row among copies of another
    return Neighbourhoods(rows, spread, float(np.sqrt(np.mean(finite**2))), k)


def loop(rows: Array, known: Neighbourhoods, *, extent: float = 3.0) -> NDArray[np.float64]:
    """Return the local outlier probability of each row (Kriegel et al., "LoOP", CIKM 2009)."""
    spread, nearest = _nearest(rows, known.rows, known.k)
    excess = _excess(spread, known.spread[nearest].mean(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        deviations = np.where(excess == 0, 0.0, excess / (extent * known.unit))
    return np.maximum(erf(deviations / np.sqrt(2)), 0.0)


def _excess(spread: NDArray[np.float64], around: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `spread / around - 1`, and 0 for 0 / 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(spread == around, 0.0, spread / around - 1)


def _nearest(
    rows: Array, known: Array, k: int, *, themselves: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return the root mean squared distance to the k nearest known rows, and their indices."""
    centre = known.mean(axis=0)  # reduces cancellation in the expanded squares
    known = known - centre
    square = np.einsum("ij,ij->i", known, known)
    spread, nearest = np.empty(len(rows)), np.empty((len(rows), k), dtype=np.intp)
    step = max(1, _CHUNK // len(known))
    for start in range(0, len(rows), step):
        part = rows[start : start + step] - centre
        distance = square - 2 * (part @ known.T)
        if themselves:
            distance[np.arange(len(part)), np.arange(start, start + len(part))] = np.inf
        nearest[start : start + step] = np.argpartition(distance, k - 1, axis=1)[:, :k]
        for i, row in enumerate(part, start):  # without cancellation
            spread[i] = np.sqrt(np.square(known[nearest[i]] - row).sum(axis=1).mean())
    return spread, nearest
