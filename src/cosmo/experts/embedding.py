"""Networks that embed one space in the other: CMT maps samples, DEM maps descriptions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import erf

from cosmo._core.validation import check_features
from cosmo.experts._network import NetworkExpert, Weights, layer, normalise_rows, torch
from cosmo.experts.base import Array, Codes, check_counts

if TYPE_CHECKING:
    from torch import Generator, Tensor

__all__ = ["CMT", "DEM"]

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
        mapped = np.empty((len(X), len(self.columns_)), dtype=np.float32)
        with torch.inference_mode():
            for start in range(0, len(X), _ROWS):
                rows = torch.from_numpy(self._features(X[start : start + _ROWS]))
                mapped[start : start + _ROWS] = self._embed(weights, rows).numpy()
        return mapped

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


class Neighbourhoods(NamedTuple):
    """Rows of a reference set, and the statistics of their neighbourhoods that `loop` needs."""

    rows: Array
    spread: NDArray[np.float64]  # root mean squared distance of each row to its k nearest others
    unit: float  # root mean square, over all rows, of the excess of `spread` over the neighbours'
    k: int


def learn_neighbourhoods(rows: Array, k: int = 20) -> Neighbourhoods:
    """Return the neighbourhoods of k rows, or of all others if there are fewer."""
    check_counts(k=k)
    k = min(int(k), len(rows) - 1)
    spread, nearest = _nearest(rows, rows, k, themselves=True)
    excess = _excess(spread, spread[nearest].mean(axis=1))
    finite = excess[np.isfinite(excess)]  # infinite for a row among copies of another
    return Neighbourhoods(rows, spread, float(np.sqrt(np.mean(finite**2))), k)


def loop(rows: Array, known: Neighbourhoods, *, extent: float = 3.0) -> NDArray[np.float64]:
    """Return the local outlier probability (LoOP) of each row among the known ones.

    It grows with the excess of a row's distance to its nearest known rows over the distances among those.
    An excess of `extent` times the usual one is one standard deviation of a Gaussian.

    References
    ----------
    Kriegel, Kröger, Schubert & Zimek, "LoOP: local outlier probabilities", CIKM 2009.
    """
    spread, nearest = _nearest(rows, known.rows, known.k)
    excess = _excess(spread, known.spread[nearest].mean(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        deviations = np.where(excess == 0, 0.0, excess / (extent * known.unit))
    probability: NDArray[np.float64] = np.maximum(erf(deviations / np.sqrt(2)), 0.0)
    return probability


def _excess(spread: NDArray[np.float64], around: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `spread / around - 1`, and 0 for 0 / 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(spread == around, 0.0, spread / around - 1)


def _nearest(
    rows: Array, known: Array, k: int, *, themselves: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return the root mean squared distance to the k nearest known rows, and their indices.

    With `themselves`, `rows` are the known rows, and none is its own neighbour.
    """
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
